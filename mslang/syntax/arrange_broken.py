"""The layout of a broken item: its valid statements are formatted, the erroneous ones stay as written."""

from __future__ import annotations

from itertools import pairwise

from mslang.syntax import tree
from mslang.syntax.arrange import Arranger, Entry, stack
from mslang.syntax.lexer import BLANKS, TRIVIA, tokenize
from mslang.syntax.parse import parse_piece
from mslang.syntax.pretty import HARDLINE, Text, concat, nest
from mslang.syntax.tree import ParsedItem

_WRAPPER = "fn f() {\n"
_Compound = tree.Program | tree.Schedule | tree.Rule | tree.Fn | tree.Test


def arrange_broken(parsed: ParsedItem) -> list[Entry] | None:
    """The entries of an item with syntax errors; None if its outline is broken, too."""
    item = parsed.item
    if not isinstance(item, _Compound) or item.body is None or not item.body.closed:
        return None
    body = item.body
    if not body.statements or not _is_trivia(parsed.text[body.span.end :]):
        return None
    header = _sound(parsed.text[: body.span.start] + "{}")
    if header is None:
        return None
    *above, head = Arranger(header.item, tokenize(header.text)).header()
    entries = _statements(parsed.text, body)
    doc = concat(head.doc, " {", nest(HARDLINE, stack(entries)), HARDLINE, "}")
    return [*above, Entry(doc, head.blank), *_comments(parsed.text[body.span.end :])]


def _statements(text: str, body: tree.Body) -> list[Entry]:
    """The statements of a body; each extends to the start of the next."""
    starts = _starts(text, body)
    entries = _comments(text[body.span.start + 1 : starts[0]])
    for start, end in zip(starts, [*starts[1:], body.span.end - 1], strict=True):
        before = text[:start]
        blank = before[len(before.rstrip(BLANKS)) :].count("\n") > 1
        region = text[start:end]
        sound = _sound(f"{_WRAPPER}{region}\n}}")
        found = Arranger(sound.item, tokenize(sound.text)).contents() if sound else []
        # A region without a valid statement keeps its text.
        first, *rest = found or [Entry(Text(region.strip(BLANKS)), False)]
        entries += [first._replace(blank=blank), *rest]
    return entries


def _starts(text: str, body: tree.Body) -> list[int]:
    """The starts of the statements, without those that follow an error on its line: where they start is a guess."""
    spans = [statement.span for statement in body.statements]
    starts = [spans[0].start]
    broken = False
    for last, span in pairwise(spans):
        shared = "\n" not in text[last.end : span.start]
        broken = shared and (broken or _sound(f"{_WRAPPER}{text[starts[-1] : span.end]}\n}}") is None)
        if not broken:
            starts.append(span.start)
    return starts


def _comments(text: str) -> list[Entry]:
    """Comments without a statement."""
    sound = _sound(f"{_WRAPPER}{text}\n}}")
    return Arranger(sound.item, tokenize(sound.text)).contents() if sound else []


def _sound(text: str) -> ParsedItem | None:
    """The item of a text without syntax errors."""
    pieces = parse_piece(text)
    if len(pieces) != 1 or pieces[0][1].diagnostics:
        return None
    return pieces[0][1]


def _is_trivia(text: str) -> bool:
    return all(token.kind in TRIVIA for token in tokenize(text))
