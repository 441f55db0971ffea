"""Reductions whose values must be combined in order: what they combine, or whether they do, depends on what they wrote
before. Each stands beside one that may be reordered."""

from __future__ import annotations

import pytest

from tests.unit.transform.meaning import same, scheduled
from tests.unit.transform.programs import refused

REDUCTION = """program p(A: f32[8, 4], inout S: f32[8], inout Q: f32[8]) {
    for i in 0..8, k in 0..4 {
        block s[x: 8 = i | y: 4 = k] {
            init {}
            WHERE
            BODY
        }
    }
}"""
STEPS = "let a, b = s.y.split([2, 2]) reorder(b, a)"


def reduction(body: str, where: str = "") -> str:
    return REDUCTION.replace("WHERE", where).replace("BODY", body)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("if S[x] < 2.0 { S[x] = S[x] + A[x, y] }", ""),
        ("S[x] = S[x] + A[x, y]", "where S[x] < 2.0"),
        ("let v = S[x] Q[x] = Q[x] + v S[x] = S[x] + A[x, y]", ""),
        ("S[x] = S[x] + S[x] * S[x] * A[x, y]", ""),
        ("for n in 0..i64(max(Q[x], 0.0)) { S[x] = S[x] + A[x, y] } Q[x] = Q[x] + 1.0", ""),
        ("while S[x] < 5.0 { S[x] = S[x] + 1.0 } S[x] = S[x] + A[x, y]", ""),
        ("alloc t: f32[1] t[0] = S[x] Q[x] = Q[x] + t[0] S[x] = S[x] + A[x, y]", ""),
        ("view v: f32[1] = S[x .. x + 1] v[0] = v[0] * 2.0 + A[x, y]", ""),
        ("view v: f32[1] = S[x .. x + 1] if S[x] < 2.0 { v[0] = v[0] + A[x, y] }", ""),
    ],
)
def test_what_depends_on_what_was_combined_keeps_its_order(body: str, where: str):
    with refused("MS308", "the order in which block `s` combines values along loop"):
        scheduled(reduction(body, where), STEPS)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("if A[x, y] < 2.0 { S[x] = S[x] + A[x, y] }", ""),
        ("S[x] = S[x] + A[x, y]", "where A[x, y] < 2.0"),
        ("let v = A[x, y] Q[x] = max(Q[x], v) S[x] = S[x] + v", ""),
        ("for n in 0..i64(max(A[x, y], 0.0)) { S[x] = S[x] + A[x, y] }", ""),
        ("alloc t: f32[1] t[0] = A[x, y] Q[x] = Q[x] + t[0] S[x] = S[x] + A[x, y]", ""),
        ("view v: f32[1] = S[x .. x + 1] v[0] = v[0] + A[x, y]", ""),
    ],
)
def test_what_does_not_is_combined_in_any_order(body: str, where: str):
    same(*scheduled(reduction(body, where), STEPS))


def test_a_known_reducer_with_something_else_after_it():
    program = """program p(A: f32[8, 4], out I: i32[8], out V: f32[8], inout Q: f32[8]) {
        for i in 0..8, k in 0..4 {
            block s[x: 8 = i | y: 4 = k] {
                init { I[x] = -1 V[x] = -inf }
                let j = select(V[x] > A[x, y] or V[x] == A[x, y] and I[x] < i32(y), I[x], i32(y))
                let v = select(V[x] > A[x, y], V[x], A[x, y])
                I[x] = j
                V[x] = v
                MORE
            }
        }
    }"""
    scheduled(program.replace("MORE", ""), STEPS)
    scheduled(program.replace("MORE", "").replace("I[x]", "I[7 - x]"), STEPS)
    with refused("MS308", "the order in which block `s` combines values along loop"):
        scheduled(program.replace("MORE", "if v > 2.0 { Q[x] = A[x, y] }"), STEPS)
