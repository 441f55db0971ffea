"""From the tokens of one faultless item to a document for the printer: the vertical half of the layout."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from mslang.syntax.lexer import BLANKS, COMMENTS, TRIVIA, Token, significant
from mslang.syntax.marks import find_marks
from mslang.syntax.pretty import (
    BLANK_LINE,
    EMPTY,
    HARDLINE,
    LINE,
    SOFTLINE,
    Doc,
    Suffix,
    Text,
    concat,
    group,
    nest,
)
from mslang.syntax.spacing import is_prefix, needs_space
from mslang.syntax.tree import Item

_OPENERS = frozenset({"LPAR", "LSQB", "LBRACE"})
_CLOSERS = frozenset({"RPAR", "RSQB", "RBRACE"})
# Operators before which a long expression may break.
_BREAKS = frozenset({"AND", "OR", "CMP", "SUM", "STAR", "MUL", "VBAR", "THEN"})
_COMMENT_GAP = "  "


class Entry(NamedTuple):
    """A document on lines of its own; `blank`: an empty line precedes it."""

    doc: Doc
    blank: bool


class Comment(NamedTuple):
    """A comment before a token; `trailing` if it ends the line of the token before."""

    text: str
    trailing: bool
    blank: bool


class Gap(NamedTuple):
    """The trivia between a token and the token before it."""

    comments: tuple[Comment, ...]
    newline: bool
    blank: bool


def stack(entries: Sequence[Entry]) -> Doc:
    """The entries, each on a new line."""
    parts: list[Doc] = []
    for entry in entries:
        if parts:
            parts.append(BLANK_LINE if entry.blank else HARDLINE)
        parts.append(entry.doc)
    return concat(*parts)


class Arranger:
    """Lays out the tokens of an item by its tree."""

    def __init__(self, item: Item, tokens: Sequence[Token]) -> None:
        self._tokens = significant(tokens)
        self._gaps = _gaps(tokens)
        self._marks = find_marks(item, self._tokens)
        self._closing = _closing(self._tokens)
        starts = [token.start for token in self._tokens]
        self._heads = sorted({0, *(bisect_left(starts, attribute.span.end) for attribute in item.attributes)})

    def item(self) -> list[Entry]:
        """The item with the comments before and after it."""
        return self._entries(self._heads, len(self._tokens))

    def header(self) -> list[Entry]:
        """The header: the item without the empty block at its end."""
        return self._entries(self._heads, len(self._tokens) - 2)

    def contents(self) -> list[Entry]:
        """The contents of the block at the end of the item, or the text after its brace."""
        return self._entries(self._units_in(self._closing_opener()), len(self._tokens) - 1)

    def _closing_opener(self) -> int:
        last = len(self._tokens) - 1
        return next(opener for opener, closer in self._closing.items() if closer == last)

    # -------------------------------------------------------------- lines
    def _entries(self, starts: Sequence[int], end: int) -> list[Entry]:
        """The units that start at the given tokens, and the comments between them, up to the token `end`."""
        entries: list[Entry] = []
        bounds = [*starts, end]
        for start, stop in zip(bounds, [*bounds[1:], end], strict=True):
            gap = self._gaps[start]
            for comment in gap.comments:
                if comment.trailing and entries:
                    last = entries[-1]
                    entries[-1] = last._replace(doc=concat(last.doc, Suffix(_COMMENT_GAP + comment.text)))
                else:
                    entries.append(Entry(Text(comment.text), comment.blank))
            if start < stop:
                entries.append(Entry(self._run(start, stop), gap.blank))
        return entries

    def _block_entries(self, opener: int) -> tuple[Doc, list[Entry]]:
        """The text after a block's `{` on the same line, and the lines inside the block."""
        entries = self._entries(self._units_in(opener), self._closing[opener])
        first = self._gaps[opener + 1].comments[:1]
        if first and first[0].trailing:
            return Suffix(_COMMENT_GAP + first[0].text), entries[1:]
        return EMPTY, entries

    def _units_in(self, opener: int) -> list[int]:
        inside = self._steps(opener + 1, self._closing[opener])
        return [k for k in inside if self._tokens[k].start in self._marks.units]

    def _block(self, opener: int) -> Doc:
        """`{ units }`: on one line if it was on one line and holds at most one unit, otherwise one line per unit."""
        close = self._closing[opener]
        suffix, entries = self._block_entries(opener)
        if not entries and suffix == EMPTY:
            return Text("{}")
        inside = range(opener + 1, close + 1)
        on_one_line = not any(self._gaps[k].newline or self._gaps[k].comments for k in inside)
        if on_one_line and len(entries) == 1:
            return group("{", nest(LINE, entries[0].doc), LINE, "}")
        if not entries:
            return concat("{", suffix, HARDLINE, "}")
        return concat("{", suffix, nest(HARDLINE, stack(entries)), HARDLINE, "}")

    # -------------------------------------------------------------- within a line
    def _run(self, start: int, end: int) -> Doc:
        """A token sequence: headers, which may break, and the blocks after them."""
        parts: list[Doc] = []
        k = start
        while k < end:
            stop = next((n for n in self._steps(k, end) if self._is_block(n)), end)
            if k > start:
                parts.append(self._separator(k))
            if stop > k:
                parts.append(self._header(k, stop, followed=stop < end))
            if stop < end:
                if stop > k and not self._breaks_brace(k, stop):
                    parts.append(self._separator(stop))
                parts.append(self._block(stop))
                stop = self._closing[stop] + 1
            k = stop
        return concat(*parts)

    def _steps(self, start: int, end: int) -> list[int]:
        """The indices of tokens, with a bracketed group counted as one."""
        found: list[int] = []
        k = start
        while k < end:
            found.append(k)
            k = self._closing.get(k, k) + 1
        return found

    def _is_block(self, k: int) -> bool:
        return self._tokens[k].start in self._marks.blocks

    def _clauses(self, start: int, end: int) -> list[int]:
        return [k for k in self._steps(start, end) if self._tokens[k].start in self._marks.clauses]

    def _breaks_brace(self, start: int, end: int) -> bool:
        """Whether the header has clauses, so that the brace is on its own line if they are."""
        return bool(self._clauses(start, end)) and not self._gaps[end].comments

    def _header(self, start: int, end: int, followed: bool) -> Doc:
        """Tokens without a block."""
        clauses = self._clauses(start, end)
        if not clauses:
            return self._phrase(start, end)
        stops = [*clauses[1:], end]
        lines = [
            concat(self._separator(k, LINE), self._phrase(k, stop)) for k, stop in zip(clauses, stops, strict=True)
        ]
        brace = LINE if followed and self._breaks_brace(start, end) else EMPTY
        return group(self._phrase(start, clauses[0]), nest(*lines), brace)

    def _phrase(self, start: int, end: int) -> Doc:
        """A token sequence, which breaks before operators and after commas if it is too long."""
        steps = self._steps(start, end)
        breaks = [k for last, k in pairwise(steps) if self._breaks_at(last, k)]
        segments = [self._segment(k, stop) for k, stop in zip([start, *breaks], [*breaks, end], strict=True)]
        rest: list[Doc] = []
        for k, segment in zip(breaks, segments[1:], strict=True):
            if self._gaps[k].comments:
                rest.append(concat(self._separator(k), segment))
            elif self._tokens[k].kind in _BREAKS:
                rest.append(group(LINE, segment))
            else:
                rest.append(concat(group(LINE), segment))
        return concat(segments[0], nest(*rest)) if rest else segments[0]

    def _breaks_at(self, last: int, k: int) -> bool:
        token = self._tokens[k]
        if token.kind in ("SUM", "STAR") and is_prefix(self._tokens[k - 1]):
            return False
        return token.kind in _BREAKS or self._tokens[last].kind == "COMMA"

    def _segment(self, start: int, end: int) -> Doc:
        parts: list[Doc] = []
        for k in self._steps(start, end):
            if k > start:
                parts.append(self._separator(k))
            parts.append(self._brackets(k) if k in self._closing else Text(self._tokens[k].text))
        return concat(*parts)

    def _separator(self, k: int, line: Doc | None = None) -> Doc:
        """The separator before a token: its comments, `line`, a space, or nothing."""
        comments = self._gaps[k].comments
        if comments:
            return concat(_comment_lines(comments), HARDLINE)
        if line is not None:
            return line
        before = self._tokens[k - 2] if k > 1 else None
        spaced = needs_space(before, self._tokens[k - 1], self._tokens[k], self._marks.tight)
        return Text(" ") if spaced else EMPTY

    # -------------------------------------------------------------- brackets
    def _brackets(self, opener: int) -> Doc:
        """A bracketed list: on one line, or filled; broken if the source has a newline after the opening bracket."""
        close = self._closing[opener]
        first, last = self._gaps[opener + 1], self._gaps[close]
        open_text, close_text = self._tokens[opener].text, self._tokens[close].text
        if close == opener + 1 and not last.comments:
            return Text(open_text + close_text)
        padded = open_text == "{" and self._tokens[opener - 1].kind == "WITH"
        edge = HARDLINE if first.newline else LINE if padded else SOFTLINE
        end = HARDLINE if last.comments else edge
        parts = [self._separator(opener + 1, edge) if close > opener + 1 else EMPTY]
        for n, (start, stop) in enumerate(self._list_items(opener)):
            if n:
                parts.append(self._list_item(start, stop, first.newline))
            else:
                parts.append(self._phrase(start, stop))
        parts.append(_comment_lines(last.comments))
        return group(open_text, nest(*parts), end, close_text)

    def _list_item(self, start: int, stop: int, may_break: bool) -> Doc:
        item = self._phrase(start, stop)
        gap = self._gaps[start]
        if gap.comments:
            return concat(self._separator(start), item)
        if may_break and gap.newline:
            return concat(HARDLINE, item)
        return group(LINE, item)

    def _list_items(self, opener: int) -> list[tuple[int, int]]:
        """The items between brackets, each with its comma."""
        close = self._closing[opener]
        starts = [opener + 1]
        starts += [k + 1 for k in self._steps(opener + 1, close) if self._tokens[k].kind == "COMMA"]
        return [(a, b) for a, b in zip(starts, [*starts[1:], close], strict=True) if a < b]


