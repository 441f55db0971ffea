"""Sizes at which programs with dynamic sizes are measured."""

from __future__ import annotations

from mslang.sema.program import parse_program
from mslang.tune.instances import LARGEST, Instance, fits

MANY = LARGEST // 4
"""Elements of f32 that just fit."""


def test_temporaries_count_as_arrays_do():
    text = """program p[M: dyn(1..4000000000)](A: f32[4], out C: f32[4]) {{
        {alloc}
        block b[i: 4] {{ C[i] = A[i] }}
    }}"""
    p = parse_program(text.format(alloc="alloc t: f32[M]"))
    assert fits(p, [Instance({"M": MANY - 8})])
    assert not fits(p, [Instance({"M": MANY})])
    assert fits(parse_program(text.format(alloc="")), [Instance({"M": 4_000_000_000})])


def test_gaps_between_strided_elements_count():
    p = parse_program("""program p[M: dyn(1..4000000000)](out C: f32[M] @ global(strides = [4])) {
        block b[i: M] { C[i] = 1.0 }
    }""")
    assert fits(p, [Instance({"M": MANY // 4})])
    assert not fits(p, [Instance({"M": MANY // 4 + 1})])
