"""A Wadler-style pretty-printer: documents declare possible breaks; `render` uses as few as the width allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

WIDTH = 100
INDENT = 4


class Text(msgspec.Struct, frozen=True):
    """Text that is printed verbatim. It may contain newlines (a long string); further text continues at its end."""

    text: str


class Line(msgspec.Struct, frozen=True):
    """A newline, or `flat` where the enclosing group fits on the line. A `hard` one makes its groups break."""

    flat: str = " "
    hard: bool = False
    blank: bool = False


class Suffix(msgspec.Struct, frozen=True):
    """Text at the end of a line that does not count for the width: a comment."""

    text: str


class Nest(msgspec.Struct, frozen=True):
    """A document whose lines are indented further."""

    by: int
    doc: Doc


class Group(msgspec.Struct, frozen=True):
    """A document on one line if it fits; otherwise its own lines (not those of nested groups) become newlines."""

    doc: Doc


class Concat(msgspec.Struct, frozen=True):
    """A concatenation."""

    parts: tuple[Doc, ...]


Doc = Text | Line | Suffix | Nest | Group | Concat

LINE = Line()
SOFTLINE = Line("")
HARDLINE = Line(hard=True)
BLANK_LINE = Line(hard=True, blank=True)
EMPTY = Concat(())


def text(value: str) -> Doc:
    """A document of this text."""
    return Text(value)


def concat(*parts: Doc | str) -> Doc:
    """The concatenation of the parts."""
    return Concat(tuple(Text(p) if isinstance(p, str) else p for p in parts))


def nest(*parts: Doc | str, by: int = INDENT) -> Doc:
    """The parts, their newlines indented further."""
    return Nest(by, concat(*parts))


def group(*parts: Doc | str) -> Doc:
    """The parts, on one line if they fit."""
    return Group(concat(*parts))


def join(separator: Doc | str, docs: Iterable[Doc | str]) -> Doc:
    """The documents with the separator between them."""
    parts: list[Doc | str] = []
    for doc in docs:
        parts += [separator, doc] if parts else [doc]
    return concat(*parts)


def fill(docs: Sequence[Doc | str], separator: str = ",") -> Doc:
    """As many documents per line as fit, with the separator after each but the last."""
    if not docs:
        return EMPTY
    return concat(docs[0], *(concat(separator, group(LINE, doc)) for doc in docs[1:]))


def enclosed(opener: str, docs: Sequence[Doc | str], closer: str) -> Doc:
    """A bracketed list: on one line, or with its contents filled on lines of their own."""
    if not docs:
        return text(opener + closer)
    return group(opener, nest(SOFTLINE, fill(docs)), SOFTLINE, closer)


def block(opener: str, docs: Sequence[Doc | str], closer: str = "}") -> Doc:
    """`opener`, each document on a line of its own and indented, `closer`."""
    if not docs:
        return text(opener + closer)
    return concat(opener, nest(HARDLINE, join(HARDLINE, docs)), HARDLINE, closer)


# A work item: the indentation, whether lines are flat, the document to print.
_Work = tuple[int, bool, Doc]


def render(doc: Doc, width: int = WIDTH, column: int = 0) -> str:
    """The document as text, with lines of at most `width` characters where that is possible.

    `column` is the start column on the first line. No line ends in white space.
    """
    printed: list[str] = []
    stack: list[_Work] = [(0, False, doc)]
    while stack:
        indent, flat, current = stack.pop()
        match current:
            case Text(value):
                printed.append(value)
                newline = value.rfind("\n")
                column = column + len(value) if newline < 0 else len(value) - newline - 1
            case Suffix(value):
                printed.append(value)
            case Line(flat=space, hard=False) if flat:
                printed.append(space)
                column += len(space)
            case Line(blank=blank):
                _strip_end(printed)
                printed.append("\n\n" if blank else "\n")
                printed.append(" " * indent)
                column = indent
            case Concat(parts):
                stack.extend((indent, flat, part) for part in reversed(parts))
            case Nest(by, inner):
                stack.append((indent + by, flat, inner))
            case Group(inner):
                fits = flat or _fits(width - column, (indent, True, inner), stack)
                stack.append((indent, fits, inner))
    _strip_end(printed)
    return "".join(printed)


def _strip_end(printed: list[str]) -> None:
    """Strip spaces at the end of the line."""
    while printed and (not printed[-1] or (not printed[-1].strip(" \t"))):
        printed.pop()
    if printed:
        printed[-1] = printed[-1].rstrip(" ")


def _fits(room: int, first: _Work, rest: Sequence[_Work]) -> bool:
    """Whether the first document, flat, and the text after it up to the next newline fit in the remaining width."""
    stack = [first]
    below = len(rest)
    while room >= 0:
        if not stack:
            if below == 0:
                return True
            below -= 1
            stack.append(rest[below])
        indent, flat, current = stack.pop()
        match current:
            case Text(value):
                if "\n" in value:
                    return room >= value.index("\n")
                room -= len(value)
            case Suffix():
                pass
            case Line(flat=space, hard=hard):
                if hard:
                    return not flat
                if not flat:
                    return True
                room -= len(space)
            case Concat(parts):
                stack.extend((indent, flat, part) for part in reversed(parts))
            case Nest(by, inner):
                stack.append((indent + by, flat, inner))
            case Group(inner):
                stack.append((indent, flat, inner))
    return False
