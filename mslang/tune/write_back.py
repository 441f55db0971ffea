"""Writing the best schedule back into its file, as source that people can read, diff and edit."""

from __future__ import annotations

from mslang.diagnostics import MsError, problem
from mslang.syntax import tree
from mslang.syntax.format import format_text
from mslang.syntax.parse import parse_file


def with_schedule(path: str, text: str, name: str, program: str, schedule: str, doc: str) -> str:
    """The file's text with the schedule `name` replaced by `schedule`, or put at its end if there is none.

    Args:
        path: the name of the file, for the parser and for messages.
        text: the contents of the file.
        name: the schedule to replace.
        program: the program that it is for.
        schedule: the new item's text, without doc comment.
        doc: the text of the comment above it, one or several lines.

    Raises:
        MsError: MS102, the name is taken by something else.
    """
    comment = "\n".join(f"## {line}" for line in doc.splitlines())
    new = format_text(f"{comment}\n{schedule.strip()}\n").strip()
    standing = replaceable(path, text, name, program)
    if standing is not None:
        end = standing.start + standing.item.span.end
        return f"{text[: standing.start]}{new}{text[end:]}"
    separator = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{separator}{new}\n"


def replaceable(path: str, text: str, name: str, program: str) -> tree.PlacedItem | None:
    """The schedule `name` of a program in a file; None if nothing has that name.

    Raises:
        MsError: MS102, something else has it: a schedule of another program, an item of another kind, or what a `use`
            brings in.
    """
    for placed in parse_file(path, text).items:
        item = placed.item
        if name not in _declared(item):
            continue
        if isinstance(item, tree.Schedule) and (item.program is None or item.program[-1].text == program):
            return placed
        what = "a schedule of another program" if isinstance(item, tree.Schedule) else "something else"
        raise MsError(
            problem(
                "MS102",
                f"`{name}` would be declared twice in {path}",
                why=f"the best schedule of `{program}` is called so, and the file has {what} of that name",
                help=f"rename that `{name}`",
            )
        )
    return None


def _declared(item: tree.Item) -> tuple[str, ...]:
    """The names that an item brings into its file."""
    found = (item.alias, *(item.names or ())) if isinstance(item, tree.Use) else (getattr(item, "name", None),)
    return tuple(x.text for x in found if isinstance(x, tree.Name))
