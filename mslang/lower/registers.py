"""Local buffers that may become registers: on the stack of their function, in rows of whole vectors.

`place_on_stack` decides which; every other buffer belongs to the workspace. Once loops are written out, `pad_rows`
makes rows as long as vectors, so that the tail of a row, or of what is accessed of it, needs no mask. What is indexed
by numbers alone LLVM then keeps in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, Expr, Load, MaskedLoad, Ramp, children
from mslang.ir.program import Buffer
from mslang.ir.visit import CACHED, map_expr
from mslang.kernel.lanes import active_lanes, lanes_of
from mslang.kernel.nodes import Allocate, Atomic, Body, Evaluate, For, Invoke, Module, Stmt, Store
from mslang.kernel.visit import bodies, expressions, map_expressions, map_functions, walk, with_bodies
from mslang.lower.analysis import given_strides, loaded
from mslang.target.description import Target

REGISTER_BYTES = 64 * 1024
"""A local buffer up to this size is put on the stack, where it may become registers."""

STACK_BYTES = 256 * 1024
"""All buffers of a function on the stack together: threads may have little of it."""

SMALL_BYTES = 64
"""Any buffer up to this size is: a running sum, a row's maximum."""


def place_on_stack(module: Module, target: Target) -> Module:
    """The module with buffers on the stack of scope `local`, and all others of scope `global`."""

    def function(body: Body) -> Body:
        return _Stack(target).body(body, 1)

    return map_functions(module, function)


class _Stack:
    """What one function has on its stack. A parallel loop is a function of its own."""

    def __init__(self, target: Target, in_parallel: bool = False) -> None:
        self.target = target
        self.in_parallel = in_parallel
        self.used = 0

    def body(self, body: Body, copies: int) -> Body:
        """Statements that are written out so many times."""
        return tuple([self._statement(s, copies) for s in body])

    def _statement(self, s: Stmt, copies: int) -> Stmt:
        match s:
            case Allocate(buffer=b):
                s = replace(s, buffer=replace(b, scope="local" if self._fits(b, copies) else "global"))
            case For(kind="parallel") if not self.in_parallel:
                return replace(s, body=_Stack(self.target, True).body(s.body, 1))
            case For(kind="unrolled", extent=Const(value=n)):
                copies *= max(1, int(n))
        return with_bodies(s, tuple([self.body(b, copies) for b in bodies(s)]))

    def _fits(self, b: Buffer, copies: int) -> bool:
        sizes = _sizes(b)
        if sizes is None or b.strides is not None:
            return False
        size = prod((*sizes[:-1], _row(sizes, b.dtype, self.target))) * size_of(b.dtype)
        if size > (REGISTER_BYTES if b.scope == "local" else SMALL_BYTES) or self.used + size * copies > STACK_BYTES:
            return False
        self.used += size * copies
        return True


def register_candidates(body: Body) -> frozenset[str]:
    """The buffers in a body that may be put on the stack."""
    return frozenset(s.buffer.name for s in walk(body) if isinstance(s, Allocate) and _is_small(s.buffer))


def _is_small(b: Buffer) -> bool:
    sizes = _sizes(b)
    return b.scope == "local" or (sizes is not None and prod(sizes) * size_of(b.dtype) <= SMALL_BYTES)


def _sizes(b: Buffer) -> tuple[int, ...] | None:
    sizes = [int(e.value) for e in b.shape if isinstance(e, Const)]
    return tuple(sizes) if len(sizes) == len(b.shape) else None


