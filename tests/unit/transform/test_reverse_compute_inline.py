"""reverse_compute_inline: consumers that go into their producer, and what is refused."""

import pytest

from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.operators import Value, select
from mslang.ir.print import print_program
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from mslang.transform.analysis.position import block_at
from mslang.transform.outcome import BlockRef, BufferRef, Gone
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_inline import compute_inline
from mslang.transform.primitives.reverse_compute_inline import reverse_compute_inline
from tests.unit.transform.moves import PREDICATE, VIEWS, accepted, names, regions
from tests.unit.transform.programs import block, buffer, chain, refused, text
from tests.unit.transform.workloads import blur, conv2d, diamond, softmax


def test_a_consumer_goes_into_its_producer():
    p = chain()
    made = reverse_compute_inline(p, block("second"))
    q = accepted(p, made)
    assert names(q) == ["first"]
    assert [r.buffer for r in block_at(path_to_block(q, "first")).writes] == ["B"]
    assert made.forward[BlockRef("second")] == Gone("reverse_compute_inline", (BlockRef("first"),))
    assert made.forward[BufferRef("T")] == Gone("reverse_compute_inline")


def test_a_smaller_consumer_leaves_a_predicate():
    b = ProgramBuilder("smaller")
    a, t, o = b.input("A", (8, 6)), b.alloc("T", (8, 6)), b.output("B", (4, 5))
    with b.block("first", spatial("i", 8), spatial("j", 6)) as (i, j):
        t[i, j] = a[i, j] + 1.0
    with b.block("second", spatial("x", 4), spatial("y", 5)) as (x, y):
        o[x, y] = t[x * 2, y + 1]
    p = b.finish()
    q = accepted(p, reverse_compute_inline(p, block("second")))
    assert text(block_at(path_to_block(q, "first")).predicate) == "(j >= 1) and ((i % 2) == 0)"


def test_other_inputs_come_along():
    p = conv2d(5, 5, 2, 2)
    q = accepted(p, reverse_compute_inline(p, block("relu")))
    assert names(q) == ["pad", "conv", "add"]
    assert regions(q, "add") == ["acc[h, w, co]", "bias[co]"]


def test_annotations_are_kept():
    p = annotate(annotate(chain(), block("first"), "a", 1).program, block("second"), "b", 2).program
    q = reverse_compute_inline(p, block("second")).program
    assert block_at(path_to_block(q, "first")).annotations == (("a", 1), ("b", 2))


def test_reverse_compute_inline_into_what_reduces_over_nothing():
    program = parse_program(
        """
        program p(A: f32[8], out B: f32[8]) {
            alloc T: f32[8]
            block first[x: 8] {
                init { T[x] = 1.0 }
                T[x] = T[x] + A[x]
            }
            block second[x: 8] { B[x] = T[x] * 2.0 }
        }
        """
    )
    (only,) = blocks_of(accepted(program, reverse_compute_inline(program, block("second"))).body)
    assert only.init is None
    with refused("MS350", "`first` has an init"):
        compute_inline(program, block("first"))


