"""`apply`: the best schedule known for each program, by passes in the user's order; nothing is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from mslang.apply.passes import Applied, Case, Missed, Pass, Served
from mslang.brevity import brief
from mslang.diagnostics import MsError, problem
from mslang.ir.buckets import Bucket, buckets_of, restricted
from mslang.ir.program import Program
from mslang.target.description import Target


def apply(programs: Iterable[Program], passes: Sequence[Pass], target: Target) -> tuple[Applied, ...]:
    """Serve each program by the first pass that can; one with dynamic sizes as a whole and for each bucket of them.

    Args:
        programs: programs without a schedule.
        passes: in the order in which they are tried.
        target: what will run the programs.

    Returns what came of each program, in their order.

    Raises:
        MsError: what a pass draws on cannot be used; MS706, a pass gives neither `Served` nor `Missed`.

    >>> apply([], (), Target())
    ()
    """
    return tuple(_with_cases(program, passes, target) for program in programs)


def _with_cases(program: Program, passes: Sequence[Pass], target: Target) -> Applied:
    """What came of a program as a whole, with the buckets that are served otherwise."""
    whole = _applied(program, passes, target)
    cases = [Case(b, _applied(restricted(program, b), passes, target)) for b in buckets_of(program)]
    return replace(whole, cases=tuple(c for c in cases if _differs(c.applied, whole, c.bucket)))


def _differs(case: Applied, whole: Applied, bucket: Bucket) -> bool:
    """Whether a bucket needs code of its own: another pass serves it, or the same one by another schedule."""
    if case.served is None:
        return False
    if case.by != whole.by or whole.served is None:
        return True
    if case.backend is not None or whole.backend is not None:
        return case.served.how != whole.served.how
    mine, its = case.served.trace, whole.served.trace
    if mine is None or its is None:
        return case.served.program != restricted(whole.served.program, bucket)
    return mine.as_ms(unpinned=True) != its.as_ms(unpinned=True)


def _applied(program: Program, passes: Sequence[Pass], target: Target) -> Applied:
    missed: list[tuple[str, str]] = []
    for each in passes:
        match each.serve(program, target):
            case Served() as found:
                return Applied(program, each.name, found, tuple(missed))
            case Missed(why=why):
                missed.append((each.name, why))
            case other:
                raise _misused(each, other)
    return Applied(program, None, None, tuple(missed))


def _misused(each: Pass, given: object) -> MsError:
    why = "a pass serves a program by `ms.Served(program, how)`, or gives `ms.Missed(why)`"
    return MsError(problem("MS706", f"the pass `{each.name}` gave {brief(repr(given))}", why=why))
