"""Group 2 of a store's features: what it does with the five buffers that it moves most bytes of, 18 values each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mslang.ir.dtype import size_of
from mslang.lower.summary import Access, Statement
from mslang.search.formulas import Formula, Formulas

BUFFERS = 5
"""Accesses that have features; those of fewer bytes have none."""

Named = tuple[str, Formula]

NAMES = (
    "read",
    "write",
    "update",
    "bytes",
    "unique_bytes",
    "lines",
    "unique_lines",
    "loop_reuse",
    "serial_reuse",
    "no_reuse",
    "reuse_iterations",
    "reuse_distance",
    "reuses",
    "bytes_by_reuse",
    "unique_bytes_by_reuse",
    "lines_by_reuse",
    "unique_lines_by_reuse",
    "stride",
)


def buffer_features(
    f: Formulas, s: Statement, ordered: Sequence[Access], others: Sequence[Statement], line: int
) -> Iterator[Named]:
    """The features of a statement's accesses.

    Args:
        f: makes the formulas.
        s: the statement.
        ordered: its accesses, the most important first.
        others: the other statements of its nest.
        line: bytes of a cache line.
    """
    for k in range(BUFFERS):
        found = _access(f, s, ordered[k], others, line) if k < len(ordered) else [f.number(0.0)] * len(NAMES)
        yield from ((f"buffer{k}.{name}", x) for name, x in zip(NAMES, found, strict=True))


def _access(f: Formulas, s: Statement, a: Access, others: Sequence[Statement], line: int) -> list[Formula]:
    size = float(size_of(a.dtype))
    trips = f.expr(s.iterations[0])
    kinds = (a.loads > 0 and a.stores == 0, a.stores > 0 and a.loads == 0, a.loads > 0 and a.stores > 0)
    stride, inner = _stride(f, s, a)
    total = trips * (size * (a.loads + a.stores))
    unique = f.expr(a.elements[0]) * size
    lines = trips / inner * (stride * (size / line)).least(1.0)
    unique_lines = f.expr(a.lines[0])
    loop, serial, reuse = _reuse(f, s, a, others)
    by = 1.0 / reuse[2].most(0.5)
    volumes = (total, unique, lines, unique_lines)
    return [
        *(f.number(float(x)) for x in kinds),
        *(x.slog() for x in volumes),
        loop,
        serial,
        1.0 - loop - serial,
        *(x.slog() for x in reuse),
        *((x * by).slog() for x in volumes),
        stride.slog(),
    ]


def _stride(f: Formulas, s: Statement, a: Access) -> tuple[Formula, Formula]:
    """The stride along the innermost loop with which the access varies, and the iterations inside that loop."""
    k = max((k for k, same in enumerate(a.invariant) if not same), default=None)
    if k is None:
        return f.number(0.0), f.expr(s.iterations[0])
    stride = a.strides[k]
    if stride is None:
        return f.number(1e6), f.expr(s.iterations[k + 1])
    found = f.expr(stride)
    return found.most(0.0 - found), f.expr(s.iterations[k + 1])


def _reuse(
    f: Formulas, s: Statement, a: Access, others: Sequence[Statement]
) -> tuple[Formula, Formula, tuple[Formula, Formula, Formula]]:
    """Whether a loop, or else another statement, accesses the same elements again, and how far and how often."""
    trips = f.expr(a.reuse_trips)
    by_loop = trips.above(1.0)
    depth, by, distance = _serial(f, s, a, others)
    serial = f.number(float(depth is not None))
    at = 0 if depth is None else depth
    apart = f.expr(s.iterations[at]) * serial
    return (
        by_loop.choose(1.0, 0.0),
        by_loop.choose(0.0, serial),
        (
            by_loop.choose(f.expr(a.reuse_iterations), apart),
            by_loop.choose(f.expr(a.reuse_bytes), distance),
            by_loop.choose(trips, float(by)),
        ),
    )


def _serial(f: Formulas, s: Statement, a: Access, others: Sequence[Statement]) -> tuple[int | None, int, Formula]:
    """The depth at which other statements access the buffer too, how many do, and the bytes that are accessed there."""
    found = [(_common(s, o), o) for o in others if any(x.buffer == a.buffer for x in o.accesses)]
    if not found:
        return None, 0, f.number(0.0)
    depth = max(d for d, _ in found)
    near = [o for d, o in found if d == depth]
    return depth, len(near), f.total([f.expr(x.bytes[depth]) for x in (s, *near)])


def _common(s: Statement, other: Statement) -> int:
    """How many loops two statements share."""
    n = 0
    for x, y in zip(s.loops, other.loops, strict=False):
        if x.var != y.var:
            break
        n += 1
    return n
