"""Signature help: the call around the cursor, and which of its parameters is being written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mslang.ide.cursor import Cursor, cursor_at, enclosing
from mslang.ide.dynamic_size import DYN, declares_size
from mslang.ide.snapshot import Snapshot
from mslang.ops.infos import info
from mslang.ops.signature import Group, Param, Signature
from mslang.syntax.lexer import Token
from mslang.transform.registries import registry_of
from mslang.transform.registry import OPERATIONS


class Called(msgspec.Struct, frozen=True):
    """A call that is being written: its signature, its parameters, the one at the cursor (None: all are given), and
    the names of those before it that have an argument."""

    signature: Signature
    parameters: tuple[Param, ...]
    parameter: Param | None
    given: frozenset[str]


def signature_at(snapshot: Snapshot, path: str, offset: int) -> Called | None:
    """The innermost call around an offset, or None.

    Raises:
        MsError: the file cannot be read.
    """
    cursor = cursor_at(snapshot, path, offset)
    return None if cursor.silent else called(cursor)


def called(cursor: Cursor) -> Called | None:
    """The innermost call around the cursor."""
    opening = enclosing(cursor.before)
    while opening is not None and cursor.before[opening].kind == "LSQB":
        opening = enclosing(cursor.before[:opening])
    if opening is None or opening == 0 or cursor.before[opening].kind != "LPAR":
        return None
    if declares_size(cursor.before[:opening]):
        return _at_argument(DYN, DYN.params, cursor.before[opening + 1 :])
    name = cursor.before[opening - 1].text
    method = opening >= 2 and cursor.before[opening - 2].kind == "DOT"
    signature = OPERATIONS.get(name)
    if signature is None:
        known = info(cursor.module, name) if name.isidentifier() else None
        signature = None if known is None else known.signature
    if signature is None and cursor.module.find(name) is None:
        signature = registry_of(cursor.module).find(name)
    declares = any(t.kind in ("FN", "RULE", "SCHEDULE") for t in cursor.before[max(opening - 2, 0) : opening])
    if signature is None or declares:
        return None
    sampled = signature.group is Group.SAMPLER and not method
    receiver_before_dot = method and signature.params
    parameters = signature.params[1:] if receiver_before_dot else signature.params
    if not method and not sampled and signature.params and signature.group is Group.PRIMITIVE:
        parameters = signature.params
    return _at_argument(signature, parameters, cursor.before[opening + 1 :])


def _at_argument(signature: Signature, parameters: tuple[Param, ...], tokens: Sequence[Token]) -> Called:
    """The call of which the tokens are the arguments so far."""
    named, position, current = _arguments(tokens)
    places = [p for p in parameters if not p.keyword]
    given = named | {p.name for p in places[:position] if not p.variadic}
    if current is not None:
        return Called(signature, parameters, next((p for p in parameters if p.name == current), None), given)
    last = places[-1] if places and places[-1].variadic else None
    return Called(signature, parameters, places[position] if position < len(places) else last, given)


def _arguments(tokens: Sequence[Token]) -> tuple[frozenset[str], int, str | None]:
    """The keyword arguments so far, the number of positional ones, and the name of the one at the cursor."""
    depth, position, named = 0, 0, None
    given: set[str] = set()
    for k, t in enumerate(tokens):
        match t.kind:
            case "LPAR" | "LSQB" | "LBRACE":
                depth += 1
            case "RPAR" | "RSQB" | "RBRACE":
                depth -= 1
            case "EQUAL" if depth == 0 and k > 0:
                named = tokens[k - 1].text
                given.add(named)
            case "COMMA" if depth == 0:
                position += named is None
                named = None
    return frozenset(given), position, named
