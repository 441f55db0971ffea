"""Which instructions the code has for features that this processor may lack: compiled, not run."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from mslang.backend.llvm.backend import LLVM
from mslang.backend.llvm.listing import instructions
from mslang.ir.program import Program
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, Target
from tests.unit.equivalence import changed

AVXVNNI = replace(AVX2, name="avxvnni", cpu="alderlake", features=(*AVX2.features, "avxvnni"))


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
