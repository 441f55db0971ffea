"""Loops leave out the iterations in which all guards are false: the remainder of a tile is a smaller tile."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import mslang as ms
from mslang.ir.arith import evaluate
from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.kernel.nodes import Body, For, If, Store
from mslang.kernel.visit import walk
from mslang.lower.dead_iterations import live_iterations, without_dead
from mslang.lower.passes import LOOPS, lower
from mslang.target.detect import host

TEXT = """
use std.cpu.{{host}}
program copy[M = {m}, N = {n}](A: f32[M, N], out B: f32[M, N]) {{
    block copy[i: M, j: N] {{ B[i, j] = A[i, j] * 2.0 }}
}}
schedule tiled for copy on host {{
    let i0, i1, i2 = copy.i.split([_, 4, 3])
    let j0, j1, j2 = copy.j.split([_, 4, 16])
    reorder(i0, j0, i1, j1, i2, j2)
    i0.parallel()
    i2.unroll()
    j2.vectorize()
}}
"""


@pytest.mark.parametrize(("m", "n"), [(24, 72), (24, 100), (14, 128), (17, 72), (2, 5), (26, 136)])
def test_the_last_tile_is_as_long_as_what_is_left(m: int, n: int) -> None:
    """Of the four small tiles in the last large one those beyond the edge would run with guards on every element."""
    program = ms.parse(TEXT.format(m=m, n=n)).space("tiled", target=host()).sample(0).program
    lowered = lower(program, host(), passes=LOOPS).body
    vectors = [s for s in walk(lowered) if isinstance(s, For) and s.kind == "vectorized"]
    assert vectors and not any(isinstance(x, If) for s in vectors for x in walk(s.body))
    assert all(any(isinstance(x, Store) for x in walk(s.body)) for s in walk(lowered) if isinstance(s, For))
    a = np.random.default_rng(0).uniform(-1, 1, (m, n)).astype("f4")
    b = np.zeros_like(a)
    ms.build(program)(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_what_runs_is_within_the_live_iterations() -> None:
    rng = random.Random(0)
    narrowed = nothing = 0
    for _ in range(2000):
        loop, ranges = _drawn(rng)
        start, extent = (int(e.value) for e in (loop.start, loop.extent) if isinstance(e, Const))
        outer = ranges["o"]
        running = [
            v
            for v in range(start, start + extent)
            if any(_runs(loop.body, {"o": o, "v": v}) for o in range(outer[0], outer[1] + 1))
        ]
        found = live_iterations(loop, (start, start + extent - 1), ranges)
        if running:
            assert found is not None and found[0] <= running[0] and running[-1] <= found[1]
        nothing += found is None
        narrowed += found is not None and found != (start, start + extent - 1)
        if isinstance(loop.body[0], If) and len(loop.body) == 1 and not loop.body[0].otherwise:
            assert found == ((running[0], running[-1]) if running else None), "one guard is decided exactly"
    assert narrowed > 200 and nothing > 50


def test_loops_without_dead_iterations_do_the_same() -> None:
    rng = random.Random(1)
    shorter = 0
    for _ in range(1000):
        loop, ranges = _drawn(rng)
        first, last = ranges["o"]
        outer = {"o": (first, last)}
        live = without_dead((loop,), outer)
        for o in range(first, last + 1):
            assert list(_stores(live, {"o": o})) == list(_stores((loop,), {"o": o}))
        shorter += _lengths(live) < _lengths((loop,))
        assert without_dead(live, outer) is live
    assert shorter > 200


def _stores(body: Body, values: dict[str, int]) -> Iterator[dict[str, int]]:
    """The values of the variables at each store."""
    for s in body:
        match s:
            case If(condition=c, then=then, otherwise=otherwise):
                yield from _stores(then if evaluate(c, values) else otherwise, values)
            case For(var=name, start=Const(value=first), extent=Const(value=n), body=inner):
                for k in range(int(first), int(first + n)):
                    yield from _stores(inner, {**values, name: k})
            case Store():
                yield values


def _lengths(body: Body) -> int:
    return sum(int(s.extent.value) for s in walk(body) if isinstance(s, For) and isinstance(s.extent, Const))


def _drawn(rng: random.Random) -> tuple[For, dict[str, tuple[int, int]]]:
    """A loop over `v`, in a loop over `o`, around guards that also depend on a loop `w` inside."""

    def guard(names: str) -> Expr:
        e: Expr = Const(rng.randint(-30, 30))
        for name in names:
            e = Binary("+", e, Binary("*", Var(name), Const(rng.randint(-5, 5))))
        return Binary("<", e, Const(0))

    store = Store("B", (Var("v"),), Const(1.0))
    body: tuple[If | For, ...] = (If(guard("ov"), (store,), (store,) if rng.random() < 0.2 else ()),)
    if rng.random() < 0.6:
        inner = For("w", Const(rng.randint(0, 4)), (If(guard("ovw"), (store,)),), start=Const(rng.randint(0, 3)))
        body = (inner,) if rng.random() < 0.5 else (*body, inner)
    low = rng.randint(0, 3)
    loop = For("v", Const(rng.randint(1, 9)), body, start=Const(rng.randint(0, 4)))
    return loop, {"o": (low, low + rng.randint(0, 3)), "v": (0, 0)}


def _runs(body: tuple[object, ...], values: dict[str, int]) -> bool:
    for s in body:
        match s:
            case If(condition=c, then=then, otherwise=otherwise):
                if _runs(then if evaluate(c, values) else otherwise, values):
                    return True
            case For(var=name, start=Const(value=first), extent=Const(value=n), body=inner):
                if any(_runs(inner, {**values, name: k}) for k in range(int(first), int(first + n))):
                    return True
            case Store():
                return True
    return False
