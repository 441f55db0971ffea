"""Starts of items: an item keyword, or the first `@` of its attributes, in column 1."""

from __future__ import annotations

import re
from functools import lru_cache

from mslang.syntax.lexer import TRIVIA, scan
from mslang.syntax.literals import LONG_QUOTE

ITEM_KEYWORDS = frozenset({"USE", "CONST", "TARGET", "PROGRAM", "SCHEDULE", "RULE", "FN", "SPACE", "INTRIN", "TEST"})
ITEM_HEADS = ITEM_KEYWORDS | {"AT"}

_HEAD = "(?:(?:" + "|".join(sorted(keyword.lower() for keyword in ITEM_KEYWORDS)) + r")\b|@)"


@lru_cache(maxsize=1)
def _landmarks() -> re.Pattern[str]:
    """Item heads, and the tokens (strings, comments) inside which a head does not count, as in the lexer."""
    return re.compile(
        rf'(?P<head>^{_HEAD})|(?P<long>"""(?:.|\n)*?""")|"(?:[^"\\\n]|\\.)*"|`[^`\n]+`|#[^\n]*', re.MULTILINE
    )


@lru_cache(maxsize=1)
def _head_in_string() -> re.Pattern[str]:
    return re.compile(rf"\n(?=(?:[ \t]*#[^\n]*\n)*{_HEAD})")


_TRIVIA = re.compile(r"(?:[ \t\f\r\n]|#[^\n]*)*")
_COMMENT_LINE = re.compile(r"[ \t]*#")


def find_pieces(text: str) -> list[int]:
    """The starts of the pieces of a text, including the comment lines right above; a valid piece is one item."""
    starts: list[int] = []
    first = _skip_trivia(text, 0)
    if first == len(text):
        return starts
    odd_quotes = text.count(LONG_QUOTE) % 2 == 1
    string_end = goes_on = position = 0
    starts.append(_with_comments(text, first, 0))
    while position < len(text):
        for match in _landmarks().finditer(text, position):
            if match["long"] is not None:
                head = _head_in_string().search(match["long"]) if odd_quotes else None
                if head is not None:
                    # A long string that is likely unclosed does not absorb the items after it.
                    position = string_end = match.start() + head.end()
                    break
                string_end = match.end()
            elif match["head"] is not None:
                if match.start() != first and match.start() != goes_on:
                    starts.append(_with_comments(text, match.start(), string_end))
                if match["head"] == "@":
                    goes_on = _after_attribute(text, match.start())
        else:
            break
    return starts


def _skip_trivia(text: str, start: int) -> int:
    match = _TRIVIA.match(text, start)
    return match.end() if match else start


def _with_comments(text: str, start: int, limit: int) -> int:
    """The start of the comment lines right above a place, but not before `limit`."""
    line = text.rfind("\n", 0, start) + 1
    found = start
    while line > limit:
        above = text.rfind("\n", 0, line - 1) + 1
        comment = _COMMENT_LINE.match(text, above, line)
        if above < limit or comment is None:
            break
        found, line = comment.end() - 1, above
    return found


def _after_attribute(text: str, start: int) -> int:
    """The offset after a complete attribute, of its item or the next attribute; 0 if the attribute is incomplete."""
    depth = count = 0
    for token in scan(text, start):
        if token.kind in TRIVIA:
            continue
        count += 1
        if count > 2 and depth == 0 and (count > 3 or token.kind != "LPAR"):
            return token.start
        new_head = token.kind in ITEM_HEADS and count > 1 and text[token.start - 1] == "\n"
        if new_head or (count == 2 and token.kind != "NAME"):
            return 0
        depth += (token.kind == "LPAR") - (token.kind == "RPAR")
    return 0
