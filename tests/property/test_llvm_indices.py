"""Random index expressions in vector, unrolled and plain loops: as values, as addresses, as conditions."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, given, settings

from mslang.ir.build import ProgramBuilder, spatial
from mslang.ir.operators import Value, maximum, minimum, select
from mslang.target.description import AVX2, Target
from mslang.target.detect import host
from tests.unit.llvm.support import run

ROWS, COLUMNS = 3, 21
KINDS = st.sampled_from(["serial", "vectorized", "vectorized", "unrolled", "parallel"])
LEAVES = st.one_of(st.sampled_from(["i", "j", "j"]), st.integers(-9, 9))


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "min", "max"]), inner, inner),
        st.tuples(st.just("*"), inner, st.integers(-5, 5)),
        st.tuples(st.sampled_from(["//", "%"]), inner, st.integers(1, 8)),
    )


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=8)


def built(e: Any, i: Value, j: Value) -> Value | int:
    match e:
        case "i":
            return i
        case "j":
            return j
        case int():
            return e
    op, a, b = e[0], built(e[1], i, j), built(e[2], i, j)
    if isinstance(a, int) and isinstance(b, int):
        return valued(e, 0, 0)
    match op:
        case "min":
            return minimum(a, b)
        case "max":
            return maximum(a, b)
        case "//" | "%":
            assert isinstance(a, Value)
            return a // b if op == "//" else a % b
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b}[op]()


def valued(e: Any, i: int, j: int) -> int:
    match e:
        case "i":
            return i
        case "j":
            return j
        case int():
            return e
    a, b = valued(e[1], i, j), valued(e[2], i, j)
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: a // b,
        "%": lambda: a % b,
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
    }[e[0]]()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    e=EXPRESSIONS,
    bound=st.integers(-3, 20),
    kinds=st.tuples(KINDS, KINDS),
    narrow=st.booleans(),
    checked=st.integers(0, 4),
)
def test_index_expressions(e: Any, bound: int, kinds: tuple[str, str], narrow: bool, checked: int):
    b = ProgramBuilder("indices")
    x, y = b.input("X", (16,), "i64"), b.output("Y", (3, ROWS, COLUMNS), "i64")
    with b.loop("i0", ROWS, kind=kinds[0]) as i0, b.loop("j0", COLUMNS, kind=kinds[1]) as j0:
        with b.block("y", spatial("i", ROWS, at=i0), spatial("j", COLUMNS, at=j0)) as (i, j):
            index = built(e, i, j)
            index = index if isinstance(index, Value) else i * 0 + index
            y[0, i, j] = index
            y[1, i, j] = x[index % 16]
            y[2, i, j] = select((index < bound) & (index >= 0), x[minimum(index, 15)], -j)
    program = b.finish()
    target: Target = host()
    if narrow and target.has("avx2"):
        target = Target("narrow", cpu=AVX2.cpu, features=AVX2.features, vector_bits=256)
    data = np.arange(16, dtype=np.int64) * 10
    actual = run(program, data, target=target, checked=checked == 0)
    for r in range(ROWS):
        for c in range(COLUMNS):
            v = valued(e, r, c)
            assert actual[0, r, c] == v
            assert actual[1, r, c] == data[v % 16]
            assert actual[2, r, c] == (data[min(v, 15)] if 0 <= v < bound else -c)
