"""Canonical forms keep the value, are idempotent, and verdicts are true."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mslang.ir.arith import Verdict, decide, evaluate, simplify, substitute_symbols
from tests.property.arith_cases import Case, cases, comparisons, some_points, symbol_values


@settings(max_examples=200, deadline=None)
@given(cases(), st.lists(symbol_values(), min_size=3, max_size=3))
def test_simplify_keeps_the_value(case: Case, draws: list[dict[str, tuple[int, ...]]]) -> None:
    out = simplify(case.e, case.ranges)
    for symbols in draws:
        for env in some_points(case.ranges, symbols, 30):
            assert evaluate(out, env, symbols) == evaluate(case.e, env, symbols)


@settings(max_examples=200, deadline=None)
@given(cases(symbolic=False))
def test_simplify_keeps_the_value_of_constant_shapes(case: Case) -> None:
    out = simplify(case.e, case.ranges)
    for env in some_points(case.ranges, {}):
        assert evaluate(out, env) == evaluate(case.e, env)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_simplify_is_idempotent(case: Case) -> None:
    out = simplify(case.e, case.ranges)
    assert simplify(out, case.ranges) == out


@settings(max_examples=150, deadline=None)
@given(comparisons(), st.lists(symbol_values(), min_size=3, max_size=3))
def test_conditions_keep_their_truth_and_verdicts_hold(case: Case, draws: list[dict[str, tuple[int, ...]]]) -> None:
    out, verdict = simplify(case.e, case.ranges), decide(case.e, case.ranges)
    assert simplify(out, case.ranges) == out
    for symbols in draws:
        for env in some_points(case.ranges, symbols, 30):
            truth = evaluate(case.e, env, symbols)
            assert evaluate(out, env, symbols) == truth
            if verdict is Verdict.PROVED:
                assert truth
            if verdict is Verdict.REFUTED:
                assert not truth


@settings(max_examples=150, deadline=None)
@given(cases(), symbol_values())
def test_substitution_then_evaluation(case: Case, symbols: dict[str, tuple[int, ...]]) -> None:
    out = substitute_symbols(case.e, symbols)
    envs = some_points(case.ranges, symbols, 10)
    assume(envs)
    for env in envs:
        assert evaluate(out, env) == evaluate(case.e, env, symbols)
