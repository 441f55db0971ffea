"""Queries of an editor on a parsed file: what is at an offset, and which tokens are accepted there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from mslang.diagnostics import Span
from mslang.syntax.lexer import TRIVIA, Token, significant, tokenize
from mslang.syntax.machine import Machine
from mslang.syntax.recovery import Recovery
from mslang.syntax.split import ITEM_HEADS
from mslang.syntax.tables import END, load_tables
from mslang.syntax.tree import File, Node, PlacedItem


class LineIndex(msgspec.Struct, frozen=True):
    """Converts between offsets of a text and lines and columns, both from 0."""

    starts: tuple[int, ...]
    length: int

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset; one outside the text is clamped."""
        inside = min(max(offset, 0), self.length)
        line = bisect_right(self.starts, inside) - 1
        return line, inside - self.starts[line]

    def offset(self, line: int, column: int) -> int:
        """The offset of a position; one outside the text is clamped."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return self.length
        end = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else self.length
        return min(self.starts[line] + max(column, 0), end)


@lru_cache(maxsize=64)
def line_index(text: str) -> LineIndex:
    """The index of a text."""
    starts = [0]
    place = text.find("\n")
    while place >= 0:
        starts.append(place + 1)
        place = text.find("\n", place + 1)
    return LineIndex(tuple(starts), len(text))


def item_at(file: File, offset: int) -> PlacedItem | None:
    """The item whose text contains an offset; at the end of the file the last one."""
    k = bisect_right(file.items, offset, key=lambda placed: placed.start) - 1
    return file.items[k] if k >= 0 else None


def node_path(file: File, offset: int) -> tuple[Node, ...]:
    """The nodes that contain an offset, from the item inwards; empty outside of items. Spans are relative to the item.

    A node also contains the offset right at its end, but a node that starts there is preferred.
    """
    placed = item_at(file, offset)
    if placed is None or not _holds(placed.item.span, offset - placed.start):
        return ()
    path: list[Node] = [placed.item]
    while (inner := _child_at(path[-1], offset - placed.start)) is not None:
        path.append(inner)
    return tuple(path)


def children(node: Node) -> tuple[Node, ...]:
    """The child nodes of a node, in text order."""
    found: list[Node] = []
    for name in node.__struct_fields__:
        value = getattr(node, name)
        found += [part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Node)]
    return tuple(sorted(found, key=lambda child: child.span))


def token_at(file: File, offset: int) -> Token | None:
    """The token that contains an offset; its own offsets are relative to the file.

    Between two tokens, the one that is not trivia is preferred, then the one that is a word.
    """
    start, tokens = _tokens(file, offset)
    last = bisect_right(tokens, offset - start, key=lambda token: token.start)
    found: Token | None = None
    for token in tokens[max(last - 2, 0) : last]:
        if offset - start <= token.end and (found is None or _weight(token) >= _weight(found)):
            found = token
    return None if found is None else _shifted(found, start)


def token_before(file: File, offset: int) -> Token | None:
    """The last token other than trivia that ends at or before an offset."""
    start, tokens = _tokens(file, offset)
    last = bisect_right(tokens, offset - start, key=lambda token: token.end)
    before = next((token for token in reversed(tokens[:last]) if token.kind not in TRIVIA), None)
    return None if before is None else _shifted(before, start)


def expected_at(file: File, offset: int) -> frozenset[str]:
    """The terminals of the grammar accepted at an offset; a word that ends there counts as being typed.

    Syntax errors before the offset are repaired; the text after it is ignored.
    """
    placed = item_at(file, offset)
    if placed is None:
        return ITEM_HEADS
    text = placed.parsed.text[: offset - placed.start]
    tokens = significant(tokenize(text))
    if tokens and tokens[-1].end == len(text) and tokens[-1].text[-1].isidentifier():
        tokens.pop()
    if not tokens:
        return ITEM_HEADS
    machine = Machine("item")
    whole = all(machine.feed(token) for token in tokens)
    kinds = machine.expected() if whole else Recovery(text, tokens, "item").expected()
    return (kinds - {END}) | ITEM_HEADS if END in kinds else kinds


def keywords_at(file: File, offset: int) -> tuple[str, ...]:
    """The keywords accepted at an offset, in alphabetical order."""
    keywords = load_tables().lexer.keywords
    expected = expected_at(file, offset)
    return tuple(sorted(word for word, kind in keywords.items() if kind in expected))


def _holds(span: Span, offset: int) -> bool:
    return span.start <= offset <= span.end


def _child_at(node: Node, offset: int) -> Node | None:
    holding = [child for child in children(node) if _holds(child.span, offset)]
    return holding[-1] if holding else None


def _weight(token: Token) -> int:
    return 0 if token.kind in TRIVIA else 2 if token.text[0].isidentifier() else 1


def _tokens(file: File, offset: int) -> tuple[int, Sequence[Token]]:
    """Where the item at an offset starts and its tokens, or those of the text before all items."""
    placed = item_at(file, offset)
    start, text = (placed.start, placed.parsed.text) if placed else (0, file.leading)
    return start, tokenize(text)


def _shifted(token: Token, by: int) -> Token:
    return Token(token.kind, token.text, token.start + by, token.end + by)
