"""Automatic spaces for GPUs: what the rules make is legal, can be run, and computes what the program says."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.reference import interpret
from mslang.ir.expr import Const
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.intrin import intrin_of
from mslang.ir.program import For, Program
from mslang.kernel import Allocate
from mslang.kernel.visit import walk as kernel_statements
from mslang.schedule.replay import replay
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.gpu.auto_bind import unbound_blocks
from mslang.schedule.rules.gpu.tiling import GpuTiling
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Illegal
from mslang.sema.program import parse_program
from mslang.target.description import SM_80, Target
from mslang.tune.verification import SPARSE, make_inputs
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import made, run
from tests.cuda.spaces import lowered, programs
from tests.cuda.test_defaults import workload

PLAIN = Target("sm_70", "cuda", vector_bits=128, registers=255, extra=(*SM_80.extra, ("arch", "sm_70")))
"""A GPU without asynchronous copies."""
SM_75 = Target("sm_75", "cuda", vector_bits=128, registers=255, extra=(*SM_80.extra, ("arch", "sm_75")))
"""One whose only instructions for tensor cores are those of `wmma`."""
PROGRAMS: Mapping[str, str] = {
    "gemm": "program gemm(A: f32[64, 32], B: f32[32, 64], out C: f32[64, 64]) {"
    " block mm[i: 64, j: 64 | k: 32] { C[i, j] += A[i, k] * B[k, j] } }",
    "batch": "program batch(A: f32[2, 16, 32], B: f32[2, 32, 48], out C: f32[2, 16, 48]) {"
    " block mm[b: 2, i: 16, j: 48 | k: 32] { C[b, i, j] += A[b, i, k] * B[b, k, j] } }",
    "conv": """program conv(X: f32[1, 12, 14, 8], F: f32[3, 3, 8, 16], out Y: f32[1, 10, 12, 16]) {
        block conv[n: 1, h: 10, w: 12, o: 16 | r: 3, s: 3, c: 8] {
            Y[n, h, w, o] += X[n, h + r, w + s, c] * F[r, s, c, o]
        }
    }""",
    "grouped": """program grouped(X: f32[1, 10, 10, 16], F: f32[3, 3, 8, 16], out Y: f32[1, 8, 8, 16]) {
        block conv[n: 1, h: 8, w: 8, g: 2, o: 8 | r: 3, s: 3, c: 8] {
            Y[n, h, w, g * 8 + o] += X[n, h + r, w + s, g * 8 + c] * F[r, s, c, g * 8 + o]
        }
    }""",
    "relu": """program relu(A: f32[32, 32], B: f32[32, 32], out D: f32[32, 32]) {
        alloc C: f32[32, 32]
        block mm[i: 32, j: 32 | k: 32] { C[i, j] += A[i, k] * B[k, j] }
        block relu[i: 32, j: 32] { D[i, j] = max(C[i, j], 0.0) }
    }""",
    "scaled": "program scaled(A: f32[70, 33], out B: f32[70, 33]) {"
    " block b[i: 70, j: 33] { B[i, j] = A[i, j] * 2.0 } }",
    "point": "program point(A: f32[3], out B: f32[]) { block b[] { B[] = A[1] } }",
    "f16": "program f16(A: f16[64, 64], B: f16[64, 96], out C: f32[64, 96]) {"
    " block mm[i: 64, j: 96 | k: 64] { C[i, j] += f32(A[i, k]) * f32(B[k, j]) } }",
    "f16_padded": "program f16_padded(A: f16[40, 20], B: f16[30, 20], out C: f32[40, 30]) {"
    " block mm[i: 40, j: 30 | k: 20] { C[i, j] += f32(A[i, k]) * f32(B[j, k]) } }",
    "f16_conv": """program f16_conv(X: f16[1, 6, 10, 16], F: f16[3, 3, 16, 32], out D: f32[1, 4, 8, 32]) {
        alloc Y: f32[1, 4, 8, 32]
        block conv[n: 1, h: 4, w: 8, o: 32 | r: 3, s: 3, c: 16] {
            Y[n, h, w, o] += f32(X[n, h + r, w + s, c]) * f32(F[r, s, c, o])
        }
        block relu[n: 1, h: 4, w: 8, o: 32] { D[n, h, w, o] = max(Y[n, h, w, o], 0.0) }
    }""",
    "i8": "program i8(A: i8[32, 64], B: i8[64, 32], out C: i32[32, 32]) {"
    " block mm[i: 32, j: 32 | k: 64] { C[i, j] += i32(A[i, k]) * i32(B[k, j]) } }",
    "sum": "program sum(A: f32[300], out B: f32[]) { block b[| i: 300] { B[] += A[i] } }",
}
BYTES: Mapping[str, str] = {
    "dense": "program dense(X: i8[32, 64], W: i8[32, 64], out C: i32[32, 32]) {"
    " block mm[i: 32, j: 32 | k: 64] { C[i, j] += i32(X[i, k]) * i32(W[j, k]) } }",
    "odd": "program odd(X: i8[32, 62], W: i8[32, 62], out C: i32[32, 32]) {"
    " block mm[i: 32, j: 32 | k: 62] { C[i, j] += i32(X[i, k]) * i32(W[j, k]) } }",
}
"""Products for `dp4a`, which no set of rules has."""
OF_LIBRARY = ("softmax.softmax", "layer_norm.layer_norm", "reduce.row_sum", "reduce.argmax", "transpose.transpose")


@cache
def program(name: str) -> Program:
    text = (PROGRAMS | BYTES).get(name)
    return workload(name) if text is None else parse_program(text)


@cache
def structures(name: str) -> tuple[Sketch | Illegal, ...]:
    return tuple(automatic_space(program(name), SM_80).structures())


def sketches(name: str) -> list[Sketch]:
    return [s for s in structures(name) if isinstance(s, Sketch)]


NAMES = (*PROGRAMS, *OF_LIBRARY)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_structure_is_legal_and_threads_share_every_nest(name: str) -> None:
    assert [s for s in structures(name) if isinstance(s, Illegal)] == []
    assert all(unbound_blocks(s.program) == () for s in sketches(name))


def check_lowering(name: str, chosen: list[Sketch], each: int) -> None:
    """Nearly all of what a search would measure can be lowered."""
    counts: Counter[str] = Counter()
    for sketch in chosen:
        found = lowered(sketch, SM_80, each)
        assert found, "no candidate is valid"
        counts += found
    assert counts[""] >= 0.95 * counts.total(), (name, counts)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_what_passes_the_constraints_on_arrays_can_be_lowered(name: str) -> None:
    check_lowering(name, sketches(name)[::4], 2)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_what_passes_the_constraints_can_be_lowered_for_many_draws(name: str) -> None:
    check_lowering(name, sketches(name), 60)


def test_sketches_of_a_product() -> None:
    labels = [dict(s.structure) for s in sketches("gemm")]
    assert labels == [{"gpu_tiling:mm": "plain"}, {"gpu_tiling:mm": "async_3"}, {"gpu_tiling:mm": "async_4"}]
    names = {d.address for d in sketches("gemm")[0].decisions}
    assert names >= {f"gpu_tiling:mm/{x}" for x in ("i", "j", "k", "A", "B")}
    buffers = all_buffers(sketches("gemm")[0].program).values()
    assert [b.scope for b in buffers] == ["global"] * 3 + ["local", "shared", "shared"]


def test_grouped_convolutions_are_tiled() -> None:
    assert {a for s in sketches("grouped") for a, _ in s.structure} == {"gpu_tiling:conv"}
    scopes = [b.scope for b in all_buffers(sketches("grouped")[0].program).values()]
    assert sorted(scopes) == ["global"] * 3 + ["local", "shared", "shared"]


def test_asynchronous_copies_need_a_machine_that_has_them() -> None:
    (only,) = automatic_space(program("gemm"), PLAIN).sketches()
    assert only.structure == ()


@pytest.mark.parametrize("name", ["f16", "f16_padded", "f16_conv", "i8"])
def test_products_of_short_types_are_made_by_tensor_cores(name: str) -> None:
    found = sketches(name)
    labels = [str(x) for s in found for x in dict(s.structure).values()]
    assert labels == [f"{unit}{copies}" for unit in ("wmma", "mma") for copies in ("", "_async_2", "_async_3")]
    for sketch, unit in zip(found, [x.partition("_")[0] for x in labels], strict=True):
        scopes = {b.scope for b in all_buffers(sketch.program).values()}
        assert scopes == {"global", "shared.dyn", f"{unit}.a", f"{unit}.b", f"{unit}.acc"}
        made_here = [b for b in all_buffers(sketch.program).values() if b.scope == "global"]
        assert len(made_here) == len(program(name).params), "operands and results are laid out on the way"


def by_dp4a(name: str, target: Target = SM_80) -> list[Sketch]:
    rule = GpuTiling(intrin="std.cuda.dot.dp4a_s8s8s32")
    return list(automatic_space(program(name), target, (rule,), postprocessors=()).sketches())


def test_an_intrinsic_computes_the_innermost_tiles() -> None:
    found = by_dp4a("dense")
    assert [dict(s.structure) for s in found] == [{"gpu_tiling:mm": x} for x in ("plain", "async_3", "async_4")]
    for s in found:
        assert "dp4a_s8s8s32" in {intrin_of(b) for b in blocks_of(s.program.body)}
    (only,) = by_dp4a("dense", PLAIN)
    assert only.structure == ()
    for name in ("odd", "gemm"):  # Four summands do not divide the sum; it is of another type.
        (only,) = by_dp4a(name)
        assert not only.trace.instructions


def test_accumulators_are_stored_by_rows_of_tiles() -> None:
    """Shared memory holds one row of each warp's tiles at a time, not the tile of a block."""
    sketch = sketches("f16")[0]
    tiles = {
        "multi_level_tiling_tensor_core:mm/m": (1, 1, 2, 1, 2),
        "multi_level_tiling_tensor_core:mm/n": (2, 1, 1, 3, 1),
        "multi_level_tiling_tensor_core:mm/k": (2, 1, 2),
    }
    rest = {d.address: 4 for d in sketch.decisions if d.address not in tiles}
    (function,) = made(sketch.instantiate({**tiles, **rest}), SM_80).module.functions
    shapes = {x.buffer.name: x.buffer.shape for x in kernel_statements(function.body) if isinstance(x, Allocate)}
    assert shapes["C_shared_dyn_1"] == (Const(32), Const(48))