def test_reverse_compute_inline_through_a_reshape():
    b = ProgramBuilder("p")
    a, t, o = b.input("A", (8, 6)), b.alloc("T", (8, 6)), b.output("B", (4, 4, 3))
    with b.block("first", spatial("x", 8), spatial("y", 6)) as (x, y):
        t[x, y] = a[x, y] * 2.0
    with b.block("second", spatial("i", 4), spatial("j", 4), spatial("k", 3)) as (i, j, k):
        flat = (i * 4 + j) * 3 + k
        o[i, j, k] = t[flat // 6, flat % 6]
    program = b.finish()
    done = accepted(program, reverse_compute_inline(program, block("second")))
    assert names(done) == ["first"]


SOME = """program p(A: f32[{n}], out O: f32[14, 14]) {{
    alloc T: f32[{n}]
    for x in {n} {{
        block t[i: {n} = x] {{ where {where} T[i] = A[i] * 2.0 }}
    }}
    block u[i: 14, j: 14] {{ O[i, j] = T[{at}] + 1.0 }}
}}"""


@pytest.mark.parametrize(
    ("n", "at", "where"),
    [
        (240, "i * 16 + j", "i // 16 < 14 and i % 16 < 14"),
        (240, "239 - (i * 16 + j)", "(i + 14) // 16 >= 2 and (i + 14) % 16 < 14"),
        (200, "i * 14 + j + 3", "(i + 11) // 14 >= 1 and (i + 11) // 14 < 15"),
        (420, "(i * 14 + j) * 2 + 1", "(i + 27) // 28 >= 1 and (i + 27) // 28 < 15 and (i + 1) % 2 == 0"),
    ],
)
def test_a_consumer_of_some_elements(n, at, where):
    p = parse_program(SOME.format(n=n, at=at, where="true"))
    q = accepted(p, reverse_compute_inline(p, block("u")))
    assert names(q) == ["t"]
    assert f"where {where}\n" in print_program(q)


def test_a_consumer_of_some_rows_of_another_length():
    b = ProgramBuilder("p")
    a, t, o = b.input("A", (13, 16)), b.alloc("T", (13, 16)), b.output("B", (14, 14))
    with b.block("first", spatial("x", 13), spatial("y", 16)) as (x, y):
        t[x, y] = a[x, y] * 2.0
    with b.block("second", spatial("i", 14), spatial("j", 14)) as (i, j):
        flat = i * 14 + j
        o[i, j] = t[flat // 16, flat % 16]
    program = b.finish()
    done = accepted(program, reverse_compute_inline(program, block("second")))
    assert names(done) == ["first"]
    assert "where (x * 16 + y) // 14 < 14" in print_program(done)


@pytest.mark.parametrize("at", ["i * 13 + j", "(i + j) * 8 + j // 2", "min(i * 16 + j, 210)"])
def test_a_consumer_of_elements_that_may_repeat(at):
    p = parse_program(SOME.format(n=240, at=at, where="true"))
    with refused("MS353", "`u`", "must come from one value"):
        reverse_compute_inline(p, block("u"))


def test_a_consumer_of_some_elements_that_the_producer_leaves_out():
    p = parse_program(SOME.format(n=240, at="i * 16 + j", where="i % 16 < 13"))
    with refused("MS347", "`t` has a predicate"):
        reverse_compute_inline(p, block("u"))
    p = parse_program(SOME.format(n=240, at="i * 16 + j", where="i % 16 < 15"))
    assert names(accepted(p, reverse_compute_inline(p, block("u")))) == ["t"]


def test_reverse_compute_inline_refuses():
    with refused("MS350", "`total` has an init"):
        reverse_compute_inline(softmax(), block("total"))
    with refused("MS341", "reads nothing"):
        reverse_compute_inline(chain(), block("first"))
    with refused("MS341", "block `right` reads what block `first` writes"):
        reverse_compute_inline(diamond(), block("left"))
    with refused("MS350", "`conv` has an init"):
        reverse_compute_inline(conv2d(), block("add"))
    with refused("MS353", "the loads of `T`"):
        reverse_compute_inline(blur(), block("by"))


def test_reverse_compute_inline_refuses_instances_that_load_nothing():
    b = ProgramBuilder("pad")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (10,))
    with b.block("first", spatial("x", 8)) as (x,):
        t[x] = a[x]
    with b.block("pad", spatial("x", 10)) as (x,):
        o[x] = select((x >= 1) & (x < 9), t[x - 1], 0.0)
    with refused("MS332", "`pad` may have instances for which `first` has none"):
        reverse_compute_inline(b.finish(), block("pad"))


def test_reverse_compute_inline_refuses_predicates_and_part_runs():
    b = ProgramBuilder("p")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("x", 8), where=Value(Binary("<", Var("x"), Const(5)))) as (x,):
        t[x] = a[x]
    with b.block("second", spatial("x", 8)) as (x,):
        o[x] = select(x < 5, t[x], 0.0)
    with refused("MS347", "`first` has a predicate"):
        reverse_compute_inline(b.finish(), block("second"))
    b = ProgramBuilder("p")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.inout("B", (8,))
    with b.block("first", spatial("x", 8)) as (x,):
        t[x] = a[x]
    with b.loop("i", 4) as i, b.block("second", spatial("x", 8, i)) as (x,):
        o[x] = t[x]
    with refused("MS348", "`second` does not provably run"):
        reverse_compute_inline(b.finish(), block("second"))


