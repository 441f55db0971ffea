"""What the tests of layouts share: maps from Python functions, and meaning, interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mslang.backend.reference import interpret
from mslang.ir.equal import alpha_equal
from mslang.ir.index_map import IndexMap
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.schedule.schedule import Schedule
from mslang.sema.program import parse_program
from mslang.target.detect import host
from tests.property.arrays import difference, outputs_equal
from tests.property.judge import compiled, sparse_inputs
from tests.unit.transform.programs import copy


def fn(f: Callable[..., Any]) -> IndexMap:
    """An index map from a Python function."""
    return Schedule(copy()).index_map(f)


def same_meaning(before: Program, after: Program) -> None:
    """Well-formed, printed and read back, interpreted with all checks and compiled: all is as it was."""
    assert not verify(after), verify(after)
    assert parse_program(print_program(after)) == after
    arrays = sparse_inputs(before, 1)
    want = interpret.run(before, arrays)
    for got in (interpret.run(after, arrays), compiled(after, arrays, host(), True)):
        assert outputs_equal(want, got), difference(want, got)


def reads_as(program: Program, text: str) -> None:
    """The program is that of a text, but for the names of loops and axes."""
    assert alpha_equal(program, parse_program(text)), print_program(program)
