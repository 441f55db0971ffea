"""merge: several nests as one."""

from itertools import permutations

import pytest

from mslang.diagnostics import ScheduleError
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.program import Program
from mslang.sema.program import parse_program
from mslang.transform.primitives.fission import merge
from mslang.transform.primitives.loop_kinds import parallel
from mslang.transform.primitives.loop_partition import loop_partition
from tests.unit.transform.meaning import same
from tests.unit.transform.programs import chain, loop, loops, outline, refused, sizes


def window(first: int, second: int, at: int) -> Program:
    """T = A + 1 over `first` elements; B = T further by `at` over `second`."""
    b = ProgramBuilder("window")
    a, t, c = b.input("A", (first,)), b.alloc("T", (first,)), b.output("B", (second,))
    with b.block("make", spatial("i", first)) as (i,):
        t[i] = a[i] + 1.0
    with b.block("use", spatial("j", second)) as (j,):
        c[j] = t[j + at]
    return b.finish()


def test_two_nests_become_one():
    out = merge(chain(), loops("x x_1"))
    assert outline(out.program) == (
        "x_m in 0+8\n  y in 0+16\n    first[x = x_m, y = y]\n  y_1 in 0+16\n    second[x = x_m, y = y_1]"
    )
    assert out.handles == (loop("x_m"),)
    same(chain(), out.program)


def test_the_loops_around_are_joined_too():
    out = merge(chain(), loops("y y_1"))
    assert outline(out.program) == (
        "x_m in 0+8\n  y_m in 0+16\n    first[x = x_m, y = y_m]\n    second[x = x_m, y = y_m]"
    )
    assert out.forward[loop("x")] == loop("x_m") and out.forward[loop("x_1")] == loop("x_m")
    same(chain(), out.program)


def test_the_order_of_the_arguments_does_not_matter():
    assert merge(chain(), loops("x_1 x")).program == merge(chain(), loops("x x_1")).program


REFUSED = {
    "in turn": (
        "for i in 4 { block a[x: 4 = i] { T[x] = A[x] } } "
        "for j in 4 { block b[x: 4 = j] { B[x] = T[3 - x] } } "
        "for k in 5 { block c[x: 5 = k] { C[x] = A[x] } }"
    ),
    "apart": (
        "for i in 4 { block a[x: 4 = i] { T[x] = A[x] } } "
        "for q in 2, j in 4 { block b[x: 4 = j] { B[x] = A[x] } } "
        "if A[0] > 0.0 { for k in 4 { block c[x: 4 = k] { C[x] = A[x] } } }"
    ),
    "scopes": (
        "for i in 4 { block a[x: 4 = i] { T[x] = A[x] } } "
        "block o[z: 1 = 0] { for j in 4 { block b[x: 4 = j] { B[x] = A[x] } } } "
        "for q in 2, k in 4 { block c[x: 4 = k] { C[x] = A[x] } }"
    ),
    "inside": (
        "for i in 4 { for j in 4 { block a[x: 4 = i] { T[x] = A[x] } } } "
        "for k in 5 { block c[x: 5 = k] { C[x] = A[x] } }"
    ),
    "around": (
        "for i in 4 { block a[x: 4 = i] { T[x] = A[x] } } "
        "for j in 5 { block b[x: 5 = j] { B[x] = A[x] } } "
        "for k in 6 { block c[x: 6 = k] { C[x] = A[x] } }"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_reason_does_not_depend_on_the_order_of_the_arguments(name):
    p = parse_program("program p(A: f32[8], out B: f32[8], out C: f32[8]) { alloc T: f32[8]\n" + REFUSED[name] + " }")
    said = set()
    for names in permutations("ijk"):
        with pytest.raises(ScheduleError) as error:
            merge(p, loops(" ".join(names)))
        said.add(error.value.diagnostic)
    assert len(said) == 1, said


def test_three_nests():
    b = ProgramBuilder("three")
    a = b.input("A", (8,))
    last = a
    for k in range(3):
        out = b.alloc(f"T{k}", (8,)) if k < 2 else b.output("B", (8,))
        with b.block(f"b{k}", spatial("i", 8)) as (i,):
            out[i] = last[i] * 2.0
        last = out
    before = b.finish()
    done = merge(before, loops("i i_1 i_2"))
    assert outline(done.program).count(" in ") == 1
    same(before, done.program)


def test_what_lies_behind_may_be_read():
    before = loop_partition(window(8, 7, 0), loop("i"), sizes(7, None)).program
    with refused("MS357", "stands between"):
        merge(before, loops("i_0 j"))
    padded = window(8, 8, 0)
    same(padded, merge(padded, loops("i j")).program)


def test_what_comes_later_may_not_be_read():
    b = ProgramBuilder("ahead")
    a, t, c = b.input("A", (8,)), b.alloc("T", (9,)), b.output("B", (8,))
    with b.block("make", spatial("i", 8)) as (i,):
        t[i + 1] = a[i]
    with b.block("first", spatial("z", 1)) as (z,):
        t[z] = 0.0
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = t[j]
    before = b.finish()
    with refused("MS357", "stands between"):
        merge(before, loops("i j"))
    c2 = ProgramBuilder("ahead")
    a, t, c = c2.inout("A", (9,)), c2.output("T", (8,)), c2.output("B", (8,))
    with c2.block("make", spatial("i", 8)) as (i,):
        a[i] = 1.0
    with c2.block("use", spatial("j", 8)) as (j,):
        c[j] = a[j + 1]
    with c2.block("other", spatial("k", 8)) as (k,):
        t[k] = 0.0
    with refused("MS357", "block `use` may access elements of `A`", "`make`", "later iteration"):
        merge(c2.finish(), loops("i j"))
    ahead = merge(c2.finish(), loops("j k"))
    same(c2.finish(), ahead.program)


def test_a_nest_may_pass_what_has_nothing_to_do_with_it():
    b = ProgramBuilder("beside")
    a, t, c, d = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,)), b.output("D", (8,))
    with b.block("make", spatial("i", 8)) as (i,):
        t[i] = a[i]
    with b.block("beside", spatial("k", 8)) as (k,):
        d[k] = a[k] + 1.0
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = t[j]
    before = b.finish()
    out = merge(before, loops("i j"))
    assert outline(out.program).splitlines()[0] == "i_m in 0+8"
    same(before, out.program)