def test_convolutions_with_any_number_of_pixels_are_made_by_tensor_cores() -> None:
    """Rows of tiles are pixels of an image whose sides are not powers of two."""
    text = """program pixels(X: f16[1, 12, 12, 32], F: f16[32, 32], out Y: f32[1, 12, 12, 32]) {
        block conv[n: 1, h: 12, w: 12, o: 32 | c: 32] { Y[n, h, w, o] += f32(X[n, h, w, c]) * f32(F[c, o]) }
    }"""
    (sketch,) = automatic_space(parse_program(text), SM_75).sketches()
    assert "wmma.acc" in {b.scope for b in all_buffers(sketch.program).values()}


def test_a_product_that_tensor_cores_cannot_make_is_tiled_for_threads() -> None:
    """The elements of one operand occur in the sum of another: no loop stands for rows."""
    text = PROGRAMS["f16"].replace("f32(A[i, k])", "f32(A[i, k]) * f32(A[i, k])")
    found = list(automatic_space(parse_program(text), SM_80).sketches())
    assert {a for s in found for a, _ in s.structure} == {"gpu_tiling:mm"}


def test_reductions_are_shared_by_threads_or_not() -> None:
    labels = [dict(s.structure) for s in sketches("softmax.softmax")]
    assert {tuple(x.values()) for x in labels} == {(a, b) for a in ("across", "apart") for b in ("across", "apart")}
    shared = next(s for s in sketches("softmax.softmax") if set(dict(s.structure).values()) == {"across"})
    assert {b.scope for b in all_buffers(shared.program).values()} >= {"shared"}
    assert [x.kind for x in shared.program.body if isinstance(x, For)] == ["blockIdx.x"], "one kernel"


