"""Which view suits the output."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mslang.cli.common import emit
from mslang.cli.views.lines import Lines, show_diagnostic
from mslang.diagnostics import Severity
from mslang.tune.event_json import as_builtins
from mslang.tune.progress import Event, Failed, Listener, Warned
from mslang.tune.scale import Scale


@contextmanager
def view_for(scales: Mapping[str, Scale], *, as_json: bool = False, quiet: bool = False) -> Iterator[Listener]:
    """The view of a session; a terminal is always restored at the end.

    Args:
        scales: what the times of each task are worth, by name.
        as_json: one JSON line an event, on standard output.
        quiet: warnings and errors only.
    """
    if as_json:
        yield show_json
    elif quiet:
        yield show_diagnostics
    elif sys.stderr.isatty():
        from mslang.cli.views.live import LiveTable

        with LiveTable(scales) as live:
            yield live
    else:
        yield Lines(scales)


def show_json(event: Event) -> None:
    """Print one JSON line."""
    emit(as_builtins(event))


def show_diagnostics(event: Event) -> None:
    """Print warnings and errors."""
    match event:
        case Warned(diagnostic=d) if d.severity is Severity.INFORMATION:
            pass
        case Warned() | Failed():
            show_diagnostic(event)
