"""The inputs that candidates are verified on."""

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.sema.program import parse_program
from mslang.target.detect import host
from mslang.tune.equivalence import difference
from mslang.tune.record import Verification
from mslang.tune.reference import check_plain_compiler
from mslang.tune.verification import DENSE, SPARSE, Difference, compare, make_inputs

GATHER = """program gather(idx: {type}[32, 2], table: f32[{rows}, 8], out C: f32[32, 2]) {{
    block g[i: 32, j: 2] {{
        reads idx[i, j], table[0..{rows}, j]
        writes C[i, j]
        C[i, j] = table[i64(idx[i, j]), j]
    }}
}}"""


@pytest.mark.parametrize(("type", "rows"), [("i32", 5), ("i64", 90), ("i8", 3), ("i8", 300), ("u8", 1)])
@pytest.mark.parametrize("kind", [SPARSE, DENSE])
def test_what_is_an_index_stays_within_what_it_indexes(type: str, rows: int, kind: str) -> None:
    program = parse_program(GATHER.format(type=type, rows=rows))
    inputs = make_inputs(program, kind, seed=0)
    assert inputs["idx"].min() >= 0 and inputs["idx"].max() < rows
    run(program, inputs)


BFLOAT = """program gemm(a: bf16[6, 9], b: bf16[9, 5], out c: {result}[6, 5]) {{
    block mm[i: 6, j: 5 | k: 9] {{ c[i, j] += {result}(a[i, k]) * {result}(b[k, j]) }}
}}"""


@pytest.mark.parametrize("result", ["f32", "bf16"])
def test_bfloat_is_held_against_the_interpreter(result: str) -> None:
    program = parse_program(BFLOAT.format(result=result))
    assert check_plain_compiler(program, host()) is None
    assert difference(program, program, 1e-4, 1e-5, 0) is None


def test_bfloat_results_are_compared_as_numbers() -> None:
    program = parse_program(BFLOAT.format(result="bf16"))
    one, next_one = np.full((6, 5), 0x3F80, np.uint16), np.full((6, 5), 0x3F81, np.uint16)
    assert isinstance(compare(program, {"c": one}, {"c": next_one}, DENSE), Verification)
    assert isinstance(compare(program, {"c": one}, {"c": one + 0x40}, DENSE), Difference)
