"""rfactor: what it makes, what it keeps, and what it refuses."""

import pytest

from mslang.backend.reference.interpret import run
from mslang.diagnostics import problem
from mslang.extensions import Extension
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Choice, Const, PerfectTile, Symbol
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.reducers import BUILTIN, Reducer, combined, match_reducer, new, so_far
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from mslang.transform.analysis.reducers import known_reducers
from mslang.transform.analysis.reduction_updates import updates_of
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.loop_kinds import parallel, vectorize
from mslang.transform.primitives.loops import add_unit_loop, fuse, reorder, split
from mslang.transform.primitives.rfactor import rfactor
from tests.property.arrays import difference, outputs_equal, random_inputs
from tests.unit.transform.programs import block, loop, loops, matmul, outline, refused, sizes, text


def rows(update: str = "S[i] += A[i, k]", n: int = 6, k: int = 12, more: str = "") -> Program:
    return parse_program(f"""program rows(A: f32[{n}, {k}], W: f32[{k}], out S: f32[{n}]) {{
        block s[i: {n} | k: {k}] {{ {more} {update} }}
    }}""")


def same(before: Program, after: Program, values=None) -> None:
    assert not verify(after)
    assert parse_program(print_program(after)) == after or values is not None
    for seed in range(3):
        given = random_inputs(before, seed)
        want, got = run(before, given, check=False), run(after, given, sizes=values or {})
        assert outputs_equal(want, got), difference(want, got)


def tiled(p: Program, *factors) -> Program:
    return split(p, loop("k"), sizes(*factors)).program


# ------------------------------------------------------------------ what it makes
def test_the_inner_tile():
    p = tiled(rows(), 3, 4)
    out = rfactor(p, loop("k_1"))
    assert outline(out.program) == (
        "i_rf in 0+6\n  k_0 in 0+3\n    k_1_rf in 0+4\n      s_rf[k_1 = k_1_rf, i = i_rf, k_0 = k_0]\n"
        "i in 0+6\n  k_1 in 0+4\n    s[k_1 = k_1, i = i]"
    )
    assert out.handles == (block("s_rf"),) and not out.forward
    same(p, out.program)


def test_the_outer_tile_and_the_only_loop():
    p = rows()
    out = rfactor(p, loop("k")).program
    made = path_to_block(out, "s_rf")[-1]
    assert made.init is None and [a.kind for a in made.axes] == ["spatial", "spatial"]
    same(p, out)
    same(p, rfactor(tiled(p, 3, 4), loop("k_0")).program)


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, [4, 8, 4]), (1, [8, 4, 4]), (2, [8, 4, 4]), (-1, [8, 4, 4]), (-3, [4, 8, 4])]
)
def test_the_new_dimension_is_where_it_is_asked_for(axis, shape):
    p = split(matmul(8, 4, 8), loop("k"), sizes(2, 4)).program
    out = rfactor(p, loop("k_1"), axis).program
    assert [int(n.value) for n in all_buffers(out)["C_rf"].shape] == shape
    same(p, out)


def test_reduction_loops_outside_of_spatial_ones():
    p = reorder(split(matmul(4, 3, 8), loop("k"), sizes(2, 4)).program, loops("k_0 i j k_1")).program
    out = rfactor(p, loop("k_0")).program
    assert outline(out).endswith("k_0 in 0+2\n  i in 0+4\n    j in 0+3\n      mm[k_0 = k_0, x = i, y = j]")
    same(p, out)


def test_the_partial_results_run_as_vectors_and_in_parallel():
    p = tiled(rows(), 3, 4)
    out = rfactor(p, loop("k_1")).program
    out = reorder(out, loops("k_0 k_1_rf")).program
    out = vectorize(out, loop("k_1_rf")).program
    out = parallel(out, loop("i_rf")).program
    same(p, out)


def test_the_partial_results_move_beside_their_reader():
    p = tiled(rows(), 3, 4)
    out = compute_at(rfactor(p, loop("k_1")).program, block("s_rf"), loop("i")).program
    assert outline(out).startswith("i in 0+6\n  k_1_1 in 0+4")
    same(p, out)


