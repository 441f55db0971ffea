"""`return`, `continue` and `break` in TVMScript, which programs do not have.

What follows a condition under which a body ends moves into the branches that do not end it. A loop that `break` ends
keeps a flag, and does nothing once it is set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mslang.interop.tvmscript.source import refuse, text_of

_LOOPS = (ast.For, ast.While)
_COPIES = 64
"""Copies of what follows a condition: two for each condition, neither branch of which always jumps."""


def straightened(body: list[ast.stmt], copies: int = 1) -> list[ast.stmt]:
    """The statements of a function or loop with jumps at ends of bodies only, where `continue` goes without saying.

    Args:
        body: the statements.
        copies: of how many copies of the statements this is one.

    Raises:
        MsError: MS731, a jump leaves more than conditions, or stands in too many of them.
    """
    for k, s in enumerate(body):
        match s:
            case ast.Continue():
                return body[:k]
            case ast.Return() | ast.Break():
                return body[: k + 1]
            case ast.If(test=test, body=then, orelse=otherwise) if any(_own_jumps(s)):
                rest = body[k + 1 :]
                made = copies if not rest or _jumps_always(then) or _jumps_always(otherwise) else 2 * copies
                if made > _COPIES:
                    why = f"what follows conditions with jumps inside others would be copied more than {_COPIES} times"
                    raise refuse("MS731", s, f"`{text_of(s)}` is one of too many conditions with jumps", why)
                nothing: list[ast.stmt] = [ast.copy_location(ast.Pass(), s)]
                first = straightened([*then, *rest], made) or nothing
                both = ast.If(test, first, straightened([*otherwise, *rest], made))
                return [*body[:k], ast.copy_location(both, s)]
        for jump in _own_jumps(s):
            raise refuse("MS731", jump, f"`{text_of(jump)}` has no counterpart here", "it leaves a loop or a block")
    return body


def _jumps_always(body: list[ast.stmt]) -> bool:
    """Whether a body never reaches its end."""
    for s in body:
        match s:
            case ast.Return() | ast.Continue() | ast.Break():
                return True
            case ast.If(body=then, orelse=otherwise) if _jumps_always(then) and _jumps_always(otherwise):
                return True
    return False


def returns_nothing(s: ast.stmt) -> bool:
    """Whether a statement is `return` or `return None`."""
    return isinstance(s, ast.Return) and (
        s.value is None or (isinstance(s.value, ast.Constant) and s.value.value is None)
    )


def without_return(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function without a `return` of nothing at their end, which goes without saying."""
    return body[:-1] if returns_nothing(body[-1]) else body


def breaks(body: list[ast.stmt]) -> ast.Break | None:
    """The first `break` that ends a loop with this body."""
    return next((x for s in body for x in _own_jumps(s) if isinstance(x, ast.Break)), None)


def jumps(body: list[ast.stmt]) -> bool:
    """Whether a body is left before its end."""
    return any(True for s in body for _ in _own_jumps(s))


def _own_jumps(s: ast.AST) -> Iterator[ast.Return | ast.Continue | ast.Break]:
    """The jumps of a statement that leave the body around it."""
    match s:
        case ast.Return() | ast.Continue() | ast.Break():
            yield s
        case ast.FunctionDef() | ast.Lambda():
            return
    for child in ast.iter_child_nodes(s):
        for x in _own_jumps(child):
            if isinstance(x, ast.Return) or not isinstance(s, _LOOPS):
                yield x
