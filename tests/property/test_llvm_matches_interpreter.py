"""Random programs, plain and under random schedules, compiled through LLVM give what the interpreter gives."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mslang.backend.llvm.compile import compile
from mslang.backend.reference import interpret
from mslang.diagnostics import ScheduleError
from mslang.ir.expr import Const, Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import walk, walk_paths
from mslang.lower import lower
from mslang.runtime.arrays import empty, poison
from mslang.runtime.kernel import load
from mslang.runtime.linker import Linker
from mslang.target.description import AVX2, Target
from mslang.target.detect import host
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.registry import IMPLEMENTATIONS
from tests.property.strategies import programs, random_inputs

Draw = Any
LINKER = Linker(workers=3)

OPERATIONS = (
    "split",
    "split",
    "split",
    "fuse",
    "reorder",
    "reorder",
    "parallel",
    "vectorize",
    "vectorize",
    "unroll",
    "decompose_reduction",
    "set_scope",
    "cache_read",
    "cache_write",
    "compute_at",
    "reverse_compute_at",
    "compute_inline",
    "reverse_compute_inline",
)


def narrow_host() -> Target:
    """A target without masked vectors that this machine can run."""
    own = host()
    if not own.has("avx2"):
        return own
    return Target("narrow", cpu=AVX2.cpu, features=AVX2.features, vector_bits=256)


def compiled(program: Program, arrays: dict[str, np.ndarray], target: Target, checked: bool) -> dict[str, np.ndarray]:
    made = compile(lower(program, target, checked=checked), target)
    kernel = load(made.object, made.signature, LINKER)
    # What is not written must show, in results and through temporaries.
    kernel.workspace.fill(0xFF)
    given: dict[str, np.ndarray] = {}
    for p in program.params:
        if p.direction == "out":
            given[p.buffer.name] = empty(tuple(int(e.value) for e in p.given.shape), p.buffer.dtype)
            poison(given[p.buffer.name], p.buffer.dtype)
        else:
            given[p.buffer.name] = arrays[p.buffer.name].copy()
    kernel.bind(**given).run()
    return {p.buffer.name: given[p.buffer.name] for p in program.params if p.direction != "in"}


def check(program: Program, seed: int, target: Target, checked: bool = False) -> None:
    arrays = random_inputs(program, seed)
    wanted = interpret.run(program, arrays, check=False)
    actual = compiled(program, arrays, target, checked)
    for name, array in wanted.items():
        assert np.array_equal(actual[name], array), f"{name} differs:\n{actual[name]}\nwanted\n{array}"


# ------------------------------------------------------------------ schedules
def draw_call(draw: Draw, program: Program) -> tuple[str, dict[str, object]]:
    op = draw(st.sampled_from(OPERATIONS))
    loops = [s for s in walk(program.body) if isinstance(s, For)]
    loop = draw(st.sampled_from(loops))
    block = draw(st.sampled_from(blocks_of(program.body)))
    at: dict[str, object] = {"loop": LoopRef(loop.var)}
    of: dict[str, object] = {"block": BlockRef(block.name)}
    match op:
        case "split":
            sizes: list[Expr | None] = [Const(n) for n in draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))]
            return op, {**at, "factors": [None, *sizes]}
        case "fuse":
            chain = [loop]
            while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], For) and draw(st.booleans()):
                chain.append(chain[-1].body[0])
            return op, {"loops": [LoopRef(s.var) for s in chain]}
        case "reorder":
            path = draw(st.sampled_from([q for q in walk_paths(program.body) if isinstance(q[-1], Block)]))
            names = [s.var for s in path if isinstance(s, For)]
            if len(names) < 2:
                return op, {"loops": []}
            return op, {"loops": [LoopRef(n) for n in draw(st.permutations(names))]}
        case "decompose_reduction" | "compute_at" | "reverse_compute_at":
            return op, {**of, **at}
        case "cache_read" | "cache_write" | "set_scope":
            regions = block.reads if op == "cache_read" else block.writes
            buffer = draw(st.sampled_from([r.buffer for r in regions] or ["x"]))
            scope = draw(st.sampled_from(["local", "global"]))
            return op, {**of, "buffer": BufferRef(buffer), "scope": scope}
        case "compute_inline" | "reverse_compute_inline":
            return op, of
    return op, at


def draw_schedule(draw: Draw, program: Program, steps: int) -> Program:
    for _ in range(steps):
        op, args = draw_call(draw, program)
        try:
            program = IMPLEMENTATIONS[op](program, **args).program
        except ScheduleError:
            continue
    return program


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(max_examples=25, deadline=None, suppress_health_check=QUIET)
@given(program=programs(), seed=st.integers(0, 99), narrow=st.booleans())
def test_plain_programs(program: Program, seed: int, narrow: bool):
    check(program, seed, narrow_host() if narrow else host())


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(data=st.data(), seed=st.integers(0, 99))
def test_scheduled_programs(data: Draw, seed: int):
    program = draw_schedule(data.draw, data.draw(programs()), data.draw(st.integers(2, 8)))
    target = host() if data.draw(st.booleans()) else narrow_host()
    check(program, seed, target, checked=data.draw(st.integers(0, 3)) == 0)


@pytest.mark.campaign
@settings(max_examples=3000, deadline=None, suppress_health_check=QUIET)
@given(data=st.data(), seed=st.integers(0, 99))
def test_scheduled_programs_at_length(data: Draw, seed: int):
    program = draw_schedule(data.draw, data.draw(programs()), data.draw(st.integers(2, 16)))
    target = host() if data.draw(st.booleans()) else narrow_host()
    check(program, seed, target, checked=data.draw(st.integers(0, 3)) == 0)
