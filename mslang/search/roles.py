"""What a decision decides, from where its symbol is used in the parametric program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from mslang.ir.annotations import MAX_STEPS
from mslang.ir.expr import Choice, Expr, Symbol, Uniform
from mslang.ir.program import Annotations, For
from mslang.ir.symbols import annotation_exprs
from mslang.ir.visit import walk, walk_expr
from mslang.schedule.sketch import Sketch


class Role(StrEnum):
    """What a numeric decision decides. Structural decisions are mutated as structures."""

    TILE = "tile sizes"
    UNROLL = "unrolling"
    PARALLEL = "parallel loops"
    THREADS = "thread binding"
    CATEGORICAL = "one of several numbers"


def roles_of(sketch: Sketch) -> Mapping[Role, tuple[str, ...]]:
    """The open decisions with more than one value by role: their addresses, in their order."""
    out: dict[Role, list[str]] = {}
    used = _used(sketch)
    for d in sketch.decisions:
        if d.given is not None:
            continue
        role = Role.TILE
        if isinstance(d.domain, Choice | Uniform):
            role = next((r for r, names in used if d.address in names), Role.CATEGORICAL)
        out.setdefault(role, []).append(d.address)
    return {role: tuple(addresses) for role, addresses in out.items()}


def _used(sketch: Sketch) -> list[tuple[Role, set[str]]]:
    """The decisions in annotations for unrolling, in extents of loops bound to threads, of loops within a thread, and
    of parallel loops. The size of a tile is in the extent of the loop over tiles, too, which may be parallel."""
    unrolled, threads, tiles, parallel = set(_unrolling(sketch.program.annotations)), set[str](), set[str](), set[str]()
    for s in walk(sketch.program.body):
        if not isinstance(s, For):
            continue
        unrolled |= set(_unrolling(s.annotations))
        match s.kind:
            case "parallel":
                parallel |= set(_symbols(s.extent))
            case "serial" | "vectorized" | "unrolled":
                tiles |= set(_symbols(s.extent))
            case _:
                threads |= set(_symbols(s.extent))
    return [(Role.UNROLL, unrolled), (Role.THREADS, threads), (Role.TILE, tiles), (Role.PARALLEL, parallel)]


def _unrolling(annotations: Annotations) -> Iterator[str]:
    for name, value in annotations:
        if name == MAX_STEPS or "unroll" in name:
            for e in annotation_exprs(((name, value),)):
                yield from _symbols(e)


def _symbols(e: Expr) -> Iterator[str]:
    return (x.name for x in walk_expr(e) if isinstance(x, Symbol))
