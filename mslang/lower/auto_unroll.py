"""Loops that an annotation wants unrolled, as TVM's `UnrollLoop` understands `pragma_auto_unroll_max_step`.

The annotation stands on a loop or block, and holds for it and for what is inside. A serial loop of known length is
unrolled if no loop inside it stays a loop and it makes at most so many statements, written out. With
`pragma_unroll_explicit = 0` that is left to the code generator, as TVM leaves it to LLVM.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.annotations import MAX_STEPS
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Annotations, Block, Evaluate, For, If, Let, Program, Stmt, Store, While
from mslang.ir.visit import walk

STEPS = "pragma_auto_unroll_max_step"
EXPLICIT = "pragma_unroll_explicit"
_DEPTH = 8
"""How many loops inside one another are unrolled for an annotation, as in TVM."""


class _Wanted(msgspec.Struct, frozen=True):
    """What the annotations around a statement want."""

    steps: int = 0
    explicit: bool = True


class _Made(msgspec.Struct, frozen=True):
    """Statements, and what they are once they are unrolled: how many, how deep, and whether loops are left."""

    body: tuple[Stmt, ...]
    steps: int = 0
    depth: int = 0
    loops: bool = False


def auto_unrolled(program: Program) -> Program:
    """The program with the loops marked as unrolled that annotations want unrolled."""
    if not any(STEPS in dict(s.annotations) for s in walk(program.body) if isinstance(s, For | Block)):
        return program
    return replace(program, body=_body(program.body, _Wanted()).body)


def _body(body: tuple[Stmt, ...], wanted: _Wanted) -> _Made:
    return _together([_statement(s, wanted) for s in body])


def _together(parts: list[_Made]) -> _Made:
    return _Made(
        tuple(s for p in parts for s in p.body),
        sum(p.steps for p in parts),
        max((p.depth for p in parts), default=0),
        any(p.loops for p in parts),
    )


def _statement(s: Stmt, wanted: _Wanted) -> _Made:
    match s:
        case For():
            return _loop(s, _said(s.annotations, wanted))
        case Block():
            inside = _said(s.annotations, wanted)
            init = _Made(()) if s.init is None else _body(s.init, inside)
            body = _body(s.body, inside)
            made = replace(s, init=None if s.init is None else init.body, body=body.body)
            return replace(_together([init, body]), body=(made,))
        case If():
            then, otherwise = _body(s.then, wanted), _body(s.otherwise, wanted)
            made_if = replace(s, then=then.body, otherwise=otherwise.body)
            return replace(_together([then, otherwise]), body=(made_if,))
        case Let():
            body = _body(s.body, wanted)
            return replace(body, body=(replace(s, body=body.body),))
        case While():
            body = _body(s.body, wanted)
            return replace(body, body=(replace(s, body=body.body),), loops=True)
        case Store() | Evaluate():
            return _Made((s,), 1)
    return _Made((s,))


def _loop(s: For, wanted: _Wanted) -> _Made:
    inside = _body(s.body, wanted)
    made = replace(s, body=inside.body)
    trips = _number(s.extent)
    if trips == 1 or s.kind not in ("serial", "unrolled", "parallel"):
        # No loop in what runs: one iteration, lanes, or threads.
        return replace(inside, body=(made,))
    if s.kind == "unrolled":
        limit = dict(s.annotations).get(MAX_STEPS)
        written = trips is not None and (limit is None or trips <= (_number(limit) or 0))
    else:
        written = (
            s.kind == "serial"
            and trips is not None
            and not inside.loops
            and inside.depth <= _DEPTH
            and trips * inside.steps <= wanted.steps
        )
        if written and wanted.explicit:
            made = replace(made, kind="unrolled")
    if not written or trips is None:
        return replace(inside, body=(made,), loops=True)
    return _Made((made,), trips * inside.steps, inside.depth + 1, inside.loops)


def _said(notes: Annotations, wanted: _Wanted) -> _Wanted:
    found = dict(notes)
    steps, explicit = _number(found.get(STEPS)), _number(found.get(EXPLICIT))
    return _Wanted(
        wanted.steps if steps is None else steps,
        wanted.explicit if explicit is None else bool(explicit),
    )


def _number(value: object) -> int | None:
    if isinstance(value, Expr):
        value = arith.simplify(value)
        value = value.value if isinstance(value, Const) else None
    return int(value) if isinstance(value, int) else None