def _comment_lines(comments: Sequence[Comment]) -> Doc:
    """Comments, each followed by a mandatory newline."""
    parts: list[Doc] = []
    for comment in comments:
        if comment.trailing:
            parts.append(Suffix(_COMMENT_GAP + comment.text))
        else:
            parts += [HARDLINE, Text(comment.text)]
    return concat(*parts)


def _gaps(tokens: Sequence[Token]) -> list[Gap]:
    """The gap before each significant token, and the one after the last."""
    gaps: list[Gap] = []
    comments: list[Comment] = []
    newline = blank = False
    for token in tokens:
        if token.kind in COMMENTS:
            trailing = not newline and not comments and bool(gaps)
            comments.append(Comment(token.text.rstrip(BLANKS), trailing, blank))
            blank = False
        elif token.kind in TRIVIA:
            newline = newline or "\n" in token.text
            blank = token.text.count("\n") > 1
        else:
            gaps.append(Gap(tuple(comments), newline, blank))
            comments = []
            newline = blank = False
    return [*gaps, Gap(tuple(comments), newline, blank)]


def _closing(tokens: Sequence[Token]) -> dict[int, int]:
    """For each opening bracket the index of its closing one."""
    closing: dict[int, int] = {}
    openers: list[int] = []
    for k, token in enumerate(tokens):
        if token.kind in _OPENERS:
            openers.append(k)
        elif token.kind in _CLOSERS:
            closing[openers.pop()] = k
    return closing
