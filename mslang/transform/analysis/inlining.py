"""What a block must be for its formula to be put in place of what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslang.ir import arith
from mslang.ir.expr import ZERO, Binary, Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import Block, Program, Range, Region, Store
from mslang.ir.region import hidden
from mslang.ir.visit import Path, loads_of, substitute
from mslang.transform.analysis.cover import produced_box, why_not_covered
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.dependence import (
    is_output,
)
from mslang.transform.analysis.formula import (
    begun,
    formula_of,
    is_viewed,
)
from mslang.transform.analysis.legality import why_not_complete
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    ranges_above,
)
from mslang.transform.outcome import refuse


def complete_formula(program: Program, path: Path, primitive: str, begins: bool = False) -> Store:
    """The formula of the block at the end of a path, which must be complete; `begins`: it may have an init, but must
    then reduce over nothing."""
    block = block_at(path)
    if block.init is not None and (not begins or any(a.kind == "reduce" for a in block.axes)):
        raise refuse(
            "MS350",
            primitive,
            f"block `{block.name}` has an init",
            why="a reduction is not a formula",
            help="`compute_at` moves it to where its result is read" if primitive == "compute_inline" else None,
        )
    require_complete(program, path, primitive)
    formula = formula_of(block)
    if formula is not None and block.init is not None:
        formula = begun(block, formula)
    if formula is None:
        raise refuse(
            "MS351",
            primitive,
            f"block `{block.name}` does more than one store",
            why="only a block whose body is one store, under `let`s or not, is a formula",
        )
    own = {*(b.name for b in block.allocs), *(v.buffer.name for v in block.views)}
    used = own & {formula.buffer, *(x.buffer for e in (formula.value, *formula.indices) for x in loads_of(e))}
    if used and not begins:
        raise refuse(
            "MS352",
            primitive,
            f"block `{block.name}` computes with `{min(used)}`, which is its own",
            why="views and buffers of a block are removed with it",
        )
    return formula


def require_complete(program: Program, path: Path, primitive: str) -> None:
    """The block at the end of a path must be complete (MS345)."""
    reason = why_not_complete(program, path)
    if reason is not None:
        raise refuse("MS345", primitive, f"block `{block_at(path).name}` cannot be inlined", why=reason)


def require_inner(program: Program, path: Path, buffer: str, primitive: str) -> None:
    """What the block at the end of a path writes must be needed in its scope only (MS343), and neither viewed nor
    hidden (MS352)."""
    if is_output(program, path):
        raise refuse(
            "MS343", primitive, f"block `{block_at(path).name}` is an output block", why=f"`{buffer}` is needed outside"
        )
    if is_viewed(program, buffer):
        raise refuse(
            "MS352", primitive, f"there is a view of `{buffer}`", why="the view would have nothing to refer to"
        )
    hiding = next((b.name for b in blocks_of(program.body) if buffer in hidden(b, "read") | hidden(b, "write")), None)
    if hiding is not None:
        raise refuse(
            "MS352",
            primitive,
            f"block `{hiding}` hides that it accesses `{buffer}`",
            why="it would keep an access to a removed buffer",
        )


def require_covered(program: Program, path: Path, primitive: str, regions: tuple[Region, ...] | None = None) -> None:
    """What the block at the end of a path reads, or these regions of it, must provably be written before (MS332)."""
    reason = why_not_covered(program, path, regions)
    if reason is not None:
        raise refuse(
            "MS332",
            primitive,
            f"block `{block_at(path).name}` would read elements that are not provably written",
            why=reason,
        )


def made_for_all(maker: Path, stored: Region, read: Box) -> bool:
    """Does a block provably store each element of a box, of which parts may lie outside of the buffer?"""
    written = produced_box(maker, stored, ())
    domain = arith.relax(stored.ranges, axis_ranges(block_at(maker)))
    ranges = ranges_above(maker)
    boxes = () if written is None else (written, domain)
    return bool(boxes) and all(arith.covers(box, read, ranges) is arith.Verdict.PROVED for box in boxes)


def limits(
    block: Block, values: Mapping[str, Expr], loaded: Sequence[Expr], stored: Sequence[Expr], axes: Mapping[str, Range]
) -> tuple[Expr, ...]:
    """What must hold of the producer's axes for an element to be one that the block loads."""
    found: list[Expr] = []
    for a in block.axes:
        found.append(Binary("<=", ZERO, values[a.name]))
        found.append(Binary("<", values[a.name], a.extent))
    for one, other in zip(loaded, stored, strict=True):
        index = arith.simplify(substitute(one, values), axes)
        if not arith.equal(index, other, axes):
            found.append(Binary("==", index, other))
    return tuple(arith.simplify(c, axes) for c in found if not arith.proved(c, axes))
