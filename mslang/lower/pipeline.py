"""Software pipelining: the copies of a loop's later iterations run before the rest of earlier ones.

A loop annotated with `pipeline.stages` = S becomes a prologue that runs the copies of the first S - 1 iterations, a
loop that runs the copies of the iteration S - 1 further on and then the rest of its own, and an epilogue with the rest
of the last S - 1. Each buffer that the copies fill has S versions, which iterations take in turn.

What may be moved is decided here, from the lowered statements alone: a loop that other primitives changed after it was
annotated runs as it stands wherever moving could make a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir.annotations import STAGES
from mslang.ir.expr import ZERO, Binary, Const, Expr, Load, Var
from mslang.ir.program import Buffer
from mslang.ir.visit import loads_of, map_expr, substitute
from mslang.kernel.nodes import Allocate, Atomic, Barrier, Body, Evaluate, For, Invoke, Stmt, Store, While
from mslang.kernel.visit import bodies, expressions, map_deep, map_expressions, walk, with_bodies
from mslang.lower.analysis import changes_bounds
from mslang.lower.fold import fold


def pipelined(body: Body) -> Body:
    """Statements in which the loops that are to be pipelined are."""
    out: list[Stmt] = []
    for s in body:
        made = with_bodies(s, tuple(pipelined(b) for b in bodies(s)))
        stages = dict(made.annotations).get(STAGES) if isinstance(made, For) else None
        if isinstance(made, For) and isinstance(stages, int) and stages > 1:
            out.extend(_staged(made, stages))
        else:
            out.append(made)
    return tuple(out)


class _Iteration(NamedTuple):
    """What one iteration does: its statements in order, and the buffers that it has to itself."""

    stmts: Body
    buffers: tuple[Buffer, ...]


class _Touched(NamedTuple):
    stored: frozenset[str]
    loaded: frozenset[str]
    known: bool
    """Does it do no more than that?"""


def _staged(s: For, stages: int) -> Body:
    inside = opened(s.body)
    copies, versioned = split(inside)
    plain = replace(s, annotations=tuple(a for a in s.annotations if a[0] != STAGES))
    if not versioned or s.kind != "serial" or changes_bounds(s):
        return (plain,)
    rest = tuple(x for k, x in enumerate(inside.stmts) if k not in copies)
    first, ahead = s.start, Const(stages - 1)
    slot = fold(Binary("%", minus(Var(s.var), first), Const(stages)))
    filling = in_version(tuple(inside.stmts[k] for k in copies), versioned, slot)
    using = in_version(rest, versioned, slot)
    later = {s.var: Binary("+", Var(s.var), ahead)}
    filling_later = map_deep(filling, lambda e: fold(substitute(e, later)))
    for b in inside.buffers:
        if b.name not in versioned:
            using = (Allocate(b, using),)
    steady = fold(Binary("max", Binary("-", s.extent, ahead), ZERO))
    left = fold(Binary("min", ahead, s.extent))
    made: Body = (
        replace(plain, extent=left, body=filling),
        replace(plain, extent=steady, body=(*filling_later, *using)),
        replace(plain, start=fold(Binary("+", first, steady)), extent=left, body=using),
    )
    for name in versioned:
        made = (Allocate(versions(next(b for b in inside.buffers if b.name == name), stages), made),)
    return made


def opened(body: Body) -> _Iteration:
    """The statements of a body, those in allocations too."""
    stmts: list[Stmt] = []
    buffers: list[Buffer] = []
    for s in body:
        if isinstance(s, Allocate):
            inner = opened(s.body)
            stmts.extend(inner.stmts)
            buffers.extend((s.buffer, *inner.buffers))
        else:
            stmts.append(s)
    return _Iteration(tuple(stmts), tuple(buffers))


def split(inside: _Iteration) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Which statements are copies, and which buffers they fill: an iteration's own, filled before they are read, by
    nothing but copies; a copy reads nothing that the loop writes."""
    touched = [_touched(s) for s in inside.stmts]
    written = frozenset[str]().union(*(t.stored for t in touched))
    fillable = {b.name for b in inside.buffers}
    while True:
        copies = tuple(
            k for k, t in enumerate(touched) if t.known and t.stored and t.stored <= fillable and not t.loaded & written
        )
        refuted = {
            name
            for k in copies
            for name in touched[k].stored
            if any(
                (name in t.stored and j not in copies) or (name in t.loaded and j <= k) for j, t in enumerate(touched)
            )
        }
        if not refuted:
            filled = frozenset[str]().union(*(touched[k].stored for k in copies))
            return copies, tuple(b.name for b in inside.buffers if b.name in filled)
        fillable -= refuted


def _touched(s: Stmt) -> _Touched:
    inner = tuple(walk((s,)))
    own = {x.buffer.name for x in inner if isinstance(x, Allocate)}
    # an instruction's operands are addresses: its meaning says what it loads and stores
    read = [e for x in inner if not isinstance(x, Invoke) for e in expressions(x)]
    return _Touched(
        frozenset(x.buffer for x in inner if isinstance(x, Store)) - own,
        frozenset(x.buffer for e in read for x in loads_of(e)) - own,
        not any(isinstance(x, Evaluate | While | Atomic | Barrier) for x in inner),
    )


def minus(a: Expr, b: Expr) -> Expr:
    """`a - b`, or `a` where `b` is 0."""
    return a if b == ZERO else Binary("-", a, b)


def versions(b: Buffer, stages: int) -> Buffer:
    """The buffer with a dimension in front for its versions."""
    strides = b.strides
    if strides is not None:
        strides = (fold(Binary("*", b.shape[0], strides[0])), *strides) if b.shape else None
    return replace(b, shape=(Const(stages), *b.shape), strides=strides)


def in_version(body: Body, buffers: Sequence[str], slot: Expr) -> Body:
    """Statements in which buffers are accessed in one of their versions."""
    names: Mapping[str, Expr] = dict.fromkeys(buffers, slot)

    def change(x: Expr) -> Expr | None:
        return Load(x.buffer, (slot, *x.indices), x.dtype) if isinstance(x, Load) and x.buffer in names else None

    def statement(s: Stmt) -> Stmt:
        s = with_bodies(s, tuple(tuple(statement(x) for x in b) for b in bodies(s)))
        s = map_expressions(s, lambda e: map_expr(e, change))
        return replace(s, indices=(slot, *s.indices)) if isinstance(s, Store) and s.buffer in names else s

    return tuple(statement(s) for s in body)
