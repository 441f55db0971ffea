"""The profile of a kernel on a terminal: a table by rich; plain text where the output is not a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mslang.perf.result import HEAD, cells, notes

if TYPE_CHECKING:
    from mslang.perf.result import KernelProfile


def show(profile: KernelProfile) -> None:
    """Print a profile on standard output."""
    if not sys.stdout.isatty():
        print(f"\n{profile}")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in HEAD:
        table.add_column(title, justify="left" if title in ("part", "blocks", "written") else "right", no_wrap=True)
    for row, profiled in _styled(profile):
        table.add_row(*row, style=profiled)
    console = Console()
    console.print(table)
    for line in notes(profile):
        console.print(line, highlight=False, markup=False)


def _styled(profile: KernelProfile) -> list[tuple[tuple[str, ...], str]]:
    """The rows, the part that takes most of the time by itself in bold."""
    rows = list(cells(profile))
    parts = [r for r in profile.rows if r.depth]
    longest = max(parts, key=lambda r: r.own, default=None)
    name = None if longest is None else "  " * longest.depth + longest.name
    return [(row, "bold" if row[0] == name else "") for row in rows]
