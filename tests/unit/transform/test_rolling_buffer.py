"""rolling_buffer: what is kept, what is left out, what is refused."""

from mslang.transform.outcome import LoopRef
from mslang.transform.primitives.buffer_access import unsafe_hide_buffer_access
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.rolling_buffer import rolling_buffer
from tests.property.block_programs import same_meaning
from tests.unit.transform.programs import block, buffer, refused
from tests.unit.transform.staged import accepted, program

ROWS = """
    alloc T: f32[18, 8]
    for i in 0..{n} {{
        for y in 0..3, x in 0..8 {{
            block a[v: 18 = i * {s} + y, w: 8 = x] {{ T[v, w] = A[v, w] * 2.0 }}
        }}
        for x1 in 0..8 {{
            block b[v: {n} = i, w: 8 = x1] {{ B[v, w] = T[v * {s}, w] + T[v * {s} + 2, w] }}
        }}
    }}
"""


def rows(n=16, s=1):
    return program(f"A: f32[18, 8], out B: f32[{n}, 8]", ROWS.format(n=n, s=s))


def test_rows_are_kept_in_turn():
    p = rows()
    text = accepted(p, rolling_buffer(p, block("a"), buffer("T")))
    assert "alloc T: f32[3, 8]" in text
    assert "where i < 1 or 2 <= v - i" in text
    assert "v: 18 @ opaque" in text
    assert "T[v % 3, w] = A[v, w] * 2.0" in text
    assert "T[v % 3, w] + T[(v + 2) % 3, w]" in text


def test_a_stride_leaves_a_smaller_overlap():
    p = rows(8, 2)
    text = accepted(p, rolling_buffer(p, block("a"), buffer("T")))
    assert "1 <= v" in text


def test_two_dimensions_overlap():
    p = program(
        "A: f32[10, 10], out B: f32[8, 8]",
        """
        alloc T: f32[10, 10]
        for i in 0..8, j in 0..8 {
            for y in 0..3, x in 0..3 { block a[i: 10 = i + y, w: 10 = j + x] { T[i, w] = A[i, w] * 2.0 } }
            block b[v: 8 = i, w: 8 = j] { B[v, w] = T[v, w] + T[v + 2, w + 2] + T[v, w + 1] }
        }
        """,
    )
    text = accepted(p, rolling_buffer(p, block("a"), buffer("T")))
    # The axis `i` hides the loop `i`, so that it gets another name.
    assert "alloc T: f32[3, 10]" in text
    assert "(i < 1 or 2 <= i_1 - i) and (j < 1 or 2 <= w - j)" in text


def test_the_loop_cannot_run_at_once_any_more():
    done = rolling_buffer(rows(), block("a"), buffer("T")).program
    with refused("MS309", "opaque axis `v`"):
        parallel(done, LoopRef("i"))


def test_a_chain_rolls_one_after_the_other():
    p = program(
        "A: f32[10], out B: f32[6]",
        """
        alloc T: f32[10]
        alloc U: f32[8]
        for i in 0..6 {
            for x in 0..5 { block a[v: 10 = i + x] { T[v] = A[v] * 2.0 } }
            for y in 0..3 { block b[v: 8 = i + y] { U[v] = T[v] + T[v + 2] } }
            block c[v: 6 = i] { B[v] = U[v] + U[v + 2] }
        }
        """,
    )
    for first, second in ((("a", "T"), ("b", "U")), (("b", "U"), ("a", "T"))):
        once = rolling_buffer(p, block(first[0]), buffer(first[1])).program
        twice = rolling_buffer(once, block(second[0]), buffer(second[1])).program
        same_meaning(p, twice, {}, 3)


def test_nothing_that_overlaps_is_refused():
    p = rows(4, 3)
    with refused("MS364", "overlap along no dimension"):
        rolling_buffer(p, block("a"), buffer("T"))


def test_no_loop_together_is_refused():
    p = program(
        "A: f32[8], out B: f32[6]",
        "alloc T: f32[8]\n block a[v: 8] { T[v] = A[v] }\n block b[v: 6] { B[v] = T[v] + T[v + 2] }",
    )
    with refused("MS364", "no common loop"):
        rolling_buffer(p, block("a"), buffer("T"))


def test_outputs_and_other_buffers_are_refused():
    p = rows()
    with refused("MS343"):
        rolling_buffer(p, block("b"), buffer("B"))
    with refused("MS330", "does not write `A`"):
        rolling_buffer(p, block("a"), buffer("A"))


def test_a_parallel_loop_is_refused():
    text = ROWS.format(n=16, s=1).replace("in 0..16", "in 0..16 @ parallel")
    p = program("A: f32[18, 8], out B: f32[16, 8]", text)
    with refused("MS346", "parallel"):
        rolling_buffer(p, block("a"), buffer("T"))


def test_a_second_writer_is_refused():
    p = program(
        "A: f32[18], out B: f32[16]",
        """
        alloc T: f32[18]
        for i in 0..16 {
            for x in 0..3 { block z[v: 18 = i + x] { T[v] = 0.0 } }
            for y in 0..3 { block a[v: 18 = i + y] { T[v] = A[v] } }
            block b[v: 16 = i] { B[v] = T[v] + T[v + 2] }
        }
        """,
    )
    with refused("MS344", "`z`"):
        rolling_buffer(p, block("a"), buffer("T"))


