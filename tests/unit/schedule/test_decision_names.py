"""A decision's symbol stands in the program under its address: nothing else there has that name."""

from __future__ import annotations

import pytest

import mslang as ms
from mslang.diagnostics import MsError
from mslang.ir.print import print_program
from mslang.ir.verify import verify
from mslang.sema.program import parse_program

COPY = """program copy(A: f32[8], out B: f32[8]) {
    for l in 8 { block b[i: 8 = l] { B[i] = A[i] } }
}"""


@pytest.mark.parametrize("name", ["b", "A", "l", "i"])
def test_a_number_has_a_name_of_its_own(name: str) -> None:
    schedule = ms.Schedule(parse_program(COPY))
    with pytest.raises(MsError) as caught:
        schedule.choose([1, 2], name=name)
    found = caught.value.diagnostic
    assert found.code == "MS209"
    assert found.message == f"the decision `{name}` has the name of something in the program"
    assert found.help == f"call it `t{name}`"


@pytest.mark.parametrize("name", ["A_local", "b_1", "l_0"])
def test_what_a_primitive_makes_is_not_called_like_a_decision(name: str) -> None:
    schedule = ms.Schedule(parse_program(COPY))
    size = schedule.choose([2, 4], name=name)
    schedule.cache_read(schedule.get("b"), schedule.get("A"), "local")
    schedule.split(schedule.axis("b", "i"), [None, size])
    assert verify(schedule.parametric) == ()
    assert parse_program(print_program(schedule.parametric)) == schedule.parametric


def test_structure_may_be_called_like_a_block() -> None:
    schedule = ms.Schedule(parse_program(COPY))
    (order,) = schedule.permute([schedule.axis("b", "i")], name="b")
    assert order == schedule.axis("b", "i")
