"""Recovery of a piece of a file that does not parse: items with `Bad` parts, and `BadItem`s."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.diagnostics import Diagnostic, Span
from mslang.syntax import messages
from mslang.syntax.docs import with_doc
from mslang.syntax.fixes import apart
from mslang.syntax.habits import in_words_of_this_language
from mslang.syntax.layout import Layout
from mslang.syntax.lexer import ERROR, Token, significant, tokenize
from mslang.syntax.messages import CLOSERS
from mslang.syntax.recovery import Recovery
from mslang.syntax.split import ITEM_HEADS, ITEM_KEYWORDS
from mslang.syntax.tree import BadItem, Name, ParsedItem

Pieces = tuple[tuple[int, ParsedItem], ...]


def recover_items(text: str) -> Pieces:
    """The items of a broken piece, each with its offset; together they cover the text."""
    pieces: list[tuple[int, ParsedItem]] = []
    offset = 0
    while offset < len(text):
        parsed = _first_item(text[offset:])
        pieces.append((offset, parsed))
        offset += len(parsed.text)
    return tuple(pieces)


def _first_item(text: str) -> ParsedItem:
    """The item at the start of a broken text, and the length of its text."""
    tokens = tokenize(text)
    visible = significant(tokens)
    if visible[0].kind not in ITEM_HEADS:
        return _bad_item(text, tokens, visible, 1, (apart(text, _stray(visible[0])),))
    outcome = Recovery(text, visible, "item").run()
    found = tuple(apart(text, d) for d in in_words_of_this_language(text, visible, outcome.diagnostics))
    if outcome.value is None:
        return _bad_item(text, tokens, outcome.tokens, max(outcome.read, 1), found)
    end = outcome.tokens[outcome.read].start if outcome.read < len(outcome.tokens) else len(text)
    return ParsedItem(text[:end], with_doc(outcome.value, tokens), found)


def _stray(token: Token) -> Diagnostic:
    """Text that does not start an item."""
    if token.kind == ERROR:
        return messages.bad_text(token)
    return messages.closes_nothing(token) if token.kind in CLOSERS else messages.outside(token)


def _bad_item(
    text: str, tokens: Sequence[Token], visible: Sequence[Token], fault: int, diagnostics: tuple[Diagnostic, ...]
) -> ParsedItem:
    """A piece up to the likely start of the next item, at the token of index `fault` or later."""
    layout = Layout(text, visible)
    stop = next(
        (
            k
            for k in range(fault, len(visible))
            if visible[k].kind in ITEM_KEYWORDS
            and (k == fault or layout.first_on_line(visible[k]))
            and visible[k - 1].kind != "AT"
        ),
        len(visible),
    )
    end = visible[stop].start if stop < len(visible) else len(text)
    head = visible[:stop]
    keyword = next((k for k, token in enumerate(head) if token.kind in ITEM_KEYWORDS), None)
    name = None
    if keyword is not None and keyword + 1 < len(head) and head[keyword + 1].kind == "NAME":
        word = head[keyword + 1]
        name = Name(messages.span_of(word), word.text.strip("`"))
    span = Span(head[0].start, head[-1].end)
    item = BadItem(span, (), "", "" if keyword is None else head[keyword].text, name, text[span.start : span.end])
    return ParsedItem(text[:end], with_doc(item, tokens), diagnostics)
