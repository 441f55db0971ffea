"""What names stand for in the expressions of a program."""

from __future__ import annotations

import math

from mslang.diagnostics import Diagnostic, Fix, MsError
from mslang.ir.expr import Const
from mslang.ir.text import name_text
from mslang.sema.adapt import text_of
from mslang.sema.foreign import TYPES, WORDS
from mslang.sema.literals import Value
from mslang.sema.refer import dotted_name
from mslang.sema.report import failure, unknown
from mslang.sema.scope import Broken, BufferName, ConstName, Hidden, Scope, SizeName, TileName, Variable
from mslang.syntax import tree

LITERAL_NAMES = {"inf": math.inf, "nan": math.nan}


def value_of(name: tree.Name, scope: Scope) -> Value:
    """What a name stands for, as a number."""
    match scope.get(name.text):
        case Variable(var=var):
            return Value(var)
        case SizeName(value=v):
            return Value(v, size=True)
        case ConstName(value=v):
            return _const_value(v)
        case BufferName(buffer=b):
            written = name_text(name.text)
            dims = ", ".join("…" for _ in b.shape)
            fixes = () if b.shape else (Fix(f"write `{written}[]`", name.span, f"{written}[]"),)
            raise failure(
                "MS125",
                name,
                f"`{name.text}` is a buffer, not a number",
                help=f"access it: `{written}[{dims}]`",
                fixes=fixes,
            )
        case TileName(n=n):
            raise failure(
                "MS125", name, f"`{name.text}` is a tile of {n} factors", help=f"name one of them: `{name.text}[0]`"
            )
        case Hidden(role=role, block=block):
            article = "an" if role[0] in "aeiou" else "a"
            raise failure(
                "MS115",
                name,
                f"`{name.text}` is {article} {role} outside of block `{block}`",
                why="the body of a block names its own axes only, so that the block can be moved",
                help=f"bind it to an axis: `block {block}[…, x: extent = {name.text}]`, and use `x`",
            )
        case Broken():
            raise MsError
    if name.text in LITERAL_NAMES:
        return Value(Const(LITERAL_NAMES[name.text], "f32"), "float")
    raise MsError(_unknown(name, scope))


_TYPED = "a value takes its type from what it is: `let x = 3.0`"


def _unknown(name: tree.Name, scope: Scope) -> Diagnostic:
    """The error of a name without a meaning; in a block, `k` is taken for a missing axis, not for the size `K`."""
    known = _number_names(scope)
    help = WORDS.get(name.text)
    if scope.block is not None:
        known = [n for n in known if not (isinstance(scope.get(n), SizeName) and n.lower() == name.text)]
        axis = (
            f"declare the axis in block `{scope.block}`: `{name.text}: extent`, after `|` if the block reduces over it"
        )
        help = help or (_TYPED if name.text in TYPES else axis)
    return unknown("MS101", name, "name", name.text, () if name.text in WORDS else known, help=help)


def member(e: tree.Member, scope: Scope) -> Value:
    """What a dotted name stands for, as a number."""
    dotted = dotted_name(e)
    match scope.get(dotted) if dotted is not None else None:
        case ConstName(value=v):
            return _const_value(v)
    raise failure(
        "MS101",
        e,
        f"unknown name `{text_of(e)}`" if dotted else "a program has no members to name with `.`",
        why="in a program, names with dots are consts of a module named by `use … as`",
    )


def _const_value(v: int | float | bool) -> Value:
    if isinstance(v, bool):
        return Value(Const(v, "bool"), size=True)
    return Value(Const(v), size=True) if isinstance(v, int) else Value(Const(v, "f32"), "float")


def called_buffer(e: tree.Call, scope: Scope) -> MsError | None:
    """The error of a buffer that is indexed with round brackets; None if `e` calls no buffer."""
    if not isinstance(e.callee, tree.Ref) or not isinstance(scope.get(e.callee.name.text), BufferName):
        return None
    name = e.callee.name
    indices = ", ".join(text_of(a.value) for a in e.args)
    element = f"{name_text(name.text)}[{indices}]"
    fixes = () if "…" in indices else (Fix("use brackets", e.span, element),)
    return failure(
        "MS125",
        e,
        f"`{name.text}` is a buffer, not a function",
        help=f"elements are indexed with brackets: `{element}`",
        fixes=fixes,
    )


def buffer_names(scope: Scope) -> list[str]:
    """The names of the buffers in scope."""
    return [n for n, d in scope.names.items() if isinstance(d.meaning, BufferName)]


def _number_names(scope: Scope) -> list[str]:
    return [n for n, d in scope.names.items() if not isinstance(d.meaning, Hidden | Broken)]
