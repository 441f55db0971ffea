"""NaN, infinities and -0.0 under schedules: what `docs/language.md` says of floating point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run

INF, NAN = np.inf, np.nan
SUM = "program t(X: f32[2, 8], out Y: f32[2]) { block m[i: 2 | k: 8] { Y[i] += X[i, k] } }"
PRODUCT = "program t(X: f32[2, 8], out Y: f32[2]) { block m[i: 2 | k: 8] { Y[i] *= X[i, k] } }"
MINIMUM = "program t(X: f32[2, 8], out Y: f32[2]) { block m[i: 2 | k: 8] { Y[i] = min(Y[i], X[i, k]) } }"
STEPS = [
    "let a, b = m.k.split([2, 4]) reorder(b, a)",
    "let a, b = m.k.split([2, 4]) let r = b.rfactor()",
    "let a, b = m.k.split([2, 4]) let r = b.rfactor() r.b.vectorize()",
    "let z = m.decompose_reduction(m.k)",
    "let a, b = m.k.split([_, 3], tail = pad)",
]
ROWS = np.array(
    [[1, NAN, 2, 3, 4, 5, 6, 7], [INF, 1, 2, -INF, 3, 4, 5, 6], [INF, 1, INF, 2, 3, 4, 5, 6], [-0.0] * 8], np.float32
)


def both(text: str, steps: str, arrays: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """What the program gives, its schedule interpreted, its schedule compiled."""
    m = ms.parse(f"{text}\nschedule s for t {{ {steps} }}")
    scheduled = m.space("s").sample(0).program
    plain, interpreted = (list(run(p, arrays).values()) for p in (m.program(), scheduled))
    found = ms.build(scheduled)(*arrays.values())
    return plain, interpreted, list(found) if isinstance(found, tuple) else [found]


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b)))


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("text", [SUM, PRODUCT, MINIMUM], ids=["sum", "product", "minimum"])
@pytest.mark.parametrize("rows", [(0, 1), (2, 3), (3, 0)])
@pytest.mark.one_in(2)
def test_reductions_keep_them(text: str, steps: str, rows: tuple[int, int]) -> None:
    x = ROWS[list(rows)]
    try:
        plain, interpreted, compiled = both(text, steps, {"X": x})
    except ms.MsError as error:
        assert "pad" in steps and error.diagnostic.code.startswith("MS3")
        return
    nan = np.isnan(plain[0])
    for found in (interpreted[0], compiled[0]):
        assert np.array_equal(np.isnan(found), nan) and same(np.where(nan, 0, found), np.where(nan, 0, plain[0]))


@pytest.mark.parametrize(
    "body",
    [
        "C[i] += A[k] * B[i]",
        "C[i] = max(C[i], A[k] + B[i])",
        "C[i] = max(C[i], A[k] * B[i])",
        "C[i] = min(C[i], A[k] - B[i])",
    ],
)
def test_a_padding_that_an_infinity_would_make_count_is_refused(body: str) -> None:
    text = f"program t(A: f32[3], B: f32[4], out C: f32[4]) {{ block mm[i: 4 | k: 3] {{ {body} }} }}"
    with pytest.raises(ms.MsError) as error:
        ms.parse(f"{text} schedule s for t {{ mm.pad_einsum([1, 4]) }}").space("s").sample(0)
    assert error.value.diagnostic.code == "MS373"


def test_a_padding_of_all_factors_keeps_infinities_and_nan() -> None:
    text = "program t(A: f32[3], B: f32[4, 3], out C: f32[4]) { block mm[i: 4 | k: 3] { C[i] += A[k] * B[i, k] } }"
    b = np.array([[1, INF, 2], [NAN, 1, 1], [1, 2, 3], [-INF, INF, 0]], np.float32)
    plain, interpreted, compiled = both(text, "mm.pad_einsum([4, 4])", {"A": np.array([1, 2, 3], np.float32), "B": b})
    assert same(plain[0], interpreted[0]) and same(plain[0], compiled[0])


@pytest.mark.parametrize("steps", ["s.fuse_reduction_epilogue(e)"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_an_epilogue_of_extremes_keeps_them(op: str, steps: str) -> None:
    text = f"""program t(X: f32[4, 2], b: f32[4], out Y: f32[4]) {{
        alloc T: f32[4]
        block s[i: 4 | k: 2] {{ T[i] = max(T[i], X[i, k]) }}
        block e[i: 4] {{ Y[i] = {op}(T[i], b[i]) }}
    }}"""
    x = np.array([[1, 2], [NAN, 1], [-0.0, -0.0], [-INF, -INF]], np.float32)
    b = np.array([NAN, 1, 0.0, -0.0], np.float32)
    plain, interpreted, compiled = both(text, steps, {"X": x, "b": b})
    assert same(plain[0], interpreted[0]) and same(plain[0], compiled[0])


def test_the_value_of_an_argmax_is_nan_whatever_the_order() -> None:
    text = """program t(X: f32[1, 6], out P: i32[1], out V: f32[1]) {
        block m[i: 1 | k: 6] {
            let p = select(V[i] > X[i, k] or V[i] == X[i, k] and P[i] < i32(k), P[i], i32(k))
            let v = max(V[i], X[i, k])
            P[i] = p
            V[i] = v
        }
    }"""
    x = np.array([[5, NAN, 2, NAN, 1, 3]], np.float32)
    for steps in ("let a, b = m.k.split([3, 2]) reorder(b, a)", "let a, b = m.k.split([3, 2]) let r = b.rfactor()"):
        _, interpreted, compiled = both(text, steps, {"X": x})
        assert np.isnan(interpreted[1]).all() and np.isnan(compiled[1]).all()
