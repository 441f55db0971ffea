"""The instructions of `std.cuda.copies` in schedules: copies that tensorized blocks make, in the emulation."""

from __future__ import annotations

import numpy as np
import pytest

from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import SM_80
from tests.cuda.emulator import why_not
from tests.cuda.modules import emulate, made
from tests.property.judge import sparse_inputs

TEXT = """use std.cuda.{sm_80}
use std.cuda.copies.{NAME}

program turned(A: TYPE[8, WIDTH], out B: TYPE[8, 64]) { block b[i: 8, j: 64] { B[i, j] = A[i, 63 - j] } }

schedule staged for turned on sm_80 {
    let row = b.cache_read(A, scope = "shared")
    b.i.bind(blockIdx.x)
    row.compute_at(b.i)
    let t, v = row.ax1.split([_, COUNT])
    t.bind(threadIdx.x)
    v.tensorize(NAME)
    let j0, j1 = b.j.split([_, COUNT])
    j0.bind(threadIdx.x)
}
"""

COPIES = [("f32", 1), ("f32", 2), ("f32", 4), ("f16", 2), ("f16", 4), ("f16", 8)]


def scheduled(dtype: str, count: int, width: int = 64) -> Program:
    name = f"copy_{dtype}" + (f"x{count}" if count > 1 else "")
    text = TEXT.replace("NAME", name).replace("TYPE", dtype).replace("COUNT", str(count)).replace("WIDTH", str(width))
    return space_of(load("test.ms", text), "staged").sample(0).program


@pytest.mark.parametrize(("dtype", "count"), COPIES)
def test_a_copy_is_one_instruction_and_other_threads_wait_for_it(dtype: str, count: int) -> None:
    text = made(scheduled(dtype, count), SM_80).source.text
    size = count * (4 if dtype == "f32" else 2)
    assert text.count(f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [%0], [%1], {size};") == 1
    begin, wait, barrier = (text.index(x) for x in ("cp.async.c", "cp.async.wait_all", "__sync"))
    assert begin < wait < barrier


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize(("dtype", "count"), [("f32", 1), ("f32", 2), ("f16", 8)])
def test_a_copy_by_an_instruction_copies(dtype: str, count: int) -> None:
    program = scheduled(dtype, count)
    arrays = sparse_inputs(program, 3)
    found = emulate(program, arrays, SM_80)
    assert found.faults == ()
    np.testing.assert_array_equal(found.results["B"], interpret.run(program, arrays)["B"])


@pytest.mark.parametrize("width", [66, 65])
def test_rows_that_are_not_aligned_are_refused(width: int) -> None:
    made(scheduled("f32", 4, 68), SM_80)
    with pytest.raises(MsError, match="`A` is not aligned as the instruction `copy_f32x4` takes `src`") as found:
        made(scheduled("f32", 4, width), SM_80)
    assert found.value.diagnostic.code == "MS419"