def test_reverse_compute_inline_refuses_races():
    p = cache_read(blur(), block("by"), buffer("T")).program
    b = ProgramBuilder("race")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.loop("p", 2, kind="parallel"), b.loop("i", 8) as i, b.block("first", spatial("x", 8, i)) as (x,):
        t[x] = a[x]
    with b.block("second", spatial("x", 8)) as (x,):
        o[x] = t[x]
    with refused("MS310", "the parallel loop `p` would no longer be independent", "elements of `B`"):
        reverse_compute_inline(b.finish(), block("second"))
    assert verify(p) == ()


# ------------------------------------------------------------------ what names the buffer that goes
SCATTERED = """program p(A: f32[8], out O: f32[8]) {{
    alloc T: i32[8]
    block t[i: 8] {{ T[i] = i32({made}) }}
    block u[i: 8] {{ writes O[0..8] O[{stored}] = {value} }}
}}"""


@pytest.mark.parametrize("value", ["A[i]", "A[i] + f32(T[i])"])
def test_a_consumer_that_stores_where_the_buffer_says(value):
    p = parse_program(SCATTERED.format(made="7 - i", stored="i64(T[i])", value=value))
    for primitive, name in ((reverse_compute_inline, "u"), (compute_inline, "t")):
        q = accepted(p, primitive(p, block(name)))
        assert "T" not in all_buffers(q)
        assert len(names(q)) == 1


def test_loads_that_differ_between_index_and_value():
    p = parse_program(SCATTERED.format(made="7 - i", stored="i64(T[7 - i])", value="A[i] + f32(T[i])"))
    with refused("MS353"):
        reverse_compute_inline(p, block("u"))


def test_a_consumer_of_which_the_predicate_reads_the_buffer():
    p = parse_program(PREDICATE.format(before="", formula="A[i] * 2.0", where="T[i] < 3.0", after=""))
    q = accepted(p, reverse_compute_inline(p, block("u")))
    assert names(q) == ["t"]
    assert "where A[i] * 2.0 < 3.0" in print_program(q)
    p = parse_program(PREDICATE.format(before="", formula="A[i] * 2.0", where="T[7 - i] < 3.0", after=""))
    with refused("MS353"):
        reverse_compute_inline(p, block("u"))


@pytest.mark.parametrize(
    ("view", "used"), [("B[x .. x + 1]", "O[x] = T[x] + W[0]"), ("O[x .. x + 1]", "W[0] = T[x] + B[x]")]
)
def test_a_consumer_that_computes_with_a_view_does_not_go(view, used):
    p = parse_program(VIEWS.format(made="A[x]", views=f"view W: f32[1] = {view}", used=used))
    with refused("MS352", "`u` computes with `W`, which is its own"):
        reverse_compute_inline(p, block("u"))
    assert names(accepted(p, compute_inline(p, block("t")))) == ["u"]


# ------------------------------------------------------------------ a producer with a predicate
GUARDED = """program p(A: f32[9], out O: f32[{n}]) {{
    alloc T: f32[9]
    for x in 9 {{
        block t[i: 9 = x] {{ where {where} T[i] = A[i] * 2.0 }}
    }}
    block u[i: {n}] {{ {mine} O[i] = T[{at}] + 1.0 }}
}}"""


@pytest.mark.parametrize(
    ("where", "n", "at", "mine"),
    [
        ("x < 5", 5, "i", ""),
        ("i < 5", 4, "i", ""),
        ("x >= 2", 7, "i + 2", ""),
        ("x >= 2 and i < 8", 6, "i + 2", ""),
        ("x % 2 == 0", 9, "i", "where i % 2 == 0"),
    ],
)
def test_a_producer_that_runs_where_it_must(where, n, at, mine):
    p = parse_program(GUARDED.format(where=where, n=n, at=at, mine=mine).replace("out O", "inout O"))
    q = accepted(p, reverse_compute_inline(p, block("u")))
    assert names(q) == ["t"]


@pytest.mark.parametrize(("where", "n", "at"), [("x < 5", 6, "i"), ("x >= 2", 7, "i + 1"), ("A[x] < 5.0", 9, "i")])
def test_a_producer_that_runs_too_little(where, n, at):
    p = parse_program(GUARDED.format(where=where, n=n, at=at, mine=""))
    with refused("MS347", "has a predicate"):
        reverse_compute_inline(p, block("u"))


def test_a_slice_can_be_staged_afterwards():
    p = parse_program("""program p(A: f32[16, 3], out O: f32[12, 3]) {
        alloc T: f32[16, 3]
        block t[i: 16, j: 3] { T[i, j] = A[i, j] + 1.0 }
        block u[i: 12, j: 3] { O[i, j] = T[i, j] }
    }""")
    q = accepted(p, reverse_compute_inline(p, block("u")))
    r = accepted(p, cache_write(q, block("t"), buffer("O"), "local"))
    assert names(r) == ["t", "O_local"]