def test_a_reduction_is_not_read_before_it_is_complete():
    b = ProgramBuilder("sum")
    a, s, c = b.input("A", (8, 8)), b.alloc("S", ()), b.output("B", (8,))
    with b.block("sum", reduce("k", 8)) as (k,):
        s[()] += a[k, 0]
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = s[()]
    with refused("MS357", "`S`"):
        merge(b.finish(), loops("k j"))


def test_a_value_that_outlives_its_iteration_is_kept():
    b = ProgramBuilder("behind")
    a, t, c = b.input("A", (8,)), b.alloc("T", (9,)), b.output("B", (8,))
    with b.block("zero", spatial("z", 1)) as (z,):
        t[z] = 5.0
    with b.block("make", spatial("i", 8)) as (i,):
        t[i + 1] = a[i]
    with b.block("use", spatial("j", 8)) as (j,):
        c[j] = t[j] + t[j + 1]
    before = b.finish()
    same(before, merge(before, loops("i j")).program)


def test_ranges_must_be_equal():
    with refused("MS304", "do not provably run over the same range", "loop_partition"):
        merge(window(8, 7, 0), loops("i j"))


@pytest.mark.parametrize("n", [1, 5])
def test_equal_dynamic_ranges(n):
    before = parse_program(
        "program p[n: dyn(1..64)](A: f32[n], out B: f32[n]) { alloc T: f32[n]\n"
        "for i in 0..n { block a[x: n = i] { T[x] = A[x] } }\nfor j in 0..n { block b[x: n = j] { B[x] = T[x] } } }"
    )
    same(before, merge(before, loops("i j")).program, n=n)


def test_places_that_do_not_fit():
    with refused("MS303", "fewer than two"):
        merge(chain(), loops("x"))
    with refused("MS303", "named twice"):
        merge(chain(), loops("x x"))
    with refused("MS304", "around another"):
        merge(chain(), loops("x y"))
    with refused("MS304", "not equally deep"):
        merge(chain(), loops("x y_1"))


def test_what_stands_beside_an_inner_loop():
    once = merge(chain(), loops("x x_1")).program
    both = merge(once, loops("y y_1"))
    assert outline(both.program).count(" in ") == 2
    same(chain(), both.program)


def test_a_loop_that_is_marked_already():
    with refused("MS305", "parallel"):
        merge(parallel(chain(), loop("x")).program, loops("x x_1"))


# ------------------------------------------------------------------ what may come in turn
def test_elements_told_by_the_same_map():
    p = parse_program("""program p(x: f32[2, 6], out v: f32[2, 6]) {
        alloc t: f32[12]
        for i in 2, j in 6 { block a[i: 2 = i, j: 6 = j] { t[j * 2 + i] = x[i, j] } }
        for i_1 in 2, j_1 in 6 { block b[i: 2 = i_1, j: 6 = j_1] { v[i, j] = t[j * 2 + i] + 1.0 } } }""")
    for names in ("i i_1", "j j_1"):
        same(p, merge(p, loops(names)).program)


@pytest.mark.parametrize("index", ["i * 2 + j", "j * 2 + i % 2", "(j * 2 + i + 2) % 12"])
def test_elements_told_by_another_map(index):
    p = parse_program(f"""program p(x: f32[2, 6], out v: f32[2, 6]) {{
        alloc t: f32[12]
        for i in 2, j in 6 {{ block a[i: 2 = i, j: 6 = j] {{ t[j * 2 + i] = x[i, j] }} }}
        for i_1 in 2, j_1 in 6 {{ block b[i: 2 = i_1, j: 6 = j_1] {{ v[i, j] = t[{index}] + 1.0 }} }} }}""")
    with refused("MS357", "accesses in a later iteration"):
        merge(p, loops("i i_1"))


