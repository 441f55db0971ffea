"""What each timed part does, from the nest summary: operations, and the bytes that its accesses cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.bytes + other.bytes)


def work_of(part: Part, summary: Summary) -> Work | None:
    """What a part does in one run; None where a size is known only at run time, or the summary has no such part."""
    inside = [(s, k) for s in summary.statements if (k := _level(s, part)) is not None]
    if not inside:
        return None
    operations = [_product(_operations(s.arithmetic), s.trips) for s, _ in inside]
    covered = _bytes(inside)
    if covered is None or any(x is None for x in operations):
        return None
    return Work(sum(x for x in operations if x is not None), covered)


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


def _product(each: int, times: Expr) -> int | None:
    count = _number(times)
    return None if count is None else each * count


def _number(e: Expr) -> int | None:
    from mslang.ir.arith import simplify

    found = e if isinstance(e, Const) else simplify(e)
    return int(found.value) if isinstance(found, Const) else None


def total(works: Mapping[int, Work | None]) -> Work | None:
    """The sum; None if any is not known."""
    found = Work()
    for w in works.values():
        if w is None:
            return None
        found = found + w
    return found
