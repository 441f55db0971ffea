"""The pass `default`: its schedules compute the same, use all cores, and take the instructions that there are."""

from math import prod

import pytest
from msgspec.structs import replace

import mslang as ms
from mslang.apply.dispatch import library_patterns
from mslang.ir.expr import Const
from mslang.ir.find import blocks_of
from mslang.ir.print import print_program
from mslang.ir.program import For, Program
from mslang.resources import stdlib_folder
from mslang.schedule.rules.nests import loops_around
from mslang.sema.modules import load
from mslang.target.description import AVX2, AVX512
from tests.unit.apply.test_apply import RELU, same
from tests.unit.equivalence import changed

LIBRARY = sorted({(p.module.path, p.program) for p in library_patterns()})


@pytest.mark.parametrize(("path", "name"), LIBRARY, ids=[n for _, n in LIBRARY])
@pytest.mark.one_in(2)
def test_the_default_schedule_computes_the_same(path: str, name: str) -> None:
    from mslang.tune.reference import small_program

    program = small_program(load(path), name, {})
    assert program is not None
    for target in (AVX2, AVX512):
        (done,) = ms.apply(program, ["default"], target=target)
        if target is AVX2:
            same(program, done.program)


def parallel_extents(program: Program) -> dict[str, int]:
    """The blocks in the first nests that are run in parallel, with how many iterations these have."""
    loops = (s for s in program.body if isinstance(s, For) and s.kind == "parallel")
    return {b.name: int(s.extent.value) for s in loops for b in blocks_of((s,)) if isinstance(s.extent, Const)}


def test_the_default_has_iterations_for_all_cores() -> None:
    """One image: its border was computed at the loop over images, which then alone was parallel."""
    program = ms.load(stdlib_folder() / "workloads" / "conv2d.ms").program("conv2d_nhwc")
    (found,) = ms.apply(program, ["default"], target=replace(AVX2, cores=8))
    extents = parallel_extents(found.program)
    assert {"pad", "conv_update"} <= set(extents) and min(extents.values()) >= 4 * 8


def test_the_default_repeats_no_producer() -> None:
    """The left operand does not depend on the columns, the outermost loop of the product."""
    text = """program p(A: f32[64, 32], B: f32[32, 512], out C: f32[64, 512]) {
        alloc W: f32[64, 32]
        block weights[i: 64, k: 32] { W[i, k] = exp(A[i, k]) }
        block mm[i: 64, j: 512 | k: 32] { C[i, j] += W[i, k] * B[k, j] }
    }"""
    (found,) = ms.apply(ms.parse_program(text), ["default"], target=AVX2)
    around = loops_around(found.program, next(b for b in blocks_of(found.program.body) if b.name == "weights"))
    assert prod(int(s.extent.value) for s in around if isinstance(s.extent, Const)) == 64 * 32


def test_the_default_of_a_product_keeps_a_tile_in_registers_and_fuses_what_follows() -> None:
    (done,) = ms.apply(RELU, ["default"], target=AVX2)
    text = print_program(done.program)
    assert done.by == "default" and "@ parallel" in text and "@ vectorized" in text and "@ local" in text
    assert "alloc s" not in text
    same(RELU, done.program)


@pytest.mark.parametrize(
    ("features", "instruction"),
    [(("avx512vnni",), "u8s8_vnni"), (("avx512vnni", "amx-tile", "amx-int8"), "s8s8_amx"), ((), "s8s8_avx512bw")],
)
def test_the_default_of_a_product_of_bytes_uses_instructions_for_it(
    features: tuple[str, ...], instruction: str
) -> None:
    text = """program p(A: i8[32, 68], B: i8[68, 48], scale: f32[48], out C: f32[32, 48]) {
        alloc sums: i32[32, 48]
        block mm[i: 32, j: 48 | k: 68] { sums[i, j] += i32(A[i, k]) * i32(B[k, j]) }
        block scaled[i: 32, j: 48] { C[i, j] = f32(sums[i, j]) * scale[j] }
    }"""
    program = ms.parse_program(text)
    target = replace(AVX512, name="bytes", features=(*AVX512.features, *features))
    (done,) = ms.apply(program, ["default"], target=target)
    assert instruction in {dict(b.annotations).get("intrin") for b in blocks_of(done.program.body)}
    assert changed(program, done.program, 0.0, 0) is None
