"""specialize: a nest twice, by a condition."""

import pytest

from mslang.ir.expr import Binary, Choice, Const, DynamicRange, Expr, Load, Symbol, Var
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import If
from mslang.ir.visit import walk
from mslang.sema.program import parse_program
from mslang.transform.outcome import Gone
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.loop_kinds import parallel, vectorize
from mslang.transform.primitives.loops import split
from mslang.transform.primitives.specialize import specialize
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import block, chain, copy, loop, matmul, outline, refused, sizes, text

N = Symbol("n", DynamicRange(1, 4096))
DYNAMIC = "program p[n: dyn(1..4096)](A: f32[n], out B: f32[n]) { for i in 0..n { block b[x: n = i] { B[x] = A[x] } } }"


def compare(op: str, a: Expr, b: int) -> Expr:
    return Binary(op, a, Const(b))


def multiple(of: int) -> Expr:
    return compare("==", Binary("%", N, Const(of)), 0)


def test_two_copies_under_a_condition():
    before = parse_program(DYNAMIC)
    out = specialize(before, loop("i"), multiple(16))
    assert out.handles == (loop("i_then"), loop("i_else"))
    assert out.forward[loop("i")] == Gone("specialize", out.handles)
    assert [b.name for b in blocks_of(out.program.body)] == ["b", "b_else"]
    for n in (1, 15, 16, 48):
        same(before, out.program, n=n)


def test_a_size_known_to_be_a_multiple_needs_no_guard():
    before = parse_program(DYNAMIC)
    out = specialize(before, loop("i"), multiple(16))
    fast = split(out.program, out.handles[0], sizes(None, 16), disable_predication=True)
    done = vectorize(fast.program, fast.handles[1]).program
    assert "where" not in outline(done)
    for n in (1, 15, 16, 48):
        same(before, done, n=n)


def test_a_size_known_to_be_a_number():
    out = specialize(parse_program(DYNAMIC), loop("i"), compare("==", N, 64))
    assert "i_then in 0+64" in outline(out.program)
    same(parse_program(DYNAMIC), out.program, n=64)
    same(parse_program(DYNAMIC), out.program, n=63)


def test_several_conditions_at_once():
    both = Binary("and", compare(">=", N, 32), multiple(8))
    out = specialize(parse_program(DYNAMIC), loop("i"), both)
    for n in (8, 31, 32, 33):
        same(parse_program(DYNAMIC), out.program, n=n)


def test_a_condition_on_a_loop_around_spares_a_guard_inside():
    tiled = split(copy(100), loop("i"), sizes(None, 8))
    out = specialize(tiled.program, loop("i_1"), compare("<", Var("i_0"), 12))
    first, second = blocks_of(out.program.body)
    assert text(first.predicate) == "True" and text(second.predicate) == "((i_0 * 8) + i_1_else) < 100"
    same(copy(100), out.program)


def test_the_opposite_spares_a_guard_in_the_other_copy():
    tiled = split(copy(100), loop("i"), sizes(None, 8))
    out = specialize(tiled.program, loop("i_1"), compare(">=", Var("i_0"), 12))
    assert [text(b.predicate) == "True" for b in blocks_of(out.program.body)] == [False, True]
    same(copy(100), out.program)


def test_a_condition_on_a_decision():
    size = Symbol("f", Choice((2, 3)))
    tiled = split(copy(100), loop("i"), [None, size])
    out = specialize(tiled.program, loop("i_0"), Binary("==", size, Const(2)))
    assert any(isinstance(s, If) for s in walk(out.program.body))


def test_what_is_known_already_is_kept():
    out = specialize(copy(100), loop("i"), Const(True, "bool"))
    assert any(isinstance(s, If) for s in walk(out.program.body))
    same(copy(100), out.program)


def test_a_reduction_under_a_condition_on_its_own_loop():
    before = matmul(3, 4, 8)
    tiled = split(before, loop("k"), sizes(None, 2))
    out = specialize(tiled.program, loop("k_1"), compare("<", Var("k_0"), 1))
    first, second = blocks_of(out.program.body)
    assert first.init is not None and second.init is None
    assert "C" in {r.buffer for r in second.reads}
    same(before, out.program)


def test_a_buffer_that_an_iteration_has_to_itself():
    moved = compute_at(chain(), block("first"), loop("x_1")).program
    out = specialize(moved, loop("x_1"), Const(False, "bool"))
    assert {"T", "T_else"} <= all_buffers(out.program).keys()
    same(chain(), out.program)


def test_a_parallel_loop_stays_parallel_in_both():
    out = specialize(parallel(copy(100), loop("i")).program, loop("i"), Const(True, "bool"))
    assert outline(out.program).count("parallel") == 1
    same(copy(100), out.program)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (compare("<", Var("i"), 3), "depends on `i`"),
        (Binary("<", Load("A", (Const(0),), "f32"), Const(0.0, "f32")), "depends on data"),
        (multiple(16), "no size `n`"),
        (Const(3), "not a condition"),
    ],
)
def test_conditions_that_cannot_be_decided_there(condition, words):
    with refused("MS358", words):
        specialize(copy(100), loop("i"), condition)
