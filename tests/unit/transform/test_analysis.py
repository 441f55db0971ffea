"""Axis loops, dependences, the legality model, getters, the registry's documentation."""

import inspect
import re
import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from msgspec.structs import replace

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Const
from mslang.ir.operators import select
from mslang.ops.signature import Kind
from mslang.ops.table import GETTERS as SIGNATURES
from mslang.syntax.parse import parse_file
from mslang.transform import getters, primitives
from mslang.transform.analysis.axes import axis_loop
from mslang.transform.analysis.cover import why_not_covered
from mslang.transform.analysis.dependence import DependenceKind, dependences_of
from mslang.transform.analysis.legality import (
    why_not_complete,
    why_not_reduction,
    why_not_stage_pipeline,
)
from mslang.transform.analysis.position import block_path
from mslang.transform.primitive import Primitive
from mslang.transform.primitives.loops import fuse, reorder, split
from mslang.transform.registry import BUILT_IN, FAMILIES, IMPLEMENTATIONS, OPERATIONS, PRIMITIVES, declared_in
from tests.unit.transform.programs import block, chain, loop, loops, matmul, refused, sizes


def where(program, name):
    return block_path(program, block(name), "test")


# ------------------------------------------------------------------ `mm.i`
def test_the_loop_of_an_axis():
    p = matmul()
    assert axis_loop(p, block("mm"), "y") == loop("j")
    assert axis_loop(reorder(p, loops("k j i")).program, block("mm"), "x") == loop("i")
    assert axis_loop(split(p, loop("i"), sizes(None, 8)).program, block("mm"), "y") == loop("j")


def test_no_single_loop_of_an_axis():
    p = matmul()
    with refused("MS302", "no axis `w`", "x, y, z"):
        axis_loop(p, block("mm"), "w")
    with refused("MS302", "several loops", "`i_0`, `i_1`"):
        axis_loop(split(p, loop("i"), sizes(None, 8)).program, block("mm"), "x")
    with refused("MS302", "no loop runs over axis `x` alone", "`i_j_fused` also serves axis `y`"):
        axis_loop(fuse(p, loops("i j")).program, block("mm"), "x")


def test_a_loop_around_two_blocks_is_no_axis_loop():
    b = ProgramBuilder("two")
    a, t, c = b.input("A", (10,)), b.alloc("T", (10,)), b.output("B", (10,))
    with b.loop("i", 10) as i:
        with b.block("p", spatial("x", 10, i)) as (x,):
            t[x] = a[x]
        with b.block("q", spatial("x", 10, i)) as (x,):
            c[x] = t[x]
    with refused("MS302", "also around block `q`"):
        axis_loop(b.finish(), block("p"), "x")


# ------------------------------------------------------------------ dependences and getters
def test_dependences():
    p = chain()
    (d,) = dependences_of(p, where(p, "first"))
    assert (d.source, d.target, d.kind, d.buffer) == ("first", "second", DependenceKind.RAW, "T")


def test_getters():
    p = chain()
    q = matmul()
    assert getters.producers(p, block("second")) == (block("first"),)
    assert getters.consumers(p, block("first")) == (block("second"),)
    assert getters.producers(p, block("first")) == ()
    assert getters.loops(q, block("mm")) == (loop("i"), loop("j"), loop("k"))
    assert getters.spatial_loops(q, block("mm")) == (loop("i"), loop("j"))
    assert getters.reduction_loops(q, block("mm")) == (loop("k"),)
    assert getters.children(q, loop("j")) == (block("mm"),)
    assert getters.children(q, block("mm")) == ()
    assert getters.extent(q, loop("k")) == Const(32)
    assert [b.name for b in getters.reads(q, block("mm"))] == ["A", "B"]
    assert [b.name for b in getters.writes(q, block("mm"))] == ["C"]
    assert getters.is_output(q, block("mm")) and not getters.is_output(p, block("first"))
    assert getters.is_reduction(q, block("mm")) and not getters.is_reduction(p, block("first"))
    assert getters.is_injective(p, block("first")) and not getters.is_injective(q, block("mm"))
    assert not getters.has_branch(p, block("first"))


