"""Python functions marked `@T.inline` (`@T.macro` before): statements that stand where they are called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mslang.interop.tvmscript.frame import Frame
from mslang.interop.tvmscript.jumps import jumps
from mslang.interop.tvmscript.scope import Macro, Scope, Value
from mslang.interop.tvmscript.source import Refusal, refuse, text_of
from mslang.ir.program import Stmt

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements

_DEEPEST = 8
"""Macros that call macros."""


def called(call: ast.Call, scope: Scope) -> Macro | None:
    """The macro that a call names."""
    found = scope.names.get(call.func.id) if isinstance(call.func, ast.Name) else None
    return found if isinstance(found, Macro) else None


def expanded(made: Statements, macro: Macro, call: ast.Call, scope: Scope, frame: Frame) -> tuple[Stmt, ...]:
    """The statements of a macro. Its parameters have the values of the arguments; its other names have the values
    that they have, at the call, where the macro is defined, or where it is called, if it is not hygienic.

    Raises:
        MsError: MS731, macros call each other too deeply, or a jump leaves one; MS733, the arguments are not those of
            the macro. What is refused in the macro is located at the call.
    """
    if len(made.macros) >= _DEEPEST:
        raise refuse("MS731", call, f"`{text_of(call.func)}` is nested more than {_DEEPEST} deep")
    if jumps(macro.function.body):
        raise refuse("MS731", call, f"`return`, `continue` or `break` leaves the macro `{macro.function.name}`")
    inner = scope.inner() if macro.names is None else Scope(macro.names, scope.outer)
    for name, value in _arguments(made, macro, call, scope).items():
        inner.bind(name, value)
    report = made.report
    made.macros.append(macro.function.name)
    made.report = lambda refusal: report(Refusal(call, refusal.diagnostic))
    try:
        return made.body(macro.function.body, inner, frame)
    except Refusal as refusal:
        raise Refusal(call, refusal.diagnostic) from None
    finally:
        made.macros.pop()
        made.report = report


def _arguments(made: Statements, macro: Macro, call: ast.Call, scope: Scope) -> dict[str, Value]:
    """The values of the parameters."""
    f = macro.function
    a = f.args
    names = [x.arg for x in (*a.posonlyargs, *a.args)]
    given = made.read.values(call.args, scope)
    found: dict[str, Value] = dict(zip(names, given, strict=False))
    others = given[len(names) :]
    if a.vararg is not None:
        found[a.vararg.arg] = others
    elif others:
        raise refuse("MS733", call, f"`{f.name}` takes {len(names)} arguments, not {len(given)}")
    more: dict[str, Value] = {}
    known = {*(x.arg for x in (*a.args, *a.kwonlyargs))}
    for k in call.keywords:
        if k.arg is None or k.arg in found or (k.arg not in known and a.kwarg is None):
            raise refuse("MS733", k, f"`{f.name}` has no use for `{text_of(k)}`")
        (found if k.arg in known else more)[k.arg] = made.read.value(k.value, scope)
    if a.kwarg is not None:
        found[a.kwarg.arg] = more
    found = {**macro.defaults, **found}
    missing = [n for n in (*names, *(x.arg for x in a.kwonlyargs)) if n not in found]
    if missing:
        raise refuse("MS733", call, f"`{f.name}` needs `{missing[0]}`")
    return found