def _row(sizes: tuple[int, ...], dtype: str, target: Target) -> int:
    """The last dimension, rounded up to whole vectors; to a power of two if it is at most half of one."""
    if not sizes:
        return 1
    native = max(1, target.vector_bits // 8 // size_of(dtype))
    vector = min(native, 1 << (sizes[-1] - 1).bit_length())
    return -(-sizes[-1] // vector) * vector


# ------------------------------------------------------------------ rows of whole vectors
class _Row(NamedTuple):
    """A row of a buffer: how many of its elements are accessed, and those that may be overwritten."""

    elements: int
    room: int


def pad_rows(module: Module, target: Target) -> Module:
    """The module with the rows of buffers on the stack as long as vectors, and no masks where only padding is hit."""
    if module.checked:
        return module
    return map_functions(module, lambda body: _padded(body, {}, target, False))


def _padded(body: Body, rows: Mapping[str, _Row], target: Target, in_parallel: bool) -> Body:
    return tuple([_padded_statement(s, rows, target, in_parallel) for s in body])


def _padded_statement(s: Stmt, rows: Mapping[str, _Row], target: Target, in_parallel: bool) -> Stmt:
    match s:
        case Allocate(buffer=b) if b.scope == "local":
            sizes = _sizes(b) or ()
            room = sizes[-1] if sizes and given_strides(s.body, b.name) > 1 else _row(sizes, b.dtype, target)
            rows = {**rows, b.name: _Row(_accessed(s.body, b.name, sizes[-1] if sizes else 1), room)}
            if sizes and room != sizes[-1]:
                s = replace(s, buffer=replace(b, shape=(*b.shape[:-1], Const(room))))
        case For(kind="parallel") if not in_parallel:
            # What other threads see of a buffer around has no rest that one may overwrite.
            rows, in_parallel = {}, True
    if rows:
        if any(_has_masks(e) for e in expressions(s)):
            s = map_expressions(s, lambda e: map_expr(e, lambda x: _whole_load(x, rows)))
        if isinstance(s, Store) and s.mask is not None and _is_whole(s.buffer, s.indices, s.mask, rows, stores=True):
            s = replace(s, mask=None)
    return with_bodies(s, tuple([_padded(b, rows, target, in_parallel) for b in bodies(s)]))


def _accessed(body: Body, buffer: str, size: int) -> int:
    """How many of the `size` elements of a buffer's rows are accessed, from the first on: at the edge of a matrix less
    than the whole tile. What lies behind them is as good as padding."""
    ends = [end for s in walk(body) for end in _ends(s, buffer, size)]
    return min(size, max(ends, default=size))


def _ends(s: Stmt, buffer: str, size: int) -> Iterator[int]:
    """For each access of a statement itself to a buffer, the element of its row behind the last that is accessed."""
    if isinstance(s, Store) and s.buffer == buffer:
        yield _end(s.indices, s.mask, size)
    for e in expressions(s):
        for x in loaded(e):
            if x.buffer != buffer:
                continue
            if isinstance(s, Evaluate | Invoke | Atomic):
                yield size
            else:
                yield _end(x.indices, x.mask if isinstance(x, MaskedLoad) else None, size)
    if isinstance(s, Atomic) and s.buffer == buffer:
        yield size


def _end(indices: tuple[Expr, ...], mask: Expr | None, size: int) -> int:
    match indices:
        case (*_, Ramp(base=Const(value=first), stride=1, lanes=lanes)):
            active = lanes if mask is None else active_lanes(mask)
            return size if active is None else int(first) + active
        case (*_, Const(value=at)):
            return int(at) + 1
    return size


def _whole_load(e: Expr, rows: Mapping[str, _Row]) -> Expr | None:
    if isinstance(e, MaskedLoad) and _is_whole(e.buffer, e.indices, e.mask, rows):
        return Load(e.buffer, e.indices, e.dtype)
    return None


def _is_whole(
    buffer: str, indices: tuple[Expr, ...], mask: Expr, rows: Mapping[str, _Row], *, stores: bool = False
) -> bool:
    """Whether lanes that do not act may be loaded, or stored: they hit the rest of a row, or only the padding of it."""
    row, active = rows.get(buffer), active_lanes(mask)
    if row is None or active is None:
        return False
    match indices:
        case (*outer, Ramp(base=Const(value=first), stride=1, lanes=lanes)) if 0 <= first <= row.room - lanes:
            if any(lanes_of(x) > 1 for x in outer):
                return False  # Lanes on a diagonal hit several rows, and those that do not act perhaps none.
            return not stores or int(first) + active >= row.elements
    return False


@lru_cache(maxsize=CACHED)
def _has_masks(e: Expr) -> bool:
    return isinstance(e, MaskedLoad) or any(_has_masks(x) for x in children(e))