def test_has_branch_sees_a_select():
    b = ProgramBuilder("relu")
    a, c = b.input("A", (4,)), b.output("B", (4,))
    with b.block("r", spatial("x", 4)) as (x,):
        c[x] = select(a[x] > 0.0, a[x], 0.0)
    assert getters.has_branch(b.finish(), block("r"))


# ------------------------------------------------------------------ the legality model
def test_complete_and_reduction_blocks():
    p, q = chain(), matmul()
    assert why_not_complete(p, where(p, "first")) is None
    assert "condition 1" in why_not_reduction(p, where(p, "first"))
    assert why_not_reduction(q, where(q, "mm")) is None
    assert "axis `z` is reduce" in why_not_complete(q, where(q, "mm"))


def test_two_writers_and_reading_what_is_written():
    b = ProgramBuilder("two")
    a, c = b.input("A", (4,)), b.output("B", (4,))
    with b.block("p", spatial("x", 4)) as (x,):
        c[x] = a[x]
    with b.block("q", spatial("x", 4)) as (x,):
        c[x] = c[x] + 1.0
    two = b.finish()
    assert "condition 2" in why_not_complete(two, where(two, "p"))
    path = where(two, "p")
    alone = replace(two, body=two.body[1:])
    assert "condition 3" in why_not_complete(alone, where(alone, "q"))
    assert why_not_complete(two, path, (path[0],)) is None


def test_cover_and_stage_pipeline():
    p = chain()
    assert why_not_covered(p, where(p, "second")) is None
    assert why_not_stage_pipeline(p, where(p, "second"), {"T"}) is None
    short = split(p, loop("x"), sizes(None, 3)).program
    assert why_not_stage_pipeline(short, where(short, "second"), {"T"}) is None


def test_half_a_producer_covers_nothing():
    b = ProgramBuilder("half")
    a, c, t = b.input("A", (8,)), b.output("B", (8,)), b.alloc("T", (8,))
    with b.loop("i", 4) as i, b.block("p", spatial("x", 8, i)) as (x,):
        t[x] = a[x]
    with b.block("q", spatial("x", 8)) as (x,):
        c[x] = t[x]
    p = b.finish()
    assert "are provably written before" in why_not_covered(p, where(p, "q"))


def concatenated(split_at):
    b = ProgramBuilder("concat")
    a, c, t = b.input("A", (8, 4)), b.output("B", (8, 4)), b.alloc("T", (8, 4))
    with b.loop("i", 3) as i, b.block("p", spatial("x", 8, i), spatial("y", 4)) as (x, y):
        t[x, y] = a[x, y]
    with b.loop("l", 8 - split_at) as i, b.block("q", spatial("x", 8, i + split_at), spatial("y", 4)) as (x, y):
        t[x, y] = a[x, y] * 2.0
    with b.block("r", spatial("x", 8), spatial("y", 4)) as (x, y):
        c[x, y] = t[x, y]
    return b.finish()


def test_producers_side_by_side_cover_together():
    p, gap = concatenated(3), concatenated(4)
    assert why_not_covered(p, where(p, "r")) is None
    assert "`p`, `q`" in why_not_covered(gap, where(gap, "r"))


def test_every_other_element_is_not_all():
    b = ProgramBuilder("even")
    a, c, t = b.input("A", (8,)), b.output("B", (8,)), b.alloc("T", (8,))
    with b.loop("i", 4) as i, b.block("p", spatial("x", 8, i * 2)) as (x,):
        t[x] = a[x]
    with b.loop("j", 7) as j, b.block("q", spatial("x", 8, j)) as (x,):
        c[x] = t[x]
    p = b.finish()
    assert "are provably written before" in why_not_covered(p, where(p, "q"))


def test_a_masked_producer_covers_nothing():
    b = ProgramBuilder("mask")
    a, c, t = b.input("A", (8, 8)), b.output("B", (8, 8)), b.alloc("T", (8, 8))
    with b.loop("i", 8) as i, b.loop("j", 8) as j:
        with b.block("p", spatial("x", 8, i), spatial("y", 8, j), where=i < j) as (x, y):
            t[x, y] = a[x, y]
    with b.block("q", spatial("x", 8), spatial("y", 8)) as (x, y):
        c[x, y] = t[x, y]
    p = b.finish()
    assert why_not_covered(p, where(p, "q")) is not None


