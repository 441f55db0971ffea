"""Where the cursor is: the item, the word being typed, and the tokens before it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mslang.diagnostics import Span
from mslang.ide.snapshot import Snapshot
from mslang.sema.module import Module
from mslang.syntax import tree
from mslang.syntax.lexer import COMMENTS, Token, significant, tokenize
from mslang.syntax.query import item_at


class Cursor(msgspec.Struct, frozen=True, eq=False):
    """A place in a file. `before` are the tokens of the item before the word at the cursor (comments and white space
    apart), their offsets counting from the item, which starts at `start`; `word` is what is typed of the word so far.
    `silent` says that the cursor is in a comment or a string, where nothing is completed.
    """

    module: Module
    placed: tree.PlacedItem | None
    offset: int
    start: int
    word: str
    replaced: Span
    before: tuple[Token, ...]
    silent: bool

    @property
    def relative(self) -> int:
        """The offset in the item."""
        return self.offset - self.start

    def kind(self, back: int = 1) -> str:
        """The kind of the token so many tokens before the word; "" if there is none."""
        return self.before[-back].kind if len(self.before) >= back else ""


def cursor_at(snapshot: Snapshot, path: str, offset: int) -> Cursor:
    """The cursor at an offset of a file."""
    module = snapshot.module(path)
    file = module.file
    placed = item_at(file, offset)
    start, text = (placed.start, placed.parsed.text) if placed else (0, file.leading)
    end = offset - start
    tokens = [t for t in tokenize(text) if t.start < end]
    last = tokens[-1] if tokens else None
    word_start = end
    while word_start > 0 and (text[word_start - 1].isalnum() or text[word_start - 1] == "_"):
        word_start -= 1
    if text[word_start : word_start + 1].isdigit():
        word_start = end
    word_end = end
    while word_end < len(text) and (text[word_end].isalnum() or text[word_end] == "_"):
        word_end += 1
    silent = last is not None and ((last.kind in COMMENTS) or (last.kind == "STRING" and end < last.end))
    before = tuple(significant([t for t in tokens if t.end <= word_start]))
    return Cursor(
        module, placed, offset, start, text[word_start:end], Span(word_start + start, word_end + start), before, silent
    )


_OPENING = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}


def enclosing(tokens: Sequence[Token]) -> int | None:
    """The index of the innermost bracket that is open after the tokens."""
    depth = 0
    for k in range(len(tokens) - 1, -1, -1):
        kind = tokens[k].kind
        if kind in _OPENING:
            depth += 1
        elif kind in _OPENING.values() or kind == "STRAY_OPENER":
            if depth == 0:
                return k
            depth -= 1
    return None


def operand_before(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens of the names, calls and look-ups that end the tokens: `mm.loops()[0]` of `let x = mm.loops()[0]`."""
    k = len(tokens)
    while k > 0:
        kind = tokens[k - 1].kind
        if kind in ("RPAR", "RSQB"):
            opening = enclosing(tokens[: k - 1])
            if opening is None:
                break
            k = opening
            if k == 0 or not (tokens[k - 1].kind in ("RPAR", "RSQB") or _is_name(tokens[k - 1])):
                break
        elif _is_name(tokens[k - 1]):
            k -= 1
            if k == 0 or tokens[k - 1].kind not in ("DOT", "DANGLING_DOT"):
                break
            k -= 1
        else:
            break
    return tokens[k:]


def _is_name(token: Token) -> bool:
    return token.text[0].isidentifier() or token.kind == "NAME"
