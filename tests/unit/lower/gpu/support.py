"""What the tests of GPU lowering share: programs from text, schedules of them, and their meaning in the simulator."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mslang.backend.reference import interpret
from mslang.ir.program import Program
from mslang.kernel import Barrier, Module
from mslang.kernel.verify import verify
from mslang.kernel.visit import walk
from mslang.lower.gpu import lower
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import CUDA
from tests.property.arrays import difference, outputs_equal
from tests.property.judge import sparse_inputs
from tests.unit.lower.gpu import simulator


def program(text: str) -> Program:
    """A program with its loops bound in the text."""
    return parse_program(text)


@lru_cache
def scheduled(text: str, schedule: str = "s", seed: int = 0) -> Program:
    """A program after the schedule of a text."""
    return space_of(load("gpu.ms", text), schedule).sample(seed).program


def lowered(p: Program) -> Module:
    """The well-formed module of a program."""
    module = lower(p, CUDA)
    verify(module)
    return module


def barriers(module: Module) -> int:
    """How many barriers stand in a module."""
    return sum(isinstance(s, Barrier) for f in module.functions for s in walk(f.body))


def same_meaning(p: Program, module: Module | None = None, seeds: tuple[int, ...] = (0, 1)) -> None:
    """The module does what the program does, in whatever order threads run, without races."""
    module = lowered(p) if module is None else module
    arrays = sparse_inputs(p, 1)
    want = interpret.run(p, arrays, check=False)
    for seed in seeds:
        got = simulator.run(module, arrays, seed)
        assert outputs_equal(want, got), difference(want, got)


def close(p: Program, module: Module, tolerance: float = 1e-5) -> None:
    """As `same_meaning`, but for the order in which sums are taken."""
    arrays = sparse_inputs(p, 1)
    want = interpret.run(p, arrays, check=False)
    got = simulator.run(module, arrays, 3)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=tolerance, atol=tolerance)
