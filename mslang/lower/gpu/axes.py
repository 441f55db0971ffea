"""The axes of a launch: their names, their extents, and which of them an expression depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mslang.ir import arith, program
from mslang.ir.expr import ONE, ZERO, Const, Expr
from mslang.ir.program import Range
from mslang.kernel import For, Function, Launch, Stmt

BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
"""The axes of the blocks of a launch."""

THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
"""The axes of the threads of a block."""

AXES = (*BLOCK_AXES, *THREAD_AXES)

WARP = 32
"""How many threads are a warp."""

BLOCK_SHARED = frozenset({"global", "shared", "shared.dyn"})
"""The scopes of which the threads of a block see the same elements."""

Extents = Mapping[str, Expr]
"""The extent of each axis of a launch; an axis that is not there has extent 1."""


def launch_of(extents: Extents) -> Launch:
    """A launch with these extents."""
    gx, gy, gz = (extents.get(a, ONE) for a in BLOCK_AXES)
    bx, by, bz = (extents.get(a, ONE) for a in THREAD_AXES)
    return Launch((gx, gy, gz), (bx, by, bz))


def extents_of(launch: Launch | None) -> dict[str, Expr]:
    """The extents of the axes of a launch that are not 1."""
    if launch is None:
        return {}
    found = dict(zip(AXES, (*launch.grid, *launch.block), strict=True))
    return {axis: n for axis, n in found.items() if n != ONE}


def larger(a: Expr, b: Expr) -> Expr:
    """The larger of two extents."""
    if isinstance(a, Const) and isinstance(b, Const):
        return a if a.value >= b.value else b
    return a if arith.equal(a, b) else arith.maximum(a, b)


def bound_threads(statements: Iterable[program.Stmt | Stmt]) -> dict[str, Expr]:
    """The extents of the thread axes of a kernel, all of whose statements are given."""
    found: dict[str, Expr] = {}
    for s in statements:
        if isinstance(s, program.For | For) and s.kind in THREAD_AXES:
            found[s.kind] = larger(found.get(s.kind, ONE), s.extent)
    return {a: found[a] for a in THREAD_AXES if a in found}


def thread_extents(f: Function) -> dict[str, int]:
    """The extents of the thread axes of a function that are not 1."""
    found = extents_of(f.launch)
    return {a: int(n.value) for a in THREAD_AXES if isinstance(n := found.get(a), Const)}


def axis_ranges(extents: Mapping[str, Expr]) -> dict[str, Range]:
    """What the variables of the axes run over."""
    return {axis: Range(ZERO, n) for axis, n in extents.items()}