@pytest.mark.parametrize("name", ["relu", "softmax.softmax", "conv", "f16_padded"])
def test_traces_replay_to_the_same_program(name: str) -> None:
    space = automatic_space(program(name), SM_80)
    for seed in range(40):
        drawn = space.attempt(seed)
        if hasattr(drawn, "trace"):
            assert replay(program(name), drawn.trace, strict=True).program == drawn.program
            return
    pytest.fail("no draw is valid")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_candidates_compute_what_the_program_says(name: str) -> None:
    arrays = dict(make_inputs(program(name), SPARSE, seed=5))
    wanted = interpret.run(program(name), arrays, check=False)
    scheduled = next(programs(iter(sketches(name)[-1:]), SM_80, 1))
    found = interpret.run(scheduled, arrays, check=False)
    for k, array in wanted.items():
        np.testing.assert_allclose(found[k], array, rtol=1e-5, atol=1e-6)


def check_emitted(names: Sequence[str], chosen: Callable[[str], list[Sketch]], each: int) -> None:
    """What is emitted computes, in the emulation, what the programs say."""
    drawn = [(n, p) for n in names for p in programs(iter(chosen(n)), SM_80, each)]
    kernels = [made(p, SM_80) for _, p in drawn]
    with Emulated(*(k.source.text for k in kernels)) as file:
        for number, ((name, _), kernel) in enumerate(zip(drawn, kernels, strict=True)):
            arrays = dict(make_inputs(program(name), SPARSE, seed=5))
            found = run(kernel, arrays, file, number)
            assert found.faults == (), name
            for k, array in interpret.run(program(name), arrays, check=False).items():
                np.testing.assert_allclose(found.results[k], array, rtol=1e-5, atol=1e-6, err_msg=name)


