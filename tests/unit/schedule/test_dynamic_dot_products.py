"""Products of bytes of which the number of rows is known only at the call, on dot-product instructions."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.ir.find import blocks_of
from mslang.ir.program import For, Program
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.target.description import AVX2, AVX512, Target
from mslang.target.detect import host

VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512vnni"))
AMX = replace(VNNI, name="amx", features=(*VNNI.features, "amx-tile", "amx-int8"))
BYTES = """program p[M: dyn(1..{most})](A: {left}[M, {k}], B: i8[{k}, {n}], out C: i32[M, {n}]) {{
    block mm[i: M, j: {n} | k: {k}] {{ C[i, j] += i32(A[i, k]) * i32(B[k, j]) }}
}}"""


def instructions(program: Program) -> set[str]:
    """The instructions that a program has."""
    return {str(dict(b.annotations).get("intrin", "")) for b in blocks_of(program.body)}


def same(scheduled: Program, left: str, m: int, n: int, k: int) -> bool:
    """Whether a schedule computes the product here."""
    rng = np.random.default_rng(m)
    low, high = (0, 256) if left == "u8" else (-128, 128)
    a = rng.integers(low, high, (m, k)).astype(np.uint8 if left == "u8" else np.int8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    return bool((ms.build(scheduled)(a, b) == a.astype(np.int32) @ b.astype(np.int32)).all())


def runs(target: Target) -> bool:
    return set(target.features) <= set(host().features)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("made_by", ["default", "space"])
@pytest.mark.parametrize(("n", "k"), [(48, 64), (19, 9)])
@pytest.mark.parametrize(
    ("target", "left", "instruction"),
    [(VNNI, "u8", "u8s8_vnni"), (VNNI, "i8", "u8s8_vnni"), (AVX2, "i8", "s8s8_avx2"), (AMX, "u8", "u8s8_vnni")],
    ids=["vnni-u8", "vnni-i8", "avx2", "amx"],
)
def test_rows_of_a_dynamic_number(target: Target, left: str, instruction: str, n: int, k: int, made_by: str):
    program = ms.parse_program(BYTES.format(left=left, n=n, k=k, most=40))
    default = made_by == "default"
    made = (default_schedule(program, target) if default else automatic_space(program, target).sample(0)).program
    assert instruction in instructions(made)
    if runs(replace(target, features=tuple(f for f in target.features if not f.startswith("amx")))):
        assert all(same(made, left, m, n, k) for m in (1, 2, 7, 40))


def test_the_longer_of_both_runs_in_parallel():
    for most, outermost in ((40, "j0"), (300, "i0")):
        program = ms.parse_program(BYTES.format(left="u8", n=48, k=64, most=most))
        made = default_schedule(program, VNNI).program
        assert [s.var for s in made.body if isinstance(s, For) and s.kind == "parallel"][-1] == outermost
        assert not runs(VNNI) or all(same(made, "u8", m, 48, 64) for m in (1, 37, most))


def test_columns_and_summands_of_a_dynamic_number_have_no_dot_products():
    text = BYTES.format(left="u8", n="N", k="K", most=40)
    for sizes in ("M = 8, N: dyn(1..64), K = 64", "M = 8, N = 48, K: dyn(1..64)"):
        program = ms.parse_program(text.replace("M: dyn(1..40)", sizes))
        assert instructions(default_schedule(program, VNNI).program) == {""}


def test_bf16_of_a_dynamic_number_of_rows():
    program = ms.parse_program("""program p[M: dyn(1..40)](A: bf16[M, 64], B: bf16[64, 48], out C: f32[M, 48]) {
        block mm[i: M, j: 48 | k: 64] { C[i, j] += f32(A[i, k]) * f32(B[k, j]) }
    }""")
    target = replace(AVX512, name="bf16", features=(*AVX512.features, "avx512bf16"))
    made = automatic_space(program, target).sample(0, pins={"dot:mm": "bf16_dot"}).program
    assert "bf16_dot" in instructions(made)
    if runs(target):
        a, b = np.ones((7, 64), np.float32), np.ones((64, 48), np.float32)
        words = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
        assert (ms.build(made)(*words) == 64.0).all()
