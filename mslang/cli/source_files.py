"""All writes of `.ms` source by commands: text that does not parse, or changes the meaning, is never written."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mslang.cli.common import write_text
from mslang.diagnostics import MsError, Severity, bounded_depth, problem
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
    """Replace a source file atomically, after comparing the meanings of the old and the new text.

    Args:
        path: the file.
        before: the old text.
        after: the new text.
        replaced: names of items that may be added or changed; they must check.
        snapshots: whether texts of snapshots may change.
        layout: whether only the layout may change, so that comments must stay, too.

    Raises:
        MsError: MS707, the new text has new syntax errors, another meaning, or errors in what it replaces; MS702, the
            file cannot be written.
    """
    check_source(str(path), before, after, replaced=replaced, snapshots=snapshots, layout=layout)
    _check_items(path, after, replaced)
    write_text(path, after)


def check_source(
    name: str, before: str, after: str, *, replaced: Collection[str] = (), snapshots: bool = False, layout: bool = False
) -> None:
    """Raise MS707 if `after` must not replace `before`; see `write_source`."""
    with bounded_depth(name):
        if faults(after) > faults(before):
            raise _refused(name, "the new text would not parse")
        kept = not snapshots
        if meaning(before, without=replaced, snapshots=kept) != meaning(after, without=replaced, snapshots=kept):
            raise _refused(name, "the new text would mean something else")
        if layout and remarks(before) != remarks(after):
            raise _refused(name, "the new text would lose a comment")


def _check_items(path: Path, text: str, names: Collection[str]) -> None:
    """Raise MS707 if an item of one of the names would have errors."""
    if not names:
        return
    from mslang.ide.findings import findings
    from mslang.sema.modules import load

    with bounded_depth(path):
        module = load(str(path), text)
        found = [d for d in findings(module) if d.severity is Severity.ERROR and d.path in (None, module.path)]
    for name in names:
        placed = module.items.get(name)
        end = 0 if placed is None else placed.start + len(placed.parsed.text)
        for d in found:
            if placed is not None and d.span is not None and placed.start <= d.span.start < end:
                why = f"the new `{name}` would have an error: {d.message}"
                raise MsError(
                    problem(
                        "MS707",
                        f"{path} stays as it is",
                        why=why,
                        help="if it names something of another file, add a `use` of that; otherwise please report it",
                    )
                )


def _refused(name: str, why: str) -> MsError:
    return MsError(
        problem(
            "MS707",
            f"{name} stays as it is",
            why=f"{why}; this is a bug in mslang",
            help="please report it with this file",
        )
    )
