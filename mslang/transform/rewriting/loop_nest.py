"""What the primitives on loops share: nests put together, what a loop must be, how statements are called."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import Expr, Var
from mslang.ir.program import Block, For, Stmt
from mslang.ir.text import kind_text


def mixed_radix(names: Sequence[str], extents: Sequence[Expr]) -> Expr:
    """The number whose digits are loops, the outermost first: `(a * n1 + b) * n2 + c`."""
    index: Expr = Var(names[0])
    for name, extent in zip(names[1:], extents[1:], strict=True):
        index = arith.add(arith.mul(index, extent), Var(name))
    return arith.simplify(index)


def nested(loops: Sequence[For], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements under loops, of which only the heads count, outermost first."""
    for s in reversed(loops):
        body = (replace(s, body=body),)
    return body


def called(s: Stmt) -> str:
    """How a statement is called in messages: ``loop `i```."""
    match s:
        case For(var=n):
            return f"loop `{n}`"
        case Block(name=n):
            return f"block `{n}`"
    return kind_text(s)
