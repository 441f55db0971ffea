"""Small repairs: insert, drop or replace a token; the repair with which reading gets farthest is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mslang.syntax.lexer import ERROR, Token
from mslang.syntax.machine import Machine
from mslang.syntax.messages import CLOSER, CLOSERS
from mslang.syntax.tables import END, load_tables

FAR = 8
_ENOUGH = 2
_INSERTED = ("COMMA", "EQUAL", "COLON", "IN", "LBRACE", "TILDE", "ARROW", "CASE", "DESC")
_TAKEN_FOR = ("EQUAL", "CMP", "COLON", "TILDE", "COMMA", "IN", ERROR)


class Repair(NamedTuple):
    """Insert tokens of the kinds `insert` before the erroneous token, or drop it, or replace its kind by `instead`.

    `reach` is the number of tokens, from the erroneous one on, that can then be read.
    """

    insert: tuple[str, ...] = ()
    drop: bool = False
    instead: str | None = None
    reach: int = 0


def find_repair(
    machine: Machine, rest: Sequence[Token], openers: Sequence[Token], missing_brace: bool
) -> Repair | None:
    """The best repair before or of `rest[0]`, if one allows reading on; `openers` are the brackets open there.

    `missing_brace` is true if the item has more `}` than `{`.
    """
    kinds = [token.kind for token in rest[: FAR + 1]]
    best = Repair()
    for repair in _candidates(rest[0], openers, missing_brace):
        if repair.insert:
            reach = measure(machine, repair.insert, kinds)
        else:
            reach = measure(machine, [repair.instead] if repair.instead else [], kinds[1:])
        if reach > best.reach:
            best = repair._replace(reach=reach)
    return best if best.reach >= _ENOUGH else None


def measure(machine: Machine, head: Sequence[str], rest: Sequence[str], depth: int | None = None) -> int:
    """The number of tokens of `rest` that can be read after `head`, at most `FAR`; `FAR` also for the whole text."""
    read = machine.advance([*head, *rest], depth) - len(head)
    return FAR if read == len(rest) and rest[-1] == END else min(read, FAR)


def _candidates(token: Token, openers: Sequence[Token], missing_brace: bool) -> Iterator[Repair]:
    """The repairs to try, likelier ones first."""
    literals = load_tables().lexer.literals
    if token.kind in CLOSERS and openers and CLOSER[openers[-1].kind] != token.kind:
        yield Repair(instead=CLOSER[openers[-1].kind])
    closers = list(_closers(openers, all_levels=token.kind == END))
    for start in ((), (ERROR,), ("EQUAL", ERROR)):
        for count in range(0 if start else 1, len(closers) + 1):
            yield Repair(start + tuple(closers[:count]))
    if not missing_brace:
        yield Repair(("LBRACE", "RBRACE"))
    for kind in _INSERTED:
        yield Repair((kind,))
    if literals.get(token.kind, "").isalpha():
        yield Repair(instead="NAME")
    if token.kind != END:
        yield Repair(drop=True)
        for kind in _TAKEN_FOR:
            yield Repair(instead=kind)


def _closers(openers: Sequence[Token], all_levels: bool) -> Iterator[str]:
    """The closing brackets of the open ones, innermost first; a brace is closed only at the end."""
    for opener in reversed(openers):
        if opener.kind == "LBRACE" and not all_levels:
            return
        yield CLOSER[opener.kind]
