"""The output of a search: a live line on a terminal, plain lines in a pipe, JSON lines on request; then a summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

import msgspec

from mslang.cli.common import counted, emit, note, seconds_text, table
from mslang.cli.render import print_diagnostics
from mslang.runtime.timing import SLOW_CORE
from mslang.tune.progress import Confirming, Event, Finished, Listener, Preparing, Started, Trial, Warned
from mslang.tune.record import TRIED, Outcome, Record
from mslang.tune.scale import Scale

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.progress import Task as RichTask

PLAIN_EVERY = 8
"""The number of trials between two plain lines without improvements."""


@contextmanager
def view_for(as_json: bool, scale: Scale) -> Iterator[Listener]:
    """The view that suits the output; a terminal is always restored at the end."""
    if as_json:
        yield show_json
    elif sys.stderr.isatty():
        live = _Live(scale)
        try:
            yield live
        finally:
            live.close()
    else:
        yield _Plain(scale, time.monotonic)


def show_json(event: Event) -> None:
    """Print one JSON line per event."""
    match event:
        case Warned(diagnostic=d):
            emit({"kind": "diagnostic", **msgspec.to_builtins(d)})
        case Trial(record=r, better=better, known=known):
            emit(
                {
                    "kind": "trial",
                    "trial": r.trial,
                    "id": r.id,
                    "outcome": r.result.outcome.value,
                    "reason": r.result.reason,
                    "seconds": r.seconds,
                    "better": better,
                    "known": known,
                    "slow_core": r.result.timing is not None and r.result.timing.slow_core,
                    "decisions": r.decisions,
                    "candidate": r.candidate,
                }
            )
        case Started():
            emit({"kind": "started", **msgspec.to_builtins(event)})
        case Preparing() | Confirming():
            emit({"kind": type(event).__name__.lower(), **msgspec.to_builtins(event)})
        case Finished():
            counts = {o.value: n for o, n in event.tally.outcomes.items()}
            best = event.best
            emit(
                {
                    "kind": "finished",
                    "reason": event.reason,
                    "outcomes": counts,
                    "seconds": event.seconds,
                    "confirmed": event.confirmed,
                    "known": event.known,
                    "ties": [
                        {"id": r.id, "seconds": r.seconds, "ratio": g.ratio, "noise": g.noise}
                        for r, g in zip(event.ties, event.gaps, strict=True)
                    ],
                    "reasons": [
                        {"outcome": o.value, "reason": why, "count": n} for (o, why), n in event.tally.reasons.items()
                    ],
                    "best": best and {"id": best.id, "seconds": best.seconds, "schedule": best.schedule},
                }
            )


class _Progress:
    """The progress of a search, for the human-readable views."""

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

    def best_time(self) -> str:
        seconds = None if self.best is None else self.best.seconds
        return "none yet" if seconds is None else seconds_text(seconds)

    def best_text(self) -> str:
        seconds = None if self.best is None else self.best.seconds
        timing = None if self.best is None else self.best.result.timing
        if seconds is None or timing is None:
            return self.best_time()
        return f"{self.best_time()}  {self.scale.rate(timing)}".rstrip()


class _Plain:
    """Lines for a pipe: each improvement, and the progress every few trials."""

    def __init__(self, scale: Scale, clock: Callable[[], float]) -> None:
        self._progress, self._clock = _Progress(scale), clock

    def __call__(self, event: Event) -> None:
        self._progress.take(event)
        match event:
            case Warned(diagnostic=d):
                print_diagnostics((d,), stream=sys.stderr)
            case Preparing():
                note(_preparing(event))
            case Started():
                note(_title(event))
            case Trial(record=r, better=better):
                if better or r.trial % PLAIN_EVERY == PLAIN_EVERY - 1:
                    note(self._line(better))
            case Confirming():
                note(_again(event))

    def _line(self, better: bool) -> str:
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
            case Warned(diagnostic=d):
                print_diagnostics((d,), stream=sys.stderr)
            case Preparing():
                note(_preparing(event))
            case Started():
                self._open(event)
            case Trial(better=better):
                assert self._bar is not None
                if better:
                    self._bar.console.print(
                        f"trial {self._progress.trials}: {self._progress.best_text()}", highlight=False
                    )
                self._bar.update(
                    self._bar.task_ids[0], completed=self._progress.trials, best=self._progress.best_time()
                )
            case Confirming():
                assert self._bar is not None
                self._bar.console.print(_again(event), highlight=False)
            case Finished():
                self.close()

    def close(self) -> None:
        """Restore the terminal."""
        if self._bar is not None:
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
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            _rate_column(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("best {task.fields[best]}"),
            console=Console(stderr=True),
        )
        self._bar.console.print(_title(event), highlight=False)
        self._bar.start()
        self._bar.add_task(event.program, total=event.trials, completed=event.resumed, best="none yet")


def _rate_column() -> ProgressColumn:
    """Trials per second; rich has no speed before the second step."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "")

    return Rate()