def test_inputs_that_change_meanwhile_are_refused():
    p = program(
        "inout A: f32[18], out B: f32[16], out D: f32[16]",
        """
        alloc T: f32[18]
        alloc U: f32[18]
        for i in 0..16 {
            for z in 0..3 { block q[v: 18 = i + z] { U[v] = A[v] } }
            for x in 0..3 { block a[v: 18 = i + x] { T[v] = U[v] } }
            block b[v: 16 = i] { B[v] = T[v] + T[v + 2] }
            block w[v: 16 = i] { A[v + 1] = 7.0 }
        }
        """,
    )
    with refused("MS345", "`w` writes `A` after it is read"):
        rolling_buffer(p, block("a"), buffer("T"))


LARGER = """
    alloc T: f32[14]
    for i in 0..5 {{
        for y in 0..{need} {{
            block a[v: 14 = i * {step} // {by} + y] {{ where i * {step} // {by} + y < 14 T[v] = A[v] * 2.0 }}
        }}
        for x in 0..{step} {{
            block b[v: 22 = i * {step} + x] {{
                where i * {step} + x < 22
                B[v] = T[v // {by}] + T[v // {by} + {width}]
            }}
        }}
    }}
"""


def test_an_uneven_pace_keeps_what_is_surely_old():
    # Windows of 5 that get on by 2 or 3 in turn.
    p = program("A: f32[14], inout B: f32[22]", LARGER.format(step=5, by=2, need=5, width=2))
    text = accepted(p, rolling_buffer(p, block("a"), buffer("T")))
    assert "alloc T: f32[5]" in text
    assert "(i < 1 or 2 <= v - i * 5 // 2)" in text
    assert "T[v // 2 % 5] + T[(v // 2 + 2) % 5]" in text


def test_an_uneven_pace_as_long_as_the_window_is_refused():
    p = program("A: f32[14], inout B: f32[22]", LARGER.format(step=5, by=2, need=3, width=0))
    with refused("MS364", "overlap along no dimension"):
        rolling_buffer(p, block("a"), buffer("T"))


NESTED = """
    alloc T: f32[18]
    for i in 0..16 {{
        for x in 0..3 {{
            block a[{axis}: 18 = i + x] {{
                for z in 0..1 {{ block c[w: 18 = {axis} + z] {{ T[w] = A[w] * 2.0 }} }}
            }}
        }}
        block b[v: 16 = i] {{ B[v] = T[v] + T[v + 2] }}
    }}
"""


def test_a_block_that_holds_others():
    p = program("A: f32[18], out B: f32[16]", NESTED.format(axis="v"))
    text = accepted(p, rolling_buffer(p, block("a"), buffer("T")))
    assert "where i < 1 or 2 <= v - i" in text
    assert "T[w % 3] = A[w] * 2.0" in text


def test_a_block_that_holds_others_and_has_an_axis_called_like_the_loop_is_refused():
    p = program("A: f32[18], out B: f32[16]", NESTED.format(axis="i"))
    with refused("MS345", "an axis is called `i` like a loop"):
        rolling_buffer(p, block("a"), buffer("T"))


def test_what_a_block_hides_is_refused():
    p = unsafe_hide_buffer_access(rows(), block("b"), "read", [buffer("T")]).program
    with refused("MS352", "`b` hides that it accesses `T`"):
        rolling_buffer(p, block("a"), buffer("T"))


WINDOWS = """
    alloc T: f32[18]{place}
    for i in 0..16 {{
        for x in 0..{made} {{ block a[v: 18 = i + x] {{ T[v] = A[v] }} }}
        block b[v: 16 = i] {{ {body} }}
    }}
"""


def windows(*, made=3, body="B[v] = T[v] + T[v + 2]", place=""):
    return program("A: f32[18], out B: f32[16]", WINDOWS.format(made=made, body=body, place=place))


def test_what_an_earlier_iteration_left_is_refused():
    p = windows(made=2)
    with refused(
        "MS332", "`b` reads elements of `T` that the same iteration has not provably written", "before it rolls"
    ):
        rolling_buffer(p, block("a"), buffer("T"))


def test_a_loop_around_that_still_reduces_is_refused():
    p = program(
        "A: f32[18, 2], out B: f32[16]",
        """
        alloc T: f32[18]
        for k in 0..2, i in 0..16 {
            for x in 0..3 { block a[v: 18 = i + x | r: 2 = k] { T[v] += A[v, r] } }
            block b[v: 16 = i] { B[v] = T[v] + T[v + 2] }
        }
        """,
    )
    with refused("MS346", "loop `k` still reduces in block `a`", "what a later iteration would compute"):
        rolling_buffer(p, block("a"), buffer("T"))


def test_views_and_strides_are_refused():
    p = windows(body="view V: f32[3] = T[v .. v + 3] reads T[v .. v + 3] writes B[v] B[v] = V[0] + V[2]")
    with refused("MS352", "`T` is accessed through a view", "used in turn"):
        rolling_buffer(p, block("a"), buffer("T"))
    p = windows(place=" @ global(strides = [2])")
    with refused("MS352", "`T` has strides of its own", "its shape changes"):
        rolling_buffer(p, block("a"), buffer("T"))


def test_what_nobody_reads_is_refused():
    p = windows(body="B[v] = A[v]")
    with refused("MS341", "no block reads what block `a` writes", "only for its readers"):
        rolling_buffer(p, block("a"), buffer("T"))