def test_twice():
    p = split(rows(k=24), loop("k"), sizes(2, 3, 4)).program
    out = rfactor(rfactor(p, loop("k_2")).program, loop("k_1")).program
    assert [b for b in all_buffers(out) if b.startswith("S_rf")] == ["S_rf", "S_rf_rf"]
    same(p, out)


def test_loops_keep_how_they_run_and_blocks_their_annotations():
    p = parallel(tiled(rows(more='attr "note" = 1'), 3, 4), loop("i")).program
    out = rfactor(p, loop("k_1")).program
    assert outline(out).count("@ parallel") == 2
    assert path_to_block(out, "s_rf")[-1].annotations == path_to_block(out, "s")[-1].annotations != ()


@pytest.mark.parametrize("factors", [(None, 5), (5, None), (4, 4), (7, 2), (2, None, 3)])
@pytest.mark.parametrize("which", [0, 1])
def test_tiles_that_do_not_divide(factors, which):
    """A condition on the loops left out of an iteration never keeps a partial result from being initialised."""
    p = rows()
    same(p, rfactor(tiled(p, *factors), loop(f"k_{which}"), which).program)


def test_tiles_that_run_over_altogether():
    p = tiled(rows(k=10), 4, 4)
    out = rfactor(p, loop("k_0")).program
    made = path_to_block(out, "s_rf")[-1]
    assert made.predicate == Const(True, "bool") and "select" in print_program(out)
    same(p, out)


def test_guarded_spatial_loops():
    p = split(tiled(rows(n=6), 3, 4), loop("i"), sizes(None, 4)).program
    out = rfactor(p, loop("k_1")).program
    for name in ("s", "s_rf"):
        assert "< 6" in text(path_to_block(out, name)[-1].predicate)
    same(p, out)


def test_a_condition_on_both_kinds_of_axes():
    p = rows(more="where i + k < 12")
    same(p, rfactor(tiled(p, 3, 4), loop("k_1")).program)
    same(p, rfactor(tiled(p, 3, 4), loop("k_0")).program)


def test_sampled_sizes():
    tile, width = Symbol("t", PerfectTile(Const(12), 2), 1), Symbol("w", Choice((3, 5, 16)))
    p = rows()
    for factors, values in (((None, tile), [{"t": [3, 4]}]), ((None, width), [{"w": 3}, {"w": 5}, {"w": 16}])):
        for which in (0, 1):
            out = rfactor(tiled(p, *factors), loop(f"k_{which}")).program
            for v in values:
                same(p, out, v)


def test_a_dynamic_extent():
    b = ProgramBuilder("p")
    n = b.dynamic("N", 1, 64)
    a, s = b.input("A", (4, n)), b.output("S", (4,))
    with b.block("s", spatial("i", 4), reduce("k", n)) as (i, k):
        s[i] += a[i, k]
    out = rfactor(split(b.finish(), loop("k"), sizes(None, 8)).program, loop("k_1")).program
    assert not verify(out)


def test_a_scalar_result():
    p = parse_program("program p(A: f32[12], out S: f32[]) { block s[| k: 12] { S[] += A[k] } }")
    out = rfactor(p, loop("k")).program
    assert [int(n.value) for n in all_buffers(out)["S_rf"].shape] == [12]
    same(p, out)


# ------------------------------------------------------------------ reducers
@pytest.mark.parametrize(
    "update",
    [
        "S[i] = A[i, k] + S[i]",
        "S[i] *= W[k]",
        "S[i] = max(S[i], A[i, k] - W[k])",
        "S[i] = min(A[i, k], S[i])",
        "init { S[i] = 0.0 } let v = S[i] + A[i, k] S[i] = v",
        "let a = A[i, k] S[i] += a * a",
        "init { S[i] = 3.0 } S[i] += A[i, k]",
        "init { S[i] = W[i] } S[i] = max(S[i], A[i, k])",
    ],
)
def test_known_updates(update):
    p = rows(update, k=8)
    same(p, rfactor(tiled(p, None, 3), loop("k_1")).program)


