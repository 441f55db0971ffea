"""Doc comments: trivia to the parser; they belong to the item directly below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from mslang.syntax.lexer import DOC, TRIVIA, WHITESPACE, Token
from mslang.syntax.tree import Item

AnItem = TypeVar("AnItem", bound=Item)


def doc_above(tokens: Sequence[Token]) -> str:
    """The text of the `##` lines right above the first token that is not trivia."""
    lines: list[str] = []
    for token in tokens:
        if token.kind == DOC:
            lines.append(token.text[2:].removeprefix(" ").rstrip())
        elif token.kind == WHITESPACE and token.text.count("\n") > 1:
            lines.clear()
        elif token.kind not in TRIVIA:
            break
    return "\n".join(lines)


def with_doc(item: AnItem, tokens: Sequence[Token]) -> AnItem:
    """The item with the doc comment at the start of its tokens."""
    doc = doc_above(tokens)
    return msgspec.structs.replace(item, doc=doc) if doc else item
