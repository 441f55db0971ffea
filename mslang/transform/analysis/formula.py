"""Blocks that compute one element by one formula: taking the formula out, inverting its index, putting it elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import (
    COMPARISONS,
    ONE,
    ZERO,
    Binary,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    children,
    with_children,
)
from mslang.ir.find import blocks_of
from mslang.ir.program import Block, Let, Program, Range, Store
from mslang.ir.visit import conjunction, conjuncts, free_vars, loads_of, map_expr, substitute
from mslang.transform.analysis.let_data import as_data


# ------------------------------------------------------------------ taking out
def formula_of(block: Block) -> Store | None:
    """The one store that is all that a block does, its `let`s put in; None if it does anything else."""
    values: dict[str, Expr] = {}
    body = block.body
    while len(body) == 1 and isinstance(body[0], Let):
        values[body[0].name] = substitute(body[0].value, values)
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], Store):
        return None
    store = body[0]
    return Store(store.buffer, tuple(substitute(i, values) for i in store.indices), substitute(store.value, values))


def begun(block: Block, update: Store) -> Store | None:
    """The update of a block that reduces over nothing, so that its init runs each time, with what the init stores.

    None if the init is anything but one store of the element that the update is of.
    """
    match block.init:
        case (Store(buffer=update.buffer, indices=update.indices, value=first),):
            pass
        case _:
            return None
    own = [x for x in loads_of(update.value) if x.buffer == update.buffer]
    if any(a.kind == "reduce" for a in block.axes) or any(x.indices != update.indices for x in own):
        return None
    value = map_expr(update.value, lambda x: first if isinstance(x, Load) and x.buffer == update.buffer else None)
    return Store(update.buffer, update.indices, value)


def element(position: int) -> Var:
    """What stands for one index of an element in the result of `inverse`."""
    return Var(f"${position}")


def inverse(indices: Sequence[Expr], axes: Mapping[str, Range], onto: bool = True) -> dict[str, Expr] | None:
    """The axes in terms of the indices (see `element`) that they give: the inverse of an affine index map.

    Handled are sums of axes in mixed radix (`i`, `i + 3`, `i * 8 + j`) and the two halves of an axis (`i // 8` and
    `i % 8`), where an axis of extent 1 may be missing, and other maps that are provably one to one. None where an
    index may come from several values of the axes. Unless `onto`, the map may leave elements of its box out; for those
    the axes mean nothing (see `limits` in `inlining.py`).
    """
    found = _by_radix(indices, axes)
    if found is not None:
        return found
    level = arith.detect(indices, axes)
    if not isinstance(level, arith.IterMap) or level.level not in ("bijective", *(() if onto else ("injective",))):
        return None
    return arith.invert(indices, [element(d) for d in range(len(indices))], axes)


def _by_radix(indices: Sequence[Expr], axes: Mapping[str, Range]) -> dict[str, Expr] | None:
    found: dict[str, Expr] = {}
    halves: dict[str, dict[str, tuple[int, Expr]]] = {}
    for d, index in enumerate(indices):
        match index:
            case Binary("//" | "%" as op, Var(name=n), by) if n in axes and not free_vars(by):
                if op in halves.setdefault(n, {}):
                    return None
                halves[n][op] = (d, by)
                continue
        digits = _digits(index, d, axes)
        if digits is None or digits.keys() & found.keys():
            return None
        found.update(digits)
    for n, parts in halves.items():
        if n in found or parts.keys() != {"//", "%"} or not arith.equal(parts["//"][1], parts["%"][1]):
            return None
        found[n] = arith.add(arith.mul(element(parts["//"][0]), parts["//"][1]), element(parts["%"][0]))
    for n, r in axes.items():
        if n not in found:
            if not arith.equal(r.extent, ONE):
                return None
            found[n] = ZERO
    return found


def _digits(index: Expr, position: int, axes: Mapping[str, Range]) -> dict[str, Expr] | None:
    """The axes of one index that is a sum of them in mixed radix."""
    terms = coefficients(index, frozenset(axes))
    if terms is None:
        return None
    offset = arith.simplify(substitute(index, dict.fromkeys(terms, ZERO)))
    rest = arith.sub(element(position), offset)
    left = {n: c for n, c in terms.items() if not arith.equal(c, ZERO)}
    order: list[str] = []
    span: Expr | None = None
    while left:
        name = next((n for n, c in left.items() if _is_next(c, span, left)), None)
        if name is None:
            return None
        span = arith.mul(left.pop(name), axes[name].extent)
        order.append(name)
    found: dict[str, Expr] = {}
    for name in order:
        digit = arith.floordiv(rest, terms[name])
        found[name] = digit if name == order[-1] else arith.mod(digit, axes[name].extent)
    return found


def _is_next(coefficient: Expr, span: Expr | None, left: Mapping[str, Expr]) -> bool:
    if span is not None:
        return arith.equal(coefficient, span)
    smallest = all(arith.proved(Binary("<=", coefficient, c)) for c in left.values())
    return smallest and arith.proved(Binary("<=", ONE, coefficient))


def at_element(inverted: Mapping[str, Expr], indices: Sequence[Expr]) -> dict[str, Expr]:
    """The axes for which a map gives certain indices, from its `inverse`."""
    values = {element(d).name: e for d, e in enumerate(indices)}
    return {n: substitute(e, values) for n, e in inverted.items()}


# ------------------------------------------------------------------ putting in
def tidy_value(e: Expr, ranges: Mapping[str, Range], data: Collection[str] | None = None) -> Expr:
    """A value with the indices of its loads and the conditions on indices simplified; its arithmetic stays as it is.

    Args:
        e: the value.
        ranges: those of axes and loops.
        data: names of `let`s, which may be data (default: all that have no range).
    """
    match e:
        case Load(buffer=b, indices=xs, dtype=d):
            return Load(b, tuple(_simplified(tidy_value(x, ranges, data), ranges, data) for x in xs), d)
        case Select(condition=c, then=t, otherwise=o):
            condition = _tidy_condition(c, ranges, data)
            if isinstance(condition, Const):
                return tidy_value(t if condition.value else o, ranges, data)
            return Select(condition, tidy_value(t, ranges, data), tidy_value(o, ranges, data))
    return with_children(e, tuple(tidy_value(x, ranges, data) for x in children(e)))


def _simplified(e: Expr, ranges: Mapping[str, Range], data: Collection[str] | None) -> Expr:
    names = free_vars(e) - ranges.keys() if data is None else free_vars(e) & frozenset(data)
    return as_data(e, names, lambda x: arith.simplify(x, ranges))


def _tidy_condition(c: Expr, ranges: Mapping[str, Range], data: Collection[str] | None) -> Expr:
    match c:
        case Binary(op="and" | "or" as op, left=left, right=right):
            made = Binary(op, _tidy_condition(left, ranges, data), _tidy_condition(right, ranges, data))
            return conjunction(conjuncts(made)) if op == "and" else made
        case Unary("not", x):
            return Unary("not", _tidy_condition(x, ranges, data))
        case Binary(op=op) if op in COMPARISONS and not any(loads_of(c)):
            return _simplified(c, ranges, data)
    return tidy_value(c, ranges, data)


# ------------------------------------------------------------------ the buffer that goes
def is_viewed(program: Program, buffer: str) -> bool:
    """Is there a view of a buffer?"""
    return any(v.source.buffer == buffer for b in blocks_of(program.body) for v in b.views)
