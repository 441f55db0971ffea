"""The order of a sketch's statements and of their accesses: by work and by bytes, never by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mslang.ir.dtype import size_of
from mslang.ir.expr import Choice, Domain, FreeTile, PartitionedTile, PerfectTile, Uniform
from mslang.lower.summary import Access, Statement, Summary
from mslang.schedule.batch.layout import layout_of
from mslang.schedule.decisions import Decision
from mslang.search.float_arrays import FloatEvaluator
from mslang.search.formulas import Formula, Formulas


def middle(decisions: Sequence[Decision]) -> dict[str, float]:
    """Decisions in the middle of their domains, by column: extents split evenly, numbers need not be whole.

    It depends on no seed and on no name, so that renamed programs are ordered alike.
    """
    out: dict[str, float] = {}
    for d, slot in zip(decisions, layout_of(decisions).slots, strict=True):
        names = [f"{slot.address}[{k}]" for k in range(slot.width)] if slot.tile else [slot.address]
        if isinstance(d.given, int):
            out[slot.address] = float(d.given)
        elif isinstance(d.given, tuple) and slot.tile:
            out.update(zip(names, (float(x) if isinstance(x, int) else 1.0 for x in d.given), strict=True))
        else:
            out.update((name, _middle(d.domain, out)) for name in names)
    return out


def _middle(domain: Domain, before: dict[str, float]) -> float:
    match domain:
        case Choice(values=values):
            return float(sorted(values)[len(values) // 2])
        case Uniform(lo=lo, hi=hi):
            return (lo + hi - 1) / 2
        case PerfectTile(extent=e, n=n) | PartitionedTile(extent=e, n=n) | FreeTile(extent=e, n=n):
            f = Formulas()
            (extent,) = FloatEvaluator(f, [f.expr(e)]).of_columns(before)
            return float(max(extent, 1.0) ** (1 / n))
    raise TypeError(f"no decision has this domain: {domain!r}")


class Ranked(NamedTuple):
    """A statement of a summary and its accesses, by number."""

    statement: int
    accesses: tuple[int, ...]


def ranked(summary: Summary, decisions: Sequence[Decision]) -> list[Ranked]:
    """The statements of a summary, those of most work first, each with its accesses, those of most bytes first."""
    f = Formulas()
    work = [_work(f, s) for s in summary.statements]
    moved = [_bytes(f, a) for s in summary.statements for a in s.accesses]
    found = FloatEvaluator(f, [*work, *moved]).of_columns(middle(decisions))
    weights, sizes = found[: len(work)], iter(found[len(work) :])
    each = [Ranked(k, _sorted(s.accesses, [next(sizes) for _ in s.accesses])) for k, s in enumerate(summary.statements)]
    return sorted(each, key=lambda x: (-weights[x.statement], x.statement))


def _work(f: Formulas, s: Statement) -> Formula:
    """Operations, loads and stores of all iterations."""
    each = s.arithmetic.total + sum(a.loads + a.stores for a in s.accesses)
    return f.expr(s.iterations[0]) * float(max(each, 1))


def _bytes(f: Formulas, a: Access) -> Formula:
    return f.expr(a.elements[0]) * float(size_of(a.dtype))


def _sorted(accesses: Sequence[Access], sizes: Sequence[float]) -> tuple[int, ...]:
    """By bytes, then stores before loads, then by the loops that the access varies with."""

    def key(k: int) -> tuple[object, ...]:
        a = accesses[k]
        return -sizes[k], -a.stores, -a.loads, a.invariant, k

    return tuple(sorted(range(len(accesses)), key=key))
