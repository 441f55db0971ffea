"""Vectorized loops over several rows run as one vectorized loop a row."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.reference.interpret import run
from mslang.ir.expr import Ramp
from mslang.ir.visit import walk_expr
from mslang.kernel.nodes import For, Store
from mslang.kernel.visit import walk
from mslang.lower.passes import lower
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC

UPDATE = """program p(A: f32[{rows}, {length}], W: f32[{length}], inout C: f32[{rows}, {length}]) {{
    for i in 2, l in {trips} @ vectorized {{
        block b[vi: 2 @ opaque = i, vl: {trips} = l] {{
            C[vl // {length}, vl % {length}] += A[vl // {length}, vl % {length}] * W[{at}]
        }}
    }}
}}"""


def update(rows: int, length: int, at: str = "vl % {length}") -> str:
    return UPDATE.format(rows=rows, length=length, trips=rows * length, at=at.format(length=length))


def stored_in_vectors(text: str) -> bool:
    """Whether each store of a lowered program is one of a vector."""
    stores = [s for s in walk(lower(parse_program(text), GENERIC).body) if isinstance(s, Store)]
    return all(any(isinstance(x, Ramp) for e in s.indices for x in walk_expr(e)) for s in stores)


@pytest.mark.parametrize(("rows", "length"), [(2, 32), (4, 8), (3, 12), (20, 16), (2, 4)])
def test_each_row_runs_as_lanes(rows: int, length: int) -> None:
    assert stored_in_vectors(update(rows, length))


@pytest.mark.parametrize(
    ("rows", "length", "at"),
    [
        (8, 3, "vl % {length}"),  # rows shorter than any vector
        (2, 33, "vl % 11 + vl // 11 % 3"),  # parts of a row of which none is a row
    ],
)
def test_rows_that_are_no_vectors_stay_serial(rows: int, length: int, at: str) -> None:
    assert not stored_in_vectors(update(rows, length, at))


def test_many_rows_stay_a_loop() -> None:
    def kinds(rows: int) -> list[str]:
        found = walk(lower(parse_program(update(rows, 16)), GENERIC).body)
        return [s.var for s in found if isinstance(s, For)]

    assert kinds(20) == ["i", "l_row"]
    assert kinds(8) == ["i"]


@pytest.mark.parametrize(
    ("rows", "length", "at"),
    [
        (2, 32, "vl % {length}"),
        (4, 8, "vl % {length}"),
        (3, 12, "vl % 4"),
        (20, 16, "{length} - 1 - vl % {length}"),
        (2, 33, "vl % 11 + vl // 11 % 3"),
        (2, 24, "vl // 4 % 6"),
    ],
)
def test_rows_mean_what_the_loop_does(rows: int, length: int, at: str) -> None:
    p = parse_program(update(rows, length, at))
    rng = np.random.default_rng(0)
    a, w, c = (rng.integers(-4, 5, s).astype(np.float32) for s in ((rows, length), (length,), (rows, length)))
    expected = run(p, {"A": a, "W": w, "C": c})["C"]
    ms.build(p)(a, w, c)
    np.testing.assert_array_equal(c, expected)
