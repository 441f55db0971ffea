"""What each timed part does, from the nest summary: operations, and the bytes that its accesses cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, Expr
from mslang.lower.summary import Arithmetic, Statement, Summary
from mslang.perf.parts import Part


class Work(msgspec.Struct, frozen=True):
    """Of one run of the kernel: arithmetic operations (a fused multiply-add is two), and bytes.

    `bytes` counts each element once for each time that the part is entered: the least traffic between it and what lies
    outside, whichever cache or memory that is.
    """

    operations: int = 0
    bytes: int = 0


def works_of(parts: Sequence[Part], summary: Summary, runs: Sequence[int | None]) -> tuple[Work | None, ...]:
    """What each part does in one run of the kernel.

    None where a size is known only at run time, the summary has no such part, or a loop was cut, so that parts share
    what it does.

    Args:
        parts: the parts.
        summary: of the kernel before its loops are cut.
        runs: how often each of its statements runs.
    """
    inside = {p.number: [n for n, s in enumerate(summary.statements) if _level(s, p) is not None] for p in parts}
    above = {p.number: p.parent for p in parts}

    def shares(p: Part, q: Part) -> bool:
        apart = p.number not in _above(q.number, above) and q.number not in _above(p.number, above)
        return apart and bool({*inside[p.number]} & {*inside[q.number]})

    return tuple(None if any(shares(p, q) for q in parts) else _work(p, inside[p.number], summary, runs) for p in parts)


def _above(number: int, above: Mapping[int, int]) -> Iterator[int]:
    """A part and those around it."""
    while number >= 0:
        yield number
        number = above.get(number, -1)


def _work(part: Part, inside: Sequence[int], summary: Summary, runs: Sequence[int | None]) -> Work | None:
    found = [(summary.statements[n], runs[n]) for n in inside]
    covered = _bytes([(s, k) for s, _ in found if (k := _level(s, part)) is not None])
    if not found or covered is None or any(times is None for _, times in found):
        return None
    return Work(sum(_operations(s.arithmetic) * times for s, times in found if times is not None), covered)


def _level(s: Statement, part: Part) -> int | None:
    """Which loop of a statement the part is; 0 for the whole and for a statement in no loop; None: it is elsewhere."""
    if part.parent < 0 or (not s.loops and s.buffer == part.name):
        return 0
    return next((k for k, loop in enumerate(s.loops) if loop.var == part.name), None)


def _operations(a: Arithmetic) -> int:
    floats = a.float_add + a.float_mul + 2 * a.float_fma + a.float_div + a.float_math
    return floats or a.integer_add + a.integer_mul + a.integer_div


def _bytes(inside: list[tuple[Statement, int]]) -> int | None:
    """The footprints of buffers, of each the largest of any statement, times the entries."""
    largest: dict[str, int] = {}
    for buffer, size in _footprints(inside):
        if size is None:
            return None
        largest[buffer] = max(size, largest.get(buffer, 0))
    return sum(largest.values())


def _footprints(inside: list[tuple[Statement, int]]) -> Iterator[tuple[str, int | None]]:
    for s, k in inside:
        whole, one = _number(s.iterations[0]), _number(s.iterations[k])
        for a in s.accesses:
            if a.scope.startswith("local"):
                continue
            elements = _number(a.elements[k])
            if whole is None or one is None or elements is None:
                yield a.buffer, None
            else:
                yield a.buffer, elements * size_of(a.dtype) * (whole // max(one, 1))


def _number(e: Expr) -> int | None:
    from mslang.ir.arith import simplify

    found = e if isinstance(e, Const) else simplify(e)
    return int(found.value) if isinstance(found, Const) else None
