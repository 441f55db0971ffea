"""The parser's tables, made from `grammar/ms.lark` by `mslang.syntax.generate` and shipped as `tables.json`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

TABLES_FILE = Path(__file__).with_name("tables.json")

END = "$END"


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """One production: `origin` is replaced for `length` symbols.

    `action` names the builder; it is empty for a helper rule, whose value is a list that its user splices in, and
    "pass" for a rule that returns its only child. `template` lists the builder's arguments: `k` stands for child k,
    `None` for an optional part that is absent, `-1 - k` for the members of the helper list at child k.
    """

    origin: str
    length: int
    action: str
    template: tuple[int | None, ...]


class LexerTable(msgspec.Struct, frozen=True):
    """One regular expression with a named group for each kind of token, and the rules that it cannot express."""

    pattern: str
    keywords: dict[str, str]
    ignored: frozenset[str]
    literals: dict[str, str]


class Tables(msgspec.Struct, frozen=True):
    """LALR(1) tables. `actions[state][terminal]` is `target + 1` for a shift, `-1 - rule` for a reduction."""

    lexer: LexerTable
    rules: tuple[Rule, ...]
    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    starts: dict[str, tuple[int, int]]

    def settle(self, state: int, symbol: str, lookahead: str) -> int:
        """The state after `symbol` was reduced above `state` and all pass-through rules were applied."""
        while True:
            target = self.gotos[state][symbol]
            code = self.actions[target].get(lookahead, 0)
            if code >= 0:
                return target
            rule = self.rules[-1 - code]
            if rule.length != 1 or rule.action != "pass":
                return target
            symbol = rule.origin


@lru_cache(maxsize=1)
def load_tables() -> Tables:
    """The shipped tables, read once."""
    return msgspec.json.decode(TABLES_FILE.read_bytes(), type=Tables)


@lru_cache(maxsize=1)
def settled() -> Mapping[tuple[int, str, str], int]:
    """A memo of `Tables.settle`, bounded by the size of the tables."""
    return _Settled(load_tables())


class _Settled(dict[tuple[int, str, str], int]):
    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self._tables = tables

    def __missing__(self, key: tuple[int, str, str]) -> int:
        state = self[key] = self._tables.settle(*key)
        return state
