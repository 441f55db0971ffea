"""In which order a reduction combines: what cannot be combined in any order keeps the order of the axes."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Expr
from mslang.ir.program import For
from mslang.ir.reducers import combines_in_any_order
from mslang.ir.visit import Path, free_vars
from mslang.transform.analysis.position import block_at, loop_ranges, loops_above, ranges_above
from mslang.transform.analysis.reducers import known_reducers


def why_not_in_sequence(path: Path) -> str | None:
    """None if a reduction may combine in any order, or provably does so in the order of its axes, the last fastest."""
    block = block_at(path)
    if block.init is None or combines_in_any_order(block, known_reducers()):
        return None
    reduced = [a for a in block.axes if a.kind == "reduce"]
    total: Expr = ZERO
    for a in reduced:
        total = arith.add(arith.mul(total, a.extent), a.binding)
    used = _used(path, "reduce")
    loops = [s for s in loops_above(path) if s.var in used]
    if used.isdisjoint(_used(path, "spatial")) and _ascends(arith.simplify(total, ranges_above(path)), loops, path):
        return None
    return f"what block `{block.name}` combines over `{reduced[0].name}` must keep its order"


def _ascends(total: Expr, loops: Sequence[For], path: Path) -> bool:
    """Is a number larger in each later iteration of some loops?"""
    terms = coefficients(total, frozenset(s.var for s in loops))
    if terms is None:
        return False
    ranges = ranges_above(path)
    step: Expr = ONE
    for s in reversed(loops):
        if arith.equal(s.extent, ONE):
            continue
        if not arith.proved(Binary("<=", step, terms.get(s.var, ZERO)), ranges):
            return False
        step = arith.mul(terms[s.var], s.extent)
    return True


def _used(path: Path, kind: str) -> frozenset[str]:
    """The loops that axes of a kind depend on."""
    mine = loop_ranges(loops_above(path)).keys()
    used = (free_vars(a.binding) for a in block_at(path).axes if a.kind == kind)
    return frozenset[str]().union(*used) & mine
