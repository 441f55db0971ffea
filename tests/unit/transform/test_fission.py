"""fission: a loop as two, one after the other."""

from mslang.ir.equal import alpha_equal
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.outcome import Gone
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.fission import fission, merge
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loops import add_unit_loop
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import block, chain, copy, loop, loops, outline, refused


def merged() -> Program:
    return merge(chain(), loops("y y_1")).program


def test_a_loop_is_taken_apart_behind_a_block():
    out = fission(merged(), loop("y_m"), block("first"))
    assert outline(out.program) == (
        "x_m in 0+8\n  y_m_0 in 0+16\n    first[x = x_m, y = y_m_0]\n  y_m_1 in 0+16\n    second[x = x_m, y = y_m_1]"
    )
    assert out.handles == (loop("y_m_0"), loop("y_m_1"))
    assert out.forward[loop("y_m")] == Gone("fission", out.handles)
    same(chain(), out.program)


def test_behind_a_loop_and_through_several_loops():
    inner = fission(merged(), loop("y_m"), block("first"))
    out = fission(inner.program, loop("x_m"), inner.handles[0])
    assert alpha_equal(out.program, chain())


def test_behind_a_block_deeper_down():
    inner = fission(merged(), loop("y_m"), block("first")).program
    assert alpha_equal(fission(inner, loop("x_m"), block("first")).program, chain())


def test_a_producer_computed_at_its_consumer_comes_out_again():
    moved = compute_at(chain(), block("first"), loop("x_1")).program
    out = fission(moved, loop("x_1"), block("first"))
    same(chain(), out.program)


def scratch() -> Program:
    return parse_program(
        """program p(A: f32[8], out B: f32[8]) {
            alloc T: f32[1]
            for i in 0..8 {
                block a[x: 8 = i] { T[0] = A[x] }
                block b[x: 8 = i] { B[x] = T[0] }
            }
        }"""
    )


def test_a_buffer_that_each_iteration_uses_anew():
    with refused("MS357", "cannot be taken apart", "`T`", "`a`", "`b`"):
        fission(scratch(), loop("i"), block("a"))


def test_a_value_that_goes_to_the_next_iteration():
    program = parse_program(
        """program p(A: f32[8], inout T: f32[9], out B: f32[8]) {
            for i in 0..8 {
                block a[x: 8 = i] { B[x] = T[x] }
                block b[x: 8 = i] { T[x + 1] = A[x] }
            }
        }"""
    )
    with refused("MS357", "block `b` may access elements of `T` that block `a` accesses in a later iteration"):
        fission(program, loop("i"), block("a"))


def test_what_an_earlier_iteration_left_stays_the_same():
    program = parse_program(
        """program p(A: f32[8], inout T: f32[9], out B: f32[8]) {
            for i in 0..8 {
                block a[x: 8 = i] { T[x + 1] = A[x] }
                block b[x: 8 = i] { B[x] = T[x] }
            }
        }"""
    )
    same(program, fission(program, loop("i"), block("a")).program)


def test_a_sum_that_is_read_on_the_way():
    program = parse_program(
        """program p(A: f32[8], out S: f32[1], out B: f32[8]) {
            for k in 0..8 {
                block sum[z: 1 = 0 | r: 8 = k] {
                    init { S[z] = 0.0 }
                    S[z] = S[z] + A[r]
                }
                block reader[x: 8 = k] { B[x] = S[0] }
            }
        }"""
    )
    with refused("MS357", "`S`"):
        fission(program, loop("k"), block("sum"))


def test_places_that_do_not_fit():
    with refused("MS304", "nothing follows"):
        fission(merged(), loop("y_m"), block("second"))
    with refused("MS304", "is not under loop"):
        fission(chain(), loop("x"), block("second"))
    with refused("MS304", "nothing follows"):
        fission(add_unit_loop(copy(), loop("i")).program, loop("u"), loop("i"))


def test_statements_that_no_block_holds():
    program = parse_program(
        """program p(A: f32[8], out B: f32[8]) {
            for i in 0..8 {
                block a[x: 8 = i] { B[x] = A[x] }
                if i < 4 { block b[x: 8 = i] { B[x] = 0.0 } }
            }
        }"""
    )
    with refused("MS357", "an `if` under"):
        fission(program, loop("i"), block("a"))


def test_a_loop_that_is_marked_already():
    with refused("MS305", "parallel"):
        fission(parallel(merged(), loop("x_m")).program, loop("x_m"), block("first"))


def test_a_buffer_that_a_condition_reads():
    program = parse_program(
        """program p(A: f32[8], inout T: f32[8], out B: f32[8]) {
            for i in 0..8 {
                block a[x: 8 = i] { T[x] = A[x] }
                block b[x: 8 = i] {
                    where T[i] > 0.0
                    B[x] = A[x]
                }
            }
        }"""
    )
    with refused("MS352", "`T` is read outside of blocks", "it is not known when they run"):
        fission(program, loop("i"), block("a"))
