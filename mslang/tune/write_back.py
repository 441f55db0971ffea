"""Writing the best schedule back into its file, as source that people can read, diff and edit."""

from __future__ import annotations

from mslang.syntax import tree
from mslang.syntax.format import format_text
from mslang.syntax.parse import parse_file


def with_schedule(path: str, text: str, name: str, schedule: str, doc: str) -> str:
    """The file's text with the schedule `name` replaced by `schedule`, or put at its end if there is none.

    Args:
        path: the name of the file, for the parser.
        text: the contents of the file.
        name: the schedule to replace.
        schedule: the new item's text, without doc comment.
        doc: the text of the comment above it, one or several lines.
    """
    comment = "\n".join(f"## {line}" for line in doc.splitlines())
    new = format_text(f"{comment}\n{schedule.strip()}\n").strip()
    file = parse_file(path, text)
    for placed in file.items:
        if isinstance(placed.item, tree.Schedule) and placed.item.name.text == name:
            end = placed.start + placed.item.span.end
            return f"{text[: placed.start]}{new}{text[end:]}"
    separator = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{separator}{new}\n"
