"""Hopper's instructions in whole kernels: in the emulation, which runs their descriptions, these compute what the
programs say, without a fault."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.reference import interpret
from mslang.ir.program import Program
from mslang.kernel.nodes import Invoke
from mslang.kernel.visit import walk
from mslang.lower.gpu import lower
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import SM_90
from tests.cuda.emulator import why_not
from tests.cuda.modules import Ran, emulate, made

PRODUCT = """use std.cuda.{sm_90}
use std.cuda.wgmma.{fill_f32, store_f32, TYPETYPEf32}
program g(A: TYPE[2, 8, 6, 8, 8], B: TYPE[8, 6, 8, 8], out C: f32[2, 64, 64]) {
    block mm[n: 2, io: 8, ii: 8, jo: 8, ji: 8 | ko: 6, ki: 8] {
        C[n, io * 8 + ii, jo * 8 + ji] += f32(A[n, io, ko, ii, ki]) * f32(B[jo, ko, ji, ki])
    }
}
schedule s for g on sm_90 {
    let a = mm.cache_read(A, scope = shared)
    let b = mm.cache_read(B, scope = shared)
    let n = mm.n
    n.bind(blockIdx.x)
    let c = mm.cache_write(C, scope = "wgmma.acc")
    c.reverse_compute_at(n)
    let k0, k1 = mm.ko.split([_, 2])
    reorder(k0, mm.io, mm.ii, mm.jo, mm.ji, k1, mm.ki)
    let zero = mm.decompose_reduction(k0)
    a.compute_at(k0)
    b.compute_at(k0)
    for each in [a, b] {
        let flat = fuse(*[l for l in each.spatial_loops() if len(l.children()) == 1])
        let rounds, thread = flat.split([_, 128])
        thread.bind(threadIdx.x)
    }
    mm.io.tensorize(TYPETYPEf32)
    let rows = fuse(zero.io, zero.ii)
    let columns = fuse(zero.jo, zero.ji)
    rows.tensorize(fill_f32)
    c.spatial_loops()[1].tensorize(store_f32)
}
"""
COPIED = """use std.cuda.{sm_90}
use std.cuda.wgmma.{copy_TYPE}
program p(A: TYPE[6, EACH], out B: TYPE[6, EACH]) {
    block b[i: 6, j: EACH] { B[i, j] = A[i, EACH - 1 - j] }
}
schedule s for p on sm_90 {
    let a = b.cache_read(A, scope = shared)
    let i0, i1 = b.i.split([_, 2])
    i0.bind(blockIdx.x)
    a.compute_at(i0)
    let _, thread = b.j.split([_, 64])
    thread.bind(threadIdx.x)
    a.spatial_loops()[-1].tensorize(copy_TYPE)
}
"""
pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def scheduled(text: str) -> Program:
    return space_of(load("hopper.ms", text), "s").sample(0).program


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Small whole numbers: their products and sums are exact in all of these types."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32 if dtype == "bf16" else dtype)


def ran(program: Program, arrays: dict[str, np.ndarray]) -> Ran:
    """Run a program whose instructions do what their descriptions say."""
    return emulate(program, arrays, SM_90, emulated=lambda _: True)


def instructions(program: Program) -> list[str]:
    return [s.name for f in lower(program, SM_90).functions for s in walk(f.body) if isinstance(s, Invoke)]


@pytest.mark.parametrize(("dtype", "name"), [("f16", "float16"), ("bf16", "bf16")])
def test_four_warps_multiply_tiles_in_shared_memory(dtype: str, name: str) -> None:
    program = scheduled(PRODUCT.replace("TYPE", dtype))
    assert instructions(program) == ["fill_f32", f"{dtype}{dtype}f32", "store_f32"]
    arrays = {"A": numbers((2, 8, 6, 8, 8), name, 0), "B": numbers((8, 6, 8, 8), name, 1)}
    found = ran(program, arrays)
    assert found.faults == ()
    left, right = arrays["A"].astype(np.float32), arrays["B"].astype(np.float32)
    wanted = np.einsum("nikax,jkbx->niajb", left, right)
    np.testing.assert_array_equal(found.results["C"], wanted.reshape(2, 64, 64))
    np.testing.assert_array_equal(found.results["C"], interpret.run(program, arrays, check=False)["C"])


@pytest.mark.parametrize(("dtype", "name", "each"), [("f16", "float16", 512), ("f32", "float32", 256)])
def test_the_copy_engine_fills_shared_memory(dtype: str, name: str, each: int) -> None:
    program = scheduled(COPIED.replace("TYPE", dtype).replace("EACH", str(each)))
    assert instructions(program) == [f"copy_{dtype}"]
    arrays = {"A": numbers((6, each), name, 2)}
    found = ran(program, arrays)
    assert found.faults == ()
    np.testing.assert_array_equal(found.results["B"], arrays["A"][:, ::-1])


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_takes_the_kernels() -> None:
    path = shutil.which("nvcc")
    assert path is not None
    for text in (PRODUCT.replace("TYPE", "bf16"), COPIED.replace("TYPE", "f32").replace("EACH", "256")):
        compiled = Nvcc(path)(made(scheduled(text), SM_90).source.text, "sm_90a", "cubin")
        assert compiled.log.count("Compiling entry function") == 1
