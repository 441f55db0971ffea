"""Bounds and boxes hold every value, exactly where indices are linear; judged by brute force and by islpy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import islpy as isl
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mslang.diagnostics import MsError
from mslang.ir.arith import Verdict, bounds, covers, decide, evaluate, intersect_box, mod, relax, union_box
from mslang.ir.arith.scope import Ranges
from mslang.ir.expr import ZERO, Binary, Const, Expr, Unary, Var
from mslang.ir.program import Range
from tests.property.arith_cases import Case, all_ranges, cases, op, sizes, some_points, symbol_values


def held(r: Range, env: dict[str, int], symbols: dict[str, tuple[int, ...]]) -> range:
    start = int(evaluate(r.start, env, symbols))
    return range(start, start + int(evaluate(r.extent, env, symbols)))


@settings(max_examples=120, deadline=None)
@given(cases(), st.lists(symbol_values(), min_size=2, max_size=2))
def test_bounds_hold(case: Case, draws: list[dict[str, tuple[int, ...]]]) -> None:
    found = bounds(case.e, case.ranges)
    if found is None:
        return
    for symbols in draws:
        low, high = (evaluate(x, {}, symbols) for x in found)
        for env in some_points(case.ranges, symbols, 40):
            assert low <= evaluate(case.e, env, symbols) <= high


INNER = st.sampled_from([("j",), ("k",), ("j", "k"), ("i", "k")])


@settings(max_examples=120, deadline=None)
@given(cases(), st.lists(symbol_values(), min_size=2, max_size=2), INNER)
def test_relax_holds_every_element(case: Case, draws: list[dict[str, tuple[int, ...]]], inner: tuple[str, ...]) -> None:
    running = {n: case.ranges[n] for n in inner}
    try:
        (box,) = relax((case.e,), running)
    except MsError:
        return
    for symbols in draws:
        for env in some_points(case.ranges, symbols, 40):
            assert evaluate(case.e, env, symbols) in held(box, env, symbols)


@settings(max_examples=100, deadline=None)
@given(sizes(), sizes(), st.sampled_from(("//", "%")), st.integers(-3, 6), symbol_values())
def test_runs_end_to_end_under_division(e: Expr, d: Expr, o: str, c: int, symbols: dict[str, tuple[int, ...]]) -> None:
    index = op(o, op("+", op("*", op("+", Var("i"), c), e), Var("j")), d)
    length = int(evaluate(e, {}, symbols))
    (box,) = relax((index,), {"j": Range(Const(0), e)})
    for i in range(4):
        run = held(box, {"i": i}, symbols)
        values = {evaluate(index, {"i": i, "j": j}, symbols) for j in range(length)}
        assert values <= set(run)
        if ZERO in (mod(e, d), mod(d, e)):  # What some values alone divide is not known to end there.
            assert values == set(run) or o == "%"


def linear() -> st.SearchStrategy[Expr]:
    """Sums of the three variables with coefficients of either sign."""
    terms = [st.builds(lambda n, c: op("*", Var(n), c), st.just(n), sizes()) for n in ("i", "j", "k")]
    signs = st.sampled_from(("+", "-"))
    return st.builds(lambda a, s, b, t, c: op(t, op(s, a, b), c), terms[0], signs, terms[1], signs, terms[2])


@settings(max_examples=100, deadline=None)
@given(linear(), all_ranges(), symbol_values())
def test_bounds_of_linear_indices_are_reached(e: Expr, ranges: Ranges, symbols: dict[str, tuple[int, ...]]) -> None:
    assume(isinstance(ranges["k"].start, Const))  # a range that moves with i may give a wider hull
    found = bounds(e, ranges)
    assert found is not None
    low, high = (evaluate(x, {}, symbols) for x in found)
    ends = [(h[0], h[-1]) for h in (held(ranges[n], {}, symbols) for n in "ijk")]
    values = [evaluate(e, dict(zip("ijk", corner, strict=True)), symbols) for corner in product(*ends)]
    assert (low, high) == (min(values), max(values))


# ------------------------------------------------------------------ islpy as judge
def isl_text(e: Expr) -> str:
    """An index expression in isl's syntax."""
    match e:
        case Const(value=v):
            return str(v)
        case Var(name=n):
            return n
        case Unary(operand=x):
            return f"(-1*{isl_text(x)})"
        case Binary(op="*", left=Const(value=v), right=Const(value=w)):
            return str(v * w)
        case Binary(op="//", left=a, right=b):
            return f"floor({isl_text(a)}/{isl_text(b)})"
        case Binary(op="%", left=a, right=b):
            return f"({isl_text(a)} mod {isl_text(b)})"
        case Binary(op=o, left=a, right=b) if o in ("min", "max"):
            return f"{o}({isl_text(a)},{isl_text(b)})"
        case Binary(op=o, left=a, right=b):
            return f"({isl_text(a)} {'=' if o == '==' else o} {isl_text(b)})"
    raise AssertionError(e)


