"""A session in a pipe: plain lines on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from mslang.cli.common import note
from mslang.cli.render import print_diagnostics
from mslang.cli.views.board import Board
from mslang.tune.progress import Confirming, Event, Failed, Finished, Preparing, Started, Trial, Warned
from mslang.tune.scale import Scale

EVERY = 8
"""The number of trials between two lines without improvements."""


class Lines:
    """Each improvement, and the progress every few trials.

    Args:
        scales: what the times of each task are worth, by name.
        clock: seconds.
    """

    def __init__(self, scales: Mapping[str, Scale], clock: Callable[[], float] = time.monotonic) -> None:
        self._board = Board(scales, clock)

    def __call__(self, event: Event) -> None:
        """Print what there is to say about an event."""
        self._board.take(event)
        match event:
            case Warned() | Failed():
                show_diagnostic(event)
            case Preparing():
                note(preparing(event))
            case Started():
                note(title(event))
            case Trial(record=r, better=better, task=name):
                if better or r.trial % EVERY == EVERY - 1:
                    note(self._line(name, better))
            case Confirming():
                note(self._named(event.task, again(event)))
            case Finished() if len(self._board.tasks) > 1:
                note(self._named(event.task, f"best {self._board.of(event.task).best_text}"))

    def _named(self, name: str, text: str) -> str:
        return f"{name}: {text}" if len(self._board.tasks) > 1 else text

    def _line(self, name: str, better: bool) -> str:
        board = self._board
        left = "" if board.left is None else f", {board.left:.0f} s to go"
        of = "" if board.wanted is None else f"/{board.wanted}"
        mark = "*" if better else " "
        best = self._named(name, f"best {board.of(name).best_text}")
        return f"{mark} trial {board.trials}{of}  {best}  ({board.rate:.1f}/s{left})"


def show_diagnostic(event: Warned | Failed) -> None:
    """Print the diagnostic of an event."""
    print_diagnostics((event.diagnostic,), stream=sys.stderr)


def title(event: Started) -> str:
    """What is tuned."""
    after = f", going on after {event.resumed} trials" if event.resumed else ""
    return f"tuning {event.program} in {event.space} for {event.target} (run {event.run}{after})" + (
        f"\n{event.strategy}" if event.strategy else ""
    )


def preparing(event: Preparing) -> str:
    """Why there are no trials yet."""
    return f"running {event.program} unscheduled: candidates are compared with its results"


def again(event: Confirming) -> str:
    """Why the search is over, and what follows."""
    return f"{event.reason}; measuring the best again" if event.finalists else event.reason
