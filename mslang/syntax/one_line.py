"""A piece of source text on one line."""

from __future__ import annotations

import re

_PIECES = re.compile(r'("(?:\\.|[^"\\])*")|(\#[^\n]*)|(\s+)')


def one_line(text: str) -> str:
    """A text without its comments, each run of white space outside of strings as one space.

    >>> one_line('s( # how often\\n  4, "a  b")')
    's( 4, "a  b")'
    """

    def piece(found: re.Match[str]) -> str:
        string, comment, _ = found.groups()
        return string if string is not None else "" if comment is not None else " "

    return re.sub(r" +(?=(?:[^\"]*\"(?:\\.|[^\"\\])*\")*[^\"]*$)", " ", _PIECES.sub(piece, text)).strip()
