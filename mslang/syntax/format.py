"""The standard layout of `.ms` text: lines of 100 characters, 4 spaces; comments and meaning are preserved.

Formatting is idempotent. Text that cannot be parsed is left unchanged, and so is a broken item, or a broken file, that
would be another one, or have more errors, in the standard layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mslang.caching import cached
from mslang.diagnostics import Span
from mslang.syntax import tree
from mslang.syntax.arrange import Arranger, Entry, stack
from mslang.syntax.arrange_broken import arrange_broken
from mslang.syntax.lexer import BLANKS, COMMENTS, WHITESPACE, significant, tokenize
from mslang.syntax.meaning import same_meaning
from mslang.syntax.parse import parse_file, parse_piece
from mslang.syntax.pretty import Text, render
from mslang.syntax.tree import File, ParsedItem


class Edit(NamedTuple):
    """Replace `span` by `text`."""

    span: Span
    text: str


def format_text(text: str) -> str:
    """The text in the standard layout."""
    return format_file(parse_file("", text))


def format_file(file: File) -> str:
    """The text of a parsed file in the standard layout.

    Recovery may parse broken text differently once it is formatted, so formatting is repeated until nothing changes;
    text that does not converge stays unchanged.
    """
    before = file
    for _ in range(_PASSES):
        after = _laid_out(before)
        if after == before.text:
            return after if before is file or _same_items(file, before) else file.text
        before = parse_file(file.path, after)
    return file.text


def _same_items(file: File, formatted: File) -> bool:
    """Whether a broken file, once formatted, is still read as the same items; they may depend on how lines begin."""
    if not file.diagnostics:
        return True
    return same_meaning([p.parsed for p in file.items], [p.parsed for p in formatted.items])


_PASSES = 6


def _laid_out(file: File) -> str:
    parts = [_format_trivia(file.leading)] if file.leading.strip(BLANKS) else []
    last: ParsedItem | None = None
    for placed in file.items:
        if parts:
            parts.append("\n" * (1 + _blank_between(file, placed, last)))
        parts.append(format_item(placed.parsed))
        last = placed.parsed
    return "".join(parts) + "\n" if parts else ""


def format_range(text: str, span: Span) -> tuple[Edit, ...]:
    """The edits that bring the items that overlap a range into the standard layout."""
    file = parse_file("", text)
    edits: list[Edit] = []
    for placed in file.items:
        end = placed.start + len(placed.parsed.text.rstrip(BLANKS))
        if placed.start <= span.end and span.start <= end:
            formatted = format_item(placed.parsed)
            if formatted != text[placed.start : end]:
                edits.append(Edit(Span(placed.start, end), formatted))
    return tuple(edits)


def _blank_between(file: File, placed: tree.PlacedItem, last: ParsedItem | None) -> bool:
    """Whether an empty line precedes an item; between items that form groups, only if the source has one."""
    item = placed.item
    before = file.text[: placed.start]
    was_blank = before[len(before.rstrip(BLANKS)) :].count("\n") > 1
    if last is None or isinstance(item, tree.BadItem):
        return was_blank
    grouped = isinstance(item, tree.Use | tree.Const) and type(item) is type(last.item)
    return was_blank or not grouped


def _format_trivia(text: str) -> str:
    """Comments without an item."""
    entries: list[Entry] = []
    blank = False
    for token in tokenize(text):
        if token.kind == WHITESPACE:
            blank = token.text.count("\n") > 1
        else:
            entries.append(Entry(Text(token.text.rstrip(BLANKS)), blank))
            blank = False
    return render(stack(entries))


@cached(budget=1 << 20, weight=lambda formatted, parsed: 100 + len(parsed.text))
def format_item(parsed: ParsedItem) -> str:
    """The text of one item with its comments, in the standard layout."""
    written = parsed.text.rstrip(BLANKS)
    if not parsed.diagnostics:
        formatted = render(stack(Arranger(parsed.item, tokenize(parsed.text)).item()))
        return formatted if _same_tokens(written, formatted) else written
    entries = arrange_broken(parsed)
    if entries is None:
        return written
    formatted = render(stack(entries))
    return formatted if _same_tokens(written, formatted) and _is_settled(parsed, formatted) else written


def _is_settled(parsed: ParsedItem, text: str) -> bool:
    """Whether a broken item, once formatted, is the same item and stays so; if not, recovery parsed it differently."""
    items = parse_piece(text)
    if len(items) != 1 or not same_meaning([parsed], [items[0][1]]):
        return False
    entries = arrange_broken(items[0][1])
    return entries is not None and render(stack(entries)) == text


def _same_tokens(before: str, after: str) -> bool:
    """Whether two texts have the same tokens and comments: layout must change only white space."""
    return list(_essence(before)) == list(_essence(after))


def _essence(text: str) -> Iterator[tuple[str, str]]:
    tokens = tokenize(text)
    for token in significant(tokens):
        yield token.kind, token.text
    for token in tokens:
        if token.kind in COMMENTS:
            yield token.kind, token.text.rstrip(BLANKS)