EMULATED = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@EMULATED
def test_the_emitted_source_computes_what_the_program_says() -> None:
    check_emitted(NAMES, lambda name: [*sketches(name)[:1], *sketches(name)[1:][-1:]], 1)


@EMULATED
def test_the_emitted_source_of_tiles_of_an_intrinsic_computes_what_the_program_says() -> None:
    check_emitted(["dense"], by_dp4a, 4)


@EMULATED
@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_the_emitted_source_of_every_sketch_computes_what_the_program_says(name: str) -> None:
    check_emitted((name,), sketches, 3)


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.timeout(600)
def test_nvcc_takes_what_the_rules_make(tmp_path: Path) -> None:
    """Kernels of threads and of each unit of tensor cores, all in one file."""
    chosen = [("gemm", -1), ("f16", 2), ("f16", -1), ("i8", -1), ("softmax.softmax", 0)]
    drawn = [p for name, at in chosen for p in programs(iter([sketches(name)[at]]), SM_80, 1)]
    lines = [made(p, SM_80).source.text.replace('extern "C" ', "").splitlines() for p in drawn]
    includes = sorted({x for text in lines for x in text if x.startswith("#include")})
    spaces = [
        f"namespace drawn_{k} {{\n" + "\n".join(x for x in text if not x.startswith("#include")) + "\n}"
        for k, text in enumerate(lines)
    ]
    path = shutil.which("nvcc")
    assert path is not None
    compiled = Nvcc(path)("\n".join([*includes, *spaces]), "sm_80", "cubin")
    assert compiled.log.count("Compiling entry function") == len(chosen)
