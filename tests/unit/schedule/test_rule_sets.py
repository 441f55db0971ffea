"""Rule sets by name: the space of the target's own set, of less demanding ones, and what is refused."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.schedule.interpret import World
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.rules.sets import SETS, set_for, set_named
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, CUDA, GENERIC, SM_80, SM_90, Target

VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512bf16", "avx512vnni"))
AVXVNNI = replace(AVX2, name="avxvnni", features=(*AVX2.features, "avxvnni"))
AMX = replace(VNNI, name="amx", features=(*VNNI.features, "amx-int8", "amx-tile", "avxvnni"), cores=4)
NPU = Target("n", "npu")
TARGETS = {"cpu": GENERIC, "avx2": AVX2, "avxvnni": AVXVNNI, "avx512": AVX512, "vnni": VNNI, "amx": AMX}
TARGETS |= {"cuda": CUDA, "cuda_tensor_core": SM_80}

PRODUCT = """program product(A: f32[64, 64], B: f32[64, 64], out C: f32[64, 64]) {
    alloc T: f32[64, 64]
    block mm[i: 64, j: 64 | k: 64] { T[i, j] += A[i, k] * B[k, j] }
    block relu[i: 64, j: 64] { C[i, j] = max(T[i, j], 0.0) }
}"""
BYTES = """program bytes(A: u8[64, 64], B: i8[64, 64], out C: i32[64, 64]) {
    block mm[i: 64, j: 64 | k: 64] { C[i, j] += i32(A[i, k]) * i32(B[k, j]) }
}"""
SUMS = "program sums(A: f32[64, 256], out S: f32[64]) { block s[i: 64 | j: 256] { S[i] += A[i, j] } }"
PROGRAMS = {"product": PRODUCT, "bytes": BYTES, "sums": SUMS}
WHOLE = f"""{SUMS}
space cpu for sums = std.cpu.auto
space quick for sums = std.cpu.quick
space cuda for sums = std.cuda.space
"""


def texts(space: Space) -> list[str]:
    """The first sketches as schedules."""
    return [s.as_ms() for s in islice(space.sketches(), 6)]


def program(name: str) -> Program:
    return parse_program(PROGRAMS[name])


@pytest.mark.parametrize("name", [n for n in SETS if n != "quick"])
def test_the_set_of_a_target_is_named_like_this(name: str) -> None:
    target = TARGETS[name]
    assert set_for(target) == SETS[name] == set_named(name, target)
    assert ms.rules_for(target) == SETS[name].rules
    assert ms.postprocessors_for(target) == SETS[name].postprocessors


@pytest.mark.one_in(3)
@pytest.mark.parametrize("of", list(PROGRAMS))
@pytest.mark.parametrize("target", [*TARGETS.values(), SM_90], ids=lambda t: t.name)
def test_the_set_of_a_target_makes_its_automatic_space_by_name(target: Target, of: str) -> None:
    found = texts(automatic_space(program(of), target))
    assert found and texts(space_named(program(of), target, set_for(target).name)) == found


@pytest.mark.parametrize(("name", "target"), [("cuda", SM_80), ("cuda_tensor_core", SM_80), ("cuda", CUDA)])
def test_spaces_for_gpus_by_name_end_with_postprocessors(name: str, target: Target) -> None:
    found = texts(space_named(program("sums"), target, name))
    last = [text[text.index("enter_postproc()") :] for text in found]
    for step in ("decompose_reduction(", "gpu_unroll:"):
        assert any(step in text for text in last) and "".join(found).count(step) == "".join(last).count(step)


def test_with_rules_of_ones_own_the_postprocessors_are_those_of_the_target() -> None:
    @ms.rule(alternatives=("none", "unrolled"), when=lambda s, block: bool(s.is_reduction(block)))
    def mine(s: ms.Schedule, block: ms.Handle, alternative: str) -> None:
        if alternative == "unrolled":
            s.unroll(s.loops(block)[-1])

    rules = (mine, *ms.rules_for(SM_80))
    found = texts(automatic_space(program("sums"), SM_80, rules))
    assert found and all("enter_postproc()" in text for text in found)
    without = texts(automatic_space(program("sums"), SM_80, rules, postprocessors=()))
    assert without and not any("enter_postproc()" in text for text in without)
    unbound = texts(automatic_space(program("sums"), SM_80, [mine]))
    assert all("bind(threadIdx.x)" in text for text in unbound)
    assert texts(automatic_space(program("sums"), NPU, [mine]))


@pytest.mark.parametrize("of", list(PROGRAMS))
@pytest.mark.parametrize("name", ["cpu", "avx2", "avxvnni", "avx512", "vnni"])
def test_a_less_demanding_set_makes_the_space_of_a_target_with_its_features(name: str, of: str) -> None:
    like = replace(TARGETS[name], cores=AMX.cores, l1=AMX.l1, l2=AMX.l2, l3=AMX.l3)
    assert texts(space_named(program(of), AMX, name)) == texts(automatic_space(program(of), like))


@pytest.mark.parametrize("name", ["cpu", "avx2"])
def test_a_set_without_avx512_has_other_tiles(name: str) -> None:
    assert texts(space_named(program("product"), AMX, name)) != texts(automatic_space(program("product"), AMX))


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("amx", "std.cpu.amx.u8s8_amx"),
        ("vnni", "std.cpu.dot.u8s8_vnni"),
        ("avx512", "std.cpu.dot.u8s8_avx512bw"),
        ("avxvnni", "std.cpu.dot.u8s8_avxvnni"),
        ("avx2", "std.cpu.dot.u8s8_avx2"),
        ("cpu", ""),
    ],
)
def test_the_instruction_of_a_product_of_bytes_is_that_of_the_set(name: str, instruction: str) -> None:
    found = texts(space_named(program("bytes"), AMX, name))
    assert all(instruction in text for text in found)
    others = [
        n
        for n in ("u8s8_amx", "u8s8_vnni", "u8s8_avx512bw", "u8s8_avxvnni", "u8s8_avx2")
        if not instruction.endswith(n)
    ]
    assert not any(other in text for text in found for other in others)


def test_the_quick_set_uses_all_features() -> None:
    quick = automatic_space(program("product"), AMX, SETS["quick"].rules)
    assert texts(space_named(program("product"), AMX, "quick")) == texts(quick)


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("cuda", AVX512, "it is for cuda targets; `avx512` is a cpu target avx512, avx2, cpu, quick"),
        ("cuda_tensor_core", GENERIC, "it is for cuda targets; `generic` is a cpu target cpu, quick"),
        ("cpu", SM_80, "it is for cpu targets; `sm_80` is a cuda target cuda_tensor_core, cuda"),
        ("quick", SM_80, "it is for cpu targets; `sm_80` is a cuda target cuda_tensor_core, cuda"),
        ("quick", NPU, "it is for cpu targets; `n` is a npu target write a schedule or a space"),
        ("amx", VNNI, "it needs amx-int8 and amx-tile, which `vnni` lacks vnni, avx512, avx2, cpu, quick"),
        ("avx2", GENERIC, "it needs avx2 and fma, which `generic` lacks cpu, quick"),
        ("cuda_tensor_core", CUDA, "it needs tensor-cores, which `cuda` lacks cuda"),
    ],
    ids=lambda x: x.name if isinstance(x, Target) else x if " " not in x else "",
)
def test_a_set_that_does_not_serve_the_target_is_refused(name: str, target: Target, words: str) -> None:
    with pytest.raises(MsError) as refused:
        space_named(program("sums"), target, name)
    found = refused.value.diagnostic
    assert found.code == "MS273" and found.message == f"the rule set `{name}` does not serve `{target.name}`"
    help = (found.help or "").removeprefix(f"the sets for `{target.name}`: ")
    assert f"{found.why} {help}".startswith(words)


@pytest.mark.parametrize(
    ("name", "target"), [("cpu", SM_80), ("quick", SM_80), ("cuda", AVX512), ("cpu", NPU)], ids=lambda x: str(x)[:5]
)
def test_spaces_for_another_kind_of_target_are_refused(name: str, target: Target) -> None:
    with pytest.raises(MsError) as refused:
        space_of(load("whole.ms", WHOLE), name, world=World(machine=target)).sample(0)
    assert refused.value.diagnostic.code == "MS273"


@pytest.mark.parametrize(("name", "target"), [("cpu", AVX512), ("cpu", GENERIC), ("cuda", SM_80)])
def test_the_whole_space_in_a_text_is_the_automatic_one(name: str, target: Target) -> None:
    written = list(space_of(load("whole.ms", WHOLE), name, world=World(machine=target)).sketches())
    automatic = list(automatic_space(program("sums"), target).sketches())
    assert [s.program for s in written] == [s.program for s in automatic]
    assert [s.trace.instructions for s in written] == [s.trace.instructions for s in automatic]


def test_the_page_has_each_set_with_what_it_needs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spaces.md").read_text()
    rows = {
        row[0].strip("`"): row[1] for row in (line.strip("| ").split(" | ") for line in page.splitlines()) if row[1:]
    }
    assert set(SETS) <= set(rows)
    for name, found in SETS.items():
        assert name == "cuda_tensor_core" or found.needs == set(rows[name].split("`")[1::2])
