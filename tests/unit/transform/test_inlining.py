"""compute_inline and reverse_compute_inline, and the places that compute_location draws from."""

import pytest

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.operators import Value, select
from mslang.ir.print import print_program
from mslang.ir.program import Range
from mslang.ir.verify import verify
from mslang.ir.visit import all_buffers, blocks_of, path_to_block
from mslang.sema.program import parse_program
from mslang.transform.analysis.location import Place, legal_locations
from mslang.transform.analysis.position import block_at
from mslang.transform.outcome import BlockRef, BufferRef, Gone, LoopRef
from mslang.transform.primitives.access import unsafe_hide_buffer_access
from mslang.transform.primitives.annotate import annotate
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_location import compute_at
from mslang.transform.primitives.inlining import compute_inline
from mslang.transform.primitives.kinds import parallel
from mslang.transform.primitives.loops import add_unit_loop, split
from mslang.transform.primitives.reverse_inlining import reverse_compute_inline
from mslang.transform.rewriting.formula import at_element, inverse
from tests.property.block_programs import same_meaning
from tests.unit.transform.programs import block, buffer, chain, loop, matmul, outline, refused, sizes, text
from tests.unit.transform.workloads import blur, conv2d, diamond, softmax


def accepted(before, outcome):
    """The program of an outcome, which is well formed and means the same."""
    assert verify(outcome.program) == ()
    same_meaning(before, outcome.program, {}, 1)
    return outcome.program


def names(program):
    return [b.name for b in blocks_of(program.body)]


def regions(program, name):
    found = block_at(path_to_block(program, name))
    return [f"{r.buffer}[{', '.join(text(d.start) for d in r.ranges)}]" for r in found.reads]


# ------------------------------------------------------------------ compute_inline
def test_a_formula_goes_into_its_reader():
    p = chain()
    made = compute_inline(p, block("first"))
    q = accepted(p, made)
    assert names(q) == ["second"]
    assert "T" not in all_buffers(q)
    assert regions(q, "second") == ["A[x, y]"]
    assert made.handles == ()
    assert made.forward == {
        BlockRef("first"): Gone("compute_inline", (BlockRef("second"),)),
        BufferRef("T"): Gone("compute_inline"),
        LoopRef("x"): Gone("compute_inline", (BlockRef("second"),)),
        LoopRef("y"): Gone("compute_inline", (BlockRef("second"),)),
    }


def test_what_is_read_is_declared_in_the_order_of_reading():
    p = parse_program("""program p(A: f32[8], B: f32[8], C: f32[8], out S: f32[8]) {
        alloc T: f32[8]
        block t[i: 8] { T[i] = A[i] - B[i] }
        block s[i: 8] {
            reads T[i], C[i]
            S[i] = T[i] * C[i]
        }
    }""")
    q = accepted(p, compute_inline(p, block("t")))
    assert regions(q, "s") == ["A[i]", "B[i]", "C[i]"]


def test_into_all_readers_and_all_loads():
    p = diamond()
    q = accepted(p, compute_inline(p, block("first")))
    assert regions(q, "left") == regions(q, "right") == ["A[x]"]
    p = blur()
    q = accepted(p, compute_inline(p, block("bx")))
    assert names(q) == ["by"]
    assert [r.ranges[0] for r in block_at(path_to_block(q, "by")).reads] == [Range(Var("y"), Const(3))]


def test_a_padding_goes_into_a_convolution():
    p = conv2d(5, 5, 2, 2)
    q = accepted(p, compute_inline(p, block("pad")))
    assert names(q) == ["conv", "add", "relu"]
    assert regions(q, "conv") == ["x[(h + r) - 1, (s + w) - 1, ci]", "f[r, s, ci, co]"]


def test_a_chain_of_elementwise_blocks_collapses():
    p = conv2d(5, 5, 2, 2)
    for name in ("pad", "add"):
        p = accepted(conv2d(5, 5, 2, 2), compute_inline(p, block(name)))
    assert names(p) == ["conv", "relu"]


