"""`return`, `continue` and `break` in TVMScript, which programs do not have.

What follows a condition under which a body ends moves into the branches that do not end it. A loop that `break` ends
keeps a flag, and does nothing once it is set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mslang.interop.tvmscript.source import refuse, text_of

_LOOPS = (ast.For, ast.While)


def straightened(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function or loop with jumps at ends of bodies only, where `continue` goes without saying.

    Raises:
        MsError: MS731, a jump leaves more than conditions.
    """
    for k, s in enumerate(body):
        match s:
            case ast.Continue():
                return body[:k]
            case ast.Return() | ast.Break():
                return body[: k + 1]
            case ast.If(test=test, body=then, orelse=otherwise) if any(_own_jumps(s)):
                rest = body[k + 1 :]
                nothing: list[ast.stmt] = [ast.copy_location(ast.Pass(), s)]
                both = ast.If(test, straightened([*then, *rest]) or nothing, straightened([*otherwise, *rest]))
                return [*body[:k], ast.copy_location(both, s)]
        for jump in _own_jumps(s):
            raise refuse("MS731", jump, f"`{text_of(jump)}` has no counterpart here", "it leaves a loop or a block")
    return body


def breaks(body: list[ast.stmt]) -> ast.Break | None:
    """The first `break` that ends a loop with this body."""
    return next((x for s in body for x in _own_jumps(s) if isinstance(x, ast.Break)), None)


def jumps(body: list[ast.stmt]) -> bool:
    """Whether a body is left before its end."""
    return any(True for s in body for _ in _own_jumps(s))


def _own_jumps(s: ast.AST) -> Iterator[ast.Return | ast.Continue | ast.Break]:
    """The jumps of a statement that leave the body around it."""
    match s:
        case ast.Return(value=None | ast.Constant(value=None)):
            pass
        case ast.Return() | ast.Continue() | ast.Break():
            yield s
        case ast.FunctionDef() | ast.Lambda():
            return
    for child in ast.iter_child_nodes(s):
        for x in _own_jumps(child):
            if isinstance(x, ast.Return) or not isinstance(s, _LOOPS):
                yield x
