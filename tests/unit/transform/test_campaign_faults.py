"""What the campaign of random programs and schedules once found, each as a small program and its schedule."""

import pytest

from mslang.diagnostics import MsError
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.index_map import IndexMap
from mslang.schedule.replay import space_of_text
from mslang.sema.program import parse_program
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.registry import IMPLEMENTATIONS
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import refused
from tests.unit.transform.test_instances import refused as refused_as

STENCIL = """program stencils(A: f32[7, 4], out O: f32[6, 3]) {
    alloc T: f32[7, 4]
    alloc L: f32[6, 3]
    for i_0 in 3 {
        for j_0 in 2 {
            for i_1 in 3, j_1 in 3 {
                block s0[i: 7 = i_0 * 2 + i_1, j: 4 = j_0 * 2 + j_1] {
                    where j < 4
                    T[i, j] = A[i, j] * 2.0
                }
            }
            for i_2 in 2, j_2 in 2 {
                block s1[i: 6 = i_0 * 2 + i_2, j: 3 = j_0 * 2 + j_2] {
                    where j_0 * 2 + j_2 < 3
                    L[i, j] = T[i, j] + T[i + 1, j] + T[i, j + 1]
                }
            }
        }
        for a in 2, b in 3 { block copy[i: 6 = i_0 * 2 + a, j: 3 = b] { O[i, j] = L[i, j] } }
    }
}"""

TWO_SUMS = """program sums(A: f32[4, 6], out B: f32[4], out C: f32[4]) {
    alloc P: f32[4, 6]
    block pad[i: 4, j: 6] { P[i, j] = A[i, j] * 2.0 }
    block first[i: 4 | k: 6] { B[i] += P[i, k] }
    block second[i: 4 | k: 6] { C[i] += A[i, k] }
}"""

ONE_SUM = """program total(A: f32[8, 3], out B: f32[]) {
    alloc S: f32[]
    block sum[| r: 8, k: 3] { S[] += A[r, k] }
    block last { B[] = max(S[], 0.0) }
}"""

PAIRS = """program pairs(A: f32[4, 3], out B: f32[4, 4]) {
    alloc T: f32[4, 3]
    alloc U: f32[4, 3]
    block first[i: 4, j: 3] { U[i, j] = A[i, j] + A[i, j] }
    block middle[i: 4, j: 3] { T[i, j] = U[i, j] }
    block last[i: 4, j: 4 | k: 3] { B[i, j] += T[i, k] * T[j, k] }
}"""

ROLLED = """program rolled(A: f32[7, 4], out O: f32[6, 4]) {
    alloc T: f32[7, 4]
    for i in 6, j in 4 {
        for t in 2 { block s0[x: 7 = i + t, y: 4 = j] { T[x, y] = A[x, y] * 2.0 } }
        block s1[x: 6 = i, y: 4 = j] { O[x, y] = T[x, y] + T[x + 1, y] }
    }
}"""

BENT = """program bent(A: f32[4], out B: f32[4]) {
    alloc T: f32[2, 3]
    block first[i: 4] { T[i // 3, i % 3] = A[i] }
    block last[i: 4] { B[i] = T[i // 3, i % 3] }
}"""

RIGHT = [
    # the update reads what the block around it did not declare to read
    (TWO_SUMS, "let t = blockize([first, second]) let p = first.decompose_reduction(first.k)"),
    # a block that hides a buffer has it copied by another
    (
        TWO_SUMS,
        "let t = first.i.blockize() first.unsafe_hide_buffer_access(read, [P]) let c = t.cache_read(P, local)",
    ),
    # accesses that have no common box, of a buffer that grows
    (PAIRS, "let p, q = middle.i.split([_, 3], tail = pad)"),
    # a tail, and a block that is called like it
    (TWO_SUMS, "let p, q = pad.j.split([_, 3], tail = pad)"),
]

REFUSED = [
    # the reader that kept a buffer private to the iterations of a parallel loop leaves it
    (STENCIL, "s0.loops()[1].parallel() s1.compute_inline()", "MS310"),
    # copies of partial results
    (ONE_SUM, "let x, y = sum.k.loop_partition([1]) let a, b = sum_1.cache_inplace(S, local)", "MS346"),
    # a loop that provably runs once, whatever is drawn, fills no more than one place of a buffer that is used in turn
    (
        ROLLED,
        "s0.rolling_buffer(T) let d ~ choose([1]) let x, y = s0.loops()[2].loop_partition([d]) "
        "let c = s1.cache_read(T)",
        "MS332",
    ),
    # what a block around reads may be more than was written
    (BENT, "let b = last.i.blockize() let c = last.cache_read(T, local)", "MS332"),
]


