"""The position encodings of LSP."""

from __future__ import annotations

from enum import Enum


class Encoding(Enum):
    """The unit of positions: code units of UTF-8 or UTF-16, or characters (UTF-32)."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"

    def units(self, text: str) -> int:
        """The length of a text in code units."""
        match self:
            case Encoding.UTF32:
                return len(text)
            case _ if text.isascii():
                return len(text)
            case Encoding.UTF16:
                return len(text) + sum(c > "\uffff" for c in text)
            case Encoding.UTF8:
                return len(text.encode("utf-8", "surrogatepass"))

    def characters(self, line: str, units: int) -> int:
        """The number of whole characters in the first `units` code units of a line."""
        if units <= 0:
            return 0
        if self is Encoding.UTF32 or line.isascii():
            return min(units, len(line))
        left = units
        for k, character in enumerate(line):
            left -= self.units(character)
            if left < 0:
                return k
        return len(line)