def _title(event: Started) -> str:
    again = f", going on after {event.resumed} trials" if event.resumed else ""
    return f"tuning {event.program} in {event.space} for {event.target} (run {event.run}{again})"


def _preparing(event: Preparing) -> str:
    return f"running {event.program} unscheduled: candidates are compared with its results"


def _again(event: Confirming) -> str:
    return f"{event.reason}; measuring the best again" if event.finalists else event.reason


def summary(done: Finished, scale: Scale, database: str, pinned: str | None) -> str:
    """The summary at the end of a search."""
    lines = [f"{done.reason}; {counted(done.tally.trials, 'trial')} in {done.seconds:.1f} s"]
    if done.known:
        lines.append(f"{done.known} of these had records of this machine and were not measured again")
    lines += ["", table(("count", "outcome", "why"), _counts(done)), ""]
    timing = None if done.best is None else done.best.result.timing
    if done.best is None or timing is None:
        return "\n".join([*lines, "nothing valid was found"])
    lines.append(f"best      {seconds_text(timing.median)} ± {seconds_text(timing.mad)}  {scale.rate(timing)}".rstrip())
    lines += [_tied(done)] if done.ties else []
    if scale.operations and scale.peak:
        lines.append(f"peak      {scale.peak / 1e9:.4g} GFLOP/s ({scale.dtype}), the most seen on this machine")
    if scale.speed(timing) < SLOW_CORE:
        lines.append(f"note      the processor ran at {100 * scale.speed(timing):.0f} % of its known speed meanwhile")
    checked = [f"{v.inputs} (largest error {v.max_error:.2g})" for v in done.best.result.verified]
    lines.append("verified  " + ", ".join([*checked] if done.confirmed else [*checked, "not measured again"]))
    lines.append(f"record    {done.best.id} in {database}")
    lines.append(f"schedule  {pinned}" if pinned else f"schedule\n\n{done.best.schedule.rstrip()}")
    return "\n".join(lines)


def _tied(done: Finished) -> str:
    """The candidates whose times are indistinguishable from the best one's, and by how much they differ from it."""
    listed = ", ".join(
        f"record {r.id} ({100 * (g.ratio - 1):+.1f} ± {100 * g.noise:.1f} %)"
        for r, g in list(zip(done.ties, done.gaps, strict=True))[:4]
    )
    more = f" and {len(done.ties) - 4} more" if len(done.ties) > 4 else ""
    return f"tied      within the noise of it, timed in turns: {listed}{more}"


def _counts(done: Finished) -> Iterator[tuple[object, str, str]]:
    """The rows of the table of outcomes; long reasons are wrapped for narrow terminals."""
    width = min(max(get_terminal_size().columns, 60), 120) - len("count  rejected by constraint  ")
    for outcome, count in done.tally.outcomes.most_common():
        reasons = _main_reasons(done, outcome)
        whys = [line for why in reasons for line in wrap(shorten(why, 3 * width), width, subsequent_indent="  ")]
        yield count, outcome.value, whys[0] if whys else ""
        yield from (("", "", line) for line in whys[1:])


def _main_reasons(done: Finished, outcome: Outcome) -> list[str]:
    reasons = sorted(((n, why) for (o, why), n in done.tally.reasons.items() if o is outcome), reverse=True)
    rest = sum(n for n, _ in reasons[3:])
    others = [f"{rest} × for {len(reasons) - 3} other reasons"] if rest else []
    return [f"{n} × {why}" for n, why in reasons[:3]] + others