@pytest.mark.parametrize(("program", "steps"), RIGHT)
def test_means_the_same(program: str, steps: str) -> None:
    before = parse_program(program)
    same(before, space_of_text(f"schedule s for {before.name} {{ {steps} }}", before).sample(0).program)


@pytest.mark.parametrize(("program", "steps", "code"), REFUSED)
def test_is_refused(program: str, steps: str, code: str) -> None:
    before = parse_program(program)
    with pytest.raises(MsError) as found:
        space_of_text(f"schedule s for {before.name} {{ {steps} }}", before).sample(0)
    assert found.value.diagnostic.code == code


def test_a_copy_inside_of_a_block_is_filled_from_outside_of_it():
    p = parse_program("""program p(A: f32[6], out O: f32[6]) {
        alloc T: f32[6]
        for i in 6 {
            block both[x: 6 = i] {
                block inner[y: 6 = x] {
                    block first[z: 6 = y] { T[z] = A[z] }
                    block second[z: 6 = y] { O[z] = T[z] }
                }
            }
        }
    }""")
    with refused("MS332", "nothing has written `T` before"):
        IMPLEMENTATIONS["cache_inplace"](p, BlockRef("inner"), BufferRef("T"), "local")


def test_a_padded_tail_reads_nothing_that_is_written_later():
    p = parse_program("""program p(A: f32[6, 3], out O: f32[6, 3]) {
        alloc T: f32[18]
        for i in 6 {
            for j in 3 { block first[x: 6 = i, y: 3 = j] { T[x * 3 + y] = A[x, y] } }
            for k in 3 { block second[x: 6 = i, y: 3 = k] { O[x, y] = T[x * 3 + y] } }
        }
    }""")
    staged = IMPLEMENTATIONS["cache_write"](p, BlockRef("second"), BufferRef("O")).program
    with refused("MS356", "may write later"):
        IMPLEMENTATIONS["split"](staged, LoopRef("k"), [Const(2), None], tail="pad")


def test_a_reduction_that_keeps_its_order_is_not_laid_out_anew():
    p = parse_program("""program p(A: i32[6], out at: i32[1], out best: i32[1]) {
        block find[i: 1 | k: 6] {
            init { at[i] = -1 best[i] = 2147483647 }
            let p = select(best[i] < A[k], at[i], i32(k))
            let v = select(best[i] <= A[k], best[i], A[k])
            at[i] = p
            best[i] = v
        }
    }""")
    turned = IndexMap(("i", "k"), (Binary("%", Var("k"), Const(3)), Var("i"), Binary("//", Var("k"), Const(3))))
    with refused("MS389", "must be kept"):
        IMPLEMENTATIONS["transform_block_layout"](p, BlockRef("find"), turned)


def test_what_a_view_reads_must_be_started_before_it_is_staged():
    p = parse_program("""program p(A: f32[8], out B: f32[4]) {
        block outer[o: 1] {
            init { for i in 4 { block clear[x: 4 = i] { B[x] = 0.0 } } }
            for i in 4 {
                block pair[x: 4 = i] {
                    view b: f32[1] = B[x]
                    view a: f32[2] = A[x * 2 .. x * 2 + 2]
                    reads B[x], A[x * 2 .. x * 2 + 2]
                    writes B[x]
                    for k in 2 { block tile[| y: 2 = k] { init {} b[0] += a[y] } }
                }
            }
        }
    }""")
    with refused("MS333", "reads and writes `B`"):
        IMPLEMENTATIONS["cache_write"](p, BlockRef("pair"), BufferRef("B"))


def test_a_loop_whose_length_depends_on_another_is_not_rounded_up():
    """Pair 2565 of the campaign on GPUs, seed 7: the buffer would have been larger by a number that a loop decides."""
    p = """program t(inout T2: i32[7, 5]) {
        alloc T0: i32[6, 8]
        for l0 in 7, l1 in 3 {
            for i in 6 - l1 * 2 { block f0[i: 6 = l1 * 2 + i, j: 8 = 7 - l0] { T0[i, j] = 3 } }
            for k in 2 { block a0[x: 7 = l0, y: 5 = l1 + k] { T2[x, y] = T0[y, 7 - x] } }
        }
    }"""
    refused_as(p, "f0.i.split([_, 4], tail = pad)", "MS356", "differs with `l1`")