def indexed(make):
    """A block that stores `T` at odd indices, and one that reads it plainly."""
    b = ProgramBuilder("indexed")
    a, o = b.input("A", (4, 6)), b.output("B", (24,))
    make(b, a, o)
    return b.finish()


def flattened(b, a, o):
    t = b.alloc("T", (24,))
    with b.block("first", spatial("i", 4), spatial("j", 6)) as (i, j):
        t[i * 6 + j] = a[i, j] + 1.0
    with b.block("second", spatial("x", 24)) as (x,):
        o[x] = t[23 - x]


def halves(b, a, o):
    t = b.alloc("T", (4, 6))
    with b.block("first", spatial("x", 24)) as (x,):
        t[x // 6, x % 6] = a[x // 6, x % 6] + 1.0
    with b.block("second", spatial("i", 4), spatial("j", 6)) as (i, j):
        o[i * 6 + j] = t[i, j]


def shifted(b, a, o):
    t = b.alloc("T", (24 + 5,))
    with b.block("first", spatial("x", 24)) as (x,):
        t[x + 5] = a[x // 6, x % 6]
    with b.block("second", spatial("x", 24)) as (x,):
        o[x] = t[x + 5] * 2.0


@pytest.mark.parametrize("make", [flattened, halves, shifted])
def test_index_maps_are_inverted(make):
    p = indexed(make)
    accepted(p, compute_inline(p, block("first")))


def test_lets_are_put_in():
    b = ProgramBuilder("lets")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("x", 8)) as (x,), b.let("u", a[x] + 1.0) as u, b.let("v", u * u) as v:
        t[x] = u + v
    with b.block("second", spatial("x", 8)) as (x,):
        o[x] = t[x]
    p = b.finish()
    accepted(p, compute_inline(p, block("first")))
    accepted(p, reverse_compute_inline(p, block("second")))


def test_inside_nested_blocks():
    b = ProgramBuilder("nested")
    a, t, o = b.input("A", (4, 6)), b.alloc("T", (4, 6)), b.output("B", (4, 6))
    with b.block("make", spatial("y", 4), spatial("k", 6)) as (y, k):
        t[y, k] = a[y, k] + 1.0
    with b.block("row", spatial("r", 4)) as (r,), b.block("inner", spatial("y", 4, r), spatial("q", 6)) as (y, q):
        o[y, q] = t[y, q] * 2.0
    p = b.finish()
    q = accepted(p, compute_inline(p, block("make")))
    assert regions(q, "row") == ["A[r, 0]"]
    assert regions(q, "inner") == ["A[y, q]"]


def test_compute_inline_refuses():
    with refused("MS350", "`top` has an init"):
        compute_inline(softmax(), block("top"))
    with refused("MS343", "`second` is an output block", "`B`"):
        compute_inline(chain(), block("second"))
    with refused("MS301", "no block `none`"):
        compute_inline(chain(), block("none"))


def two_stores(b, a, t, x):
    t[x] = a[x]
    t[x] = a[x] + 1.0


def collapsing(b, a, t, x):
    t[x // 2] = a[x // 2]


@pytest.mark.parametrize(
    "body, code, words",
    [
        (two_stores, "MS351", "more than one store"),
        (collapsing, "MS353", "cannot be inverted"),
    ],
)
def test_compute_inline_refuses_what_is_no_formula(body, code, words):
    b = ProgramBuilder("p")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (4,))
    with b.block("first", spatial("x", 8)) as (x,):
        body(b, a, t, x)
    with b.block("second", spatial("x", 4)) as (x,):
        o[x] = t[x]
    with refused(code, words, "`first`"):
        compute_inline(b.finish(), block("first"))


def test_compute_inline_of_what_nobody_reads():
    b = ProgramBuilder("p")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("x", 8)) as (x,):
        t[x] = a[x]
    with b.block("second", spatial("x", 8)) as (x,):
        o[x] = a[x]
    program = b.finish()
    done = accepted(program, compute_inline(program, block("first")))
    assert names(done) == ["second"]
    assert "T" not in all_buffers(done)


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


