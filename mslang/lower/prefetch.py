"""What loops fetch ahead: the cache lines that a later iteration loads.

A loop whose schedule says `prefetch` begins each iteration with a prefetch of what the iteration so many later loads of
the buffer, in the same statements; of an instruction's operand, each row. An element whose index goes through a loop
inside is left to the processor. The address of an element may be outside of the buffer, but an index that is loaded
itself (`t[idx[i]]`) is that of an iteration which the loop has, and the iterations do not store to where it is loaded
from: it would not be there yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ir.annotations import PREFETCH
from mslang.ir.arith.linear import Form, Linear, add, expression, linear
from mslang.ir.dtype import size_of
from mslang.ir.expr import Binary, Const, Expr, Load, MaskedLoad, Ramp, Select, children
from mslang.ir.visit import free_vars, walk_expr
from mslang.kernel.lanes import lanes_of
from mslang.kernel.nodes import Allocate, Body, For, If, Invoke, Let, Prefetch, Stmt, Store, While
from mslang.kernel.visit import bodies, expressions
from mslang.lower.analysis import stored
from mslang.lower.fold import fold
from mslang.lower.operand_rows import operand_rows

LINE = 64
"""Bytes of a cache line; where it is longer, some are asked for twice."""


def distances(loop: For) -> dict[str, int]:
    """The buffers of which a loop fetches ahead, and how many iterations."""
    found: dict[str, int] = {}
    for key, value in loop.annotations:
        if not key.startswith(PREFETCH):
            continue
        ahead = fold(value) if isinstance(value, Expr) else value
        ahead = ahead.value if isinstance(ahead, Const) else ahead
        if isinstance(ahead, int) and ahead > 0:
            found[key.removeprefix(PREFETCH)] = ahead
    return found


def gathers(body: Body, buffer: str) -> bool:
    """Whether statements load a buffer at indices that are loaded."""
    return any(_is_gathered(x) for x in _loads(body, buffer, frozenset()))


def prefetches(later: Body, buffer: str, *, gathered: bool = False) -> Iterator[Prefetch]:
    """A prefetch of each cache line that statements load of a buffer.

    Args:
        later: the body of the loop as a later iteration runs it, its unrolled loops written out.
        buffer: what is loaded.
        gathered: take the loads whose indices are loaded, in place of all others; only those that each run of the body
            does, since their indices are loaded for the prefetch, too.
    """
    found: dict[tuple[Expr, ...], list[Linear]] = {}
    own = stored(later) if gathered else frozenset[str]()
    for load in _loads(later, buffer, frozenset(), certain=gathered):
        if not load.indices or _is_gathered(load) != gathered:
            continue
        if not own.isdisjoint(_indexed_by(load)):
            continue
        *rest, last = [_first(x) for x in load.indices]
        if any(lanes_of(x) > 1 for x in (*rest, last)):
            continue
        form = linear(last)
        if form is None and gathered:
            # Of two loaded indices it is not known whether they are near each other.
            if found.setdefault((*rest, last), []) == []:
                yield Prefetch(buffer, (*rest, last))
            continue
        if form is None:
            continue
        line = LINE // size_of(load.dtype)
        lines = found.setdefault(tuple(rest), [])
        for start in range(0, _reach(load.indices[-1]), line):
            at = add(form, Form(start, {}))
            if not any(_near(at, other, line) for other in lines):
                lines.append(at)
                yield Prefetch(buffer, (*rest, expression(at)))


def _is_gathered(load: Load | MaskedLoad) -> bool:
    return bool(_indexed_by(load))


def _indexed_by(load: Load | MaskedLoad) -> frozenset[str]:
    """The buffers that indices are loaded from."""
    return frozenset(x.buffer for index in load.indices for x in walk_expr(index) if isinstance(x, Load | MaskedLoad))


def _loads(body: Body, buffer: str, inside: frozenset[str], *, certain: bool = False) -> Iterator[Load | MaskedLoad]:
    """The loads of a buffer from around the body, at indices that do not depend on what is bound or allocated in it.

    With `certain` only those that each run of the body does.
    """
    for s in body:
        if certain and not _is_certain(s):
            continue
        bound = {s.var} if isinstance(s, For) else {s.name} if isinstance(s, Let) else set[str]()
        within = inside | bound | ({s.buffer.name} if isinstance(s, Allocate) else set[str]())
        for x in _own_loads(s, buffer, certain):
            if not inside & {buffer}.union(_indexed_by(x), *map(free_vars, x.indices)):
                yield x
        for b in bodies(s) if not isinstance(s, Invoke) else ():
            yield from _loads(b, buffer, within, certain=certain)


def _own_loads(s: Stmt, buffer: str, certain: bool) -> Iterator[Load | MaskedLoad]:
    """The loads of a buffer in a statement, but for the statements in it."""
    if isinstance(s, Invoke):
        yield from operand_rows(s, buffer)
        return
    for e in expressions(s):
        for x in _certain(e) if certain else walk_expr(e):
            if isinstance(x, Load | MaskedLoad) and x.buffer == buffer:
                yield x


def _is_certain(s: Stmt) -> bool:
    """Whether what is in a statement runs whenever the statement does."""
    match s:
        case If() | While():
            return False
        case For(extent=n):
            return isinstance(n, Const) and int(n.value) > 0
        case Store(mask=mask):
            return mask is None
    return True


def _certain(e: Expr) -> Iterator[Expr]:
    """The parts of an expression that are always evaluated."""
    yield e
    match e:
        case Select(condition=first) | Binary(op="and" | "or", left=first):
            yield from _certain(first)
        case MaskedLoad():
            return
        case _:
            for x in children(e):
                yield from _certain(x)


def _first(index: Expr) -> Expr:
    """The smallest index of the lanes."""
    if not isinstance(index, Ramp):
        return index
    return index.base if index.stride >= 0 else Binary("-", index.base, Const(_reach(index) - 1))


def _reach(index: Expr) -> int:
    """How many elements of a row lie between the first and the last lane."""
    return (index.lanes - 1) * abs(index.stride) + 1 if isinstance(index, Ramp) else 1


def _near(a: Linear, b: Linear, line: int) -> bool:
    difference = add(a, b, -1)
    return not difference.terms and abs(difference.constant) < line
