"""Rows that are left of a tile of dynamic size: each number of them has a nest without guards; every size is right."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.backend.reference import interpret
from mslang.ir.expr import Binary, Const, DynamicRange, Expr, Load, Symbol, Var
from mslang.ir.program import Program
from mslang.kernel.nodes import Body, For, If, Let, Store
from mslang.kernel.verify import verify
from mslang.kernel.visit import walk
from mslang.lower import predicates
from mslang.lower.passes import LOOPS, lower, stages
from mslang.lower.remainders import by_number, by_part, remainder_of, with_left
from mslang.target.description import AVX512
from tests.unit.lower import evaluator

PRODUCT = """program mm[M: dyn({sizes}), N = {n}, K = 2](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {{
    block mm[i: M, j: N | k: K] {{ C[i, j] += A[i, k] * B[k, j] }}
}}
schedule tiled for mm {{
    let i0, i1 = mm.i.split([_, {rows}])
    let j0, j1 = mm.j.split([_, 16])
    {rest}
    j1.vectorize()
    i1.unroll()
    mm.decompose_reduction(mm.k)
}}
"""
REGISTERS = 'let t = mm.cache_write(C, "local")\n t.reverse_compute_at({})\n'
PLAIN = "reorder(j0, i0, mm.k, i1, j1)\n" + REGISTERS.format("i0")
SCHEDULES = {
    "serial": PLAIN,
    "columns parallel": PLAIN + "j0.parallel()",
    "rows parallel": "reorder(i0, j0, mm.k, i1, j1)\n" + REGISTERS.format("j0") + "i0.parallel()",
    "fused": "reorder(i0, j0, mm.k, i1, j1)\n" + REGISTERS.format("j0") + "fuse(i0, j0).parallel()",
    "in memory": "reorder(j0, i0, mm.k, i1, j1)",
    "tiles of tiles": "let a, b = i0.split([_, 2])\n reorder(a, j0, b, mm.k, i1, j1)\n" + REGISTERS.format("b"),
}


def product(rest: str, rows: int = 3, sizes: str = "1..9", n: int = 32) -> Program:
    text = PRODUCT.format(rest=SCHEDULES[rest], rows=rows, sizes=sizes, n=n)
    return ms.parse(text).space("tiled").sample(0).program


def guarded(body: Body) -> list[If]:
    """The branches in loops over `k`."""
    loops = [s for s in walk(body) if isinstance(s, For) and s.var == "k"]
    return [x for s in loops for x in walk(s.body) if isinstance(x, If)]


def sums(body: Body) -> list[int]:
    """How many rows each nest has whose sums are over `k`."""
    loops = [s for s in walk(body) if isinstance(s, For) and s.var == "k"]
    rows = [[x for x in walk(s.body) if isinstance(x, For) and x.kind == "unrolled"] for s in loops]
    return sorted({int(x[0].extent.value) if x and isinstance(x[0].extent, Const) else 1 for x in rows})


@pytest.mark.parametrize("rest", SCHEDULES)
def test_each_number_of_rows_has_a_nest(rest: str) -> None:
    body = lower(product(rest), AVX512, passes=LOOPS).body
    assert not guarded(body) and sums(body) == [1, 2, 3]


@pytest.mark.parametrize(
    ("sizes", "rows"), [("3..4", [3, 4]), ("2..4", [2, 3, 4]), ("4..4", [4]), ("5..9", [1, 2, 3, 4])]
)
def test_only_possible_numbers_have_a_nest(sizes: str, rows: list[int]) -> None:
    body = lower(product("columns parallel", rows=4, sizes=sizes), AVX512, passes=LOOPS).body
    assert not guarded(body) and sums(body) == rows


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", [25, 1024])
@pytest.mark.parametrize("rest", SCHEDULES)
def test_every_size_is_right_after_each_pass(rest: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicates, "MAX_COPIED", budget)
    program = product(rest, n=20)
    modules = list(stages(program, AVX512))
    for m in (1, 2, 3, 8):
        rng = np.random.default_rng(m)
        given = {"A": rng.integers(-9, 9, (m, 2)).astype("f4"), "B": rng.integers(-9, 9, (2, 20)).astype("f4")}
        want = interpret.run(program, given, sizes={"M": m})
        for stage, module in modules:
            verify(module)
            np.testing.assert_array_equal(evaluator.run(module, given, {"M": m})["C"], want["C"], stage)


def test_without_a_budget_guards_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicates, "MAX_COPIED", 0)
    assert guarded(lower(product("columns parallel"), AVX512, passes=LOOPS).body)


def test_whole_tiles_in_a_partial_tile_of_tiles_have_no_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all numbers of rows are affordable, whole tiles still have a nest."""
    monkeypatch.setattr(predicates, "MAX_COPIED", 80)
    program = product("tiles of tiles", rows=12, sizes="1..99")
    body = lower(program, AVX512, passes=LOOPS).body
    partial = [s for s in walk(body) if isinstance(s, If) and guarded(s.then) and not guarded(s.otherwise)]
    assert partial and sums(partial[0].otherwise) == [12]


# ------------------------------------------------------------------ what is a remainder
M = Symbol("M", DynamicRange(1, 99))
LEFT = Binary("-", M, Binary("*", Var("t"), Const(6)))
ROWS = For("i", Const(6), (), kind="unrolled")


def nest(guard: Expr, rows: For = ROWS) -> Body:
    store = Store("C", (Var("i"),), Const(1.0))
    return (For("k", Const(8), (replace(rows, body=(If(guard, (store,)),)),)),)


def less(a: Expr, b: Expr) -> Binary:
    return Binary("<", a, b)


def test_a_remainder_is_found_and_put_in() -> None:
    guard = less(Binary("+", Binary("*", Var("t"), Const(6)), Var("i")), M)
    body = nest(guard)
    found = remainder_of(body, frozenset())
    assert found is not None and found.left == LEFT and found.rows == (0, 5)
    conditions = [
        next(s.condition for s in walk(with_left(body, found, between)) if isinstance(s, If))
        for between in [(0, 0), (2, 2), (6, 6), (1, 5)]
    ]
    assert conditions == [Const(False, "bool"), less(Var("i"), Const(2)), Const(True, "bool"), guard]


def test_a_row_may_be_a_sum() -> None:
    row = Binary("+", Binary("*", Var("h"), Const(3)), Var("i"))
    body = (For("h", Const(2), nest(less(row, M), replace(ROWS, extent=Const(3))), kind="unrolled"),)
    found = remainder_of(body, frozenset())
    assert found is not None and found.left == M and found.rows == (0, 5)


@pytest.mark.parametrize(
    "body",
    [
        nest(less(Var("i"), Const(4))),  # numbers
        nest(less(Var("i"), Load("n", (), "i64"))),  # data
        nest(less(Var("i"), Binary("-", M, Var("k")))),  # another number in each iteration
        nest(less(Binary("*", Var("i"), M), M)),  # no number times the row
        nest(Binary("==", Var("i"), M)),
        nest(less(Var("i"), M), replace(ROWS, kind="vectorized")),  # masked
        nest(less(Var("i"), M), replace(ROWS, kind="serial")),  # ends
        nest(less(Var("i"), M), replace(ROWS, extent=Const(40))),  # too many
        nest(less(Var("i"), M))[0].body,  # evaluated once
        (*nest(less(Var("i"), M)), For("k", Const(999), (Store("D", (Var("k"),), Const(1.0)),))),  # little work
        # The same guard, of another loop of that name.
        (*nest(less(Var("i"), M)), *nest(less(Var("i"), M), replace(ROWS, kind="serial", extent=Const(9)))),
        (Let("t", M, nest(less(Var("i"), Binary("-", M, Var("t"))))),),
    ],
)
def test_what_is_no_remainder(body: Body) -> None:
    assert remainder_of(body, frozenset()) is None


def test_a_name_of_several_loops_has_the_values_of_all() -> None:
    found = remainder_of((*nest(less(Var("i"), M)), replace(ROWS, start=Const(7), extent=Const(2))), frozenset())
    assert found is not None and found.rows == (0, 8)


def test_a_guard_on_no_row_is_the_same_in_all_iterations() -> None:
    body = (*nest(less(Var("t"), M)), *nest(less(Var("i"), M)))
    found = remainder_of(body, frozenset())
    assert found is not None and found.left == Binary("-", M, Var("t")) and found.rows == (0, 0)
    other = remainder_of(with_left(body, found, (1, 1)), frozenset())
    assert other is not None and other.left == M and other.rows == (0, 5)


def test_a_loop_over_registers_is_written_out() -> None:
    body = nest(less(Var("i"), M), replace(ROWS, kind="serial"))
    assert remainder_of(body, frozenset({"C"})) is not None


def test_ranges_of_rows() -> None:
    assert by_number((0, 2)) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert by_part((0, 2)) == [(0, 0), (1, 2), (3, 3)]
    assert by_part((0, 0)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("condition", ["u32(3) < u32(2)", "u32(2) < u32(3)", "i32(-2147483648) < i32(1)"])
def test_a_guard_that_compares_no_indices_stays(condition: str) -> None:
    """A difference of numbers that wrap round has another order (pair 6964 of `instances`, seed 38)."""
    text = f"""program t[M: dyn(2..8)](inout A: u32[M]) {{
    for i in M, k in 1 .. M {{ block t[a: M = i | b: M = k] {{ init {{}} if {condition} {{ A[a] += 3 }} }} }}
}}
schedule plain for t {{}}
"""
    program = ms.parse(text).space("plain").sample(0).program
    found = np.full(4, 2, np.uint32)
    expected = interpret.run(program, {"A": found}, sizes={"M": 4})["A"]
    ms.build(program)(found)
    np.testing.assert_array_equal(found, expected)
