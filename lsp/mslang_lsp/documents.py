"""The documents that the client has open.

LSP ends a line at `\\r\\n`, `\\n` or `\\r` and at nothing else. Edits are applied to the text as the client holds it.
The analysis sees the same lines ended by `\\n`, so a position (line, character) means the same place in both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec
from lsprotocol.types import Position, Range, TextDocumentContentChangePartial, TextDocumentContentChangeWholeDocument

from mslang_lsp.units import Encoding

Change = TextDocumentContentChangePartial | TextDocumentContentChangeWholeDocument

_LINE_END = re.compile("\r\n|\n|\r")


class Document(msgspec.Struct, frozen=True):
    """An open document: its version, and its text as the client holds it."""

    version: int
    raw: str

    @property
    def text(self) -> str:
        """The text as the analysis sees it: every line ends with `\\n`."""
        return with_newlines(self.raw)

    @property
    def line_end(self) -> str:
        """The most frequent line end of the document, `\\n` if it has none."""
        found = Counter(_LINE_END.findall(self.raw))
        return found.most_common(1)[0][0] if found else "\n"

    def changed(self, version: int, changes: Sequence[Change], encoding: Encoding) -> Document:
        """The document after the changes, each counted on the text that the one before it made."""
        raw = self.raw
        for change in changes:
            if isinstance(change, TextDocumentContentChangePartial):
                start, end = sorted(_offsets(raw, change.range, encoding))
                raw = raw[:start] + change.text + raw[end:]
            else:
                raw = change.text
        return Document(version, raw)


def with_newlines(raw: str) -> str:
    """A text with every line end as `\\n`, and a byte order mark at its start as a space."""
    text = raw.replace("\r\n", "\n").replace("\r", "\n") if "\r" in raw else raw
    return f" {text[1:]}" if text.startswith("\ufeff") else text


def _offsets(raw: str, range: Range, encoding: Encoding) -> tuple[int, int]:
    """The offsets of a range; a place outside the text counts as the nearest one in it."""
    starts, ends = [0], []
    for found in _LINE_END.finditer(raw):
        ends.append(found.start())
        starts.append(found.end())
    ends.append(len(raw))

    def offset(position: Position) -> int:
        if position.line >= len(starts):
            return len(raw)
        line = max(position.line, 0)
        return starts[line] + encoding.characters(raw[starts[line] : ends[line]], position.character)

    return offset(range.start), offset(range.end)
