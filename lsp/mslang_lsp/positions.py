"""Between the protocol's positions, counted in the negotiated encoding, and offsets of characters."""

from __future__ import annotations

from lsprotocol.types import Position, Range

from mslang.diagnostics import Span
from mslang.syntax.query import line_index
from mslang_lsp.units import Encoding


class Positions:
    """The positions in a text whose lines end with `\\n`."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._text = text
        self._index = line_index(text)
        self._encoding = encoding

    def offset(self, position: Position) -> int:
        """The offset of a position; one outside the text counts as the nearest place in it."""
        start = self._index.offset(position.line, 0)
        line = self._text[start : self._index.offset(position.line + 1, 0)]
        return self._index.offset(position.line, self._encoding.characters(line, position.character))

    def position(self, offset: int) -> Position:
        """The position of an offset."""
        line, column = self._index.position(offset)
        start = self._index.starts[line]
        return Position(line, self._encoding.units(self._text[start : start + column]))

    def range(self, span: Span) -> Range:
        """The range of a span."""
        return Range(self.position(span.start), self.position(span.end))

    def span(self, range: Range) -> Span:
        """The span of a range; the ends of a reversed range are swapped."""
        start, end = sorted((self.offset(range.start), self.offset(range.end)))
        return Span(start, end)
