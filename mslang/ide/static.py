"""Static facts at a place of a schedule: the names in scope and the kind of an expression."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.diagnostics import Diagnostic, MsError, Span
from mslang.ide.cursor import Cursor, operand_before
from mslang.ide.findings import checked
from mslang.schedule.check.expressions import Expressions
from mslang.schedule.check.kinds import ANY, Environment, Static
from mslang.sema.module import Found, Module
from mslang.syntax import tree
from mslang.syntax.lexer import Token
from mslang.syntax.parse import parse_expression


def environment(cursor: Cursor) -> Environment:
    """The names in scope at the cursor."""
    return {} if cursor.placed is None else checked(cursor.module, cursor.placed).at(cursor.relative)


def operand_value(cursor: Cursor, tokens: Sequence[Token]) -> Static:
    """The static value of the expression that ends the tokens."""
    operand = operand_before(tokens)
    if not operand or cursor.placed is None:
        return ANY
    text = cursor.placed.parsed.text[operand[0].start : operand[-1].end]
    try:
        expression = parse_expression(text)
    except MsError:
        return ANY
    return Expressions(cursor.module, _ignore, _unmentioned).value(expression, environment(cursor), quiet=True)


def program_of(module: Module, item: tree.AnyItem) -> Found | None:
    """The program that a schedule or space is for."""
    if not isinstance(item, tree.Schedule | tree.Space) or item.program is None:
        return None
    found = module.find(".".join(n.text for n in item.program))
    return found if isinstance(found, Found) and isinstance(found.item, tree.Program) else None


def _ignore(diagnostic: Diagnostic) -> None:
    return


def _unmentioned(span: Span, name: str, value: Static, bound: Span | None) -> None:
    return
