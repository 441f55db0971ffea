"""The second measurement of the fastest candidates: in interleaved rounds, so that each meets the same conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from mslang.runtime.timing import Timing, deviation
from mslang.target.yardstick import NOMINAL_RATE
from mslang.tune.record import Outcome, Record, Result

REMEASURED = 3
"""So many of the fastest at least are measured again, on dense inputs too."""

TRIED_AGAIN = 12
"""So many of the fastest at most, where some fail the second measurement, or are slower than in the first."""

ROUNDS = 3
"""So often each of the candidates is measured that come near the fastest."""

NEAR = 1.2
"""A candidate slower than the fastest by more than this factor is measured no further."""

Measure = Callable[[Record, bool], Result | None]
"""Measures a record's candidate again, on dense inputs too or not; None if the time is spent meanwhile."""


class Confirmed(msgspec.Struct, frozen=True):
    """The finalists as the last measurement found them: those that failed, and the others, fastest first.

    `ties` says how many of those after the first are within the noise of it.
    """

    failed: tuple[Record, ...]
    ordered: tuple[Record, ...]
    ties: int = 0


def confirm(finalists: Sequence[Record], measure: Measure, over: Callable[[], bool] = lambda: False) -> Confirmed:
    """Measure the fastest candidates again.

    One that fails is no longer among them; nor is one that was only lucky the first time: it goes on until none that is
    left was faster than the fastest.

    Args:
        finalists: records, fastest first.
        measure: what measures one again.
        over: whether the time is spent; the first candidate is measured all the same.
    """
    failed: list[Record] = []
    results: dict[int, list[Result]] = {}
    for k, record in enumerate(finalists[:TRIED_AGAIN]):
        best = min((_cost(finalists[j], r) for j, r in results.items()), default=None)
        if best is not None and (over() or (len(results) >= REMEASURED and best <= (record.cost or 0.0))):
            break
        result = measure(record, True)
        if result is None:
            break
        if result.outcome is Outcome.MEASURED:
            results[k] = [result]
        else:
            failed.append(_with(record, result))
    for _ in range(ROUNDS - 1):
        best = min((_cost(finalists[j], r) for j, r in results.items()), default=0.0)
        near = [k for k, r in results.items() if _cost(finalists[k], r) <= NEAR * best]
        for k in near if len(near) > 1 else ():
            if over():
                break
            result = measure(finalists[k], False)
            if result is None:
                break
            if result.outcome is Outcome.MEASURED:
                results[k].append(result)
            else:
                failed.append(_with(finalists[k], result))
                del results[k]
    ordered = sorted((_with(finalists[k], _merged(r)) for k, r in results.items()), key=lambda r: r.cost or 0.0)
    noise = {finalists[k].candidate: _noise(r) for k, r in results.items()}
    ties = [r for r in ordered[1:] if (r.cost or 0.0) - (ordered[0].cost or 0.0) <= _apart(noise, ordered[0], r)]
    return Confirmed(tuple(failed), tuple(ordered), len(ties))


def _with(record: Record, result: Result) -> Record:
    return msgspec.structs.replace(record, result=result, id=None, created="")


def _cost(record: Record, results: list[Result]) -> float:
    return _with(record, _merged(results)).cost or 0.0


def _merged(results: list[Result]) -> Result:
    """All samples of several rounds, as on a core of the median speed."""
    first = results[0]
    timings = [r.timing for r in results if r.timing is not None]
    rates = [t.yardstick for t in timings if t.yardstick]
    rate = median(rates) if rates else None
    samples = [s * (t.yardstick / rate if rate and t.yardstick else 1.0) for t in timings for s in t.samples]
    timing = Timing(tuple(samples), timings[0].runs, yardstick=rate, disturbed=sum(t.disturbed for t in timings))
    return msgspec.structs.replace(first, timing=timing)


def _noise(results: list[Result]) -> float:
    """How far the normalised time of a candidate varies: between rounds, and between samples of one."""
    timings = [r.timing for r in results if r.timing is not None]
    rounds = [t.median * (t.yardstick or NOMINAL_RATE) / NOMINAL_RATE for t in timings]
    within = max(deviation(t.samples) * (t.yardstick or NOMINAL_RATE) / NOMINAL_RATE for t in timings)
    return max(within, (max(rounds) - min(rounds)) / 2)


def _apart(noise: dict[str, float], a: Record, b: Record) -> float:
    return noise[a.candidate] + noise[b.candidate]
