"""The accesses of one statement: grouped, with strides, footprints and reuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.linear import symbolic
from mslang.ir.arith.size import Poly, number
from mslang.ir.arith.write import write
from mslang.ir.dtype import size_of
from mslang.ir.expr import FALSE, ONE, TRUE, ZERO, Binary, Const, Expr, Load, Select, children
from mslang.ir.program import Buffer, Range
from mslang.ir.visit import free_vars, loads_of, substitute
from mslang.lower.layout import row_major
from mslang.lower.summary.footprint import Dimension, Span, dimension, least, over, product, span, times, varying
from mslang.lower.summary.values import Access


class Reference(NamedTuple):
    """One load or store, as it stands; `guarded`: it may not happen."""

    buffer: str
    indices: tuple[Expr, ...]
    store: bool
    guarded: bool


def references(e: Expr, guarded: bool) -> Iterator[Reference]:
    """The loads of an expression; those in the branches of a select are guarded."""
    match e:
        case Select(condition=c, then=t, otherwise=o):
            yield from references(c, guarded)
            yield from references(t, True)
            yield from references(o, True)
            return
        case Load(buffer=b, indices=xs):
            yield Reference(b, tuple(map(arith.simplify, xs)), False, guarded)
    for x in children(e):
        yield from references(x, guarded)


class Around(NamedTuple):
    """The loops around a statement, outermost first, with what they run over, and the size of a cache line."""

    ranges: tuple[tuple[str, Range], ...]
    line: int

    @property
    def names(self) -> frozenset[str]:
        """The loops' variables."""
        return frozenset(self.order)

    @property
    def order(self) -> tuple[str, ...]:
        """The loops' variables, outermost first."""
        return tuple(v for v, _ in self.ranges)


def accesses(found: Sequence[Reference], buffers: Mapping[str, Buffer], around: Around) -> tuple[Access, ...]:
    """The accesses of a statement, those whose indices differ by constants together, in order of first occurrence."""
    groups: dict[object, list[Reference]] = {}
    for r in found:
        groups.setdefault((r.buffer, tuple(x if any(loads_of(x)) else varying(x)[0] for x in r.indices)), []).append(r)
    made = [_access(tuple(group), buffers[group[0].buffer], around) for group in groups.values()]
    still = [[_still(group[0].indices, v) for v in around.order] for group in groups.values()]
    return _with_reuse(made, still, around)


def _access(group: tuple[Reference, ...], buffer: Buffer, around: Around) -> Access:
    members = len({r.indices for r in group})
    guarded = any(r.guarded for r in group)
    dims = [
        dimension(tuple(dict.fromkeys(r.indices[d] for r in group)), around.names, n if guarded else None)
        for d, n in enumerate(buffer.shape)
    ]
    sizes = tuple(map(read_size, buffer.shape))
    strides = tuple(map(read_size, buffer.strides or row_major(buffer.shape)))
    inner = [dict(around.ranges[k:]) for k in range(len(around.ranges) + 1)]
    covered = [[span(d, loops, members) for d in dims] for loops in inner]
    shared = _shared(dims)
    elements = [_elements(c, sizes, shared, dims, loops, members) for c, loops in zip(covered, inner, strict=True)]
    lines = [_lines(c, sizes, strides, size_of(buffer.dtype), around.line) for c in covered]
    if shared or any(d.terms is None for d in dims):
        # The rows and what of each is accessed do not vary independently.
        lines = [least(n, most) for n, most in zip(lines, elements, strict=True)]
    return Access(
        buffer.name,
        buffer.dtype,
        buffer.scope,
        sum(not r.store for r in group),
        sum(r.store for r in group),
        tuple(_stride(group[0].indices, v, r, strides) for v, r in around.ranges),
        tuple(all(v not in d.names for d in dims) for v, _ in around.ranges),
        tuple(elements),
        tuple(lines),
        members == 1 and not shared and all(s is not None and s.exact for c in covered for s in c),
    )


def _shared(dims: Sequence[Dimension]) -> bool:
    """Whether a loop occurs in two dimensions, so that they do not vary independently."""
    return sum(len(d.names) for d in dims) > len(frozenset[str]().union(*(d.names for d in dims)))


def _elements(
    spans: Sequence[Span | None],
    sizes: Sequence[Poly],
    shared: bool,
    dims: Sequence[Dimension],
    loops: Mapping[str, Range],
    members: int,
) -> Expr:
    box = product(n if s is None else s.values for s, n in zip(spans, sizes, strict=True))
    if any(any(loads_of(d.first)) for d in dims) or not (shared or None in spans):
        return box
    names = frozenset[str]().union(*(d.names for d in dims))
    trips = product(read_size(r.extent) for v, r in loops.items() if v in names)
    return least(box, times(Const(members), trips))


