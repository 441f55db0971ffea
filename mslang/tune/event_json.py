"""Events as plain values: what `mslang tune --json` prints and the log folder keeps, one line an event.

The fields are described in docs/tuning.md; they are only ever added to.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mslang.tune.progress import Event, Failed, Finished, Started, Trial, Warned
from mslang.tune.record import Record


def as_builtins(event: Event) -> dict[str, Any]:
    """An event as a dictionary of strings, numbers, lists and dictionaries; `kind` names the event.

    Example:
        >>> from mslang.tune.progress import Preparing
        >>> as_builtins(Preparing("gemm", "gemm"))
        {'kind': 'preparing', 'program': 'gemm', 'task': 'gemm'}
    """
    match event:
        case Warned(diagnostic=d) | Failed(diagnostic=d):
            return {"kind": "diagnostic", **msgspec.to_builtins(d), "task": event.task}
        case Started(best=best):
            plain = msgspec.to_builtins(msgspec.structs.replace(event, best=None))
            return {"kind": "started", **plain, "best": _best(best)}
        case Trial():
            return _trial(event)
        case Finished():
            return _finished(event)
        case _:
            return {"kind": type(event).__name__.lower(), **msgspec.to_builtins(event)}


def _trial(event: Trial) -> dict[str, Any]:
    r = event.record
    return {
        "kind": "trial",
        "trial": r.trial,
        "id": r.id,
        "outcome": r.result.outcome.value,
        "reason": r.result.reason,
        "seconds": r.seconds,
        "cost": r.cost,
        "better": event.better,
        "known": event.known,
        "slow_core": r.result.timing is not None and r.result.timing.slow_core,
        "predicted": event.predicted,
        "decisions": r.decisions,
        "candidate": r.candidate,
        "stages": r.result.stages,
        "task": event.task,
    }


def _finished(event: Finished) -> dict[str, Any]:
    best, tally = event.best, event.tally
    return {
        "kind": "finished",
        "reason": event.reason,
        "outcomes": {o.value: n for o, n in tally.outcomes.items()},
        "seconds": event.seconds,
        "interrupted": event.interrupted,
        "confirmed": event.confirmed,
        "known": event.known,
        "ties": [
            {"id": r.id, "seconds": r.seconds, "ratio": g.ratio, "noise": g.noise if g.is_known else None}
            for r, g in zip(event.ties, event.gaps, strict=True)
        ],
        "reasons": [{"outcome": o.value, "reason": why, "count": n} for (o, why), n in tally.reasons.items()],
        "best": _best(best),
        "task": event.task,
    }


def _best(best: Record | None) -> dict[str, Any] | None:
    return None if best is None else {"id": best.id, "seconds": best.seconds, "schedule": best.schedule}
