"""compute_inline: formulas that go into their readers, and what is refused."""

import pytest

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Const, Var
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.print import print_program
from mslang.ir.program import Range
from mslang.sema.program import parse_program
from mslang.transform.analysis.formula import at_element, inverse
from mslang.transform.analysis.position import block_at
from mslang.transform.outcome import BlockRef, BufferRef, Gone, LoopRef
from mslang.transform.primitives.buffer_access import unsafe_hide_buffer_access
from mslang.transform.primitives.caching import cache_read, cache_write
from mslang.transform.primitives.compute_at import compute_at
from mslang.transform.primitives.compute_inline import compute_inline
from mslang.transform.primitives.reverse_compute_inline import reverse_compute_inline
from tests.unit.transform.moves import PREDICATE, VIEWS, accepted, names, regions
from tests.unit.transform.programs import block, buffer, chain, loop, refused, text
from tests.unit.transform.workloads import blur, conv2d, diamond, softmax


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


# ------------------------------------------------------------------ what names the buffer that goes
def bounded_by_data():
    """A loop that runs as often as a block has computed."""
    b = ProgramBuilder("ragged")
    n, t, o = b.input("n", (1,), "i64"), b.alloc("T", (1,), "i64"), b.inout("B", (8,))
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
    with refused("MS341", "block `v` reads what block `t` writes"):
        reverse_compute_inline(p, block("u"))


MAKES = "block s[i: 8] { S[i] = A[i] + 1.0 }"


def test_predicates_do_not_read_what_the_scope_writes():
    p = parse_program(PREDICATE.format(before=MAKES, formula="S[i]", where="T[i] < 3.0", after=""))
    with refused("MS352", "outside of blocks"):
        compute_inline(p, block("t"))


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


def test_a_block_that_computes_with_a_view_does_not_go():
    p = parse_program(VIEWS.format(made="V[0]", views="", used="O[x] = T[x] + B[x]"))
    with refused("MS352", "`t` computes with `V`, which is its own"):
        compute_inline(p, block("t"))
    assert names(accepted(p, reverse_compute_inline(p, block("u")))) == ["t"]


# ------------------------------------------------------------------ what is there to be read
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
    with refused("MS332", "`o` would read elements that are not provably written"):
        compute_inline(p, block("t"))


def test_a_buffer_that_two_blocks_write_is_not_inlined():
    p = parse_program("""program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8]
        for i in 0..8 { block t[x: 8 = i] { T[x] = A[x] } }
        for j in 0..4 { block more[x: 4 = j] { T[x] = 0.0 } }
        for k in 0..8 { block u[x: 8 = k] { B[x] = T[x] } }
    }""")
    with refused("MS345", "block `t` cannot be inlined", "condition 2", "so is block `more`"):
        compute_inline(p, block("t"))


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