def moments(body: str, init: str = "q[i] = 0.0 s[i] = 0.0", shape: str = "6") -> Program:
    return parse_program(f"""program p(A: f32[6, 12], out s: f32[6], out q: f32[{shape}]) {{
        block b[i: 6 | k: 12] {{ init {{ {init} }} {body} }} }}""")


@pytest.mark.parametrize(
    "body",
    [
        "let a = s[i] + A[i, k] let c = q[i] + A[i, k] * A[i, k] s[i] = a q[i] = c",
        "let a = s[i] + A[i, k] let c = A[i, k] * A[i, k] + q[i] q[i] = c s[i] = a",
        "s[i] += A[i, k] q[i] += A[i, k] * A[i, k]",
    ],
)
def test_two_sums(body):
    p = moments(body)
    same(p, rfactor(tiled(p, 3, 4), loop("k_1")).program)


def best(keep: str, value: str, worst: str = "-inf", at: str = "-1", position: str = "i32(k)") -> Program:
    return parse_program(best_text(keep, value, f"init {{ at[i] = i32({at}) best[i] = {worst} }}", position))


def best_text(keep: str, value: str, init: str, position: str = "i32(k)") -> str:
    return f"""program p(A: f32[6, 12], I: i32[6, 12], out at: i32[6], out best: f32[6]) {{
        block b[i: 6 | k: 12] {{
            {init}
            let p = select({keep}, at[i], {position})
            let v = {value}
            at[i] = p
            best[i] = v
        }} }}"""


GREATEST = "select(best[i] > A[i, k], best[i], A[i, k])"
FIRST = "best[i] > A[i, k] or (best[i] == A[i, k] and at[i] < i32(k))"


@pytest.mark.parametrize("value", [GREATEST, "max(A[i, k], best[i])", "select(A[i, k] > best[i], A[i, k], best[i])"])
@pytest.mark.parametrize("name", ["k_0", "k_1"])
def test_the_place_of_the_greatest(value, name):
    p = best(FIRST, value)
    same(p, rfactor(tiled(p, None, 5), loop(name)).program)
    finite = best(FIRST, value, "-3.4028234663852886e38")
    same(finite, rfactor(tiled(finite, 3, 4), loop(name)).program)


@pytest.mark.parametrize("keep", [FIRST, "best[i] >= A[i, k]"])
@pytest.mark.parametrize("value", [GREATEST, "max(best[i], A[i, k])"])
def test_what_several_buffers_start_from_is_inferred(keep, value):
    assert parse_program(best_text(keep, value, "")) == best(keep, value)


def test_the_place_of_the_least():
    p = best(FIRST.replace(">", "<"), GREATEST.replace(">", "<"), "inf")
    same(p, rfactor(tiled(p, 3, 4), loop("k_1")).program)


@pytest.mark.parametrize("compare", [">=", ">"])
def test_the_first_or_last_of_equals_along_an_inner_loop_where_positions_rise(compare):
    for position in ("i32(k)", "i32(k * 2 + i)", "i32(k + 5)"):
        p = best(f"best[i] {compare} A[i, k]", GREATEST, position=position)
        for name in ("k_0", "k_1"):
            same(p, rfactor(tiled(p, 3, 4), loop(name)).program)
    made = print_program(rfactor(tiled(p, 3, 4), loop("k_1")).program)
    assert f"at[i] {'<' if compare == '>=' else '>'} at_rf[" in made


@pytest.mark.parametrize("compare", [">=", ">"])
@pytest.mark.parametrize("position", ["-i32(k)", "i32(k % 3)", "I[i, k]", "i32(i)"])
def test_the_first_or_last_of_equals_along_the_outermost_loop_only(compare, position):
    p = best(f"best[i] {compare} A[i, k]", GREATEST, position=position)
    same(p, rfactor(tiled(p, 3, 4), loop("k_0")).program)
    with refused("MS370", "inner loop `k_1`", "order", "rfactor loop `k_0`"):
        rfactor(tiled(p, 3, 4), loop("k_1"))
    with refused("MS370", "left out", "equals"):
        rfactor(tiled(p, 4, 4), loop("k_0"))
    with refused("MS308", "must be kept"):
        reorder(tiled(p, 3, 4), loops("k_1 k_0"))