ADDED = """program p(A: f32[4, 5], inout T: f32[4], out O: f32[4]) {{
    for i in 4 {{
        for k in 5 {{ block a[i: 4 = i | k: 5 = k] {{ init {{}} {} }} }}
        for k_1 in 5 {{ block b[i: 4 = i | k: 5 = k_1] {{ init {{}} {} }} }}
        block c[i: 4 = i] {{ O[i] = T[i] }} }} }}"""


@pytest.mark.parametrize("first", ["T[i] += A[i, k]", "T[i] = A[i, k] * 2.0 + T[i]"])
def test_what_is_only_added_to(first):
    p = parse_program(ADDED.format(first, "T[i] += A[i, k] * 3.0"))
    same(p, merge(p, loops("k k_1")).program)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("T[i] += A[i, k]", "T[i] = max(T[i], A[i, k])"),
        ("T[i] += A[i, k]", "T[i] += T[i] * A[i, k]"),
        ("T[i] += A[i, k]", "T[i] *= A[i, k]"),
    ],
)
def test_what_is_changed_in_several_ways(first, second):
    with refused("MS357", "block `b` may access elements of `T`"):
        merge(parse_program(ADDED.format(first, second)), loops("k k_1"))


def test_a_sum_that_is_started_and_one_that_goes_on():
    p = parse_program(ADDED.format("T[i] += A[i, k]", "T[i] += A[i, k]").replace("init {}", "init { T[i] = 0.0 }", 1))
    with refused("MS357", "block `b` may access elements of `T`"):
        merge(p, loops("k k_1"))


AGAIN = """program p(A: f32[8], out O: f32[6]) {{
    alloc T: f32[8]
    for i in 6, k in 3 {{ block a[x: 8 = i + k] {{ T[x] = {} }} }}
    for i_1 in 6 {{ block b[x: 6 = i_1] {{ O[x] = T[{}] * 2.0 }} }} }}"""


@pytest.mark.parametrize("index", ["x", "x + 2"])
def test_what_later_iterations_only_write_again(index):
    p = parse_program(AGAIN.format("A[x]", index))
    same(p, merge(p, loops("i i_1")).program)


def test_what_later_iterations_write_first():
    p = parse_program(AGAIN.format("A[x]", "x + 2").replace("k in 3", "k in 2"))
    with refused("MS357", "accesses in a later iteration"):
        merge(p, loops("i i_1"))


def test_what_depends_on_what_changes_is_not_the_same_again():
    p = parse_program("""program p(A: f32[8], inout B: f32[8], out O: f32[6]) {
        alloc T: f32[8]
        for i in 6 {
            for k in 3 { block a[x: 8 = i + k] { T[x] = B[x] } }
            block c[x: 6 = i] { B[x + 1] = A[x] } }
        for i_1 in 6 { block b[x: 6 = i_1] { O[x] = T[x + 2] * 2.0 } } }""")
    with refused("MS357", "accesses in a later iteration"):
        merge(p, loops("i i_1"))


BETWEEN = """program p(A: f32[6], out X: f32[6], inout S: f32[6], out O: f32[6]) {{
    for k in 6 {{ block a[k: 6 = k] {{ X[k] = A[k] + {} }} }}
    for j in 6 {{ block z[k: 6 = j] {{ S[k] = 2.0 }} }}
    for k_1 in 6 {{ block b[k: 6 = k_1] {{ O[k] = S[k] * A[k] }} }} }}"""


def test_what_stands_between_comes_before_where_it_must():
    p = parse_program(BETWEEN.format("1.0"))
    out = merge(p, loops("k k_1")).program
    assert outline(out).split()[0] == "j" and "a[k = k_m]" in outline(out)
    same(p, out)


def test_what_stands_between_can_come_neither_before_nor_after():
    with refused("MS357", "loop `j`", "would come before", "nor can it come before them all"):
        merge(parse_program(BETWEEN.format("S[k]")), loops("k k_1"))


NESTED = """program p(A: f32[8], out B: f32[8], out C: f32[8]) {{
    {}
}}"""
FIRST = "for j in 0..8 { block a[x: 8 = j] { B[x] = A[x] } }"
SECOND = "for k in 0..8 { block b[x: 8 = k] { C[x] = A[x] } }"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            f"{FIRST} block o[z: 1 = 0] {{ {SECOND} }}",
            ("loop `j` and loop `k` are in several scopes", "within one block, or outside of all"),
        ),
        (
            f"if A[0] > 0.0 {{ {FIRST} }} if A[1] > 0.0 {{ {SECOND} }}",
            ("an `if` stands around loop `j`", "only loops may stand around"),
        ),
        (
            f"for i in 0..1 {{ {FIRST} block c[z: 1 = i] {{ C[z] = 0.0 }} }} for i_1 in 0..1 {{ {SECOND} }}",
            ("loop `i` holds more than loop `j`", "run in another order"),
        ),
        (
            f"if A[0] > 0.0 {{ {FIRST} }} else {{ {SECOND} }}",
            ("do not stand side by side", "around them are not the same"),
        ),
    ],
)
def test_nests_that_do_not_stand_side_by_side(body, words):
    with refused("MS304", *words):
        merge(parse_program(NESTED.format(body)), loops("j k"))
