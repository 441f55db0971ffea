"""Blocks whose bodies use no outer variables except their own axes.

In TensorIR a block's body may use the enclosing loops, axes and `let`s; here it uses its own axes only. Each outer
variable that it uses becomes an axis of its own, bound to that variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir.arith import bounds, simplify
from mslang.ir.expr import ZERO, Binary, Const, Expr, Load, Var
from mslang.ir.program import Axis, Block, Range
from mslang.ir.symbols import all_exprs
from mslang.ir.visit import free_vars, map_stmt_exprs, substitute, walk, walk_expr


class Loop(msgspec.Struct, frozen=True):
    """A loop variable or an axis, as visible in nested blocks."""

    start: Expr
    extent: Expr
    kind: str
    """The kind of the axis that stands for it in a block."""


class Let(msgspec.Struct, frozen=True):
    """A `let`, as visible in nested blocks."""

    value: Expr


Outer = Loop | Let


def closed(block: Block, outer: Mapping[str, Outer], fresh: Callable[[str], str]) -> Block:
    """The block with an axis for each variable of `outer` used inside.

    Args:
        block: the block; its bindings and predicate may use outer variables, and are kept.
        outer: the enclosing variables by name.
        fresh: makes the name of an axis.

    Raises:
        MsError: MS731, it uses a value read from a buffer outside of it, or a loop without a bound.
    """
    lets = {n: x.value for n, x in outer.items() if isinstance(x, Let)}
    inside = block
    while used := _named(inside) & lets.keys():
        for n in sorted(used):
            if any(isinstance(x, Load) for x in walk_expr(lets[n])):
                raise MsError(
                    problem(
                        "MS731",
                        f"the block `{block.name}` uses `{n}`, which is read from a buffer outside of it",
                        why="a block names its own axes only",
                    )
                )
        inside = _put(inside, lets)
    ranges = {n: Range(x.start, x.extent) for n, x in outer.items() if isinstance(x, Loop)}
    axes: list[Axis] = []
    while used := {n for n in _named(inside) if isinstance(outer.get(n), Loop)}:
        for n in [n for n in outer if n in used]:
            loop = outer[n]
            assert isinstance(loop, Loop)
            name = fresh(n)
            kind = "opaque" if loop.kind == "reduce" and block.init is not None else loop.kind
            shifted = loop.start != ZERO
            binding = Binary("-", Var(n), loop.start) if shifted else Var(n)
            axes.append(Axis(name, size_bound(loop.extent, ranges), kind, binding))
            inside = _put(inside, {n: Binary("+", Var(name), loop.start) if shifted else Var(name)})
    return replace(inside, axes=(*block.axes, *axes))


def size_bound(extent: Expr, ranges: Mapping[str, Range]) -> Expr:
    """An extent over sizes alone: itself, or its upper bound.

    Raises:
        MsError: MS731, it has no bound.
    """
    if not free_vars(extent):
        return extent
    found = bounds(extent, ranges)
    if found is None or free_vars(found[1]):
        raise MsError(problem("MS731", "the extent of an axis depends on enclosing loops, without a bound"))
    return simplify(found[1])


def _put(block: Block, values: Mapping[str, Expr]) -> Block:
    """The inside of a block after substitution; its own bindings and predicate are kept."""
    made = map_stmt_exprs(block, lambda e: substitute(e, values))
    assert isinstance(made, Block)
    return replace(made, axes=block.axes, predicate=block.predicate)


def _named(block: Block) -> set[str]:
    """The variables used inside a block."""
    bare = replace(block, axes=(), predicate=Const(True, "bool"))
    return {n for s in walk((bare,)) for e in all_exprs(s) for n in free_vars(e)} - {a.name for a in block.axes}