def isl_domain(ranges: Ranges) -> str:
    return " and ".join(
        f"{isl_text(r.start)} <= {n} < {isl_text(r.start)} + {isl_text(r.extent)}" for n, r in ranges.items()
    )


def affine(e: Expr) -> bool:
    """Whether isl can read it: products and divisors are numbers."""
    match e:
        case Binary(op="*" | "//" | "%", left=a, right=Const()):
            return affine(a)
        case Binary(op="*" | "//" | "%"):
            return False
        case Binary(left=a, right=b):
            return affine(a) and affine(b)
    return True


@settings(max_examples=120, deadline=None)
@given(cases(symbolic=False), cases(symbolic=False), st.sampled_from(("<", "<=", "==", ">=")))
def test_verdicts_agree_with_isl(a: Case, b: Case, o: str) -> None:
    condition = Binary(o, a.e, b.e)
    assume(affine(condition))
    domain = isl.Set("{ [i,j,k] : " + isl_domain(a.ranges) + " }")
    holds = isl.Set("{ [i,j,k] : " + isl_domain(a.ranges) + " and " + isl_text(condition) + " }")
    assume(not domain.is_empty())
    match decide(condition, a.ranges):
        case Verdict.PROVED:
            assert domain.is_subset(holds)
        case Verdict.REFUTED:
            assert holds.is_empty()
        case Verdict.DEPENDS:
            assert not holds.is_empty() and not domain.is_subset(holds)


def boxes() -> st.SearchStrategy[tuple[Range, ...]]:
    """Two-dimensional boxes that move with i and j."""
    start = st.builds(
        lambda a, b, c: op("+", op("+", op("*", Var("i"), a), op("*", Var("j"), b)), c),
        st.sampled_from((0, 0, 2, 4)),
        st.sampled_from((0, 0, 1, 4)),
        st.integers(-3, 6),
    )
    one = st.builds(Range, start, st.integers(1, 9).map(Const))
    return st.tuples(one, one)


def isl_box(box: tuple[Range, ...], names: tuple[str, ...] = ("x", "y")) -> isl.Map:
    inside = isl_domain(dict(zip(names, box, strict=True)))
    return isl.Map("{ [i,j] -> [x,y] : 0 <= i < 4 and 0 <= j < 4 and " + inside + " }")


BOX_RANGES = {"i": Range(Const(0), Const(4)), "j": Range(Const(0), Const(4))}
WHOLE = (Range(Const(-3), Const(50)), Range(Const(-3), Const(50)))


@settings(max_examples=100, deadline=None)
@given(boxes(), boxes())
def test_boxes_agree_with_isl(a: tuple[Range, ...], b: tuple[Range, ...]) -> None:
    first, second = isl_box(a), isl_box(b)
    union = isl_box(union_box(a, b, WHOLE, BOX_RANGES))
    assert first.union(second).is_subset(union)
    assert first.intersect(second).is_equal(isl_box(intersect_box(a, b, BOX_RANGES)))
    match covers(a, b, BOX_RANGES):
        case Verdict.PROVED:
            assert second.is_subset(first)
        case Verdict.REFUTED:
            assert not any(second.intersect_domain(isl.Set(p)).is_subset(first) for p in isl_points())
        case Verdict.DEPENDS:
            assert not second.is_subset(first)


def isl_points() -> Iterator[str]:
    return (f"{{ [{i},{j}] }}" for i in range(4) for j in range(4))


def test_the_union_of_ordered_boxes_is_exact() -> None:
    a, b = (Range(Var("i"), Const(4)),), (Range(op("+", Var("i"), 2), Const(4)),)
    assert union_box(a, b, (Range(Const(0), Const(9)),)) == (Range(Var("i"), Const(6)),)


def test_a_union_of_unknown_order_widens() -> None:
    whole = (Range(Const(0), Const(9)),)
    assert union_box((Range(Var("i"), Const(4)),), (Range(Var("j"), Const(4)),), whole) == whole
