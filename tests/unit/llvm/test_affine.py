"""Affine forms of the emitter against their values."""

from __future__ import annotations

from itertools import product

import hypothesis.strategies as st
from hypothesis import given, settings

from mslang.backend.llvm.affine import Affine, add, compare, divide, interval, scale
from mslang.backend.llvm.vector import chunks

ATOMS = ("%a", "%b")
RANGES = {"%a": (0, 3), "%b": (-2, 2)}
LANES = 4
SMALL = st.integers(-40, 40)
FORMS = st.builds(
    lambda c, a, b, lane: Affine(c, tuple((n, k) for n, k in zip(ATOMS, (a, b), strict=True) if k), lane),
    SMALL,
    st.integers(-8, 8),
    st.integers(-8, 8),
    st.integers(-3, 3),
)


def values(form: Affine) -> list[int]:
    out = []
    for a, b, lane in product(range(4), range(-2, 3), range(LANES)):
        at = {"%a": a, "%b": b}
        out.append(form.constant + sum(k * at[n] for n, k in form.terms) + form.lane * lane)
    return out


@settings(max_examples=200, deadline=None)
@given(x=FORMS, y=FORMS, k=SMALL)
def test_sums_multiples_and_bounds(x: Affine, y: Affine, k: int):
    pairs = list(zip(values(x), values(y), strict=True))
    assert values(add(x, y)) == [a + b for a, b in pairs]
    assert values(add(x, y, -1)) == [a - b for a, b in pairs]
    assert values(scale(x, k)) == [k * a for a in values(x)]
    assert interval(x, RANGES, LANES) == (min(values(x)), max(values(x)))
    assert all(n for _, n in add(x, y).terms)


@settings(max_examples=300, deadline=None)
@given(x=FORMS, by=st.integers(1, 16), k=st.integers(1, 4))
def test_division_is_exact_where_it_is_a_form(x: Affine, by: int, k: int):
    for form in (x, scale(x, by), add(scale(x, by), Affine(by // 2))):
        parts = divide(form, by, RANGES, LANES)
        if parts is not None:
            assert values(parts[0]) == [v // by for v in values(form)]
            assert values(parts[1]) == [v % by for v in values(form)]
    assert divide(scale(x, by), by, RANGES, LANES) is not None


@settings(max_examples=200, deadline=None)
@given(x=FORMS, y=FORMS, op=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_comparisons_are_decided_for_all_values(x: Affine, y: Affine, op: str):
    known = compare(op, x, y, RANGES, LANES)
    truths = {eval(f"a {op} b") for a, b in zip(values(x), values(y), strict=True)}
    assert known is None or truths == {known}


@given(trips=st.integers(1, 200), native=st.sampled_from([1, 2, 4, 8, 16, 64]), wide=st.booleans(), masks=st.booleans())
def test_chunks_run_each_iteration_once(trips: int, native: int, wide: bool, masks: bool):
    pieces = chunks(trips, native, wide=wide, masks=masks)
    assert [k for p in pieces for k in range(p.start, p.start + p.active)] == list(range(trips))
    for p in pieces:
        assert p.lanes & (p.lanes - 1) == 0
        assert p.active == p.lanes or masks
