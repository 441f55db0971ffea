"""Between the protocol's positions, counted in the encoding agreed on, and offsets of characters."""

from __future__ import annotations

from lsprotocol.types import Position, Range
from pygls.workspace import PositionCodec

from mslang.diagnostics import Span
from mslang.syntax.query import line_index


class Positions:
    """The positions of one text."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self._text = text
        self._index = line_index(text)
        self._codec = codec

    def offset(self, position: Position) -> int:
        """The offset of a position; one outside the text counts as the nearest place in it."""
        start = self._index.offset(position.line, 0)
        line = self._text[start : self._index.offset(position.line + 1, 0)]
        inside = self._codec.position_from_client_units([line], Position(0, position.character))
        return self._index.offset(position.line, inside.character)

    def position(self, offset: int) -> Position:
        """The position of an offset."""
        line, column = self._index.position(offset)
        start = self._index.starts[line]
        return Position(line, self._codec.client_num_units(self._text[start : start + column]))

    def range(self, span: Span) -> Range:
        """The range of a span."""
        return Range(self.position(span.start), self.position(span.end))

    def span(self, range: Range) -> Span:
        """The span of a range."""
        return Span(self.offset(range.start), self.offset(range.end))
