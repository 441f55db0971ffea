"""Calls in TVMScript: the name of what is called, and the arguments by name."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from mslang.interop.tvmscript.source import refuse, text_of


def dotted(e: ast.expr, aliases: frozenset[str]) -> str | None:
    """`axis.remap` for `T.axis.remap`; None for names outside of TVM's namespace."""
    match e:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in aliases:
            return attr
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="tvm"), attr="tir" | "tirx"), attr=attr):
            return attr
        case ast.Attribute(value=inner, attr=attr):
            before = dotted(inner, aliases)
            return None if before is None else f"{before}.{attr}"
    return None


def bound(e: ast.Call, *names: str) -> dict[str, ast.expr]:
    """The arguments of a call by the names of its parameters; a last name `**` accepts any other keyword."""
    known = [n for n in names if n != "**"]
    if len(e.args) > len(known):
        raise refuse("MS733", e, f"`{text_of(e.func)}` takes {len(known)} arguments, not {len(e.args)}")
    found = dict(zip(known, e.args, strict=False))
    for k in e.keywords:
        if k.arg in found or k.arg is None or (k.arg not in known and "**" not in names):
            raise refuse("MS733", k, f"`{text_of(e.func)}` has no use for `{text_of(k)}`")
        if k.arg in known:
            found[k.arg] = k.value
    return found


def needed(e: ast.Call, found: Mapping[str, ast.expr], name: str) -> ast.expr:
    """A required argument."""
    if name not in found:
        raise refuse("MS733", e, f"`{text_of(e.func)}` needs `{name}`")
    return found[name]
