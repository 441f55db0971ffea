"""The one way in which commands write `.ms` source: never anything that does not parse, or means something else."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mslang.cli.common import bounded_depth, write_text
from mslang.diagnostics import MsError, problem
from mslang.syntax.meaning import faults, meaning, remarks


def write_source(
    path: Path,
    before: str,
    after: str,
    *,
    replaced: Collection[str] = (),
    snapshots: bool = False,
    layout: bool = False,
) -> None:
    """Replace a source file in one step, after comparing what the old and the new text mean.

    Args:
        path: the file.
        before: what it holds.
        after: what it shall hold.
        replaced: names of items that may be new or differ.
        snapshots: whether texts of snapshots may differ.
        layout: whether nothing but the layout may differ, so that comments stay, too.

    Raises:
        MsError: MS707, the new text has syntax errors that the old one has not, or another meaning; MS702, the file
            cannot be written.
    """
    check_source(str(path), before, after, replaced=replaced, snapshots=snapshots, layout=layout)
    write_text(path, after)


def check_source(
    name: str, before: str, after: str, *, replaced: Collection[str] = (), snapshots: bool = False, layout: bool = False
) -> None:
    """Raise MS707 if `after` may not come in the place of `before`; see `write_source`."""
    with bounded_depth(name):
        if faults(after) > faults(before):
            raise _refused(name, "the new text would not parse")
        kept = not snapshots
        if meaning(before, without=replaced, snapshots=kept) != meaning(after, without=replaced, snapshots=kept):
            raise _refused(name, "the new text would mean something else")
        if layout and remarks(before) != remarks(after):
            raise _refused(name, "the new text would lose a comment")


def _refused(name: str, why: str) -> MsError:
    return MsError(
        problem(
            "MS707",
            f"{name} stays as it is",
            why=f"{why}; this is a fault of mslang",
            help="please report it with this file",
        )
    )
