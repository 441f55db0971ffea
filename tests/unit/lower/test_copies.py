"""Loops are cut within a budget of copied statements, which the nest with most work may use first."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.ir.annotations import MAX_STEPS
from mslang.ir.expr import FALSE, TRUE, Const, Var
from mslang.kernel.nodes import Body, For, If, Invoke, Stmt, Store
from mslang.kernel.visit import bodies, walk
from mslang.lower import predicates
from mslang.lower.analysis import MAX_UNROLLED, VECTORS_WRITTEN_OUT, updated_by, weight
from mslang.lower.copies import Part, copied, resolved
from mslang.lower.passes import LOOPS, lower
from mslang.resources import stdlib_folder
from mslang.schedule.rules.automatic import automatic_space
from mslang.target.description import AVX512, GENERIC

COPY = """
program copy[M = {m}, N = {n}](A: f32[M, N], out B: f32[M, N]) {{
    block copy[i: M, j: N] {{ B[i, j] = A[i, j] * 2.0 }}
}}
schedule tiled for copy {{
    let i0, i1 = copy.i.split([_, 3])
    let j0, j1 = copy.j.split([_, 16])
    reorder(i0, j0, i1, j1)
    {rest}
    i1.unroll()
    j1.vectorize()
}}
"""


def _lowered(rest: str, m: int = 26, n: int = 72) -> Body:
    program = ms.parse(COPY.format(m=m, n=n, rest=rest)).space("tiled").sample(0).program
    return lower(program, GENERIC, passes=LOOPS).body


def _guarded_tiles(body: Body) -> list[bool]:
    """For each tile in order, whether there is a guard in it."""
    tiles = [s for s in walk(body) if isinstance(s, For) and s.kind == "unrolled"]
    return [any(isinstance(x, If) for x in walk((s,))) for s in tiles]


@pytest.mark.parametrize(
    ("budget", "guarded"),
    [
        (1, [True]),
        (2, [True, True]),
        (5, [False, False, True]),
        (7, [False, False, False, False]),
    ],
)
@pytest.mark.parametrize("rest", ["", "i0.parallel()", "fuse(i0, j0).parallel()"])
def test_the_main_nest_has_the_first_claim(
    rest: str, budget: int, guarded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 tiles of 3 rows and one of 2, 4 tiles of columns and a half: of 3, 2, 3 and 2 statements."""
    monkeypatch.setattr(predicates, "MAX_COPIED", budget)
    assert _guarded_tiles(_lowered(rest)) == guarded


@pytest.mark.parametrize("budget", [0, 2, 3, 5, 7])
def test_any_budget_computes_the_same(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicates, "MAX_COPIED", budget)
    a = np.random.default_rng(budget).uniform(-1, 1, (26, 72)).astype("f4")
    kernel = ms.build(ms.parse(COPY.format(m=26, n=72, rest="i0.parallel()")).space("tiled"))
    np.testing.assert_array_equal(kernel(a), a * 2)


PROGRAMS = {
    "gemm": ("gemm", {"M": 509, "N": 1021, "K": 253}),
    "conv2d_nhwc": ("conv2d", {"H": 13, "W": 13, "CI": 24, "CO": 40}),
}


