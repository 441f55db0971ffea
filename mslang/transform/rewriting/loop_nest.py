"""What the primitives on loops share: nests put together, what a loop must be, how statements are called."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import Expr, Var
from mslang.ir.program import Block, For, Stmt
from mslang.ir.text import kind_text
from mslang.transform.analysis.position import shown
from mslang.transform.outcome import Handle, refuse


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


def require_plain(loop: For, primitive: str) -> None:
    """The loop is serial and carries no annotation (MS305)."""
    if loop.kind != "serial":
        raise refuse(
            "MS305",
            primitive,
            f"loop `{loop.var}` is {loop.kind}",
            why="what was said of the loop would be lost",
            help=f"{primitive} first, then mark the new loops",
        )
    if loop.annotations:
        raise refuse(
            "MS305",
            primitive,
            f"loop `{loop.var}` carries the annotation {loop.annotations[0][0]!r}",
            why="what was said of the loop would be lost",
            help=f"`unannotate` it, or {primitive} first",
        )


def require_distinct(handles: Sequence[Handle], primitive: str) -> None:
    """No handle is given twice (MS303)."""
    seen: set[Handle] = set()
    for h in handles:
        if h in seen:
            raise refuse("MS303", primitive, f"{shown(h)} is named twice", help="name each loop once")
        seen.add(h)


def called(s: Stmt) -> str:
    """How a statement is called in messages: ``loop `i```."""
    match s:
        case For(var=n):
            return f"loop `{n}`"
        case Block(name=n):
            return f"block `{n}`"
    return kind_text(s)
