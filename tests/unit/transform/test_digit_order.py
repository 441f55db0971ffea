"""Reductions under loops of which axes are digits: the instance with the init must be the first of its element."""

from __future__ import annotations

import pytest

from mslang.ir.find import path_to_block
from mslang.sema.program import parse_program
from mslang.transform.analysis.initialization import why_not_init_first
from tests.unit.transform.test_instances import accepted, refused

DIGITS = """program t(x: i32[7], out y: i32[7]) {
    alloc T: i32[3, 7]
    for LOOPS { block w[k: 3 = ROW, i: 7 = COLUMN] { T[k, i] = x[i] } }
    for k in 3, i in 7 {
        block r[k: 3 @ reduce = k, i: 7 = i] { init { y[i] = 0 } y[i] += T[k, i] } }
}"""


@pytest.mark.parametrize(
    ("loops", "row", "column", "kept"),
    [
        ("a in 3, b in 7", "(a * 7 + b) % 3", "(a * 7 + b) // 3", True),
        ("b in 7, a in 3", "(a * 7 + b) % 3", "(a * 7 + b) // 3", False),
        ("a in 7, b in 3", "(a * 3 + b) // 7", "(a * 3 + b) % 7", True),
        ("b in 3, a in 7", "(a * 3 + b) // 7", "(a * 3 + b) % 7", False),
        ("b in 7, u in 1, a in 3", "(a * 7 + b + u) % 3", "(a * 7 + b + u) // 3", False),
        ("f in 21", "f % 3", "f // 3", True),
        ("b in 7, a in 3", "a", "b", True),
        ("b in 7, a in 3", "2 - a", "b", False),
    ],
)
def test_a_reduction_follows_digits_in_their_order(loops: str, row: str, column: str, kept: bool):
    """Pair 34178 of the generator `stages`, seed 19: of two loops fused against their order, the instance with the init
    was not the first of its element."""
    p = DIGITS.replace("LOOPS", loops).replace("ROW", row).replace("COLUMN", column)
    inner = len(loops.split(",")) - 1
    if kept:
        accepted(p, f"r.reverse_compute_at(w.loops()[{inner}])")
    else:
        refused(p, f"r.reverse_compute_at(w.loops()[{inner}])", "MS308", "would reduce in another order")


@pytest.mark.parametrize(
    ("loops", "column", "first"),
    [("a in 3, b in 4", "a + b", False), ("b in 4, a in 3", "a + b", False), ("b in 4, a in 3", "a + 3 * b", True)],
)
def test_one_element_of_several_digits_may_begin_with_any(loops: str, column: str, first: bool):
    p = parse_program(
        f"""program t(x: i32[3], out y: i32[12]) {{ for {loops} {{
            block r[k: 3 @ reduce = a, i: 12 = {column}] {{ init {{ y[i] = 0 }} y[i] += x[k] }} }} }}"""
    )
    path = path_to_block(p, "r")
    assert path is not None
    assert (why_not_init_first(path) is None) == first
