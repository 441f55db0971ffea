"""What the machine code of register tiles looks like: sums stay in registers, main nests have no branch inside."""

from __future__ import annotations

import re

import pytest

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.program import Program
from mslang.target.description import AVX2, AVX512, Target
from tests.unit.llvm.support import executable
from tests.unit.lower.programs import packed_gemm


def innermost_loops(assembly: str) -> list[list[str]]:
    """The instructions of each loop that has no other inside: from a label to a jump back to it."""
    stripped = (line.strip() for line in assembly.splitlines())
    lines = [line for line in stripped if line and not line.startswith((".cfi", "#"))]
    places = {line[:-1]: k for k, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for k, line in enumerate(lines):
        jump = re.match(r"j\w+\s+(\.\w+)$", line)
        if jump and places.get(jump[1], k) < k:
            body = lines[places[jump[1]] + 1 : k]
            if not any(x.endswith(":") for x in body):
                loops.append(body)
    return loops


def fused(loop: list[str]) -> int:
    return sum("vfmadd" in x for x in loop)


@pytest.mark.parametrize(("target", "rows", "columns", "sums"), [(AVX512, 6, 64, 24), (AVX2, 4, 16, 8)])
def test_a_register_tile_is_all_registers(target: Target, rows: int, columns: int, sums: int):
    loops = innermost_loops(executable(packed_gemm(96, 256, 64, rows, columns), target).assembly)
    (main,) = (loop for loop in loops if fused(loop) >= sums)
    assert fused(main) == sums
    assert not any("(%rsp" in x or "(%rbp" in x for x in main), "the tile is spilled"
    assert not any(re.match(r"vmov\w+\s+%[zy]mm\d+, .*\(", x) for x in main), "sums are stored in the loop"


def running_sum() -> Program:
    b = ProgramBuilder("sums")
    x, y = b.input("X", (64, 128)), b.output("Y", (64,))
    with b.loop("i0", 64) as i0, b.loop("k0", 128) as k0:
        with b.block("y", spatial("i", 64, at=i0), reduce("k", 128, at=k0)) as (i, k):
            y[i] += x[i, k]
    return b.finish()


def test_a_sum_over_a_loop_is_kept_in_a_register():
    loops = innermost_loops(executable(running_sum(), AVX512).assembly)
    adding = [loop for loop in loops if any("vaddss" in x for x in loop)]
    assert adding
    assert not any(re.match(r"vmovss\s+%xmm\d+, ", x) for loop in adding for x in loop), "the sum is stored in the loop"
