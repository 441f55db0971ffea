"""The values of literals."""

from __future__ import annotations

import re

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_ESCAPE = re.compile(r"\\(.)")
_MOST_DIGITS = 1000
_TOO_GREAT = 10**_MOST_DIGITS
"""The value of a number with too many digits: greater than any meaningful one, and cheap to print."""

LONG_QUOTE = '"""'


def number_value(text: str) -> int | float:
    """The value of `12`, `1_000`, `0xff`, `1.5` or `1e-4`."""
    if text.startswith("0x"):
        return int(text[2:], 16) if len(text) <= _MOST_DIGITS else _TOO_GREAT
    digits = text.replace("_", "")
    if digits.isdecimal():
        return int(digits) if len(digits) <= _MOST_DIGITS else _TOO_GREAT
    return float(digits)


def size_value(text: str) -> int:
    """The number of bytes of `164KiB`."""
    digits = text[:-3]
    return int(digits) * _UNITS[text[-3:]] if len(digits) <= _MOST_DIGITS else _TOO_GREAT


def string_value(text: str) -> str:
    r"""The text of a string literal. The escapes of `"…"` are `\n`, `\t`, `\r`, `\0`; any other character is itself."""
    if text.startswith(LONG_QUOTE) and len(text) >= 2 * len(LONG_QUOTE):
        return text[3:-3]
    return _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])


def quote(value: str) -> str:
    """A short string literal with this value."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in _ESCAPES.items():
        escaped = escaped.replace(character, "\\" + letter)
    return f'"{escaped}"'
