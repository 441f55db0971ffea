"""`parse(print(p)) == p` in TVMScript: for drawn programs, scheduled ones, and expressions of every form and type."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.tvmscript.write import Dialect
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Call, Cast, Const, DynamicRange, Expr, Load, Symbol, Var, dtype_of
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.print import print_program
from mslang.ir.program import Axis, Block, Buffer, For, Param, Program, Range, Region, Store
from mslang.ir.visit import free_vars, map_expr, map_program_exprs, map_stmt_exprs, replace_at, substitute, walk_expr
from mslang.sema.program import parse_program
from tests.property import block_programs
from tests.property.steps import Steps, apply
from tests.property.strategies import programs
from tests.property.test_long_form import TYPES, Odd

SIZE = Symbol("M", DynamicRange(1, 4096, 8))


def same(p: Program, dialect: Dialect = "tirx") -> None:
    text = tvmscript.print(p, dialect=dialect)
    q = tvmscript.parse_one(text)
    assert alpha_equal(q, predicates_about_loops(p)), f"{print_program(p)}\n{text}\n{print_program(q)}"
    assert tvmscript.print(q, dialect=dialect) == text


def predicates_about_loops(p: Program) -> Program:
    """The program with bindings in place of axes in predicates: TVM's stand outside of the block, and name loops."""
    for block in blocks_of(p.body):
        about_loops = substitute(block.predicate, {a.name: a.binding for a in block.axes})
        path = path_to_block(p, block.name)
        assert path is not None and isinstance(path[-1], Block)
        apart = _with_axes_apart(path[-1], free_vars(about_loops))
        p = replace(p, body=replace_at(p.body, path, (replace(apart, predicate=about_loops),)))
    return p


def _with_axes_apart(block: Block, taken: frozenset[str]) -> Block:
    """The block with other names for those of its axes that hide a loop of a taken name."""
    names = {a.name: f"{a.name} of {block.name}" for a in block.axes if a.name in taken}
    values = {old: Var(new) for old, new in names.items()}
    inside = map_stmt_exprs(replace(block, axes=()), lambda e: substitute(e, values))
    assert isinstance(inside, Block)
    return replace(inside, axes=tuple(Axis(names.get(a.name, a.name), a.extent, a.kind, a.binding) for a in block.axes))


@settings(max_examples=40, deadline=None)
@given(programs(), st.sampled_from(["tirx", "tir"]))
def test_drawn_programs_read_back(p: Program, dialect: Dialect) -> None:
    same(p, dialect)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
@example(3628800)
@example(446)
def test_scheduled_programs_read_back(seed: int) -> None:
    rng = Random(seed)
    p = block_programs.random_program(rng, 3)
    steps = Steps(rng, symbolic=False)
    for _ in range(6):
        step = steps.draw(p)
        outcome = None if step is None else apply(p, step)
        if outcome is not None:
            p = outcome.program
    same(p)


def test_a_predicate_about_an_axis_reads_back_about_the_loops() -> None:
    p = parse_program("""program p(inout A: i32[5]) {
        for a in 0..2, b in 0..3 { block c[i: 5 = a * 3 + b] { where i < 5 and A[i] > 0
            A[i] = 1 } } }""")
    text = tvmscript.print(p)
    assert "T.where(a * 3 + b < 5 and A[a * 3 + b] > T.int32(0))" in text
    (block,) = blocks_of(tvmscript.parse_one(text).body)
    assert not {a.name for a in block.axes} & free_vars(block.predicate)
    same(p)


class Typed(Odd):
    """Expressions over one dynamic size."""

    def leaf(self, dtype: str) -> Expr:
        leaves: list[Expr] = [self.constant(dtype), Load(f"b_{dtype}", (Var("i"),), dtype)]
        if dtype == "i64":
            leaves += [Var("i"), Var("k"), SIZE]
        return self.random.choice(leaves)


def _without_needless_casts(e: Expr) -> Expr:
    """Indices converted to what they are: TVM's are of two widths, ours of one."""
    return map_expr(e, lambda x: x.operand if isinstance(x, Cast) and x.dtype == dtype_of(x.operand) == "i64" else None)


def _calls_of_c_on_half_floats(s: Store) -> bool:
    """Whether a statement has a function that TVM has of the C library only, of a type that this does not have."""
    whole = (x for e in (*s.indices, s.value) for x in walk_expr(e))
    return any(isinstance(x, Call) and x.name in ("cbrt", "expm1") and x.dtype in ("f16", "bf16") for x in whole)


@example(1)
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32))
def test_expressions_read_back(seed: int) -> None:
    odd = Typed(seed)
    everything = tuple(Region(f"b_{t}", (Range(Const(0), SIZE),)) for t in TYPES)
    dtype = odd.random.choice(TYPES)
    body = (Store(f"b_{dtype}", (odd.expr("i64", 2),), odd.expr(dtype)),)
    axes = (Axis("i", SIZE, "spatial", Var("x")), Axis("k", Const(4), "opaque", Const(3)))
    block = Block("b", axes, everything, everything, body)
    params = tuple(Param(Buffer(f"b_{t}", t, (SIZE,)), "inout") for t in TYPES)
    p = Program("p", params, (For("x", SIZE, (block,)),), (), (SIZE,))
    if _calls_of_c_on_half_floats(body[0]):
        with pytest.raises(MsError) as refused:
            tvmscript.print(p)
        assert refused.value.diagnostic.code == "MS737"
        return
    text = tvmscript.print(p)
    (loop,) = tvmscript.parse_one(text).body
    assert isinstance(loop, For)
    (found,) = loop.body
    assert isinstance(found, Block)
    # What provably misses its buffer has been added to the regions.
    q = replace(p, body=(replace(loop, body=(replace(found, reads=everything, writes=everything),)),))
    p, q = (map_program_exprs(x, _without_needless_casts) for x in (p, q))
    assert alpha_equal(q, p), f"{print_program(p)}\n{text}\n{print_program(q)}"
