"""annotate, unannotate, set_scope, rename."""

from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.expr import Choice, Symbol, Var
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Block, For
from mslang.ir.visit import walk
from mslang.transform.primitives.annotate import annotate, unannotate
from mslang.transform.primitives.loops import fuse, split
from mslang.transform.primitives.set_scope import set_scope
from mslang.transform.rename import rename
from tests.unit.transform.programs import block, buffer, chain, copy, loop, loops, matmul, outline, refused, sizes


# ------------------------------------------------------------------ annotate
def test_annotate_and_unannotate():
    p = copy()
    q = annotate(annotate(p, block("b"), "note", 3).program, loop("i"), "pragma.x").program
    found = {type(s): s.annotations for s in walk(q.body) if isinstance(s, For | Block)}
    assert found == {Block: (("note", 3),), For: (("pragma.x", True),)}
    assert unannotate(unannotate(q, block("b"), "note").program, loop("i"), "pragma.x").program == p


def test_an_annotation_may_hold_a_sampled_size():
    steps = Symbol("u", Choice((0, 16)))
    q = annotate(copy(), loop("i"), "steps", steps).program
    assert annotate(q, loop("i"), "steps", steps).program is q


def test_what_is_annotated_last_counts():
    q = annotate(annotate(copy(), block("b"), "note", 1).program, block("b"), "other", 5).program
    for value in (2, True):
        said = annotate(q, block("b"), "note", value).program
        found = dict(next(s for s in walk(said.body) if isinstance(s, Block)).annotations)
        assert found == {"note": value, "other": 5} and type(found["note"]) is type(value)


def test_annotate_refuses():
    q = annotate(copy(), block("b"), "note", 1).program
    assert annotate(q, block("b"), "note", 1).program is q
    with refused("MS312", "depends on `i`"):
        annotate(q, block("b"), "other", Var("i"))
    with refused("MS312", "no annotation 'gone'", "'note'"):
        unannotate(q, block("b"), "gone")


# ------------------------------------------------------------------ set_scope
def test_set_scope():
    out = set_scope(chain(), block("first"), buffer("T"), "local")
    assert all_buffers(out.program)["T"].scope == "local"


def test_set_scope_moves_views_along():
    b = ProgramBuilder("view")
    a, c, t = b.input("A", (8, 8)), b.output("B", (8, 8)), b.alloc("T", (8, 8))
    with b.block("first", spatial("x", 8)) as (x,):
        v = b.view("V", t, [(x, 1), (0, 8)], keep=1)
        with b.block("row", spatial("y", 8)) as (y,):
            v[y] = a[0, y]
    with b.block("second", spatial("x", 8), spatial("y", 8)) as (x, y):
        c[x, y] = t[x, y]
    out = set_scope(b.finish(), block("first"), buffer("T"), "shared").program
    assert {n: f.scope for n, f in all_buffers(out).items()} == {
        "A": "global",
        "B": "global",
        "T": "shared",
        "V": "shared",
    }


def test_set_scope_refuses():
    p = chain()
    with refused("MS315", "unknown storage scope `nowhere`", "local"):
        set_scope(p, block("first"), buffer("T"), "nowhere")
    with refused("MS315", "`B` is a parameter", "cache_write"):
        set_scope(p, block("second"), buffer("B"), "local")
    assert set_scope(p, block("second"), buffer("B"), "global").program is p
    with refused("MS315", "does not write `T`", "`B`"):
        set_scope(p, block("second"), buffer("T"), "local")
    with refused("MS301", "no buffer `nope`"):
        set_scope(p, block("second"), buffer("nope"), "local")


# ------------------------------------------------------------------ rename
def test_rename_loops_reaches_bindings_and_predicates():
    p = split(copy(100), loop("i"), sizes(None, 8)).program
    out = rename(p, {loop("i_0"): "outer", loop("i_1"): "inner"})
    assert outline(out.program) == (
        "outer in 0+13\n  inner in 0+8\n    b[x = (outer * 8) + inner] where ((outer * 8) + inner) < 100"
    )
    assert out.handles == (loop("outer"), loop("inner"))
    assert out.forward == {loop("i_0"): loop("outer"), loop("i_1"): loop("inner")}


def test_rename_swaps():
    out = rename(matmul(4, 3, 2), {loop("i"): "j", loop("j"): "i"})
    assert outline(out.program) == "j in 0+4\n  i in 0+3\n    k in 0+2\n      mm[x = j, y = i, z = k]"


def test_rename_avoids_names_that_are_taken():
    out = rename(matmul(4, 3, 2), {loop("i"): "k", block("mm"): "A"})
    assert out.handles == (loop("k_1"), block("A_1"))
    assert fuse(out.program, loops("k_1 j")).handles == (loop("k_1_j_fused"),)


def test_rename_buffers_everywhere_but_parameters():
    out = rename(chain(), {buffer("T"): "tmp", buffer("A"): "input"})
    assert set(all_buffers(out.program)) == {"A", "B", "tmp"}
    assert out.handles == (buffer("tmp"), buffer("A"))
    first, second = (path_to_block(out.program, n)[-1] for n in ("first", "second"))
    assert first.writes[0].buffer == "tmp" and second.reads[0].buffer == "tmp"
    assert "T" not in repr(out.program.body).replace("TRUE", "").split("'")


def test_rename_to_the_same_name_changes_nothing():
    p = matmul()
    out = rename(p, {loop("i"): "i"})
    assert out.program == p and not out.forward