# ------------------------------------------------------------------ a consumer of a part
PART = """program p(A: f32[6, 4], out O: f32[6]) {{
    alloc T: f32[6, 4]
    alloc S: f32[6, 4]
    block t[i: 6, k: 4] {{ T[i, k] = A[i, k] * 2.0 }}
    for i in 6 {{
        for z in 2 {{
            block s[x: 6 = i, k: 4 = z] {{ S[x, k] = {value} }}
        }}
        block o[x: 6 = i] {{ O[x] = S[x, 0] + S[x, 1] }}
    }}
}}"""


def test_a_stage_of_a_part_becomes_one_of_all():
    p = parse_program(PART.format(value="T[x, k] + A[x, k]"))
    q = accepted(p, reverse_compute_inline(p, block("s")))
    assert names(q) == ["t", "o"]
    assert "S[i, k] = A[i, k] * 2.0 + A[i, k]" in print_program(q)


def test_a_stage_of_a_part_that_would_read_out_of_bounds():
    p = parse_program(PART.format(value="T[x, k] + A[x, k + 2]"))
    with refused("MS348", "`s` does not provably run"):
        reverse_compute_inline(p, block("s"))


# ------------------------------------------------------------------ a producer that holds loops and blocks
HOLDS = """program p(A: f32[6, 4], C: f32[4], out O: f32[{n}, 4]) {{
    alloc T: f32[6, 4]
    for i in 3 {{
        block t_o[i_o: 3 = i] {{
            reads A[i_o * 2 .. i_o * 2 + 2, 0..4]
            writes T[i_o * 2 .. i_o * 2 + 2, 0..4]
            {inside}
        }}
    }}
    block u[i: {n}, j: 4] {{ O[i, j] = T[i, j] + C[j] }}
}}"""

BLOCKS = """for y in 2, z in 4 {
    block t[v: 6 = i_o * 2 + y, w: 4 = z] { T[v, w] = A[v, w] * 2.0 }
}"""

LOOPS = "for y in 2, z in 4 { T[i_o * 2 + y, z] = A[i_o * 2 + y, z] * 2.0 }"


@pytest.mark.parametrize("inside", [BLOCKS, LOOPS])
def test_a_consumer_goes_into_what_its_producer_holds(inside):
    p = parse_program(HOLDS.format(n=6, inside=inside))
    q = accepted(p, reverse_compute_inline(p, block("u")))
    assert names(q) == [name for name in names(p) if name != "u"]
    assert "T" not in all_buffers(q)
    text = print_program(q)
    assert "reads A[i_o * 2 .. i_o * 2 + 2, 0..4], C[0..4]" in text
    assert "writes O[i_o * 2 .. i_o * 2 + 2, 0..4]" in text


def test_a_smaller_consumer_goes_into_a_block_but_not_into_loops():
    p = parse_program(HOLDS.format(n=5, inside=BLOCKS))
    q = accepted(p, reverse_compute_inline(p, block("u")))
    assert "where v < 5" in print_program(q)
    p = parse_program(HOLDS.format(n=5, inside=LOOPS))
    with refused("MS351", "`t_o` stores in loops of its own"):
        reverse_compute_inline(p, block("u"))


@pytest.mark.parametrize(
    ("inside", "code", "words"),
    [
        ("for y in 2 @ parallel, z in 4 { T[i_o * 2 + y, z] = A[i_o * 2 + y, z] }", "MS351", "more than one store"),
        ("for y in 2, z in 4 { T[i_o * 2 + y, z] = A[i_o * 2 + y, z] T[i_o * 2 + y, z] = 1.0 }", "MS351", "one store"),
        (BLOCKS.replace("{ T[v, w] =", "{ where v + w < 8 T[v, w] ="), "MS347", "has a predicate"),
        (BLOCKS.replace("i_o * 2 + y", "i_o * 2").replace("T[v, w]", "T[v + 0 * w, w]"), "MS332", "has none"),
    ],
)
def test_a_producer_that_holds_something_else(inside, code, words):
    p = parse_program(HOLDS.format(n=6, inside=inside))
    with refused(code, words):
        reverse_compute_inline(p, block("u"))
