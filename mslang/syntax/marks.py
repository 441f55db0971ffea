"""The formatter's view of the tree, as offsets: starts of units, operators without spaces, places to break."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from mslang.syntax import tree
from mslang.syntax.lexer import Token

_SIMPLE = (tree.Number, tree.Ref, tree.Member, tree.Call, tree.Index, tree.Group, tree.Hole, tree.Size)


class Marks(msgspec.Struct, frozen=True):
    """Offsets of tokens on which the layout depends.

    `units` are the first tokens of statements, cases and fields; `blocks` the `{` that hold units; `tight` the
    operators without surrounding spaces; `clauses` start lines of their own if a header is too long.
    """

    units: frozenset[int]
    blocks: frozenset[int]
    tight: frozenset[int]
    clauses: frozenset[int]


def find_marks(item: tree.Item, tokens: Sequence[Token]) -> Marks:
    """The marks of an item without faults; `tokens` are its significant ones."""
    finder = _Finder(tokens)
    finder.visit(item)
    return Marks(frozenset(finder.units), frozenset(finder.blocks), frozenset(finder.tight), frozenset(finder.clauses))


class _Finder:
    """Collects the marks in a traversal of the tree."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._starts = [token.start for token in tokens]
        self.units: set[int] = set()
        self.blocks: set[int] = set()
        self.tight: set[int] = set()
        self.clauses: set[int] = set()

    def visit(self, value: object) -> None:
        """Collect the marks of a node and its descendants."""
        if isinstance(value, tuple):
            for part in value:
                self.visit(part)
        elif isinstance(value, tree.Node):
            self._look_at(value)
            for name in value.__struct_fields__:
                self.visit(getattr(value, name))

    def _look_at(self, node: tree.Node) -> None:
        match node:
            case tree.Binary(op="..", left=left, right=right):
                if isinstance(left, _SIMPLE) and isinstance(right, _SIMPLE):
                    self.tight.add(self._after(left.span.end, "DOTDOT"))
            case tree.Attribute():
                self.tight.add(node.span.start)
            case tree.Body(statements=statements):
                # The body of an `else if` is the `if` alone, without a brace.
                if self._tokens[bisect_left(self._starts, node.span.start)].kind == "LBRACE":
                    self.blocks.add(node.span.start)
                    self._add_units(statements)
            case tree.Fork(cases=cases):
                self.blocks.add(self._after(node.span.start, "LBRACE"))
                self._add_units(cases)
            case tree.Target(kind=kind, fields=fields):
                self.blocks.add(self._after(kind[-1].span.end, "LBRACE"))
                self._add_units(fields)
            case tree.Intrin(desc=desc, impls=impls):
                self.blocks.add(self._before(desc.span.start, "LBRACE"))
                self.units.add(self._before(desc.span.start, "DESC"))
                self.units.update(self._before(impl.span.start, "IMPL") for impl in impls)
            case tree.Rule(when=tree.Node() as when):
                self.clauses.add(self._before(when.span.start, "WHEN"))
            case tree.Space(strategy=strategy):
                self.clauses.add(self._before(strategy.span.start, "EQUAL"))
                if isinstance(strategy, tree.Union):
                    self.clauses.update(self._before(part.span.start, "VBAR") for part in strategy.parts[1:])

    def _add_units(self, parts: Iterable[tree.Node]) -> None:
        self.units.update(part.span.start for part in parts)

    def _after(self, offset: int, kind: str) -> int:
        """The first token of a kind at or after an offset."""
        first = bisect_left(self._starts, offset)
        return next(token.start for token in self._tokens[first:] if token.kind == kind)

    def _before(self, offset: int, kind: str) -> int:
        """The last token of a kind before an offset."""
        last = bisect_left(self._starts, offset)
        return next(self._tokens[k].start for k in range(last - 1, -1, -1) if self._tokens[k].kind == kind)
