"""Machine code for people: statements beside instructions, and what the innermost loops cost."""

from __future__ import annotations

import re
import shutil

import pytest
from msgspec.structs import replace

from mslang.backend.backend import Options
from mslang.backend.llvm.backend import LLVM
from mslang.backend.llvm.compile import Executable, compile
from mslang.backend.llvm.listing import innermost, instructions, listing
from mslang.backend.llvm.throughput import bound, core_of, counted, estimate, simulate
from mslang.ir.origins import Origin, origins, places
from mslang.kernel.nodes import Module
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.sema.program import parse_program
from mslang.target.description import AVX512, Target
from tests.unit.lower.programs import packed_gemm


def made(lines: bool, target: Target = AVX512) -> Executable:
    module = LLVM.lowered(packed_gemm(96, 256, 64, 6, 64), target, Options())
    assert isinstance(module, Module)
    return compile(module, target, lines=lines)


@pytest.fixture(scope="module")
def shown() -> str:
    found = made(lines=True)
    return listing(found.assembly, found.lines, AVX512)


def test_debug_locations_change_no_instruction():
    plain, located = (list(instructions(made(lines).assembly)) for lines in (False, True))
    assert [x.text for x in plain] == [x.text for x in located]
    assert any(x.line for x in located) and not any(x.line for x in plain)


def test_instructions_stand_beside_their_statements(shown: str):
    fused = [line for line in shown.splitlines() if "vfmadd" in line]
    named = [line.partition("# ")[2] for line in fused if "# " in line]
    assert len(fused) == 24 and len(named) > 12
    assert all(text.startswith("L[") and "=" in text for text in named)
    assert not re.search(r"^\s*\.(?:loc|cfi|file|section|p2align)", shown, re.M)


def test_the_innermost_loop_is_named_and_counted(shown: str):
    head = shown[shown.index("# innermost loop: j0 > i0 > k\n") :].splitlines()
    assert "24 fused multiply-adds (512 bits)" in head[1]
    assert "cycles an iteration" in head[2] and "all data in L1" in head[2]
    assert "!" not in "".join(head[1:3])


SOFTMAX = parse_program("""program softmax(X: f32[8, 1024], out Y: f32[8, 1024]) {
    alloc m: f32[8]
    alloc s: f32[8]
    block largest[i: 8 | k: 1024] { m[i] = max(m[i], X[i, k]) }
    block total[i: 8 | k: 1024] { s[i] += exp(X[i, k] - m[i]) }
    block divide[i: 8, j: 1024] { Y[i, j] = exp(X[i, j] - m[i]) / s[i] }
}""")
LINES = {"largest": "softmax.ms:4", "total": "softmax.ms:5", "divide": "softmax.ms:6"}


def test_lines_of_blocks_stand_above_loops_and_beside_statements():
    program = default_schedule(SOFTMAX, AVX512).program
    module = LLVM.lowered(program, AVX512)
    assert isinstance(module, Module)
    found = compile(module, AVX512, lines=True, origins=origins(program, LINES))
    text = listing(found.assembly, found.lines, AVX512)
    heads = re.findall(r"# innermost loop: \S+ > \w+ \((.*)\)", text)
    assert heads == ["softmax.ms:4", "softmax.ms:5", "softmax.ms:6"]
    # Once where it changes, then only the statement.
    beside = [line.partition("# ")[2] for line in text.splitlines() if line.startswith("    ") and "# " in line]
    named = [note.partition(": ")[0] for note in beside if note.startswith("softmax.ms:")]
    assert set(named) == set(LINES.values()) and len(named) < len(beside)
    assert "softmax.ms:6: Y[" in text and "softmax.ms:4: k_1_lanes[" in text


def test_what_the_schedule_made_has_no_line():
    made_by_schedule, written = Origin("", ("i",), ("C",)), Origin("gemm.ms:8", ("i", "k"), ("C_local",))
    both = (written, made_by_schedule)
    assert places(both, ("i",), "C") == ()
    assert places(both, ("i",), "C_local") == places(both, ("i", "k_1")) == ("gemm.ms:8",)
    assert places((), ("i",), "C") == ()


