"""A session on a terminal: a live table of the tasks on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mslang.cli.views.board import Board, Standing
from mslang.cli.views.lines import again, show_diagnostic
from mslang.tune.progress import Confirming, Event, Failed, Started, Warned
from mslang.tune.scale import Scale

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

BESIDE = 8
"""Lines of the terminal that the rows of the table leave free."""

NARROW, WIDE = 72, 100
"""Terminals narrower than this have no columns for counts of failures; wider ones show the state in words."""


class LiveTable:
    """The tasks with their best times, and the rate and time to go below; messages scroll above.

    Use it as a context manager, so that the terminal is restored.

    Args:
        scales: what the times of each task are worth, by name.
        clock: seconds.
        console: where it is drawn (default: standard error).
    """

    def __init__(
        self,
        scales: Mapping[str, Scale],
        clock: Callable[[], float] = time.monotonic,
        console: Console | None = None,
    ) -> None:
        from rich.console import Console as Terminal

        self._board = Board(scales, clock)
        self.console = Terminal(stderr=True) if console is None else console
        self._live: Live | None = None

    def __enter__(self) -> LiveTable:
        from rich.live import Live

        self._live = Live(get_renderable=self.render, console=self.console, refresh_per_second=4)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Bring the table up to date."""
        self._board.take(event)
        match event:
            case Warned() | Failed():
                show_diagnostic(event)
            case Started():
                if event.resumed:
                    self._say(f"{event.task or event.program}: going on after {event.resumed} trials")
                if event.strategy:
                    self._say(f"{event.task or event.program}: {event.strategy}")
            case Confirming():
                self._say(f"{event.task}: {again(event)}" if event.task else again(event))

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def render(self) -> RenderableType:
        """The table as it stands."""
        from rich.console import Group
        from rich.text import Text

        board = self._board
        if not board.tasks:
            return Text("")
        of = "" if board.wanted is None else f"/{board.wanted}"
        left = "" if board.left is None else f" · {_clock_text(board.left)} to go"
        foot = f"{board.trials}{of} trials · {board.rate:.1f}/s · {_clock_text(board.elapsed)}{left}"
        return Group(self._table(), Text(foot, style="dim"))

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table

        board, width = self._board, self.console.width
        shown = _shown(list(board.tasks.values()), board.active, max(self.console.height - BESIDE, 1))
        heads = _columns(width)
        rows = [[str(_cell(task, head)) for head in heads] for task in shown]
        widths = [max(map(len, column)) for column in zip(heads, *rows)]
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        # What is not taken by the numbers and three blanks before each is for the names.
        room = max(width - sum(w + 3 for w in widths) - 3, 4)
        made.add_column("task", overflow="ellipsis", no_wrap=True, max_width=room)
        for head, own in zip(heads, widths):
            made.add_column(head, justify="left" if head == "state" else "right", no_wrap=True, min_width=own)
        for task, cells in zip(shown, rows):
            made.add_row(task.name or "program", *cells, style="bold" if task.name == board.active else "")
        hidden = len(board.tasks) - len(shown)
        if hidden:
            made.caption = f"… and {hidden} more"
        return made


def _columns(width: int) -> tuple[str, ...]:
    if width < NARROW:
        return ("best", "GFLOP/s", "peak", "trials")
    counts = ("best", "GFLOP/s", "peak", "trials", "rejected", "failed")
    return counts if width < WIDE else (*counts, "state")


def _cell(task: Standing, head: str) -> object:
    match head:
        case "best":
            return task.time if task.best is not None else "–"
        case "GFLOP/s":
            return task.gflops
        case "peak":
            return task.share
        case "trials":
            return task.trials
        case "rejected":
            return task.rejected
        case "failed":
            return task.failed
    return task.state


def _shown(tasks: list[Standing], active: str | None, most: int) -> list[Standing]:
    """As many tasks as there is room for, the active one among them."""
    if len(tasks) <= most:
        return tasks
    at = next((k for k, t in enumerate(tasks) if t.name == active), 0)
    first = min(max(at - most // 2, 0), len(tasks) - most)
    return tasks[first : first + most]


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
