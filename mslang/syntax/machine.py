"""The LALR(1) machine: a stack of states driven by the tables, with the values made by the builders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mslang.diagnostics import Span
from mslang.syntax.build import TERMINALS, reducers
from mslang.syntax.lexer import Token
from mslang.syntax.tables import END, load_tables, settled


class Machine:
    """One run of the parser; `feed` it tokens, then `finish` it."""

    __slots__ = ("_accepting", "_actions", "_ends", "_reducers", "_rules", "_settled", "_starts", "_values", "states")

    def __init__(self, start: str) -> None:
        tables = load_tables()
        self._actions = tables.actions
        self._rules = tables.rules
        self._reducers = reducers()
        self._settled = settled()
        first, self._accepting = tables.starts[start]
        self.states = [first]
        self._values: list[Any] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    def feed(self, token: Token) -> bool:
        """Consume one token; False if it is not accepted here."""
        if not self.prepare(token.kind):
            return False
        self.shift(token)
        return True

    def shift(self, token: Token) -> None:
        """Shift a token after `prepare` accepted it."""
        kind, text, start, end = token
        self.states.append(self._actions[self.states[-1]][kind] - 1)
        make = TERMINALS.get(kind)
        self._values.append(make(Span(start, end), text) if make else token)
        self._starts.append(start)
        self._ends.append(end)

    def prepare(self, kind: str) -> bool:
        """Do all reductions before a token of this kind; False if it is not accepted here."""
        states, values, starts, ends = self.states, self._values, self._starts, self._ends
        actions = self._actions
        while True:
            code = actions[states[-1]].get(kind)
            if code is None:
                return kind == END and states[-1] == self._accepting
            if code > 0:
                return True
            rule = self._rules[-1 - code]
            length = rule.length
            value = self._reducers[-1 - code](values[-length:], starts[-length], ends[-1])
            ends[-length:] = ends[-1:]
            del states[-length:], values[-length:]
            if length > 1:
                del starts[1 - length :]
            values.append(value)
            states.append(self._settled[states[-1], rule.origin, kind])

    def finish(self) -> Any:
        """The value of the whole text, or None if it is incomplete."""
        return self._values[-1] if self.prepare(END) else None

    # -------------------------------------------------------------- looking ahead, without values
    def accepts(self, kind: str) -> bool:
        """Whether a token of this kind is accepted here."""
        return self.advance([kind]) == 1

    def expected(self) -> frozenset[str]:
        """The kinds of token accepted here, including `END` if the text may end."""
        row = self._actions[self.states[-1]]
        kinds = {kind for kind in row if kind != END and self.accepts(kind)}
        return frozenset(kinds | {END}) if self.accepts(END) else frozenset(kinds)

    def advance(self, kinds: Iterable[str], depth: int | None = None) -> int:
        """The number of these tokens that are accepted from here, or from an earlier height of the stack."""
        states = self.states[:depth]
        count = 0
        for kind in kinds:
            while True:
                code = self._actions[states[-1]].get(kind)
                if code is None:
                    return count + (kind == END and states[-1] == self._accepting)
                if code > 0:
                    states.append(code - 1)
                    break
                rule = self._rules[-1 - code]
                del states[-rule.length :]
                states.append(self._settled[states[-1], rule.origin, kind])
            count += 1
        return count

    # -------------------------------------------------------------- going back
    def stands_before(self, symbol: str) -> bool:
        """Whether a part of this kind (for example a statement) may start or has just ended here."""
        return symbol in load_tables().gotos[self.states[-1]]

    @property
    def depth(self) -> int:
        """The height of the stack; `restore` cuts it back to an earlier height."""
        return len(self.states)

    def restore(self, depth: int) -> None:
        """Cut the stack back to a height."""
        del self.states[depth:], self._values[depth - 1 :], self._starts[depth - 1 :], self._ends[depth - 1 :]
