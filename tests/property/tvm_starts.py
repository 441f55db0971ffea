"""Minima and maxima that start from the ends of what is finite, as TVM's do, in place of infinities."""

from __future__ import annotations

import math

from msgspec.structs import replace

from mslang.ir.expr import Const, Expr
from mslang.ir.program import Block, Program, Stmt, Store
from mslang.ir.visit import map_bodies

_GREATEST = {"f16": 65504.0, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}


def finite_starts(program: Program) -> Program:
    """The program, where no initialisation stores an infinity."""

    def visit(s: Stmt) -> Stmt:
        s = map_bodies(s, lambda body: tuple(visit(x) for x in body))
        if not isinstance(s, Block) or s.init is None:
            return s
        return replace(s, init=tuple(replace(x, value=_finite(x.value)) if isinstance(x, Store) else x for x in s.init))

    return replace(program, body=tuple(visit(s) for s in program.body))


def _finite(e: Expr) -> Expr:
    match e:
        case Const(value=float() as value, dtype=dtype) if math.isinf(value) and dtype in _GREATEST:
            return Const(math.copysign(_GREATEST[dtype], value), dtype)
    return e