def test_the_first_of_equals_in_any_order():
    tied = best(FIRST, GREATEST)
    same(tied, reorder(tiled(tied, 3, 4), loops("k_1 k_0")).program)


@pytest.mark.parametrize("update", ["S[i] += A[i, k]", "S[i] = max(S[i], A[i, k])"])
def test_a_loop_of_one_iteration_that_serves_no_axis(update):
    p = rows(f"init {{ S[i] = 3.0 }} {update}", k=8)
    for target in (loop("k"), block("s")):
        unit = add_unit_loop(p, target).program
        same(p, rfactor(unit, loop("u"), 1).program)
    once = parse_program("""program p(A: f32[4], out S: f32[4]) {
        for i in 4, u in 1 { block s[x: 4 = i | y: 1 = 0] { init { S[x] = 0.0 } S[x] += A[x] } } }""")
    same(once, rfactor(once, loop("u")).program)


def test_the_first_of_equals_along_a_loop_of_one_iteration():
    p = add_unit_loop(best("best[i] >= A[i, k]", GREATEST), block("b")).program
    same(p, rfactor(p, loop("u"), 1).program)


def test_a_reducer_of_ones_own():
    """`x + y + x * y`, whose identity is 0, is known to whom it was told."""
    joined = Binary("+", Binary("+", so_far(0), new(0)), Binary("*", so_far(0), new(0)))
    mine = Reducer("joined", (0,), (joined,))
    p = rows("init { S[i] = 0.0 } let y = W[k] S[i] = S[i] + y + S[i] * y")
    updates = updates_of(p, path_to_block(p, "s")[-1], "test").stores
    assert match_reducer(updates) is None
    found = match_reducer(updates, (*BUILTIN, mine))
    assert found is not None and found.reducer == mine and [text(v) for v in found.values] == ["W(k)"]
    assert text(combined(mine, [Const(2)], [Const(3)])[0]) == "(2 + 3) + (2 * 3)"


def test_packages_register_reducers(monkeypatch):
    joined = Binary("+", Binary("+", so_far(0), new(0)), Binary("*", so_far(0), new(0)))
    mine = Reducer("joined", (0,), (joined,))
    installed = [Extension("joined", "mine", mine), Extension("broken", "other", problem=problem("MS212", "broken"))]
    asked = []
    monkeypatch.setattr(
        "mslang.transform.analysis.reducers.loaded",
        lambda group, kind, packages: asked.append(packages) or tuple(installed),
    )
    assert known_reducers() == BUILTIN and not asked, "nothing is loaded that was not allowed"
    monkeypatch.setattr("mslang.transform.analysis.reducers.allowed", lambda: frozenset({"mine"}))
    found = known_reducers()
    assert asked == [frozenset({"mine"})]
    assert found == (*BUILTIN, mine)
    monkeypatch.setattr("mslang.transform.primitives.rfactor.known_reducers", lambda: found)
    p = parse_program("""program p(W: i32[4, 6], out S: i32[4]) {
        block s[i: 4 | k: 6] { init { S[i] = 0 } let y = W[i, k] S[i] = S[i] + y + S[i] * y } }""")
    same(p, rfactor(tiled(p, None, 4), loop("k_1")).program)


# ------------------------------------------------------------------ what it refuses: blocks and loops
def test_no_reduction_block():
    p = parse_program("program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }")
    with refused("MS313", "condition 1"):
        rfactor(p, loop("i"))


def test_bindings_that_are_not_affine():
    p = parse_program("""program p(A: f32[4, 16], out S: f32[4]) {
        for i in 4, k in 16 { block s[x: 4 = i | y: 16 = k * k % 16] { init { S[x] = 0.0 } S[x] += A[x, y] } } }""")
    with refused("MS313", "condition 2"):
        rfactor(p, loop("k"))