@pytest.mark.parametrize("budget", [0, 60, 300, 1024])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.one_in(2)
def test_copies_are_within_the_budget(name: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file, sizes = PROGRAMS[name]
    space = automatic_space(ms.load(stdlib_folder() / f"workloads/{file}.ms").program(name, **sizes), AVX512)
    monkeypatch.setattr(predicates, "MAX_COPIED", budget)
    for seed in range(6):
        program = space.sample(seed).program
        before, after = (lower(program, AVX512, passes=passes).body for passes in (LOOPS[:-1], LOOPS))
        assert weight(after) <= weight(before) + budget * _nests(before)


DRAWN: dict[str, tuple[str, str, dict[str, int], dict[str, object]]] = {
    # 24 rows by 1 vector: of 64 vectors in tiles of 3, and of 1024 rows in tiles of 216, tiles and rows are left.
    "bytes": (
        "cpu/gemm_bytes",
        "gemm_s8s8",
        {"M": 1024, "N": 1024, "K": 1024},
        {"dot:mm/registers": 241, "dot:mm/j": 3, "dot:mm/i": 9},
    ),
    # 17 columns by 1 vector, written out for 16 channels.
    "convolution": (
        "workloads/conv2d",
        "conv2d_nhwc",
        {"H": 56, "W": 56, "CI": 64, "CO": 64, "R": 3, "S": 3},
        {
            "tile:conv": "columns_packed",
            "tile:conv/registers": 171,
            "tile:conv/h": 16,
            "tile:conv/w": 9,
            "tile:conv/co": 3,
            "tile:conv/ci": (4, 16),
            "tile:conv/unroll": 16,
        },
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_products_with_large_tiles_have_no_guards(name: str) -> None:
    file, program, sizes, decisions = DRAWN[name]
    target = replace(AVX512, features=(*AVX512.features, "avx512vnni"), cores=2)
    space = automatic_space(ms.load(stdlib_folder() / f"{file}.ms").program(program, **sizes), target)
    scheduled = space.replay(decisions, strict=False).program
    branches = [s for s in walk(lower(scheduled, target, passes=LOOPS).body) if isinstance(s, If)]
    assert not [s for s in branches if any(map(_updates, s.then))], "no branch around a product"


def _updates(s: Stmt) -> bool:
    """Whether a statement, or what it becomes without loops that stay, is part of a sum."""
    if isinstance(s, For) and s.kind == "serial":
        return False
    own = isinstance(s, Invoke) or (isinstance(s, Store) and updated_by(s) is not None)
    return own or any(_updates(x) for b in bodies(s) for x in b)


TWO_EDGES = """program p(A: f32[119], out B: f32[118], out D: f32[110]) {
    for t in 17 {
        for x in 7 @ unrolled { block b[i: 119 = t * 7 + x] { where i < 118 B[i] = A[i] } }
        for y in 7 @ unrolled { block d[i: 119 = t * 7 + y] { where i < 110 D[i] = A[i] * 2.0 } }
    }
}"""


def test_what_is_left_of_a_loop_is_cut_at_its_own_edges() -> None:
    """Whole iterations of both are 0..15; of the two others, the first is whole for `b`."""
    program = ms.parse_program(TWO_EDGES)
    assert not [s for s in walk(lower(program, GENERIC, passes=LOOPS).body) if isinstance(s, If)]
    a = np.arange(119, dtype="f4")
    b, d = ms.build(program)(a)
    assert (b == a[:118]).all() and (d == 2 * a[:110]).all()


def _nests(body: Body) -> int:
    """How many loops have none around them."""
    return sum(1 if isinstance(s, For) else sum(map(_nests, bodies(s))) for s in body)


def test_parts_with_more_work_come_first() -> None:
    asked: list[tuple[str, int]] = []

    def part(name: str, work: int, size: int, growth: int) -> Part:
        def resolve(budget: int) -> Body:
            asked.append((name, budget))
            return (STORE,) * (size + min(growth, budget))

        return Part((STORE,) * size, work, resolve)

    parts = [part("tail", 1, 2, 9), part("main", 8, 3, 4), part("empty", 2, 2, -2)]
    done = copied(parts, (STORE,) * 3, 10)
    assert asked == [("main", 6), ("empty", 2), ("tail", 4)]
    assert done is not None and list(map(len, done)) == [6, 7, 0]
    assert copied(parts, (STORE,) * 3, 3) is None, "the copies alone are 4 statements"
    assert resolved([], 0) == []


STORE = Store("B", (Var("i"),), Const(1.0))
UNROLLED = For("i", Const(8), (STORE,), kind="unrolled")


@pytest.mark.parametrize(
    ("s", "statements"),
    [
        (STORE, 1),
        (UNROLLED, 8),
        (replace(UNROLLED, annotations=((MAX_STEPS, 4),)), 1),
        (replace(UNROLLED, annotations=((MAX_STEPS, 8),)), 8),
        (replace(UNROLLED, body=(UNROLLED,)), 64),
        (replace(UNROLLED, extent=Const(MAX_UNROLLED // 8 + 1), body=(UNROLLED,)), 8),
        (replace(UNROLLED, kind="serial"), 1),
        (For("i", Const(48), (STORE,), kind="vectorized"), 3),
        (For("i", Const(16 * VECTORS_WRITTEN_OUT + 16), (STORE,), kind="vectorized"), 1),
        (If(Var("i"), (STORE, STORE), (STORE,)), 3),
        (If(TRUE, (STORE, STORE), (STORE,)), 2),
        (If(FALSE, (STORE, STORE), (STORE,)), 1),
    ],
)
def test_statements_count_as_often_as_they_are_written_out(s: Stmt, statements: int) -> None:
    """What a schedule unrolls only up to `max_steps` counted as if all of it were written out: nothing was cut."""
    assert weight((s,)) == statements
