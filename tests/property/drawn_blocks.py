"""The blocks that random programs are made of: each kind reads tensors that are there, and most write one more."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from mslang.ir.build import AxisSpec, ProgramBuilder, Tensor, reduce, spatial
from mslang.ir.dtype import is_unsigned
from mslang.ir.expr import Var
from mslang.ir.operators import Value, call, expression, maximum, minimum, select
from mslang.ir.program import Store

EXACT = 1 << 22
"""No value of a drawn program exceeds this in magnitude (of the integer types none needs the bound: they wrap)."""


class Known:
    """A tensor of the program, with the greatest magnitude that its elements can have."""

    def __init__(self, name: str, shape: tuple[int, ...], bound: int, is_input: bool) -> None:
        self.name, self.shape, self.bound, self.is_input = name, shape, bound, is_input
        self.read = False


class Maker:
    """Draws block after block; the tensors nobody reads become the outputs."""

    def __init__(self, rng: random.Random, dtype: str, extents: Sequence[int]) -> None:
        self.rng, self.dtype, self.extents = rng, dtype, extents
        self.known: list[Known] = []
        self.steps: list[Callable[[ProgramBuilder, list[Tensor]], None]] = []

    # Buffers are declared last (who is an output shows at the end): a step names them by number.
    def buffer(self, name: str, shape: Sequence[int], bound: int, is_input: bool = False) -> int:
        self.known.append(Known(name, tuple(shape), bound, is_input))
        return len(self.known) - 1

    def pick(self, accept: Callable[[Known], bool] = lambda k: True) -> int | None:
        numbers = [n for n, k in enumerate(self.known) if accept(k)]
        return self.rng.choice(numbers) if numbers else None

    def coin(self) -> bool:
        return self.rng.randint(0, 1) == 1


def _spatial(shape: Sequence[int], names: str = "ijlm") -> tuple[AxisSpec, ...]:
    return tuple(spatial(names[d], n) for d, n in enumerate(shape))


def elementwise(m: Maker, name: str) -> bool:
    src = m.pick(lambda k: 2 * k.bound + 3 <= EXACT)
    if src is None:
        return False
    k = m.known[src]
    signed = not is_unsigned(m.dtype)
    kinds = ["affine", "relu", "cap", "select", "index", *(["negate", "abs"] if signed else [])]
    which = m.rng.choice(kinds)
    out = m.buffer(name, k.shape, 2 * k.bound + 3 + sum(k.shape))
    k.read = True

    def body(x: Value, at: tuple[Value, ...]) -> Value:
        match which:
            case "affine":
                return x * 2 + 3
            case "relu":
                return maximum(x, 0)
            case "cap":
                return minimum(x, 5)
            case "select":
                return select(x > 1, x - 1, x + 2)
            case "index" if at:
                return x + at[-1].cast(m.dtype)
            case "negate":
                return -x
            case "abs":
                return call("abs", x)
        return x + 1

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(k.shape)) as at:
            t[out][at] = body(t[src][at], at)

    m.steps.append(step)
    return True


def _combine(m: Maker, name: str) -> bool:
    """Two tensors, the second broadcast along the leading dimensions that it lacks, or of its extent 1."""
    a = m.pick(lambda k: len(k.shape) > 0)
    if a is None:
        return False
    ka = m.known[a]

    def fits(k: Known) -> bool:
        tail = ka.shape[len(ka.shape) - len(k.shape) :] if len(k.shape) <= len(ka.shape) else ()
        return len(k.shape) <= len(ka.shape) and all(x in (1, y) for x, y in zip(k.shape, tail, strict=True))

    c = m.pick(fits)
    assert c is not None
    kc = m.known[c]
    op = m.rng.choice(["+", "-", "*", "max"])
    if op == "*" and ka.bound * kc.bound > EXACT:
        op = "max"
    if op in "+-" and ka.bound + kc.bound > EXACT:
        op = "max"
    bound = {"*": ka.bound * kc.bound, "max": max(ka.bound, kc.bound)}.get(op, ka.bound + kc.bound)
    out = m.buffer(name, ka.shape, bound)
    ka.read = kc.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(ka.shape)) as at:
            tail = at[len(at) - len(kc.shape) :]
            index = tuple(
                0 if n == 1 and full != 1 else v
                for v, n, full in zip(tail, kc.shape, ka.shape[len(ka.shape) - len(kc.shape) :], strict=True)
            )
            x, y = t[a][at], t[c][index]
            t[out][at] = x + y if op == "+" else x - y if op == "-" else x * y if op == "*" else maximum(x, y)

    m.steps.append(step)
    return True


def transpose(m: Maker, name: str) -> bool:
    src = m.pick(lambda k: len(k.shape) >= 2)
    if src is None:
        return False
    k = m.known[src]
    order = m.rng.sample(range(len(k.shape)), len(k.shape))
    out = m.buffer(name, [k.shape[d] for d in order], k.bound)
    k.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(k.shape)) as at:
            t[out][tuple(at[d] for d in order)] = t[src][at]

    m.steps.append(step)
    return True


def _reshape(m: Maker, name: str) -> bool:
    """Two dimensions become one, or one becomes two: indices with `*` and `+`, or `//` and `%`."""
    src = m.pick(lambda k: 1 <= len(k.shape) <= 3)
    if src is None:
        return False
    k = m.known[src]
    *front, last = k.shape
    if len(k.shape) >= 2 and m.coin():
        shape = (*front[:-1], front[-1] * last)
        flat = True
    else:
        inner = m.rng.choice([d for d in range(1, last + 1) if last % d == 0])
        shape = (*front, last // inner, inner)
        flat = False
    if len(shape) > 4:
        return False
    out = m.buffer(name, shape, k.bound)
    k.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(shape)) as at:
            if flat:
                t[out][at] = t[src][(*at[:-1], at[-1] // last, at[-1] % last)]
            else:
                t[out][at] = t[src][(*at[:-2], at[-2] * shape[-1] + at[-1])]

    m.steps.append(step)
    return True


def _part(m: Maker, name: str) -> bool:
    """Some elements of a tensor, each once: of every few along the last dimension the first ones, or those that come
    first where the last two dimensions are rows of another length."""
    unread = m.pick(lambda k: 1 <= len(k.shape) <= 3 and not k.is_input and not k.read)
    src = m.pick(lambda k: 1 <= len(k.shape) <= 3) if unread is None else unread
    if src is None:
        return False
    k = m.known[src]
    *front, last = k.shape
    rows = len(k.shape) >= 2 and m.coin()
    total = front[-1] * last if rows else last
    step = m.rng.randint(1, total)
    taken = step if rows else m.rng.randint(1, step)
    shape = (*(front[:-1] if rows else front), (total - taken) // step + 1, taken)
    out = m.buffer(name, shape, k.bound)
    k.read = True

    def body(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(shape)) as at:
            e = at[-2] * step + at[-1]
            t[out][at] = t[src][(*at[:-2], *((e // last, e % last) if rows else (e,)))]

    m.steps.append(body)
    return True


def _stencil(m: Maker, name: str) -> bool:
    """A valid window sum along the last dimension or the last two, with a stride, with or without a reduction axis."""
    src = m.pick(lambda k: len(k.shape) >= 1 and k.shape[-1] >= 2 and k.bound * 9 <= EXACT)
    if src is None:
        return False
    k = m.known[src]
    dims = 2 if len(k.shape) >= 2 and k.shape[-2] >= 2 and m.coin() else 1
    window = [m.rng.randint(2, min(3, n)) for n in k.shape[-dims:]]
    stride = [m.rng.randint(1, 2) for _ in window]
    shape = (*k.shape[:-dims], *((n - w) // s + 1 for n, w, s in zip(k.shape[-dims:], window, stride, strict=True)))
    out = m.buffer(name, shape, k.bound * 9)
    k.read = True
    explicit = dims == 1 and m.coin()

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        axes = _spatial(shape)
        if explicit:
            with b.block(f"b_{name}", *axes) as at:
                values = [t[src][(*at[:-1], at[-1] * stride[0] + d)] for d in range(window[0])]
                total = values[0]
                for v in values[1:]:
                    total = total + v
                t[out][at] = total
            return
        over = tuple(reduce("rs"[d], n) for d, n in enumerate(window))
        with b.block(f"b_{name}", *axes, *over) as all_axes:
            at, r = all_axes[: len(shape)], all_axes[len(shape) :]
            moved = zip(at[len(at) - dims :], stride, r, strict=True)
            t[out][at] += t[src][(*at[: len(at) - dims], *(x * s + d for x, s, d in moved))]

    m.steps.append(step)
    return True


def _reduction(m: Maker, name: str) -> bool:
    """A sum, maximum or minimum over one dimension or two; the reduction axes come first or last."""
    src = m.pick(lambda k: len(k.shape) >= 1 and k.bound * 256 <= EXACT)
    if src is None:
        return False
    k = m.known[src]
    over = sorted(m.rng.sample(range(len(k.shape)), m.rng.randint(1, min(2, len(k.shape)))))
    op = m.rng.choice(["sum", "sum", "max", "min"])
    first = m.coin()
    shape = tuple(n for d, n in enumerate(k.shape) if d not in over)
    size = int(np.prod([k.shape[d] for d in over]))
    out = m.buffer(name, shape, k.bound * (size if op == "sum" else 1))
    k.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        kept, reduced = _spatial(shape), tuple(reduce(f"r{d}", k.shape[d]) for d in over)
        with b.block(f"b_{name}", *((*reduced, *kept) if first else (*kept, *reduced))) as axes:
            at, r = (axes[len(reduced) :], axes[: len(reduced)]) if first else (axes[: len(kept)], axes[len(kept) :])
            left, right = list(at), list(r)
            x = t[src][tuple(right.pop(0) if d in over else left.pop(0) for d in range(len(k.shape)))]
            if op == "sum":
                t[out][at] += x
            else:
                t[out][at] = (maximum if op == "max" else minimum)(t[out][at], x)

    m.steps.append(step)
    return True


def _contraction(m: Maker, name: str) -> bool:
    """`out[i, j] += a[i, k] * b[k, j]`, where a fitting pair exists (a tensor with itself transposed counts)."""
    a = m.pick(lambda k: len(k.shape) == 2 and k.bound <= 1 << 10)
    if a is None:
        return False
    ka = m.known[a]
    c = m.pick(lambda k: len(k.shape) == 2 and k.shape[0] == ka.shape[1] and k.bound * ka.bound * k.shape[0] <= EXACT)
    transposed = c is None
    if c is None:
        if ka.bound * ka.bound * ka.shape[1] > EXACT:
            return False
        c = a
    kc = m.known[c]
    shape = (ka.shape[0], kc.shape[0] if transposed else kc.shape[1])
    depth = ka.shape[1]
    out = m.buffer(name, shape, ka.bound * kc.bound * depth)
    ka.read = kc.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", spatial("i", shape[0]), spatial("j", shape[1]), reduce("k", depth)) as (i, j, k):
            t[out][i, j] += t[a][i, k] * (t[c][j, k] if transposed else t[c][k, j])

    m.steps.append(step)
    return True


def padding(m: Maker, name: str) -> bool:
    src = m.pick(lambda k: len(k.shape) >= 1)
    if src is None:
        return False
    k = m.known[src]
    before, after = m.rng.randint(0, 2), m.rng.randint(0, 2)
    shape = (*k.shape[:-1], k.shape[-1] + before + after)
    out = m.buffer(name, shape, k.bound)
    k.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(shape)) as at:
            inside = (at[-1] >= before) & (at[-1] < before + k.shape[-1])
            t[out][at] = select(inside, t[src][(*at[:-1], at[-1] - before)], 0)

    m.steps.append(step)
    return True


def _broadcast(m: Maker, name: str) -> bool:
    src = m.pick(lambda k: len(k.shape) <= 2)
    if src is None:
        return False
    k = m.known[src]
    shape = (m.rng.choice(m.extents), *k.shape)
    out = m.buffer(name, shape, k.bound)
    k.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(shape)) as at:
            t[out][at] = t[src][at[1:]]

    m.steps.append(step)
    return True


def _second_writer(m: Maker, name: str) -> bool:
    """A block that updates what another has written: in place, or as a reduction that goes on or starts anew."""
    dst = m.pick(lambda k: not k.is_input and not k.read and len(k.shape) >= 1 and k.bound * 64 <= EXACT)
    if dst is None:
        return False
    kd = m.known[dst]
    src = m.pick(
        lambda k: (
            k.shape[: len(kd.shape)] == kd.shape
            and len(k.shape) <= len(kd.shape) + 1
            and k is not kd
            and k.bound * 64 <= EXACT
        )
    )
    if src is None:
        return False
    ks = m.known[src]
    kd.bound, ks.read = kd.bound + 16 * ks.bound, True
    anew = m.coin()

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        if len(ks.shape) > len(kd.shape):
            at = tuple(expression(Value(Var("ijlm"[d]))) for d in range(len(kd.shape)))
            init = (Store(kd.name, at, expression(1, m.dtype)),) if anew else ()
            with b.block(f"b_{name}", *_spatial(kd.shape), reduce("r", ks.shape[-1]), init=init) as axes:
                t[dst][axes[:-1]] += t[src][axes]
        else:
            with b.block(f"b_{name}", *_spatial(kd.shape)) as at:
                t[dst][at] = t[dst][at] + t[src][at]

    m.steps.append(step)
    return True


def _concatenation(m: Maker, name: str) -> bool:
    """Two blocks that each write a part of one tensor."""
    a = m.pick(lambda k: len(k.shape) >= 1)
    if a is None:
        return False
    ka = m.known[a]
    c = m.pick(lambda k: len(k.shape) == len(ka.shape) and k.shape[:-1] == ka.shape[:-1])
    assert c is not None
    kc = m.known[c]
    out = m.buffer(name, (*ka.shape[:-1], ka.shape[-1] + kc.shape[-1]), max(ka.bound, kc.bound))
    ka.read = kc.read = True

    def step(b: ProgramBuilder, t: list[Tensor]) -> None:
        with b.block(f"b_{name}", *_spatial(ka.shape)) as at:
            t[out][at] = t[a][at]
        with b.block(f"b_{name}_rest", *_spatial(kc.shape)) as at:
            t[out][(*at[:-1], at[-1] + ka.shape[-1])] = t[c][at]

    m.steps.append(step)
    return True


KINDS: tuple[Callable[[Maker, str], bool], ...] = (
    elementwise,
    elementwise,
    _combine,
    _combine,
    transpose,
    _reshape,
    _part,
    _stencil,
    _stencil,
    _reduction,
    _reduction,
    _contraction,
    _contraction,
    padding,
    _broadcast,
    _second_writer,
    _concatenation,
)