def test_another_writer():
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        block s[i: 4 | k: 8] { S[i] += A[i, k] }
        block t[i: 4] { S[i] = S[i] + 1.0 } }""")
    with refused("MS313", "condition 4"):
        rfactor(p, loop("k"))


def test_a_loop_that_is_not_serial_or_annotated():
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        for i in 4 { for k in 8 @ unrolled {
            block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } } } }""")
    with refused("MS305", "unrolled"):
        rfactor(p, loop("k"))
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        for i in 4 { for k in 8 @ serial("note" = 1) {
            block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } } } }""")
    with refused("MS305", "annotated with 'note'"):
        rfactor(p, loop("k"))


def test_a_spatial_loop():
    with refused("MS368", "serves the spatial axis `i`", "loops that reduce: k"):
        rfactor(rows(), loop("i"))


def test_a_loop_of_both_kinds():
    p = fuse(rows(), loops("i k")).program
    p = split(p, loop("i_k_fused"), sizes(None, 4)).program
    with refused("MS368", "loop"):
        rfactor(p, loop("i_k_fused_1"))
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        for f in 8, k in 4 {
            block s[x: 4 = f // 2 | y: 8 = f % 2 * 4 + k] { init { S[x] = 0.0 } S[x] += A[x, y] } } }""")
    with refused("MS368", "serves spatial and reduction axes"):
        rfactor(p, loop("k"))


def test_an_idle_loop():
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        for i in 4, k in 8, u in 2 { block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } } }""")
    with refused("MS368", "no axis of block `s` depends on loop `u`"):
        rfactor(p, loop("k"))
    with refused("MS368", "no reduction axis of block `s` depends on loop `u`"):
        rfactor(p, loop("u"))


def test_an_idle_loop_of_one_iteration_and_one_outside_are_fine():
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        for v in 3, i in 4, k in 8, u in 1 {
            block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } } }""")
    same(p, rfactor(p, loop("k")).program)


TWO = """program p(A: f32[4, 8], out S: f32[4], out T: f32[4]) {
    for %s in %s, %s in %s {
        block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] }
        block t[x: 4 = i | y: 8 = k] { init { T[x] = 1.0 } T[x] *= A[x, y] }
    } }"""


def test_several_blocks():
    p = parse_program(TWO % ("k", 8, "i", 4))
    with refused("MS368", "around several blocks: `s`, `t`"):
        rfactor(p, loop("k"))


SHARED = """program p(A: f32[4, 8], out S: f32[4], out T: f32[4]) {
    for i in 4 {
        for k in 8 { block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } }
        for l in 8 { block t[x: 4 = i | y: 8 = l] { init { T[x] = 0.0 } T[x] += A[x, y] } }
    } }"""


def test_only_the_first_block_of_the_outermost_loop():
    p = parse_program(SHARED)
    with refused("MS368", "block `s` comes before block `t` in the outermost loop `i`"):
        rfactor(p, loop("l"))
    same(p, rfactor(p, loop("k")).program)


def test_a_block_beside_it_under_the_reduction_loop():
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4], out T: f32[8]) {
        for k in 8 {
            for i in 4 { block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } }
            block t[y: 8 = k] { T[y] = A[0, y] }
        } }""")
    with refused("MS368", "around several blocks"):
        rfactor(p, loop("k"))
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4], out T: f32[2]) {
        for k in 2 {
            for i in 4, l in 4 { block s[x: 4 = i | y: 8 = k * 4 + l] { init { S[x] = 0.0 } S[x] += A[x, y] } }
            block t[y: 2 = k] { T[y] = A[0, y] }
        } }""")
    with refused("MS368", "block `t` is under the reduction loop `k`, too"):
        rfactor(p, loop("l"))


def test_a_condition_above_the_block():
    p = parse_program("""program p(A: f32[4, 8], inout S: f32[4]) {
        for i in 4, k in 8 {
            if A[i, 0] > 0.0 { block s[x: 4 = i | y: 8 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } } } }""")
    with refused("MS368", "something else than loops stands above block `s`", "only loops may"):
        rfactor(p, loop("k"))