CODE = """
\t.text
\t.section .rodata
.LCPI0_0:
\t.long\t7
\t.text
f:
\t.cfi_startproc
.LBB0_1:
\t.loc\t1 2 0
\txorl\t%eax, %eax
.LBB0_2:
\tvmovss\t(%rdi,%rax), %xmm1
\tvaddss\t%xmm1, %xmm0, %xmm0
\tvmovss\t%xmm0, 8(%rsp)
\tjne\t.LBB0_2
\tjne\t.LBB0_1
\tretq
\t.section .debug_line
.Lline:
\t.long 1
"""


def test_an_innermost_loop_is_one_without_another_inside():
    code = tuple(instructions(CODE))
    (loop,) = innermost(code)
    assert code[loop.first].text == ".LBB0_2:" and code[loop.last].text == "jne\t.LBB0_2"
    assert not any("LCPI" in x.text or ".long" in x.text for x in code)


def test_stack_accesses_and_narrow_vectors_are_flagged():
    said = "\n".join(
        estimate(["vmovss\t(%rdi), %xmm1", "vaddss\t%xmm1, %xmm0, %xmm0", "vmovss\t%xmm0, 8(%rsp)", "jne\t.L"], AVX512)
    )
    assert "! 1 of them on the stack" in said
    assert "! scalar arithmetic; the target has vectors of 512 bits" in said


@pytest.mark.parametrize("instruction", ["vpdpbusd", "vpdpwssd", "vpdpbusds", "vdpbf16ps"])
def test_dot_products_are_those_of_vectors(instruction: str):
    said = "\n".join(estimate(["vmovups\t(%rdi), %zmm1", f"{instruction}\t%zmm1, %zmm2, %zmm3", "jne\t.L"], AVX512))
    assert "1 fused multiply-adds (512 bits)" in said and "!" not in said


@pytest.mark.parametrize(
    ("instruction", "loads", "stores"),
    [
        ("vmovups\t(%rax), %zmm0", 1, 0),
        ("vmovups\t%zmm0, 64(%rax,%rbx,4)", 0, 1),
        ("vmovups\t%zmm0, (%rax) {%k1}", 0, 1),
        ("vfmadd231ps\t(%rax){1to16}, %zmm1, %zmm2", 1, 0),
        ("leaq\t(%rax,%rax), %rcx", 0, 0),
        ("cmpq\t%rax, 8(%rbx)", 1, 0),
        ("prefetcht0\t512(%rax)", 0, 0),
    ],
)
def test_loads_and_stores_are_told_apart(instruction: str, loads: int, stores: int):
    found = counted([instruction])
    assert (found.loads, found.stores) == (loads, stores)


def test_the_bound_is_by_the_kind_that_needs_most_cycles():
    tile = ["vmovups\t(%rax), %zmm0"] * 4 + ["vfmadd231ps\t%zmm0, %zmm1, %zmm2"] * 24 + ["jne\t.L"]
    assert bound(counted(tile)) == (12.0, "its arithmetic")
    assert bound(counted(["vmovups\t(%rax), %zmm0"] * 6))[0] == 3.0


@pytest.mark.parametrize(("cpu", "register", "cycles"), [("znver4", "z", 24), ("znver4", "y", 12), ("", "z", 12)])
def test_units_of_half_the_width_take_two_cycles(cpu: str, register: str, cycles: int):
    tile = [f"vfmadd231ps\t%{register}mm0, %{register}mm1, %{register}mm{n}" for n in range(2, 26)]
    target = replace(AVX512, cpu=cpu)
    assert bound(counted(tile), core_of(target, {"y": 256, "z": 512}[register])) == (cycles, "its arithmetic")
    # Also where the model that llvm-mca has is another one, with wider units.
    (said,) = (line for line in estimate(tile, target) if "cycles an iteration" in line)
    assert float(re.search(r"([\d.]+) cycles an iteration", said)[1]) >= cycles  # type: ignore[index]


@pytest.mark.skipif(shutil.which("llvm-mca") is None, reason="llvm-mca is not installed")
def test_a_chain_of_additions_is_simulated_with_its_latency():
    found = simulate(("vaddss\t%xmm1, %xmm0, %xmm0", "decq\t%rax", "jne\t.L"), AVX512)
    assert found is not None and 3.0 <= found.cycles <= 5.0 and found.bound <= 1.0
    assert simulate(("no such instruction",), AVX512) is None
