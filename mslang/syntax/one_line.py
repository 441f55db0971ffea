"""A piece of source text on one line."""

from __future__ import annotations

import re

_PIECES = re.compile(r'("(?:\\.|[^"\\])*")|(?:\s|#[^\n]*)+')


def one_line(text: str) -> str:
    """A text with one space for each run of white space and comments outside of its strings.

    >>> one_line('s( # how often\\n  4, "a  b")')
    's( 4, "a  b")'
    """
    return _PIECES.sub(lambda found: found[1] or " ", text).strip()
