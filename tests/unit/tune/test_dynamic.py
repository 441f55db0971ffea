"""Programs with sizes known only at the call: what tests and measuring make of them."""

from __future__ import annotations

import pytest

from mslang.diagnostics import MsError
from mslang.ir.print import print_program
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.tune.generated import generated_tests
from mslang.tune.reference import small_program
from mslang.tune.verification import DENSE, make_inputs

TEXT = """program p[M: dyn({range})](A: f32[M], out B: f32[M]) {{ block b[i: M] {{ B[i] = A[i] }} }}
schedule s for p {{ let t ~ choose([2, 3]) let a, c = b.i.split([_, t]) a.parallel() }}
"""


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ("1..4096", 6),
        ("1..4096, multiple = 4", 4),
        ("10..20, multiple = 8", 16),
    ],
)
def test_small_sizes_are_allowed_ones(sizes: str, chosen: int):
    module = load("t.ms", TEXT.format(range=sizes))
    small = small_program(module, "p", {})
    assert small is not None and f"A: f32[{chosen}]" in print_program(small)
    (result,) = generated_tests(module, samples=2)
    assert result.passed


def test_measuring_asks_for_the_size():
    program = instantiate(load("t.ms", TEXT.format(range="1..8")), "p", {})
    with pytest.raises(MsError) as found:
        make_inputs(program, DENSE, seed=0)
    assert found.value.diagnostic.code == "MS112" and "--set M=" in (found.value.diagnostic.help or "")