def test_compute_inline_refuses_later_values_and_views():
    b = ProgramBuilder("p")
    x, t = b.inout("X", (8,)), b.alloc("T", (8,))
    with b.block("first", spatial("i", 8)) as (i,):
        t[i] = x[i] * 2.0
    with b.block("second", spatial("i", 8)) as (i,):
        x[i] = t[i] + 1.0
    with refused("MS344", "`second` writes `X`"):
        compute_inline(b.finish(), block("first"))
    b = ProgramBuilder("p")
    a, t, o = b.input("A", (8,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.block("first", spatial("i", 8)) as (i,):
        t[i] = a[i]
    with b.block("second", spatial("i", 8)) as (i,):
        v = b.view("v", t, [(i, 1)])
        o[i] = v[0]
    with refused("MS352", "a view of `T`"):
        compute_inline(b.finish(), block("first"))


def test_compute_inline_refuses_partial_sums():
    b = ProgramBuilder("p")
    a, s, t, o = b.input("A", (8,)), b.alloc("S", (1,)), b.alloc("T", (8,)), b.output("B", (8,))
    with b.loop("i", 8) as i:
        with b.block("sum", spatial("u", 1, i - i), reduce("k", 8, i)) as (u, k):
            s[u] += a[k]
        with b.block("take", spatial("x", 8, i)) as (x,):
            t[x] = s[0] * 2.0
        with b.block("give", spatial("x", 8, i)) as (x,):
            o[x] = t[x] + 1.0
    with refused("MS346", "`i` still reduces in block `sum`"):
        compute_inline(b.finish(), block("take"))


# ------------------------------------------------------------------ inverses
def test_inverse():
    i, j = Var("i"), Var("j")
    axes = {"i": Range(Const(0), Const(4)), "j": Range(Const(0), Const(6))}
    flat = inverse([Binary("+", Binary("*", i, Const(6)), j)], axes)
    assert {n: text(e) for n, e in flat.items()} == {"i": "$0 // 6", "j": "$0 % 6"}
    assert at_element(inverse([j, i], axes), [Const(2), Const(3)]) == {"i": Const(3), "j": Const(2)}
    assert inverse([Binary("+", i, j)], axes) is None
    assert inverse([i], axes) is None
    assert inverse([i, i], {"i": axes["i"]}) is None
    assert inverse([Binary("//", i, Const(2)), Binary("%", i, Const(3))], {"i": axes["i"]}) is None


# ------------------------------------------------------------------ reverse_compute_inline
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
    with refused("MS348", "`second` does not surely run"):
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


# ------------------------------------------------------------------ places
def test_places():
    p = conv2d(5, 5, 2, 2)
    assert legal_locations(p, block("pad")) == (Place.INLINE, Place.ROOT, loop("h_1"), loop("w_1"), loop("co"))
    assert legal_locations(p, block("relu")) == (Place.ROOT,)
    assert legal_locations(p, block("conv")) == (Place.ROOT, loop("h_2"), loop("w_2"), loop("co_1"))


def test_places_skip_unit_loops_and_spatial_loops_under_reductions():
    p = split(matmul(8, 6, 4), loop("k"), sizes(None, 2)).program
    p = cache_read(p, block("mm"), buffer("A")).program
    p = add_unit_loop(p, loop("j")).program
    from mslang.transform.primitives.loops import reorder

    p = reorder(p, [loop("k_0"), loop("j")]).program
    found = [x.name for x in legal_locations(p, block("A_global")) if isinstance(x, LoopRef)]
    assert found == ["i", "k_0"]


def test_places_stop_at_the_loops_that_all_consumers_share():
    p = compute_at(diamond(), block("right"), loop("x_3")).program
    p = compute_at(p, block("left"), loop("x_3")).program
    assert legal_locations(p, block("first"))[2:] == (loop("x_3"),)
    assert legal_locations(diamond(), block("first")) == (Place.INLINE, Place.ROOT)


def test_parallel_loops_are_places():
    p = parallel(chain(), loop("x_1")).program
    assert loop("x_1") in legal_locations(p, block("first"))
    assert "x_1 in 0+8 @ parallel" in outline(p)


def bounded_by_data():
    """A loop that runs as often as a block has computed."""
    b = ProgramBuilder("ragged")
    n, t, o = b.input("n", (1,), "i64"), b.alloc("T", (1,), "i64"), b.output("B", (8,))
    with b.block("count", spatial("u", 1)) as (u,):
        t[u] = n[u] + 1
    with b.loop("i", 8) as i, b.when(i < t[0]), b.block("fill", spatial("x", 8, i)) as (x,):
        o[x] = t[0].cast("f32")
    return b.finish()


def test_what_is_read_outside_of_blocks_stays():
    p = bounded_by_data()
    for attempt in (
        lambda: compute_inline(p, block("count")),
        lambda: compute_at(p, block("count"), loop("i")),
        lambda: cache_write(p, block("count"), buffer("T")),
    ):
        with refused("MS352", "`T` is read outside of blocks"):
            attempt()
    q = accepted(p, cache_read(p, block("fill"), buffer("T")))
    assert regions(q, "fill") == ["T_global_1[0]"]


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


PREDICATE = """program p(A: f32[8], inout O: f32[8], inout P: f32[8]) {{
    alloc S: f32[8]
    alloc T: f32[8]
    {before}
    block t[i: 8] {{ T[i] = {formula} }}
    block u[i: 8] {{ reads T[i] where {where} O[i] = T[i] }}
    {after}
}}"""
MAKES = "block s[i: 8] { S[i] = A[i] + 1.0 }"


@pytest.mark.parametrize("where", ["T[i] < 3.0", "T[7 - i] < 3.0 and i < 5"])
def test_predicates_may_read_what_is_inlined(where):
    p = parse_program(PREDICATE.format(before="", formula="A[i] * 2.0", where=where, after=""))
    q = accepted(p, compute_inline(p, block("t")))
    assert names(q) == ["u"]
    assert "T" not in all_buffers(q)


def test_a_predicate_alone_may_read_what_is_inlined():
    after = "block v[i: 8] { where T[i] < 3.0 P[i] = 1.0 }"
    p = parse_program(PREDICATE.format(before="", formula="A[i] * 2.0", where="i < 4", after=after))
    q = accepted(p, compute_inline(p, block("t")))
    assert names(q) == ["u", "v"]
    assert "where A[i] * 2.0 < 3.0" in print_program(q)
    with refused("MS352", "outside of blocks"):
        reverse_compute_inline(p, block("u"))


def test_predicates_do_not_read_what_the_scope_writes():
    p = parse_program(PREDICATE.format(before=MAKES, formula="S[i]", where="T[i] < 3.0", after=""))
    with refused("MS352", "outside of blocks"):
        compute_inline(p, block("t"))


def test_a_consumer_of_which_the_predicate_reads_the_buffer():
    p = parse_program(PREDICATE.format(before="", formula="A[i] * 2.0", where="T[i] < 3.0", after=""))
    q = accepted(p, reverse_compute_inline(p, block("u")))
    assert names(q) == ["t"]
    assert "where A[i] * 2.0 < 3.0" in print_program(q)
    p = parse_program(PREDICATE.format(before="", formula="A[i] * 2.0", where="T[7 - i] < 3.0", after=""))
    with refused("MS353"):
        reverse_compute_inline(p, block("u"))


@pytest.mark.parametrize("name", ["u", "v"])
def test_what_a_block_hides_stays(name):
    p = parse_program("""program p(A: f32[8], out O: f32[8], out P: f32[8]) {
        alloc T: f32[8]
        block t[i: 8] { T[i] = A[i] }
        block u[i: 8] { O[i] = T[i] }
        block v[i: 8] { P[i] = T[i] }
    }""")
    p = unsafe_hide_buffer_access(p, block(name), "read", [BufferRef("T")]).program
    with refused("MS352", f"`{name}` hides"):
        compute_inline(p, block("t"))
    other = "v" if name == "u" else "u"
    with refused("MS352", f"`{name}` hides"):
        reverse_compute_inline(p, block(other))


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
    with refused("MS348", "`s` does not surely run"):
        reverse_compute_inline(p, block("s"))


def test_what_is_done_need_not_be_covered():
    # Nobody knows which elements of `S` the block `s` writes: those that it does are there for both readers.
    p = parse_program("""program p(A: f32[6], inout O: f32[6]) {
        alloc S: f32[6]
        alloc T: f32[6]
        block s[i: 6] { where A[i] < 2.0 S[i] = A[i] }
        block t[i: 6] { where A[i] < 2.0 T[i] = S[i] + 1.0 }
        block o[i: 6] { where A[i] < 2.0 O[i] = T[i] }
    }""")
    q = accepted(p, compute_inline(p, block("t")))
    assert names(q) == ["s", "o"]


def test_what_is_not_done_must_be_covered():
    p = parse_program("""program p(A: f32[6], inout O: f32[6]) {
        alloc S: f32[6]
        alloc T: f32[6]
        for x in 6 {
            block s[i: 6 = x] { S[i] = A[i] }
            block t[i: 6 = 5 - x] { where x >= 3 T[i] = S[i] + 1.0 }
            block o[i: 6 = x] { where x >= 3 O[i] = T[5 - i] }
        }
    }""")
    with refused("MS332", "`o` would read what is not surely written"):
        compute_inline(p, block("t"))


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


def test_blocks_without_loops_inside_another():
    p = parse_program("""program p(A: f32[4], out O: f32[4]) {
        for x in 4 {
            block o[v: 4 = x] {
                alloc S: f32[4]
                alloc T: f32[4]
                reads A[v]
                writes O[v]
                block s[i: 4 = v] { S[i] = A[i] * 2.0 }
                block t[i: 4 = v] { T[i] = S[i] + 1.0 }
                block u[i: 4 = v] { O[i] = T[i] + S[i] }
            }
        }
    }""")
    assert names(accepted(p, compute_inline(p, block("t")))) == ["o", "s", "u"]
    assert names(accepted(p, compute_inline(p, block("s")))) == ["o", "t", "u"]
    assert names(accepted(p, reverse_compute_inline(p, block("u")))) == ["o", "s", "t"]


VIEWS = """program p(A: f32[8], B: f32[8], out O: f32[8]) {{
    alloc T: f32[8]
    for i in 8 {{
        block t[x: 8 = i] {{
            view V: f32[1] = A[x .. x + 1]
            reads A[x]
            writes T[x]
            T[x] = {made}
        }}
    }}
    for i in 8 {{
        block u[x: 8 = i] {{
            {views}
            reads T[x], B[x]
            writes O[x]
            {used}
        }}
    }}
}}"""


def test_a_block_that_computes_with_a_view_does_not_go():
    p = parse_program(VIEWS.format(made="V[0]", views="", used="O[x] = T[x] + B[x]"))
    with refused("MS352", "`t` computes with `V`, which is its own"):
        compute_inline(p, block("t"))
    assert names(accepted(p, reverse_compute_inline(p, block("u")))) == ["t"]


@pytest.mark.parametrize(
    ("view", "used"), [("B[x .. x + 1]", "O[x] = T[x] + W[0]"), ("O[x .. x + 1]", "W[0] = T[x] + B[x]")]
)
def test_a_consumer_that_computes_with_a_view_does_not_go(view, used):
    p = parse_program(VIEWS.format(made="A[x]", views=f"view W: f32[1] = {view}", used=used))
    with refused("MS352", "`u` computes with `W`, which is its own"):
        reverse_compute_inline(p, block("u"))
    assert names(accepted(p, compute_inline(p, block("t")))) == ["u"]


def test_a_buffer_that_two_blocks_write_is_not_inlined():
    p = parse_program("""program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8]
        for i in 0..8 { block t[x: 8 = i] { T[x] = A[x] } }
        for j in 0..4 { block more[x: 4 = j] { T[x] = 0.0 } }
        for k in 0..8 { block u[x: 8 = k] { B[x] = T[x] } }
    }""")
    with refused("MS345", "block `t` cannot be inlined", "condition 2", "so is block `more`"):
        compute_inline(p, block("t"))
