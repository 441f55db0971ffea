"""Iter-map verdicts, inverses and batches, judged by going through all points."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mslang.diagnostics import MsError
from mslang.ir.arith import IterMap, compile_arrays, detect, evaluate, invert
from mslang.ir.arith.arrays import ROWS
from mslang.ir.arith.evaluate import UndefinedResult
from mslang.ir.expr import TRUE, ZERO, Binary, Cast, Const, Expr, Load, Select, Unary, Var
from mslang.ir.program import Range
from tests.property.arith_cases import ANY_SYMBOLS, DOMAINS, SYMBOLS, op, points, sizes, symbol_values, values_of

Loops = Mapping[str, Range]


def digits(e: Expr, factors: list[Expr]) -> list[Expr]:
    """`e` split by factors, outermost first: `e // f1*f2`, `e // f2 % f1`, `e % f2`."""
    out: list[Expr] = []
    for f in reversed(factors):
        out.append(op("%", e, f))
        e = op("//", e, f)
    return [e, *reversed(out)]


@st.composite
def maps(draw: st.DrawFn) -> tuple[list[Expr], Loops]:
    """Loops fused, split again and perhaps combined in ways that are not one to one."""
    extents = st.one_of(st.integers(1, 6).map(Const), st.sampled_from(SYMBOLS))
    loops = {n: Range(Const(draw(st.sampled_from((0, 0, 0, 2)))), draw(extents)) for n in ("i", "j", "k")}
    i, j, k = (Var(n) for n in "ijk")
    stride = draw(st.sampled_from([loops["j"].extent, loops["j"].extent, Const(2), op("*", loops["j"].extent, 2)]))
    fused = op("+", op("*", i, stride), j)
    if draw(st.booleans()):
        fused = op("-", fused, op("+", op("*", loops["i"].start, stride), loops["j"].start))
    factors = draw(st.lists(sizes(), min_size=0, max_size=2))
    out = digits(fused, factors) if factors else [fused]
    last = draw(st.sampled_from(["k", "none", "again", "mirrored", "doubled"]))
    match last:
        case "k":
            out.append(k)
        case "again":
            out += [k, i]
        case "mirrored":
            out.append(op("-", 7, k))
        case "doubled":
            out.append(op("*", k, 2))
    return draw(st.permutations(out)), loops


@settings(max_examples=100, deadline=None)
@given(maps(), st.lists(symbol_values(), min_size=2, max_size=2))
def test_levels_hold(case: tuple[list[Expr], Loops], draws: list[dict[str, tuple[int, ...]]]) -> None:
    bindings, loops = case
    found = detect(bindings, loops)
    assume(isinstance(found, IterMap) and found.level != "affine")
    assert isinstance(found, IterMap)
    inverse = invert(bindings, [Var(f"y{n}") for n in range(len(bindings))], loops)
    assert inverse is not None
    for symbols in draws:
        envs = list(points(loops, symbols))
        assume(0 < len(envs) < 400)
        images = [tuple(int(evaluate(b, env, symbols)) for b in bindings) for env in envs]
        assert len(set(images)) == len(images)
        if found.level == "bijective":
            count = 1
            for n, (start, extent) in enumerate(zip(found.starts, found.extents, strict=True)):
                low, size = int(evaluate(start, {}, symbols)), int(evaluate(extent, {}, symbols))
                assert {image[n] for image in images} == set(range(low, low + size))
                count *= size
            assert count == len(images)
        for env, image in list(zip(envs, images, strict=True))[:40]:
            results = {f"y{n}": v for n, v in enumerate(image)}
            assert {n: evaluate(inverse[n], results, symbols) for n in loops} == env


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 90), st.sampled_from(("<", "<=")))
def test_guarded_sums_fill_their_bound(n: int, m: int, bound: int, o: str) -> None:
    loops = {"i": Range(ZERO, Const(n)), "j": Range(ZERO, Const(m))}
    fused = op("+", op("*", Var("i"), m), Var("j"))
    guard = Binary(o, fused, Const(bound))
    found = detect([fused], loops, guard)
    assert isinstance(found, IterMap) and found.level == "bijective"
    values = {evaluate(fused, env) for env in _points(loops) if evaluate(guard, env)}
    assert values == set(range(int(evaluate(found.extents[0], {}))))


def _points(loops: Loops) -> list[dict[str, int]]:
    return [
        {"i": i, "j": j}
        for i in range(int(evaluate(loops["i"].extent, {})))
        for j in range(int(evaluate(loops["j"].extent, {})))
    ]


# ------------------------------------------------------------------ arrays of decisions
def size_expressions() -> st.SearchStrategy[Expr]:
    """Expressions over symbols, comparisons among them too."""
    leaves = st.one_of(st.integers(-9, 20).map(Const), st.sampled_from(ANY_SYMBOLS))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.builds(op, st.sampled_from(("+", "-", "*", "min", "max")), inner, inner),
            st.builds(op, st.sampled_from(("//", "%")), inner, sizes()),
        )

    return st.recursive(leaves, grow, max_leaves=8)


@settings(max_examples=100, deadline=None)
@given(st.lists(size_expressions(), min_size=1, max_size=4), st.integers(0, 2**31))
def test_batches_equal_evaluation(exprs: list[Expr], seed: int) -> None:
    random = np.random.default_rng(seed)
    draws: list[dict[str, tuple[int, ...]]] = [{} for _ in range(20)]
    for n in DOMAINS:
        for d in draws:
            found = values_of(n, d)
            d[n] = found[random.integers(0, len(found))]
    drawn = {n: np.array([d[n] for d in draws]) for n in DOMAINS}
    conditions = [Binary("<", a, b) for a, b in pairwise(exprs)]
    columns = {s.text: drawn[s.name][:, s.position or 0] for s in ANY_SYMBOLS}
    compiled = compile_arrays([*exprs, *conditions])
    out = compiled(columns)
    repeated = {n: np.tile(c, ROWS // 10) for n, c in columns.items()}
    for few, many in zip(out, compiled.rows(repeated, 20 * (ROWS // 10)), strict=True):
        assert (many == np.tile(few, ROWS // 10)).all()
    for row in range(20):
        assert [v[row] for v in out] == [evaluate(e, {}, draws[row]) for e in (*exprs, *conditions)]


def conditions_of_sizes() -> st.SearchStrategy[Expr]:
    """Conditions in which divisions by zero occur, before and after what excludes them."""
    leaves = st.one_of(st.integers(-3, 3).map(Const), st.sampled_from((Var("a"), Var("b"))))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.builds(op, st.sampled_from(("+", "-", "*", "//", "%", "min")), inner, inner),
            st.builds(lambda c, t, o: Select(Binary("<", c, ZERO), t, o), inner, inner, inner),
            st.builds(lambda x: Cast("i64", Cast("i8", op("*", x, 100))), inner),
        )

    numbers = st.recursive(leaves, grow, max_leaves=5)
    compared = st.builds(op, st.sampled_from(("==", "!=", "<", "<=", ">", ">=")), numbers, numbers)
    return st.recursive(
        compared,
        lambda x: st.one_of(
            st.builds(op, st.sampled_from(("and", "or")), x, x), st.builds(lambda c: Unary("not", c), x)
        ),
        max_leaves=4,
    )


@settings(max_examples=300, deadline=None)
@given(conditions_of_sizes())
def test_a_condition_that_divides_by_zero_is_false(condition: Expr) -> None:
    rows = [(a, b) for a in range(-2, 3) for b in range(-2, 3)]
    columns = {"a": np.array([a for a, _ in rows]), "b": np.array([b for _, b in rows])}
    compiled = compile_arrays([condition])
    (out,) = compiled(columns)
    assert (compiled.rows(columns, len(rows))[0] == out).all()
    for (a, b), found in zip(rows, out, strict=True):
        try:
            value = bool(evaluate(condition, {"a": a, "b": b}))
        except UndefinedResult:
            value = False
        assert bool(found) == value, (a, b)


def test_what_is_no_arithmetic_has_no_arrays() -> None:
    with pytest.raises(MsError, match="a load of type `i64` cannot be computed of whole arrays"):
        compile_arrays([op("+", Load("A", (Var("i"),), "i64"), 1)])
    with pytest.raises(MsError, match="a cast of type `f16`"):
        compile_arrays([Cast("f16", Var("i"))])


def test_a_batch_of_one_constant_has_the_shape_of_its_columns() -> None:
    (out,) = compile_arrays([Const(3)])({"M": np.array([4, 8, 12])})
    assert out.tolist() == [3, 3, 3]


def test_a_loop_that_no_index_names_makes_the_map_affine_only() -> None:
    found = detect([Var("i")], {"i": Range(ZERO, Const(4)), "j": Range(ZERO, Const(2))}, TRUE)
    assert isinstance(found, IterMap) and found.level == "affine"
