"""Where items begin: at an item keyword, or the first `@` of its attributes, in column 1."""

from __future__ import annotations

import re
from collections.abc import Container
from enum import Enum, auto
from typing import NamedTuple

from mslang.syntax.lexer import COMMENTS, ERROR, WHITESPACE, Token, scan
from mslang.syntax.literals import LONG_QUOTE

ITEM_KEYWORDS = frozenset(
    {"USE", "CONST", "TARGET", "PROGRAM", "SCHEDULE", "RULE", "FN", "SPACE", "INTRIN", "TEST"}
)
ITEM_HEADS = ITEM_KEYWORDS | {"AT"}


class _Attributes(Enum):
    """How far the attributes before an item's keyword have been read."""

    NONE = auto()
    AT = auto()
    NAME = auto()
    ARGUMENTS = auto()
    WHOLE = auto()


class Splitter:
    """Takes the tokens one by one and finds where items start, the comment lines right above them included."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self._attributes = _Attributes.NONE
        self._depth = 0
        self._comments: int | None = None
        self._first_on_line = True
        self._column_one = True

    def take(self, token: Token) -> None:
        """Look at the next token."""
        if token.kind == WHITESPACE:
            self._take_whitespace(token.text)
        elif token.kind in COMMENTS:
            if self._first_on_line and self._comments is None:
                self._comments = token.start
            self._first_on_line = self._column_one = False
        else:
            self._take_significant(token)
            self._comments = None
            self._first_on_line = self._column_one = False

    def at_boundary(self) -> bool:
        """Would the start of an item here be one whatever stood before?"""
        return self._comments is None and self._attributes is _Attributes.NONE

    def _take_whitespace(self, text: str) -> None:
        newlines = text.count("\n")
        if newlines > 1:
            self._comments = None
        self._first_on_line = self._first_on_line or newlines > 0
        self._column_one = text.endswith("\n")

    def _take_significant(self, token: Token) -> None:
        is_head = token.kind in ITEM_HEADS
        goes_on = is_head and self._attributes in (_Attributes.NAME, _Attributes.WHOLE)
        if not self.starts or (is_head and self._column_one and not goes_on):
            self.starts.append(token.start if self._comments is None else self._comments)
            self._attributes = _Attributes.AT if token.kind == "AT" else _Attributes.NONE
        else:
            self._attributes = self._after(token.kind)

    def _after(self, kind: str) -> _Attributes:
        """How far the attributes have been read after one more token."""
        match self._attributes:
            case _Attributes.AT if kind == "NAME":
                return _Attributes.NAME
            case _Attributes.NAME if kind == "LPAR":
                self._depth = 1
                return _Attributes.ARGUMENTS
            case _Attributes.ARGUMENTS:
                self._depth += (kind == "LPAR") - (kind == "RPAR")
                return _Attributes.ARGUMENTS if self._depth else _Attributes.WHOLE
            case _Attributes.NAME | _Attributes.WHOLE if kind == "AT":
                return _Attributes.AT
        return _Attributes.NONE


_HEAD = r"(?:[ \t]*#[^\n]*\n)*(?:(?:" + "|".join(sorted(k.lower() for k in ITEM_KEYWORDS)) + r")\b|@)"
_HEAD_PATTERN = re.compile(_HEAD)
_HEAD_IN_STRING = re.compile("\n(?=" + _HEAD + ")")


class Pieces(NamedTuple):
    """Where pieces of a text start, and where the splitting stopped."""

    starts: tuple[int, ...]
    end: int


def has_odd_quotes(text: str) -> bool:
    """Is a `\"\"\"` without its partner likely? Then a long string does not reach across the head of an item."""
    return text.count(LONG_QUOTE) % 2 == 1


def looks_like_head(text: str, at: int) -> bool:
    """Does an item, or the comment right above one, begin here, in column 1?"""
    return (at == 0 or text[at - 1] == "\n") and _HEAD_PATTERN.match(text, at) is not None


def find_pieces(text: str, start: int = 0, stops: Container[int] = ()) -> Pieces:
    """The starts of the pieces of `text` from `start` on, up to the first piece that starts at one of `stops`."""
    splitter = Splitter()
    odd_quotes = has_odd_quotes(text)
    position = start
    while position < len(text):
        for token in scan(text, position):
            if token.start in stops and splitter.at_boundary() and looks_like_head(text, token.start):
                return Pieces(tuple(splitter.starts), token.start)
            head = _HEAD_IN_STRING.search(token.text) if odd_quotes and token.kind == "STRING" else None
            if head is not None:
                position = token.start + head.end()
                splitter.take(token._replace(kind=ERROR))
                splitter.take(Token(WHITESPACE, "\n", position - 1, position))
                break
            splitter.take(token)
        else:
            break
    return Pieces(tuple(splitter.starts), len(text))
