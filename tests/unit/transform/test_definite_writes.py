"""What a block provably writes: what its statements store, not what it declares; copies access no more than that."""

import pytest

from mslang.ir.program import Block, Program
from mslang.ir.visit import walk_paths
from mslang.sema.program import parse_program
from mslang.transform.analysis.cover import why_not_covered
from mslang.transform.primitives.caching import cache_inplace, cache_read, cache_write
from mslang.transform.primitives.read_write_at import write_at
from mslang.transform.primitives.reindex import reindex_cache_read, reindex_cache_write
from tests.unit.transform.meaning import same, scheduled
from tests.unit.transform.programs import block, buffer, index_map, loop, refused
from tests.unit.transform.staged import accepted, program

HEAD = "A: f32[8], I: i64[8], inout B: f32[8]"
NOT_ALL = {
    "declared": "reads A[i]\n writes B[0..8]\n B[i] = A[i]",
    "conditional": "if A[i] > 0.0 { B[i] = A[i] }",
    "scattered": "B[I[i]] = A[i]",
    "one way only": "if A[i] > 0.0 { B[i] = A[i] } else { B[7 - i] = A[i] }",
    "perhaps no iteration": "for k in I[i] { B[i] = A[k] }",
}
ALL = {
    "both ways": "if A[i] > 0.0 { B[i] = A[i] } else { B[i] = 0.0 }",
    "named": "let x = i * 2 - i\n B[x] = A[i]",
}


def single(body: str) -> Program:
    return program(HEAD, f"for i in 8 {{ block b[i: 8 = i] {{ {body} }} }}")


@pytest.mark.parametrize("body", NOT_ALL.values(), ids=NOT_ALL)
def test_what_is_not_provably_stored_is_not_copied_back(body: str) -> None:
    p = single(body)
    with refused("MS332", "it is not known which part of `B` block `b` writes"):
        cache_write(p, block("b"), buffer("B"), "local")
    with refused("MS332", "it is not known which part of `B` block `b` writes"):
        write_at(p, block("b"), loop("i"), buffer("B"), "local")


@pytest.mark.parametrize("body", ALL.values(), ids=ALL)
def test_what_is_provably_stored_is(body: str) -> None:
    p = single(body)
    accepted(p, cache_write(p, block("b"), buffer("B"), "local"))


def test_stores_side_by_side_fill_a_box() -> None:
    body = "for k in 2 { B[i, k] = A[i] }\n B[i, 2] = 0.0"
    p = program("A: f32[4], inout B: f32[4, 3]", f"for i in 4 {{ block b[i: 4 = i] {{ {body} }} }}")
    accepted(p, cache_write(p, block("b"), buffer("B"), "local"))
    q = program(
        "A: f32[4], inout B: f32[4, 3]", f"for i in 4 {{ block b[i: 4 = i] {{ {body.replace('k]', 'k * 2]')} }} }}"
    )
    with refused("MS332"):
        cache_write(q, block("b"), buffer("B"), "local")


def test_a_conditional_update_after_an_init_is_a_store() -> None:
    body = "init { B[i] = 0.0 }\n if A[k] > 0.0 { B[i] += A[k] }"
    p = program("A: f32[6], inout B: f32[8]", f"for i in 8, k in 6 {{ block b[i: 8 = i | k: 6 = k] {{ {body} }} }}")
    accepted(p, cache_write(p, block("b"), buffer("B"), "local"))
    q = program("A: f32[6], inout B: f32[8]", f"for k in 6, i in 8 {{ block b[i: 8 = i | k: 6 = k] {{ {body} }} }}")
    accepted(q, cache_write(q, block("b"), buffer("B"), "local"))


def test_an_update_in_place_is_conditional_too() -> None:
    p = single("if A[i] > 0.0 { B[i] = B[i] + A[i] }")
    with refused("MS332", "it is not known which part of `B` block `b` writes"):
        cache_inplace(p, block("b"), buffer("B"), "local")


def test_loops_of_uneven_length_fill_no_box() -> None:
    p = program(
        "A: f32[4], inout B: f32[4, 4]", "for i in 4, j in i + 1 { block b[i: 4 = i, j: 4 = j] { B[i, j] = A[i] } }"
    )
    with refused("MS332"):
        cache_write(p, block("b"), buffer("B"))


GUARDED = {
    "where": "block b[i: 12 = i0 * 4 + i1] { where i0 * 4 + i1 < 10\n B[i] = A[i] }",
    "if": "block b[i: 12 = i0 * 4 + i1] { if i < 10 { B[i] = A[i] } }",
    "inside": "block b[i: 12 = i0 * 4 + i1] { block c[x: 12 = i] { where x < 10\n B[x] = A[x] } }",
}


@pytest.mark.parametrize("body", GUARDED.values(), ids=GUARDED)
def test_conditions_that_leave_the_first_values_of_an_axis_are_known(body: str) -> None:
    p = program("A: f32[12], out B: f32[10]", f"for i0 in 3, i1 in 4 {{ {body} }}")
    text = accepted(p, cache_write(p, block("b"), buffer("B")))
    assert "for ax0 in 10" in text


def test_other_conditions_are_not() -> None:
    body = "block b[i: 4 = i, j: 4 = j] { where j < 3\n B[i * 4 + j] = A[i] }"
    p = program("A: f32[4], inout B: f32[16]", f"for i in 4, j in 4 {{ {body} }}")
    with refused("MS332"):
        cache_write(p, block("b"), buffer("B"))