def _lines(spans: Sequence[Span | None], sizes: Sequence[Poly], strides: Sequence[Poly], size: int, line: int) -> Expr:
    """Cache lines: those of each row, and no more than from the first byte to the last."""
    if not spans:
        return ONE
    whole = [Span(n, n, True) if s is None else s for s, n in zip(spans, sizes, strict=True)]
    *outer, last = whole
    per_line = max(1, line // size)
    unit = strides[-1].constant == 1
    in_row = over(write(last.reach), per_line) if unit else write(last.values)
    if unit and last.values != last.reach:
        in_row = least(write(last.values), in_row)
    rows = product(s.values for s in outer)
    if rows == ONE:
        return in_row
    reach = number(1)
    for s, stride in zip(whole, strides, strict=True):
        reach = reach + (s.reach - 1) * stride
    return least(times(rows, in_row), over(write(reach), per_line))


def _stride(indices: tuple[Expr, ...], var: str, r: Range, strides: Sequence[Poly]) -> Expr | None:
    """Elements between the first two iterations of a loop, the other loops at 0."""
    total = number(0)
    for e, stride in zip(indices, strides, strict=True):
        if var not in free_vars(e):
            continue
        if any(loads_of(e)):
            return None
        total = total + _difference(e, var, r.start) * stride
    found = write(total)
    return None if any(loads_of(found)) else found


def _difference(e: Expr, var: str, start: Expr) -> Poly:
    form = symbolic(e, frozenset({var}))
    slope = None if form is None else form.terms.get(var, number(0))
    if slope is not None and slope.is_size:
        return slope
    at_zero: dict[str, Expr] = {v: ZERO for v in free_vars(e) if v != var}
    first = substitute(e, {**at_zero, var: start})
    second = substitute(e, {**at_zero, var: arith.add(start, ONE)})
    return read_size(arith.simplify(Binary("-", second, first)))


# ------------------------------------------------------------------ reuse
def footprints(made: Sequence[Access], levels: int) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Bytes and cache lines of all accesses, by level."""
    totals = [_sum(times(a.elements[k], Const(size_of(a.dtype))) for a in made) for k in range(levels)]
    lines = [_sum(a.lines[k] for a in made) for k in range(levels)]
    return tuple(totals), tuple(lines)


def _sum(xs: Iterator[Expr]) -> Expr:
    out: Expr = ZERO
    for x in xs:
        if isinstance(x, Const) and isinstance(out, Const):
            out = Const(int(x.value) + int(out.value))
        else:
            out = x if out == ZERO else Binary("+", out, x)
    return out


def iterations(ranges: Sequence[tuple[str, Range]]) -> tuple[Expr, ...]:
    """Iterations of the loops from each on; 1 at the end."""
    return tuple(product(read_size(r.extent) for _, r in ranges[k:]) for k in range(len(ranges) + 1))


def _still(indices: Sequence[Expr], var: str) -> Expr:
    """The condition under which indices are the same in all iterations of a loop, whatever its trip count.

    A remainder by an open size, which fused loops make, does not vary where that size is 1.
    """
    out: Expr = TRUE
    for e in indices:
        out = _both(out, _fixed(e, var))
    return out


def _fixed(e: Expr, var: str) -> Expr:
    if var not in free_vars(e):
        return TRUE
    match e:
        case Binary(op="%", left=a, right=b) if not free_vars(b):
            inner, unit = _fixed(a, var), arith.simplify(Binary("==", b, ONE))
            return unit if inner == FALSE else FALSE if unit == FALSE else Binary("or", inner, unit)
        case Binary(left=a, right=b):
            return _both(_fixed(a, var), _fixed(b, var))
    return FALSE


def _both(a: Expr, b: Expr) -> Expr:
    if FALSE in (a, b):
        return FALSE
    return b if a == TRUE else a if b in (a, TRUE) else Binary("and", a, b)


def _with_reuse(made: Sequence[Access], still: Sequence[Sequence[Expr]], around: Around) -> tuple[Access, ...]:
    levels = len(around.ranges) + 1
    totals, _ = footprints(made, levels)
    inner = iterations(around.ranges)
    out = []
    for a, same in zip(made, still, strict=True):
        trips: Expr = ONE
        distance: Expr = ZERO
        between: Expr = ZERO
        for k, (_, r) in enumerate(around.ranges):
            if same[k] != FALSE:
                runs = _both(same[k], arith.simplify(Binary(">", r.extent, ONE)))
                trips = choose(runs, r.extent, trips)
                distance, between = choose(runs, inner[k + 1], distance), choose(runs, totals[k + 1], between)
        out.append(replace(a, reuse_trips=trips, reuse_iterations=distance, reuse_bytes=between))
    return tuple(out)


def choose(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """`select(condition, then, otherwise)`, decided where the condition is."""
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    return then if then == otherwise else Select(condition, then, otherwise)
