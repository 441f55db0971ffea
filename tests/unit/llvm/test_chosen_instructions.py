"""Which instructions the code has for features that this processor may lack: compiled, not run."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from mslang.backend.llvm.backend import LLVM
from mslang.backend.llvm.listing import instructions
from mslang.ir.program import Program
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.schedule import Schedule
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, Target
from tests.unit.equivalence import changed

AVXVNNI = replace(AVX2, name="avxvnni", cpu="alderlake", features=(*AVX2.features, "avxvnni"))
HALVES = replace(
    AVX512, name="halves", cpu="sapphirerapids", features=(*AVX512.features, "avx512bf16", "avx512fp16", "avx512vnni")
)


def assembly(program: Program, target: Target) -> str:
    """The instructions of a program's code, one a line."""
    return "\n".join(x.text for x in instructions(LLVM.built(program, target).assembly))


@pytest.mark.parametrize("left", ["u8", "i8"])
def test_products_of_bytes_are_dot_products_of_256_bits_with_avx_vnni(left: str):
    text = f"""program p(A: {left}[12, 64], B: i8[64, 48], out C: i32[12, 48]) {{
        block mm[i: 12, j: 48 | k: 64] {{ C[i, j] += i32(A[i, k]) * i32(B[k, j]) }}
    }}"""
    program = parse_program(text)
    made = default_schedule(program, AVXVNNI).program
    code = assembly(made, AVXVNNI)
    assert re.search(r"vpdpbusd\t.*%ymm", code) and "zmm" not in code and "vpmaddwd" not in code
    assert changed(program, made, 0.0, 0) is None
    # What the processor lacks is not used.
    assert "vpdpbusd" not in assembly(default_schedule(program, AVX2).program, AVX2)


def test_f16_is_computed_in_f16_where_the_processor_does():
    text = """program p(X: f16[256], Z: f16[256], inout Y: f16[256]) {
        for i in 8, j in 32 @ vectorized { block b[x: 256 = i * 32 + j] { Y[x] = Y[x] + X[x] * Z[x] } }
    }"""
    code = assembly(parse_program(text), HALVES)
    assert re.search(r"vfmadd\d+ph\t.*%zmm|vaddph\t.*%zmm", code) and "vcvtph2ps" not in code
    assert "ph\t" not in assembly(parse_program(text), AVX512).replace("vcvtps2ph\t", "")


def test_bf16_is_rounded_by_integers_also_with_avx512_bf16():
    """`vcvtneps2bf16` takes denormals as zeros; what rounds them right takes eight instructions a vector."""
    text = """program p(X: f32[256], out Y: bf16[256]) {
        for i in 16, j in 16 @ vectorized { block b[x: 256 = i * 16 + j] { Y[x] = bf16(X[x]) } }
    }"""
    code = assembly(parse_program(text), HALVES)
    loop = code[code.index(".LBB0_1:") : code.index("jne\t.LBB0_1")].splitlines()
    assert "vcvtneps2bf16" not in code
    assert len([x for x in loop if "zmm" in x]) == 1 + 8  # A load, then those; the last one stores.


@pytest.mark.parametrize(("dtype", "gather"), [("f32", "vgatherdps"), ("i32", "vpgatherdd")])
def test_an_index_that_is_loaded_is_a_gather_in_vectors(dtype: str, gather: str):
    program = parse_program(f"""program p(X: {dtype}[1000], I: i32[256] in 0..1000, out Y: {dtype}[256]) {{
        block b[x: 256] {{ Y[x] = X[I[x]] }}
    }}""")
    schedule = Schedule(program)
    _, lanes = schedule.split(schedule.loops(schedule.get("b"))[0], [None, 16])
    scalar = assembly(schedule.program, AVX512)
    schedule.vectorize(lanes)
    code = assembly(schedule.program, AVX512)
    assert re.search(rf"{gather}\t.*%zmm", code) and "gather" not in scalar