def test_writing_after_reading_is_no_pipeline():
    b = ProgramBuilder("war")
    a, t = b.inout("A", (4,)), b.alloc("T", (4,))
    with b.block("p", spatial("x", 4)) as (x,):
        t[x] = a[x]
    with b.block("q", spatial("x", 4)) as (x,):
        a[x] = t[x] + 1.0
    p = b.finish()
    assert "block `q` writes `A` after block `p` read it" in why_not_stage_pipeline(p, where(p, "p"), {"A"})
    assert why_not_stage_pipeline(p, where(p, "p"), {"T"}) is None


def test_a_reduction_over_several_axes():
    b = ProgramBuilder("sum")
    a, s = b.input("A", (4, 4)), b.output("S", (1,))
    with b.block("sum", spatial("u", 1), reduce("x", 4), reduce("y", 4)) as (u, x, y):
        s[u] += a[x, y]
    p = b.finish()
    assert why_not_reduction(p, where(p, "sum")) is None


# ------------------------------------------------------------------ documentation
def test_every_primitive_that_is_declared_is_registered():
    modules = (import_module(m.name) for m in iter_modules(primitives.__path__, primitives.__name__ + "."))
    declared = {v.name for m in modules for v in vars(m).values() if isinstance(v, Primitive)}
    assert declared == {p.name for p in BUILT_IN} == {s.name for s in PRIMITIVES} == IMPLEMENTATIONS.keys()
    assert len(BUILT_IN) == len(declared)


DECLARATION = """
from mslang.ir.program import Program
from mslang.transform.outcome import LoopRef, Outcome
from mslang.transform.primitive import primitive
from mslang.transform.primitives.loops import split

@primitive(family="{family}")
def {name}(program: Program, loop: LoopRef) -> Outcome:
    return Outcome(program)
"""


def test_a_file_is_all_that_a_primitive_needs(tmp_path, monkeypatch):
    for name, family in (("a", "own"), ("b", "layout"), ("c", "loops"), ("d", "another")):
        (tmp_path / f"{name}.py").write_text(DECLARATION.format(name=name, family=family))
    package = ModuleType("found")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "found", package)
    # Those of known families first; `split`, which each of them imports, is declared by none.
    assert [p.name for p in declared_in(package)] == ["c", "b", "d", "a"]
    for name in "abcd":
        del sys.modules[f"found.{name}"]


def test_families_stand_together():
    families = [s.family for s in PRIMITIVES]
    assert list(dict.fromkeys(families)) == list(FAMILIES)
    assert sorted(families, key=FAMILIES.index) == families


def test_a_declaration_tells_the_kinds_of_the_language():
    def doc(name):
        return OPERATIONS[name].text

    assert doc("split") == "loop.split(factors, tail = guard, disable_predication = false) -> loop…"
    assert doc("reorder") == "reorder(*loops)"
    kinds = {p.name: p.kind for p in OPERATIONS["annotate_buffer_access"].params}
    assert kinds == {"block": Kind.BLOCK, "buffer": Kind.BUFFER, "access": Kind.ACCESS, "map": Kind.REGION_MAP}


def test_getters_name_their_parameters_as_their_signatures_do():
    for signature in SIGNATURES:
        names = list(inspect.signature(getters.GETTERS[signature.name]).parameters)
        assert names == ["program", *(p.name for p in signature.params)], signature.name


def test_every_primitive_is_documented_in_full():
    for name, implementation in IMPLEMENTATIONS.items():
        doc = inspect.getdoc(implementation)
        for section in ("Before:", "After:", "Rejects:", "Source:"):
            assert section in doc, (name, section)
        assert doc.split("\n")[0].endswith("."), name


def test_the_examples_of_every_primitive_are_well_formed_text():
    for name, implementation in IMPLEMENTATIONS.items():
        doc = inspect.getdoc(implementation)
        parts = re.findall(r"(?:Before|After):\n((?:    .*\n|\n)+)", doc)
        assert len(parts) >= 2, name
        for part in parts:
            text = f"program p(A: f32[1]) {{\n{part}}}\n"
            assert not parse_file("doc.ms", text).diagnostics, (name, text)
