"""The lexer: one regular expression made from the grammar's terminals. It never fails; its tokens cover the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mslang.caching import cached
from mslang.syntax.tables import load_tables

WHITESPACE = "WS"
BLANKS = " \t\f\r\n"
"""The white-space characters. Others that Python counts as white space are bad text, which is kept."""
COMMENT = "COMMENT"
DOC = "DOC"
TRIVIA = frozenset({WHITESPACE, COMMENT, DOC})
COMMENTS = frozenset({COMMENT, DOC})
ERROR = "ERROR"

# The kinds of tokens that violate a layout rule; they do not occur in the grammar.
DANGLING_DOT = "DANGLING_DOT"
STRAY_OPENER = "STRAY_OPENER"


class Token(NamedTuple):
    """A piece of text: `kind` is a terminal of the grammar, the offsets form a half-open range."""

    kind: str
    text: str
    start: int
    end: int


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    return re.compile(load_tables().lexer.pattern)


def scan(text: str, start: int = 0) -> Iterator[Token]:
    """The tokens of `text` from `start` on, trivia included, without gap or overlap."""
    keyword = load_tables().lexer.keywords.get
    for match in _pattern().finditer(text, start):
        word = match[0]
        kind = match.lastgroup or ERROR
        yield Token(keyword(word, kind) if kind == "NAME" else kind, word, *match.span())


@cached(budget=1 << 17, weight=lambda tokens, text: len(text))
def tokenize(text: str) -> tuple[Token, ...]:
    """All tokens of `text`, trivia included; their concatenation is `text`."""
    return tuple(scan(text))


_CALLEE_ENDS = frozenset({"NAME", "RPAR", "RSQB"})


def significant(tokens: Sequence[Token]) -> list[Token]:
    """The tokens that the parser sees: no trivia, and the two layout rules enforced.

    The name after `.` must be on the same line, and `(` or `[` on the line of its callee or base: otherwise a
    half-typed line would absorb the next one. A token that violates a rule gets a kind that the grammar never accepts.
    """
    found: list[Token] = []
    newline = False
    for token in tokens:
        kind = token.kind
        if kind in TRIVIA:
            newline = newline or "\n" in token.text
            continue
        if newline:
            newline = False
            if found:
                last = found[-1]
                if last.kind == "DOT":
                    found[-1] = last._replace(kind=DANGLING_DOT)
                elif kind in ("LPAR", "LSQB") and last.kind in _CALLEE_ENDS:
                    token = token._replace(kind=STRAY_OPENER)
        found.append(token)
    return found
