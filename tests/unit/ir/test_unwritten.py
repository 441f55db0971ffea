"""Output elements that are provably never written."""

import pytest

from mslang.ir.unwritten import unwritten
from mslang.sema.program import parse_program


@pytest.mark.parametrize(("extent", "element"), [("4", (4,)), ("8", None), ("1000000000000", None)])
def test_gaps_are_looked_for_among_the_elements_however_far_an_axis_runs(
    extent: str, element: tuple[int, ...] | None
) -> None:
    program = parse_program(
        f"program p(out B: f32[8]) {{ for i in {extent} {{ block b[vi: {extent} = i] {{ B[vi] = 1.0 }} }} }}"
    )
    assert [x.element for x in unwritten(program)] == ([] if element is None else [element])
