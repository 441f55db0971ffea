"""What the reference interpreter takes: padding, declared ranges, sizes."""

from __future__ import annotations

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.sema.program import parse_program


def test_padding_without_a_value_may_be_read_and_changed():
    changed = "program p(inout W: f32[4] = packed([3], fn (i) -> [i])) { block c[i: 4] { W[i] = W[i] + 1.0 } }"
    assert run(parse_program(changed), {"W": np.ones(3, np.float32)})["W"].tolist() == [2, 2, 2]
    read = "program p(W: f32[4] = packed([3], fn (i) -> [i]), out C: f32[4]) { block c[i: 4] { C[i] = W[i] } }"
    assert run(parse_program(read), {"W": np.ones(3, np.float32)})["C"][:3].tolist() == [1, 1, 1]


def test_declared_ranges_are_those_of_the_elements_type():
    program = parse_program("program p(x: f32[2] in 0.7..1.0, out y: f32[2]) { block b[i: 2] { y[i] = x[i] } }")
    lowest = np.full(2, 0.7, np.float32)
    assert (run(program, {"x": lowest})["y"] == lowest).all()
    with pytest.raises(MsError, match=r"outside of 0\.7\.\.1\.0"):
        run(program, {"x": np.nextafter(lowest, np.float32(0))})


def test_sizes_are_whole_numbers_of_any_kind():
    program = parse_program("program p[M: dyn(1..8)](x: f32[M], out y: f32[M]) { block b[i: M] { y[i] = x[i] } }")
    assert run(program, {"x": np.ones(3, np.float32)}, sizes={"M": np.int64(3)})["y"].tolist() == [1, 1, 1]
