"""bf16 is its bits in LLVM's instructions: no form of storing, choosing or copying one calls a library function."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference import interpret
from mslang.sema.program import parse_program
from mslang.tune.verification import SPARSE, make_inputs

PROGRAMS = {
    "an init that loads": """program p(X: bf16[6, 4], inout Y: bf16[6, 4]) {
        for i in 6, j in 4, k in 4 {
            block b[x: 6 = i, y: 4 = j | z: 4 = k] { init { Y[x, y] = X[x, min(x, 3)] } }
        }
    }""",
    "a choice": """program p(X: bf16[6, 4], out Y: bf16[6, 4]) {
        block b[i: 6, j: 4] { Y[i, j] = select(X[i, j] > bf16(0.0), X[i, j], bf16(-1.5)) }
    }""",
    "a predicate": """program p(X: bf16[6, 4], inout Y: bf16[6, 4]) {
        block b[i: 6, j: 4] { where X[i, 0] > bf16(0.0)  Y[i, j] = -X[i, j] }
    }""",
    "a reduction in lanes": """program p(X: bf16[6, 20], out Y: bf16[6]) {
        for i in 6, k in 20 {
            block b[x: 6 = i | z: 20 = k] { Y[x] = max(Y[x], X[x, z]) }
        }
    }""",
    "lanes with a rest": """program p(X: bf16[37], out Y: bf16[37]) {
        for i in 37 @ vectorized { block b[x: 37 = i] { Y[x] = X[x] * bf16(2.0) + bf16(1.0) } }
    }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("target", ["host", "avx2", "generic"])
def test_bf16_needs_no_library(name: str, checked: bool, target: str) -> None:
    program = parse_program(PROGRAMS[name])
    inputs = make_inputs(program, SPARSE, seed=1)
    want = interpret.run(program, inputs, bits=True)["Y"]
    made = {**{n: a.copy() for n, a in inputs.items()}}
    made.setdefault("Y", np.zeros_like(want))
    ms.build(program, target, checked=checked)(**made)
    assert np.array_equal(made["Y"], want)