def test_a_block_may_read_what_blocks_in_it_wrote_before() -> None:
    first = "for x in 4 { block a[v: 8 = o * 4 + x] { T[v] = A[v] } }"
    then = "for y in 4 { block b[v: 8 = o * 4 + y] { B[v] = T[v] + 1.0 } }"
    around = "alloc T: f32[8]\n for i in 2 {{ block s[o: 2 = i] {{ {} }} }}"
    p = program("A: f32[8], out B: f32[8]", around.format(f"{first}\n {then}"))
    text = accepted(p, cache_write(p, block("s"), buffer("T"), "local"))
    assert "B[v] = T_local_1[v] + 1.0" in text
    p = program("A: f32[8], out B: f32[8]", around.format(f"{then}\n {first}"))
    with refused("MS333", "block `s` reads and writes `T`"):
        cache_write(p, block("s"), buffer("T"), "local")


def test_a_reduction_that_reads_other_elements_than_it_starts_is_refused() -> None:
    body = "init { B[i] = 0.0 }\n B[i] = B[i] + B[7 - i] * A[k]"
    p = program(HEAD, f"for i in 8, k in 8 {{ block b[i: 8 = i | k: 8 = k] {{ {body} }} }}")
    with refused("MS333", "block `b` reads and writes `B`"):
        cache_write(p, block("b"), buffer("B"))


def test_a_layout_that_is_no_box_is_filled_by_the_axes() -> None:
    p = program("A: f32[7], out B: f32[7]", "block b[i: 7] { B[i] = A[i] * 2.0 }")
    tiled = index_map("i", lambda i: (i // 3, i % 3))
    text = accepted(p, reindex_cache_write(p, block("b"), buffer("B"), "local", tiled))
    assert "alloc B_local_1: f32[3, 3]" in text
    accepted(p, reindex_cache_read(p, block("b"), buffer("A"), "local", tiled))
    p = single("if A[i] > 0.0 { B[i] = A[i] }")
    with refused("MS332", "block `b` does not provably write `B` in each of its instances"):
        reindex_cache_write(p, block("b"), buffer("B"), "local", tiled)


def test_a_layout_is_filled_point_by_point() -> None:
    tiles = "T[i // 3, i % 3]"
    made = f"for u in 1 {{ block a[i: 7 = m + u] {{ {tiles} = A[i] }} }}"
    body = f"alloc T: f32[3, 3]\n for m in 7 {{ {made}\n block b[i: 7 = m] {{ B[i] = {tiles} }} }}"
    p = program("A: f32[7], out B: f32[7]", body)
    accepted(p, reindex_cache_read(p, block("a"), buffer("A"), "local", index_map("i", lambda i: (i,))))


def test_cache_read_of_a_prefix_that_is_written() -> None:
    made = "for i in 8 { block a[i: 8 = i] { where i < 5\n T[i] = A[i] } }"
    body = f"{made}\n for j in 4 {{ block b[i: 4 = j] {{ B[i] = T[i] }} }}"
    p = program("A: f32[8], out B: f32[4]", f"alloc T: f32[8]\n {body}")
    accepted(p, cache_read(p, block("b"), buffer("T")))
    with refused("MS332", "`a`"):
        body = body.replace("j in 4", "j in 6").replace("i: 4", "i: 6")
        q = program("A: f32[8], out B: f32[6]", f"alloc T: f32[8]\n {body}")
        cache_read(q, block("b"), buffer("T"))


@pytest.mark.parametrize("condition", ["x < 3 and x < 5", "x < 5 and x < 3", "x < 3 and x < 3"])
def test_of_several_bounds_of_an_axis_the_least_counts(condition: str):
    before = parse_program(f"""program p(A: f32[8], inout T: f32[8]) {{
        for i in 0..8 {{ block a[x: 8 = i] {{ if {condition} {{ T[x] = A[x] }} }} }}
    }}""")
    same(before, cache_write(before, block("a"), buffer("T")).program)


def test_full_tiles_of_which_there_are_none_write_nothing() -> None:
    before, after = scheduled(
        "program p(A: f32[6], inout B: f32[6]) {"
        " for l in 0..2, a in 0..3 { block b[i: 6 = a * 2 + l] { B[i] = A[i] } } }",
        "let l, a = b.loops() let l0, l1, l2 = l.split([_, 2, 2], tail = peel)",
    )
    same(before, after)
    with refused("MS332", "it is not known which part of `B` block `b` writes"):
        cache_write(after, block("b"), buffer("B"))
    same(before, cache_write(after, block("b_tail"), buffer("B")).program)


def test_full_tiles_of_which_there_may_be_none_are_known() -> None:
    before, after = scheduled(
        "program p[n: dyn(1..40)](A: f32[n], inout B: f32[n]) { for l in 0..n { block b[i: n = l] { B[i] = A[i] } } }",
        "let l0, l1 = b.i.split([_, 16], tail = peel)",
    )
    for size in (3, 16, 35):
        same(before, cache_write(after, block("b"), buffer("B")).program, n=size)


@pytest.mark.parametrize("outer", ["g", "h"])
def test_a_condition_on_a_loop_outside_is_not_one_on_fused_digits(outer: str) -> None:
    before = program(
        "A: f32[8], out C: f32[16, 8]",
        f"""alloc T: f32[8]
        for {outer} in 16 {{
            for i0 in 3, i1 in 3 {{ block a[x: 8 = i0 * 3 + i1] {{ where x < 8 and {outer} < 8  T[x] = A[x] }} }}
            for j in 8 {{ block b[y: 16 = {outer}, x: 8 = j] {{ C[y, x] = T[x] }} }}
        }}""",
    )
    paths = {q[-1].name: q for q in walk_paths(before.body) if isinstance(q[-1], Block)}
    assert why_not_covered(before, paths["b"]) is not None
