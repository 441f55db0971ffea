"""The inputs that candidates are verified on."""

import pytest

from mslang.backend.reference.interpret import run
from mslang.sema.program import parse_program
from mslang.tune.verification import DENSE, SPARSE, make_inputs

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
