"""The interpreter against a second one that shares nothing with it: it walks the program, on NumPy's scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mslang.backend.reference.interpret import run
from mslang.ir.dtype import is_float
from mslang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from mslang.ir.program import Block, For, If, Let, Program, Stmt, Store
from tests.property.strategies import NUMPY, concrete_shape, difference, outputs_equal, programs, random_inputs

OPERATORS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
}


class Walker:
    """Runs a program statement by statement."""

    def __init__(self, program: Program, inputs: Mapping[str, np.ndarray]) -> None:
        buffers = [*(p.buffer for p in program.params), *program.allocs]
        self.data = {b.name: np.zeros(concrete_shape(b.shape, {}), NUMPY[b.dtype]) for b in buffers}
        self.data |= {name: a.copy() for name, a in inputs.items()}

    def value(self, e: Expr, env: dict[str, Any]) -> Any:
        match e:
            case Const(value=v, dtype=d):
                return NUMPY[d](v)
            case Var(name=n):
                return env[n]
            case Load(buffer=b, indices=xs):
                return self.data[b][tuple(int(self.value(x, env)) for x in xs)]
            case Select(condition=c, then=t, otherwise=o):
                return self.value(t if self.value(c, env) else o, env)
            case Cast(dtype=d, operand=x):
                return self.value(x, env).astype(NUMPY[d])
            case Unary(op=op, operand=x):
                return np.negative(self.value(x, env)) if op == "-" else np.logical_not(self.value(x, env))
            case Binary(op=op, left=a, right=b):
                return OPERATORS[op](self.value(a, env), self.value(b, env))
            case Call(name="abs", args=(x,)):
                return np.abs(self.value(x, env))
        raise NotImplementedError(e)

    def run(self, body: tuple[Stmt, ...], env: dict[str, Any]) -> None:
        for s in body:
            match s:
                case For(var=v, start=a, extent=n, body=b):
                    first = int(self.value(a, env))
                    for i in range(first, first + int(self.value(n, env))):
                        self.run(b, {**env, v: np.int64(i)})
                case Block(axes=axes, predicate=p, init=init, body=b):
                    own = {a.name: self.value(a.binding, env) for a in axes}
                    if self.value(p, {**env, **own}):
                        if init is not None and all(own[a.name] == 0 for a in axes if a.kind == "reduce"):
                            self.run(init, own)
                        self.run(b, own)
                case Store(buffer=name, indices=xs, value=v):
                    self.data[name][tuple(int(self.value(x, env)) for x in xs)] = self.value(v, env)
                case Let(name=n, value=v, body=b):
                    self.run(b, {**env, n: self.value(v, env)})
                case If(condition=c, then=t, otherwise=o):
                    self.run(t if self.value(c, env) else o, env)
                case _:
                    raise NotImplementedError(s)


def walked(program: Program, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = Walker(program, inputs)
    with np.errstate(all="ignore"):
        w.run(program.body, {})
    return {p.buffer.name: w.data[p.buffer.name] for p in program.params if p.direction != "in"}


@settings(max_examples=50, deadline=None)
@given(programs(max_extent=6), st.integers(0, 9))
def test_agrees_with_a_walker(program: Program, seed: int):
    inputs = random_inputs(program, seed)
    found = run(program, inputs)
    expected = walked(program, inputs)
    assert outputs_equal(expected, found), difference(expected, found)
    assert outputs_equal(found, run(program, inputs, check=False))


@settings(max_examples=50, deadline=None)
@given(programs(max_extent=6))
def test_drawn_programs_stay_exact(program: Program):
    """In floating types no value leaves the integers that `f32` holds exactly."""
    for name, a in run(program, random_inputs(program, 1)).items():
        dtype = next(p.buffer.dtype for p in program.params if p.buffer.name == name)
        if is_float(dtype):
            assert np.all(np.abs(a) < 1 << 23) and np.array_equal(a, np.round(a))
