"""Memory of warps in the emulation: what lanes receive by shuffles is what the program says."""

import numpy as np
import pytest

from mslang.backend.reference import interpret
from mslang.sema.program import parse_program
from mslang.tune.verification import SPARSE, make_inputs
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import made, run
from tests.unit.lower.gpu.test_warps import turned

TYPES = ("f16", "f64", "i8", "i64", "u32")
PROGRAMS = [
    turned("31 - x", "t + c", 32, 32, 1),
    turned("(x + 2) % 64", "t * 2 + c"),
    turned("63 - x", "t + c * 32", rows=3),
    turned("15 - x", "t + c", 16, 16, 1, 3),
    turned("7 - x", "t + c", 8, 8, 1),
    *(turned("31 - x", "t + c", 32, 32, 1).replace("f32", t).replace(" + 1.0", "") for t in TYPES),
]


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_lanes_receive_what_other_lanes_wrote() -> None:
    kernels = [made(parse_program(text)) for text in PROGRAMS]
    assert all("__shfl_sync" in k.source.text and "__sync" not in k.source.text for k in kernels)
    with Emulated(*(k.source.text for k in kernels)) as file:
        for number, kernel in enumerate(kernels):
            arrays = dict(make_inputs(kernel.program, SPARSE, seed=5))
            found = run(kernel, arrays, file, number)
            assert found.faults == ()
            for name, wanted in interpret.run(kernel.program, arrays, check=False).items():
                np.testing.assert_array_equal(found.results[name], wanted)
