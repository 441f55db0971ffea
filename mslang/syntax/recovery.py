"""Recovery of a broken item: small repairs first, otherwise the erroneous statement becomes a `Bad` one.

It is used only for items that do not parse. Indentation is a hint where braces do not balance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mslang.diagnostics import Diagnostic
from mslang.syntax import messages
from mslang.syntax.layout import Layout, mend_errors
from mslang.syntax.lexer import DANGLING_DOT, ERROR, STRAY_OPENER, Token
from mslang.syntax.machine import Machine
from mslang.syntax.messages import CLOSER, CLOSERS
from mslang.syntax.repair import FAR, Repair, find_repair, measure
from mslang.syntax.tables import END, load_tables

_PARTS = ("stmt", "fork_entry", "target_entry")
_QUIET = 3
_QUIET_AFTER_STRING = 40
_PATIENCE = 20
_STATEMENTS = frozenset(
    {
        "LET",
        "ALLOC",
        "VIEW",
        "ATTR",
        "WHILE",
        "FOR",
        "BLOCK",
        "INIT",
        "READS",
        "WRITES",
        "WHERE",
        "IF",
        "FORK",
        "CASE",
        "REQUIRE",
        "CHECK",
        "SNAPSHOT",
        "RETURN",
    }
)


class Snapshot(NamedTuple):
    """The start of a statement: the machine's height, the token's index, the number of open brackets."""

    depth: int
    token: int
    brackets: int


class Outcome(NamedTuple):
    """The result of recovery: `value` is None if not even the header could be read.

    `read` is the number of (repaired) `tokens` that were read: all, if recovery reached the end.
    """

    value: Any
    read: int
    tokens: tuple[Token, ...]
    diagnostics: tuple[Diagnostic, ...]


class Recovery:
    """One pass over the tokens of an item, with repairs."""

    def __init__(self, text: str, tokens: Sequence[Token], start: str) -> None:
        self._text = text
        self._tokens = mend_errors(text, tokens)
        self._layout = Layout(text, self._tokens)
        self._end = Token(END, "", len(text), len(text))
        self._machine = Machine(start)
        self._diagnostics: list[Diagnostic] = []
        self._index = 0
        self._quiet = 0
        self._fault_line = -1
        # These bounds make recovery terminate: a line is ended early once, the attempts per token are limited.
        self._floor = 0
        self._tried = self._tries = 0
        self._openers: list[Token] = []
        self._levels: list[Snapshot | None] = [None]

    def run(self) -> Outcome:
        """Read to the end, to text that is not part of the item, or to a header that cannot be read."""
        while True:
            token = self._token(self._index)
            if self._at_end(token):
                return self._outcome(self._machine.finish())
            if not self._step(token):
                return self._outcome(None)

    def expected(self) -> frozenset[str]:
        """The kinds of token accepted after the tokens; empty if the tokens cannot be read."""
        while (token := self._token(self._index)).kind != END:
            if not self._step(token):
                return frozenset()
        return self._machine.expected()

    def _at_end(self, token: Token) -> bool:
        """Whether the item is complete here and the text after it, if any, is not part of it."""
        follows = token.kind not in (END, ERROR) and self._machine.accepts(token.kind)
        return not follows and self._machine.accepts(END)

    def _step(self, token: Token) -> bool:
        """Read on, after a repair if necessary; False if that is impossible."""
        self._tries = self._tries + 1 if self._index == self._tried else 0
        self._tried = self._index
        if self._tries > _PATIENCE:
            return self._skip_statement(token)
        if self._follow_layout(token) or (token.kind not in (END, ERROR) and self._take(token)):
            return True
        return self._mend(token) or self._skip_statement(token)

    def _outcome(self, value: Any) -> Outcome:
        return Outcome(value, self._index, tuple(self._tokens), tuple(self._diagnostics))

    def _token(self, index: int) -> Token:
        return self._tokens[index] if index < len(self._tokens) else self._end

    def _before(self) -> Token | None:
        return self._tokens[self._index - 1] if self._index else None

    def _report(self, diagnostic: Diagnostic, quiet: int = _QUIET) -> None:
        """Report an error, except on the line of the last one or within `quiet` tokens: there it is likely the same."""
        line = self._layout.line(self._token(self._index))
        if not self._quiet and line != self._fault_line:
            self._diagnostics.append(diagnostic)
        self._fault_line = line
        self._quiet = max(quiet, self._quiet)

    # -------------------------------------------------------------- reading
    def _take(self, token: Token) -> bool:
        """Read the current token; False if it is not accepted here."""
        if not self._feed(token):
            return False
        self._index += 1
        return True

    def _feed(self, token: Token) -> bool:
        """Pass a token to the machine, and keep track of brackets and of starts of statements."""
        if not self._machine.accepts(token.kind):
            return False
        self._machine.prepare(token.kind)
        self._mark_statement()
        self._machine.shift(token)
        self._quiet = max(0, self._quiet - 1)
        if token.kind in CLOSER:
            self._openers.append(token)
            if token.kind == "LBRACE":
                self._levels.append(None)
        elif token.kind in CLOSERS:
            self._openers.pop()
            if token.kind == "RBRACE":
                self._levels.pop()
        return True

    def _insert(self, kind: str) -> None:
        """Read an inserted token."""
        before = self._before()
        place = before.end if before is not None else 0
        self._feed(Token(kind, "", place, place))

    def _mark_statement(self) -> None:
        """Record the place if a statement, case or field can start here."""
        if any(self._machine.stands_before(part) for part in _PARTS):
            self._levels[-1] = Snapshot(self._machine.depth, self._index, len(self._openers))

    # -------------------------------------------------------------- indentation as a hint
    def _follow_layout(self, token: Token) -> bool:
        """Where braces do not balance, derive the missing or superfluous one from a line's column."""
        if not self._openers or self._openers[-1].kind != "LBRACE":
            return False
        opener = self._openers[-1]
        balance = self._balance()
        if balance > 0 and token.kind != END:
            return self._close_early(opener, token)
        if balance < 0 and token.kind == "RBRACE":
            return self._drop_closer(opener, token)
        return False

    def _close_early(self, opener: Token, token: Token) -> bool:
        if not self._layout.first_on_line(token) or not self._machine.accepts("RBRACE"):
            return False
        column, indentation = self._layout.column(token), self._layout.indentation(opener)
        if column > indentation or (column == indentation and token.kind == "RBRACE"):
            return False
        if opener.text:
            self._report(messages.never_closed([opener], token, self._tokens[self._index - 1].end))
        self._insert("RBRACE")
        return True

    def _drop_closer(self, opener: Token, token: Token) -> bool:
        first = self._layout.first_on_line(token)
        if first and self._layout.column(token) <= self._layout.indentation(opener):
            return False
        if not first and self._layout.same_line(opener, token):
            return False
        self._report(messages.closes_nothing(token))
        self._index += 1
        return True

    # -------------------------------------------------------------- small repairs
    def _mend(self, token: Token) -> bool:
        """Repair the text around an unexpected token; if that is impossible, report the error and return False."""
        if token.kind == ERROR:
            is_string = token.text.startswith('"')
            self._report(messages.bad_text(token), _QUIET_AFTER_STRING if is_string else _QUIET)
            return self._try_kinds(token, ("STRING", ERROR, None) if is_string else (None, ERROR))
        if token.kind == STRAY_OPENER:
            self._report(messages.bad_layout(token))
            return self._try_kinds(token, (messages.REAL_KIND[token.text],))
        if token.kind == DANGLING_DOT:
            self._report(messages.bad_layout(token))
            return not self._bare_reference() and self._try_kinds(token, (None,))
        rest = [self._token(k) for k in range(self._index, min(self._index + FAR, len(self._tokens)) + 1)]
        repair = find_repair(self._machine, rest, self._openers, self._balance() < 0)
        if repair is None or repair.reach < FAR or not repair.insert:
            wanted = _QUIET if repair is None else repair.reach + bool(repair.insert)
            if self._end_line(wanted):
                return True
        if repair is None:
            self._report(messages.unexpected(token, self._machine.expected(), self._before()))
            return False
        self._apply(repair, token)
        return True

    def _balance(self) -> int:
        """The number of `{` minus the number of `}`, in the text read and in the text from here on."""
        return sum(o.kind == "LBRACE" for o in self._openers) + self._layout.balance_from(self._index)

    def _bare_reference(self) -> bool:
        """Whether the statement consists only of a name with its members and indices."""
        return self._machine.accepts("ASSIGN")

    def _try_kinds(self, token: Token, kinds: Sequence[str | None]) -> bool:
        """Replace a token's kind (None: drop the token) by the one with which reading gets farthest, if any."""
        rest = [self._token(k).kind for k in range(self._index + 1, self._index + FAR)]
        reach = [self._machine.advance([kind, *rest]) - 1 if kind else self._machine.advance(rest) for kind in kinds]
        best = max(reach)
        if best <= 0:
            return False
        kind = kinds[reach.index(best)]
        if kind is None:
            self._index += 1
        else:
            closing = '"' if kind == "STRING" else ""
            self._take(Token(kind, token.text + closing, token.start, token.end))
        return True

    def _apply(self, repair: Repair, token: Token) -> None:
        if repair.insert:
            self._report_insertion(repair.insert, token)
            for kind in repair.insert:
                self._insert(kind)
            return
        if repair.instead is None:
            self._report(
                messages.closes_nothing(token)
                if token.kind in CLOSERS
                else messages.unexpected(token, self._machine.expected(), self._before())
            )
            self._index += 1
            return
        self._report(self._substitution(repair.instead, token))
        self._take(Token(repair.instead, token.text, token.start, token.end))

    def _report_insertion(self, kinds: Sequence[str], token: Token) -> None:
        before = self._before()
        closed = self._openers[::-1][: sum(kind in CLOSERS for kind in kinds)]
        first = kinds[0]
        if first == ERROR:
            same_line = before is not None and self._layout.same_line(before, token)
            self._report(messages.missing_expression(token, before, same_line))
        elif first not in CLOSERS:
            self._report(messages.missing(load_tables().lexer.literals[first], token, before))
        else:
            written = [opener for opener in closed if opener.text]
            if written:
                self._report(messages.never_closed(written, token, before.end if before is not None else token.start))

    def _substitution(self, kind: str, token: Token) -> Diagnostic:
        literal = load_tables().lexer.literals.get(kind)
        if kind in CLOSERS and literal:
            return messages.closes_another(token, self._openers[-1], literal)
        if kind == "NAME":
            return messages.keyword_as_name(token)
        if literal or (kind == "CMP" and token.kind == "EQUAL"):
            return messages.instead(literal or "==", token)
        return messages.unexpected(token, self._machine.expected(), self._before())

    # -------------------------------------------------------------- abandoning a statement
    def _end_line(self, reach: int) -> bool:
        """End the statement at an earlier line, if at least `reach` tokens from here can then be read.

        An expression missing there is inserted; otherwise the statement becomes a `Bad` one.
        """
        snapshot = self._levels[-1]
        if snapshot is None:
            return False
        last = min(self._index + FAR, len(self._tokens))
        kinds = [self._token(k).kind for k in range(snapshot.token, last + 1)]
        for stop in range(max(snapshot.token + 1, self._floor), self._index + 1):
            if not self._layout.first_on_line(self._token(stop)):
                continue
            head, rest = kinds[: stop - snapshot.token], kinds[stop - snapshot.token :]
            wanted = min(self._index - stop + reach, FAR)
            if measure(self._machine, [*head, ERROR], rest, snapshot.depth) >= wanted:
                self._floor = stop + 1
                return self._fill_in(snapshot, stop)
            if measure(self._machine, [ERROR], rest, snapshot.depth) >= wanted:
                self._floor = stop + 1
                self._report(messages.incomplete(self._tokens[snapshot.token : stop]))
                return self._give_up(snapshot, stop)
        return False

    def _fill_in(self, snapshot: Snapshot, stop: int) -> bool:
        """Read again from a statement's start to `stop`, where an expression is missing."""
        self._report(messages.missing_expression(self._token(stop), self._token(stop - 1), same_line=False))
        self._machine.restore(snapshot.depth)
        del self._openers[snapshot.brackets :]
        for self._index in range(snapshot.token, stop):
            self._feed(self._tokens[self._index])
        self._index = stop
        self._insert(ERROR)
        return True

    def _skip_statement(self, token: Token) -> bool:
        """Make the innermost open statement a `Bad` one; False if there is none."""
        self._machine.prepare(token.kind)
        self._mark_statement()
        while self._levels:
            snapshot = self._levels[-1]
            if snapshot is not None:
                stop = self._resume_at(snapshot.token)
                if stop > snapshot.token:
                    return self._give_up(snapshot, stop)
            self._levels.pop()
        return False

    def _give_up(self, snapshot: Snapshot, stop: int) -> bool:
        """Replace the tokens from a statement's start to `stop` by a `Bad` part."""
        self._machine.restore(snapshot.depth)
        del self._openers[snapshot.brackets :]
        self._index = stop
        start, end = self._tokens[snapshot.token].start, self._tokens[stop - 1].end
        return self._feed(Token(ERROR, self._text[start:end], start, end))

    def _resume_at(self, first: int) -> int:
        """The index of the token at which reading can resume after the statement that starts at `first`."""
        column = self._layout.column(self._token(first))
        braces = brackets = 0
        index = min(max(self._index, first + 1), len(self._tokens))
        while index < len(self._tokens):
            token = self._tokens[index]
            if braces == 0 and (token.kind == "RBRACE" or self._starts_statement(token, column, brackets)):
                return index
            braces += (token.kind == "LBRACE") - (token.kind == "RBRACE")
            brackets += (token.kind in ("LPAR", "LSQB")) - (token.kind in ("RPAR", "RSQB"))
            index += 1
        return index

    def _starts_statement(self, token: Token, column: int, brackets: int) -> bool:
        if not self._layout.first_on_line(token):
            return token.kind in ("LET", "CASE")
        return token.kind in _STATEMENTS or (
            token.kind == "NAME" and (brackets <= 0 or self._layout.column(token) == column)
        )
