"""A block whose conditions leave only the first values of an axis, as one whose axis has only these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, Binary, Expr, Var
from mslang.ir.program import Block, For, If, Range, Stmt
from mslang.ir.visit import Path, conjunction, conjuncts, free_vars, guarded, loads_of, substitute
from mslang.transform.analysis.position import axis_ranges, bindings, block_at, ranges_above


def narrowed(path: Path) -> Path:
    """The path with the axes of its block cut to what its conditions leave of them; the path itself if that is all.

    The conditions are those of its predicate, and those of an `if` around all that it does or of the one block in it,
    as far as they are about its axes. An init is in no such `if`.
    """
    block = block_at(path)
    ranges, values = ranges_above(path), bindings(block)
    stated = _tightest(_bounds(block, substitute(c, values), values, ranges) for c in conjuncts(block.predicate))
    inside = _inside(block.body) if block.init is None else ()
    axes = {n: axis for n, axis in axis_ranges(block).items() if n not in stated}
    found = [_bounds(block, c, {}, axes) for c in inside]
    within = {n: bound for n, bound in _tightest(found).items() if n not in stated}
    # Of several bounds of an axis the others stay in the `if`: they hold, or cut it further.
    dropped = [c for c, told in zip(inside, found, strict=True) if told and told.items() <= within.items()]
    bounds = stated | within
    if not bounds:
        return path
    # In terms of the axes, which hide loops of their names.
    kept = tuple(Binary("<", Var(n), bound) for n, bound in bounds.items())
    return (
        *path[:-1],
        replace(
            block,
            axes=tuple(replace(a, extent=bounds.get(a.name, a.extent)) for a in block.axes),
            predicate=guarded(block.predicate, kept),
            body=tuple(_without(s, dropped) for s in block.body) if dropped else block.body,
        ),
    )


def _tightest(several: Iterable[Mapping[str, Expr]]) -> dict[str, Expr]:
    """The bounds of axes by several conditions: of an axis that has more than one, the first that none is known to be
    below."""
    found: dict[str, Expr] = {}
    for bounds in several:
        for n, bound in bounds.items():
            if n not in found or arith.proved(Binary("<", bound, found[n])):
                found[n] = bound
    return found


def _bounds(block: Block, condition: Expr, values: Mapping[str, Expr], ranges: Mapping[str, Range]) -> dict[str, Expr]:
    """The axes that a condition cuts, and where; `values` say what the axes stand for in it (nothing: themselves)."""
    match condition:
        case Binary("<", value, bound) if not free_vars(bound) and not any(loads_of(condition)):
            pass
        case _:
            return {}
    if not arith.proved(Binary("<=", ONE, bound)):
        return {}
    return {
        a.name: bound
        for a in block.axes
        if arith.proved(Binary("<", bound, a.extent))
        and (arith.equal(values[a.name], value, ranges) if values else getattr(value, "name", None) == a.name)
    }


def _inside(body: tuple[Stmt, ...]) -> tuple[Expr, ...]:
    """What must hold for the only statement in a body to do anything."""
    match body:
        case (If(condition=c, otherwise=()),):
            return conjuncts(c)
        case (For(var=var, body=inner),):
            return tuple(c for c in _inside(inner) if var not in free_vars(c))
        case (Block() as inner,):
            return tuple(substitute(c, bindings(inner)) for c in conjuncts(inner.predicate))
    return ()


def _without(s: Stmt, dropped: list[Expr]) -> Stmt:
    match s:
        case If(condition=c):
            rest = conjunction(tuple(x for x in conjuncts(c) if x not in dropped))
            return replace(s, condition=rest)
        case For(body=inner):
            return replace(s, body=tuple(_without(x, dropped) for x in inner))
        case Block():
            parts = conjuncts(s.predicate)
            rest = conjunction(tuple(x for x in parts if substitute(x, bindings(s)) not in dropped))
            return replace(s, predicate=rest)
    return s


__all__ = ["narrowed"]