def test_instances_that_run_twice():
    p = parse_program("""program p(A: f32[4, 4], out S: f32[4]) {
        for i in 4, k in 8 { block s[x: 4 = i | y: 4 = k // 2] { init { S[x] = 0.0 } S[x] += A[x, y] } } }""")
    with refused("MS368", "the loops from `k` on may run an instance of block `s` twice", "not provably different"):
        rfactor(p, loop("k"))


def test_a_reduction_that_goes_on_outside():
    p = parse_program("""program p(A: f32[8], out S: f32[1]) {
        for j in 2 {
            block o[z: 1 = 0 | w: 2 = j] {
                for k in 4 {
                    block s[x: 1 = z | y: 8 = w * 4 + k] { init { S[x] = 0.0 } S[x] += A[y] } } } } }""")
    with refused("MS368", "axis `y` depends on an axis of the block that encloses block `s`", "is not over where"):
        rfactor(p, loop("k"))


def test_a_scope_in_which_the_order_matters():
    p = parse_program("""program p(A: f32[4, 8], out D: f32[8]) {
        alloc S: f32[8]
        block s[i: 4 | k: 8] { S[i] += A[i, k] }
        block d[i: 8] { D[i] = S[i] } }""")
    with refused("MS368", "are provably written before"):
        rfactor(p, loop("k"))
    p = parse_program("""program p(inout A: f32[4, 8], out S: f32[4]) {
        block s[i: 4 | k: 8] { S[i] += A[i, k] }
        block d[i: 4, k: 8] { A[i, k] = 1.0 } }""")
    with refused("MS368", "writes `A` after"):
        rfactor(p, loop("k"))


def test_bounds_that_depend_on_loops():
    p = parse_program("""program p(A: f32[4, 4], out S: f32[4]) {
        for i in 4, k in i + 1 { block s[x: 4 = i | y: 4 = k] { init { S[x] = 0.0 } S[x] += A[x, y] } } }""")
    with refused("MS368", "the bounds of loop `k` depend on `i`"):
        rfactor(p, loop("k"))


def test_a_reduction_that_does_not_begin_at_0():
    p = parse_program("""program p(A: f32[4, 8], inout S: f32[4]) {
        for i in 4, k in 4 { block s[x: 4 = i | y: 8 = k + 4] { init { S[x] = 0.0 } S[x] += A[x, y] } } }""")
    with refused("MS368", "does not provably begin at 0"):
        rfactor(p, loop("k"))
    p = rows(more="where k > 2")
    with refused("MS313", "may leave out the iteration of its init"):
        rfactor(p, loop("k"))


def test_an_axis_beyond_the_dimensions():
    for axis in (2, -3):
        with refused("MS303", f"no axis {axis}", "from -2 to 1"):
            rfactor(rows(), loop("k"), axis)


def test_views_and_buffers_of_its_own():
    p = parse_program("""program p(A: f32[4, 8], out S: f32[4]) {
        block s[i: 4 | k: 8] { alloc t: f32[1] init { S[i] = 0.0 } t[0] = A[i, k] S[i] += t[0] } }""")
    with refused("MS368", "buffers of its own"):
        rfactor(p, loop("k"))


# ------------------------------------------------------------------ what it refuses: the shape of the reduction
LETS = "let a = s[i] + A[i, k] let c = q[i] + A[i, k]"


@pytest.mark.parametrize(
    ("condition", "body", "init"),
    [
        (1, f"{LETS} s[i] = a q[i] = c", "let z = 0.0 s[i] = z q[i] = z"),
        (2, f"{LETS} s[i] = a q[i] = c", "s[i] = 0.0 s[i] = 0.0"),
        (3, "let a = s[i] + A[i, k] s[i] = a q[i] = q[i] + s[i]", "s[i] = 0.0 q[i] = 0.0"),
        (3, f"{LETS} s[i] = a q[i] = c", "s[i] = 0.0"),
        (5, f"{LETS} if k > 2 {{ s[i] = a q[i] = c }}", "s[i] = 0.0 q[i] = 0.0"),
        (6, f"{LETS} s[i] = a", "s[i] = 0.0 q[i] = 0.0"),
        (6, f"{LETS} s[i] = a q[i] = c q[i] = c", "s[i] = 0.0 q[i] = 0.0"),
        (7, f"{LETS} s[i] = a q[i] = q[i] + A[i, k]", "s[i] = 0.0 q[i] = 0.0"),
        (7, "let a = s[i] + A[i, k] let c = q[i] + a s[i] = a q[i] = c", "s[i] = 0.0 q[i] = 0.0"),
        (8, f"{LETS} s[i] = a q[i] = a", "s[i] = 0.0 q[i] = 0.0"),
        (9, f"{LETS} s[i] = a s[i] = c", "s[i] = 0.0 q[i] = 0.0"),
    ],
)
def test_another_shape(condition, body, init):
    with refused("MS369", f"condition {condition} fails"):
        rfactor(moments(body, init), loop("k"))


