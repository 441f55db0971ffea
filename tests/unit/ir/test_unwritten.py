"""Output elements that are provably never written."""

import pytest

from mslang.ir.access_bounds import outside
from mslang.ir.arith import evaluate, substitute_symbols
from mslang.ir.arith.evaluate import UndefinedResult
from mslang.ir.expr import Binary, Choice, Const, Symbol
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


def test_conditions_on_floats_prove_nothing_as_they_are_rounded() -> None:
    """In f32 `7 * 0.1` is 0.7, in double precision it is more."""
    within = parse_program("""program p(out B: f32[8]) {
        block b[v: 8] { where f32(v) * f32(0.1) <= f32(0.7)  B[v] = 1.0 }
    }""")
    assert not list(unwritten(within))
    beyond = parse_program("""program p(A: f32[7], out B: f32[8]) {
        block b[v: 8] { B[v] = select(f32(v) * f32(0.1) > f32(0.7), A[v], 0.0) }
    }""")
    assert not list(outside(beyond))


@pytest.mark.parametrize("count", ["v - 2", "v * 100000000000"])
def test_shifts_by_what_is_no_number_of_bits_have_no_value(count: str) -> None:
    """A shift by 10**11 took all memory; one by -2 is an error in Python."""
    shifted = f"block b[v: 4] {{ where shift_left(1, {count}) < 3  B[v] = 1 }}"
    assert not list(unwritten(parse_program(f"program p(out B: i64[4]) {{ {shifted} }}")))
    big = Binary("<<", Const(1), Const(100))
    with pytest.raises(UndefinedResult):
        evaluate(big, {})
    assert substitute_symbols(Binary("<<", Const(1), Symbol("c", Choice((64,)))), {"c": 64}) == Binary(
        "<<", Const(1), Const(64)
    )
