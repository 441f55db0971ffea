"""Folding ranges: brackets over several lines, comments, and the `use` lines at the head of a file."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mslang.diagnostics import Span
from mslang.ide.snapshot import Snapshot
from mslang.syntax import tree
from mslang.syntax.lexer import COMMENTS, Token, tokenize

_CLOSING = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}


class Fold(msgspec.Struct, frozen=True):
    """A range that can be folded; `kind` is one of LSP's, or None. The last line of a bracket stays visible."""

    span: Span
    kind: str | None = None


def folding(snapshot: Snapshot, path: str) -> tuple[Fold, ...]:
    """The ranges of a file that can be folded, each over more than one line.

    Raises:
        MsError: the file cannot be read.
    """
    file = snapshot.module(path).file
    found = [*_brackets(file.text), *_comments(file.text), *_imports(file)]
    return tuple(f for f in sorted(found, key=lambda f: f.span) if "\n" in file.text[f.span.start : f.span.end])


def _brackets(text: str) -> Iterator[Fold]:
    opened: list[Token] = []
    for token in tokenize(text):
        if token.kind in _CLOSING.values():
            opened.append(token)
        elif token.kind in _CLOSING:
            # What is never closed is not a range.
            while opened and opened[-1].kind != _CLOSING[token.kind]:
                opened.pop()
            if opened:
                yield Fold(Span(opened.pop().start, text.rfind("\n", 0, token.start) + 1 or token.start))


def _comments(text: str) -> Iterator[Fold]:
    """Comments on lines of their own, one right under the other."""
    start = end = -1
    for token in tokenize(text):
        if token.kind not in COMMENTS:
            continue
        line = text.rfind("\n", 0, token.start) + 1
        if text[line : token.start].strip():
            continue
        if end >= 0 and text[end:line] == "\n":
            end = token.end
            continue
        yield Fold(Span(max(start, 0), max(end, 0)), "comment")
        start, end = line, token.end
    yield Fold(Span(max(start, 0), max(end, 0)), "comment")


def _imports(file: tree.File) -> Iterator[Fold]:
    uses = [p for p in file.items if isinstance(p.item, tree.Use)]
    if uses:
        together = [p for p, at in zip(file.items, uses, strict=False) if p is at]
        if together:
            yield Fold(Span(together[0].start, together[-1].start + together[-1].item.span.end), "imports")