def test_init_of_another_buffer():
    p = parse_program("""program p(A: f32[6, 12], out s: f32[6], out q: f32[6], out r: f32[6]) {
        block b[i: 6 | k: 12] { init { s[i] = 0.0 r[i] = 0.0 } let a = s[i] + A[i, k] let c = q[i] + A[i, k]
            s[i] = a q[i] = c } }""")
    with refused("MS369", "condition 10 fails"):
        rfactor(p, loop("k"))


def test_buffers_of_different_shapes():
    with refused("MS369", "condition 11 fails"):
        rfactor(moments(f"{LETS} s[i] = a q[i] = c", shape="7"), loop("k"))


def test_different_indices():
    body = "let a = s[i] + A[i, k] let c = q[5 - i] + A[i, k] s[i] = a q[5 - i] = c"
    with refused("MS369", "condition 12 fails"):
        rfactor(moments(body, "s[i] = 0.0 q[5 - i] = 0.0"), loop("k"))
    p = rows("init { S[i] = 0.0 } S[5 - i] = S[5 - i] + A[i, k]")
    with refused("MS369", "condition 12 fails"):
        rfactor(p, loop("k"))


@pytest.mark.parametrize(
    "update",
    [
        "init { S[i] = 0.0 } S[i] = S[i] - A[i, k]",
        "init { S[i] = 0.0 } S[i] = A[i, k] - S[i]",
        "init { S[i] = 0.0 } S[i] = S[i] + S[i] * A[i, k]",
        "init { S[i] = 0.0 } S[i] = A[i, k]",
        "init { S[i] = 1.0 } S[i] = S[i] / (A[i, k] + 9.0)",
    ],
)
def test_no_known_reducer(update):
    with refused("MS370", "no known reducer", "argmax"):
        rfactor(rows(update), loop("k"))


def test_several_buffers_start_from_the_identity():
    with refused("MS370", "does not start", "`s`"):
        rfactor(moments(f"{LETS} s[i] = a q[i] = c", "s[i] = 1.0 q[i] = 0.0"), loop("k"))
    with refused("MS370", "does not start", "`at`"):
        rfactor(best(FIRST, GREATEST, at="0"), loop("k"))


def test_a_condition_on_loops_that_reduce_inside_a_block():
    p = parse_program("""program p(A: f32[6, 12], out S: f32[6]) {
        for o in 0..6 {
            block outer[x: 6 = o] {
                for k in 0..12 {
                    block s[i: 6 = x | r: 12 = k] {
                        where k < 10
                        init { S[i] = 0.0 }
                        S[i] = S[i] + A[i, r]
                    }
                }
            }
        }
    }""")
    with refused(
        "MS368", "`s` stands inside block `outer`", "has a condition on loops that reduce", "beyond the regions"
    ):
        rfactor(p, loop("k"))


def test_a_condition_on_an_axis_over_no_loop():
    p = parse_program("""program p(A: f32[6, 12], W: f32[3], inout S: f32[6]) {
        for o in 0..6, k in 0..12 {
            block s[i: 6 = o | q: 3 = 0, r: 12 = k] {
                where i != 4 and W[max(q - 1, 0)] > 0.0
                init { S[i] = 0.0 }
                S[i] = S[i] + A[i, r]
            }
        }
    }""")
    out = rfactor(p, loop("k")).program
    assert print_program(out).count("where i != 4 and W[") == 2
    same(p, out)
