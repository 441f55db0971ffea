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
    unrolled, parallel, threads = _used(sketch)
    out: dict[Role, list[str]] = {}
    for d in sketch.decisions:
        if d.given is not None:
            continue
        role = Role.TILE
        if isinstance(d.domain, Choice | Uniform):
            role = Role.CATEGORICAL
            for names, other in ((unrolled, Role.UNROLL), (threads, Role.THREADS), (parallel, Role.PARALLEL)):
                if d.address in names:
                    role = other
                    break
        out.setdefault(role, []).append(d.address)
    return {role: tuple(addresses) for role, addresses in out.items()}


def _used(sketch: Sketch) -> tuple[set[str], set[str], set[str]]:
    """The decisions in annotations for unrolling, in extents of parallel loops, and of loops bound to threads."""
    unrolled, parallel, threads = set(_unrolling(sketch.program.annotations)), set[str](), set[str]()
    for s in walk(sketch.program.body):
        if not isinstance(s, For):
            continue
        unrolled |= set(_unrolling(s.annotations))
        if s.kind == "parallel":
            parallel |= set(_symbols(s.extent))
        elif s.kind not in ("serial", "vectorized", "unrolled"):
            threads |= set(_symbols(s.extent))
    return unrolled, parallel, threads


def _unrolling(annotations: Annotations) -> Iterator[str]:
    for name, value in annotations:
        if name == MAX_STEPS or "unroll" in name:
            for e in annotation_exprs(((name, value),)):
                yield from _symbols(e)


def _symbols(e: Expr) -> Iterator[str]:
    return (x.name for x in walk_expr(e) if isinstance(x, Symbol))
