"""How a search is shown: a live line on a terminal, plain lines in a pipe, JSON lines on demand, a summary at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from mslang.cli.common import emit, note, seconds_text, table
from mslang.tune.progress import Event, Finished, Started, Trial
from mslang.tune.record import TRIED, Outcome, Record
from mslang.tune.scale import Scale

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.progress import Task as RichTask

PLAIN_EVERY = 8
"""Trials between two plain lines, improvements apart."""


class View(Protocol):
    """Listens to a search."""

    def __call__(self, event: Event) -> None:
        """Show one event."""


def view_for(as_json: bool, scale: Scale) -> View:
    """The view that fits where the output goes."""
    if as_json:
        return show_json
    return _Live(scale) if sys.stderr.isatty() else _Plain(scale, time.monotonic)


def show_json(event: Event) -> None:
    """One JSON line an event."""
    match event:
        case Trial(record=r, better=better):
            emit({"kind": "trial", "trial": r.trial, "id": r.id, "outcome": r.result.outcome.value,
                  "reason": r.result.reason, "seconds": r.seconds, "better": better, "decisions": r.decisions,
                  "candidate": r.candidate})
        case Started():
            emit({"kind": "started", **msgspec.to_builtins(event)})
        case Finished():
            counts = {o.value: n for o, n in event.tally.outcomes.items()}
            best = event.best
            emit({"kind": "finished", "reason": event.reason, "outcomes": counts, "seconds": event.seconds,
                  "best": None if best is None else {"id": best.id, "seconds": best.seconds, "schedule": best.schedule}})


class _Progress:
    """Where a search stands: shared by the views for people."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.trials = 0
        self.wanted: int | None = None
        self.best: Record | None = None
        self.start = time.monotonic()

    def take(self, event: Event) -> None:
        match event:
            case Started():
                self.wanted, self.trials = event.trials, event.resumed
                self.start = time.monotonic()
            case Trial(record=r, better=better):
                self.trials += r.result.outcome in TRIED
                self.best = r if better else self.best

    def best_text(self) -> str:
        seconds = None if self.best is None else self.best.seconds
        return "none yet" if seconds is None else f"{seconds_text(seconds)}  {self.scale.rate(seconds)}"


class _Plain:
    """Lines for a pipe: each improvement, and now and then where things stand."""

    def __init__(self, scale: Scale, clock: Callable[[], float]) -> None:
        self._progress, self._clock = _Progress(scale), clock

    def __call__(self, event: Event) -> None:
        self._progress.take(event)
        match event:
            case Started():
                note(_title(event))
            case Trial(record=r, better=better):
                if better or r.trial % PLAIN_EVERY == PLAIN_EVERY - 1:
                    note(self._line(r, better))

    def _line(self, r: Record, better: bool) -> str:
        p = self._progress
        elapsed = max(self._clock() - p.start, 1e-9)
        rate = p.trials / elapsed
        left = "" if p.wanted is None else f", {max(p.wanted - p.trials, 0) / max(rate, 1e-9):.0f} s to go"
        of = "" if p.wanted is None else f"/{p.wanted}"
        mark = "*" if better else " "
        return f"{mark} trial {p.trials}{of}  best {p.best_text()}  ({rate:.1f}/s{left})"


class _Live:
    """One live line on a terminal, above it a line for each improvement."""

    def __init__(self, scale: Scale) -> None:
        self._progress = _Progress(scale)
        self._bar: Progress | None = None

    def __call__(self, event: Event) -> None:
        self._progress.take(event)
        match event:
            case Started():
                self._open(event)
            case Trial(record=r, better=better):
                assert self._bar is not None
                if better:
                    self._bar.console.print(f"trial {r.trial + 1}: {self._progress.best_text()}", highlight=False)
                self._bar.update(self._bar.task_ids[0], completed=self._progress.trials, best=self._progress.best_text())
            case Finished() if self._bar is not None:
                self._bar.stop()

    def _open(self, event: Started) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _rate_column(),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("best {task.fields[best]}"),
            console=Console(stderr=True),
        )
        self._bar.console.print(_title(event), highlight=False)
        self._bar.start()
        self._bar.add_task(event.program, total=event.trials, completed=event.resumed, best="none yet")


def _rate_column() -> ProgressColumn:
    """Trials a second; rich has no speed before the second step."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "")

    return Rate()


def _title(event: Started) -> str:
    again = f", going on after {event.resumed} trials" if event.resumed else ""
    return f"tuning {event.program} in {event.space} for {event.target} (run {event.run}{again})"


def summary(done: Finished, scale: Scale, database: str, pinned: str | None) -> str:
    """What a person wants to know at the end."""
    lines = [f"{done.reason}; {done.tally.trials} trials in {done.seconds:.1f} s"]
    counts = [(n, o.value, _main_reasons(done, o)) for o, n in done.tally.outcomes.most_common()]
    lines += ["", table(("count", "outcome", "why"), counts), ""]
    if done.best is None or done.best.seconds is None:
        return "\n".join([*lines, "nothing valid was found"])
    timing = done.best.result.timing
    spread = f" ± {seconds_text(timing.mad)}" if timing is not None else ""
    lines += [
        f"best      {seconds_text(done.best.seconds)}{spread}  {scale.rate(done.best.seconds)}",
        "verified  " + ", ".join(f"{v.inputs} (largest error {v.max_error:.2g})" for v in done.best.result.verified),
        f"record    {done.best.id} in {database}",
        f"schedule  {pinned}" if pinned else f"schedule\n\n{done.best.schedule}",
    ]
    return "\n".join(lines)


def _main_reasons(done: Finished, outcome: Outcome) -> str:
    reasons = sorted(((n, why) for (o, why), n in done.tally.reasons.items() if o is outcome), reverse=True)
    shown = [f"{why} ({n})" if n > 1 else why for n, why in reasons[:3]]
    return "; ".join([*shown, f"{len(reasons) - 3} more"] if len(reasons) > 3 else shown)
