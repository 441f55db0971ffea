"""What a decision decides, from where its symbol is used in the parametric program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from mslang.ir.annotations import MAX_STEPS
from mslang.ir.expr import Binary, Choice, Expr, Symbol, Uniform
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
    """The decisions in annotations for unrolling, and those in extents of loops by the kind of loop.

    A number of threads or jobs is a factor of the extent of a loop over them, and is in the extent of the loop of one
    thread or job as well; a tile size is in the extent of the loop over tiles, too, of which it is no factor.
    """
    unrolled = set(_unrolling(sketch.program.annotations))
    factors: dict[Role, set[str]] = {role: set() for role in Role}
    extents: dict[Role, set[str]] = {role: set() for role in Role}
    for s in walk(sketch.program.body):
        if not isinstance(s, For):
            continue
        unrolled |= set(_unrolling(s.annotations))
        match s.kind:
            case "parallel":
                role = Role.PARALLEL
            case "serial" | "vectorized" | "unrolled":
                role = Role.TILE
            case _:
                role = Role.THREADS
        factors[role] |= {x.name for x in _factors(s.extent) if isinstance(x, Symbol)}
        extents[role] |= set(_symbols(s.extent))
    counts = [(role, factors[role]) for role in (Role.THREADS, Role.PARALLEL)]
    others = [(role, extents[role]) for role in (Role.TILE, Role.THREADS, Role.PARALLEL)]
    return [(Role.UNROLL, unrolled), *counts, *others]


def _factors(e: Expr) -> Iterator[Expr]:
    match e:
        case Binary("*", left, right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield e


def _unrolling(annotations: Annotations) -> Iterator[str]:
    for name, value in annotations:
        if name == MAX_STEPS or "unroll" in name:
            for e in annotation_exprs(((name, value),)):
                yield from _symbols(e)


def _symbols(e: Expr) -> Iterator[str]:
    return (x.name for x in walk_expr(e) if isinstance(x, Symbol))
