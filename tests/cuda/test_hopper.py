"""Hopper's instructions in whole kernels: in the emulation these compute what the programs say, without a fault. Of
products it runs the descriptions, of copies the texts: each barrier's word is watched as any other memory is."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError, TargetError
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.kernel.nodes import Invoke
from mslang.kernel.visit import walk
from mslang.lower.gpu import lower
from mslang.lower.summary import summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import SM_90
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import Ran, emulate, made, run

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
    c.spatial_loops()[-2].tensorize(store_f32)
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
ROWS = """use std.cuda.{sm_90}
use std.cuda.wgmma.{copy_f16}
program p(A: f16[ROWS, 512]AROUND, out B: f16[ROWS, 512]) {
    block b[i: ROWS, j: 512] { B[i, j] = A[i, 511 - j] }
}
schedule s for p on sm_90 {
    let a = b.cache_read(A, scope = shared)
    SHARED
    let _, thread = b.j.split([_, 64])
    thread.bind(threadIdx.x)
    a.spatial_loops()[-1].tensorize(copy_f16)
}
"""
TWO = """use std.cuda.{sm_90}
use std.cuda.wgmma.{copy_f16}
program p(A: f16[12, 512], C: f16[12, 512], out B: f16[12, 512]) {
    block b[i: 12, j: 512] { B[i, j] = A[i, 511 - j] + C[i, j] }
}
schedule s for p on sm_90 {
    let a = b.cache_read(A, scope = shared)
    let c = b.cache_read(C, scope = shared)
    let i0, i1 = b.i.split([2, 6])
    i0.bind(blockIdx.x)
    let _, thread = b.j.split([_, 64])
    thread.bind(threadIdx.x)
    for each in [a, c] {
        each.compute_at(i1)
        each.spatial_loops()[-1].tensorize(copy_f16)
    }
}
"""
BY_Y = """let i0, i1 = b.i.split([_, 4])
    i0.bind(blockIdx.x)
    a.compute_at(i0)
    a.spatial_loops()[-2].bind(threadIdx.y)
    i1.bind(threadIdx.y)"""
BY_Y_AND_Z = """let i0, i1, i2 = b.i.split([_, 3, 2])
    i0.bind(blockIdx.x)
    a.compute_at(i0)
    let y, z = a.spatial_loops()[-2].split([3, 2])
    y.bind(threadIdx.y)
    z.bind(threadIdx.z)
    i1.bind(threadIdx.y)
    i2.bind(threadIdx.z)"""
BY_VIRTUAL_THREADS = """let i0, i1, i2 = b.i.split([_, 3, 2])
    i0.bind(blockIdx.x)
    i1.bind(vthread.x)
    a.compute_at(i0)
    let v, y = a.spatial_loops()[-2].split([3, 2])
    v.bind(vthread.x)
    y.bind(threadIdx.y)
    i2.bind(threadIdx.y)"""
BY_TURNS = """let i0, i1, i2 = b.i.split([_, 12, 4])
    i0.bind(blockIdx.x)
    a.compute_at(i0)
    let turn, y = a.spatial_loops()[-2].split([12, 4])
    y.bind(threadIdx.y)
    i2.bind(threadIdx.y)"""
IN_A_LOOP = """let i0, i1 = b.i.split([_, 6])
    i0.bind(blockIdx.x)
    a.compute_at(i1)"""
INVALIDATED = 'asm volatile("mbarrier.inval.shared::cta.b64 [%0];" : : "r"(bar) : "memory");'
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
    for found in (emulate(program, arrays, SM_90), ran(program, arrays)):
        assert found.faults == ()
        np.testing.assert_array_equal(found.results["B"], arrays["A"][:, ::-1])


@pytest.mark.parametrize("threads", [1, 64, 96])
def test_a_product_of_fewer_than_four_warps_is_refused(threads: int) -> None:
    program = scheduled(PRODUCT.replace("TYPE", "f16").replace("[_, 128]", f"[_, {threads}]"))
    says = f"`fill_f32` is an instruction of 128 threads, and a block has {threads}"
    with pytest.raises(TargetError, match=says) as caught:
        made(program, SM_90)
    assert caught.value.diagnostic.code == "MS456"


def test_a_product_that_a_part_of_the_block_reaches_is_refused() -> None:
    text = PRODUCT.replace("TYPE", "f16").replace("[2, 8, 6, 8, 8]", "[3, 8, 6, 8, 8]").replace("n: 2", "n: 3")
    text = text.replace("out C: f32[2", "out C: f32[3")
    by_y = text.replace(
        "let n = mm.n\n    n.bind(blockIdx.x)", "let n0, n = mm.n.split([2, 2])\n    n.bind(threadIdx.y)"
    )
    assert by_y != text
    made(scheduled(text), SM_90)
    says = "not all of the 256 threads that run `f16f16f32` together are known to reach it"
    with pytest.raises(TargetError, match=says) as caught:
        made(scheduled(by_y), SM_90)
    assert caught.value.diagnostic.code == "MS456"


def rows(shared: str, count: int = 12, around: str = "") -> Program:
    """Rows turned round, staged in shared memory by copies of threads that the lines `shared` choose."""
    text = ROWS.replace("SHARED", shared).replace("ROWS", str(count)).replace("AROUND", around)
    return scheduled(text)


@pytest.mark.parametrize(
    ("shared", "count", "words", "word", "condition"),
    [
        (BY_Y, 12, 4, "(arrived + ty)", "tx == 0"),
        (BY_Y, 11, 4, "(arrived + ty)", "tx == 0 && bx * 4 + ty < 11"),
        (BY_Y_AND_Z, 12, 6, "(arrived + (tz * 3 + ty))", "tx == 0"),
        (BY_VIRTUAL_THREADS, 12, 2, "(arrived + ty)", "tx == 0"),
        (IN_A_LOOP, 12, 1, "arrived", "tx == 0"),
    ],
    ids=["y", "y in a branch", "y and z", "virtual threads", "a loop"],
)
def test_each_thread_that_copies_waits_at_a_barrier_of_its_own(
    shared: str, count: int, words: int, word: str, condition: str
) -> None:
    program = rows(shared, count)
    text = made(program, SM_90).source.text
    assert f"__shared__ __align__(16) unsigned long long arrived[{words}];" in text
    assert f"__cvta_generic_to_shared({word});" in text
    assert f"if ({condition}) {{" in text
    arrays = {"A": numbers((count, 512), "float16", 3)}
    found = emulate(program, arrays, SM_90)
    assert found.faults == ()
    np.testing.assert_array_equal(found.results["B"], arrays["A"][:, ::-1])


def test_copies_one_after_another_use_one_barrier_anew() -> None:
    program = scheduled(TWO)
    text = made(program, SM_90).source.text
    assert text.count("mbarrier.init") == 2
    assert text.count("unsigned long long arrived") == 1
    arrays = {"A": numbers((12, 512), "float16", 4), "C": numbers((12, 512), "float16", 5)}
    found = emulate(program, arrays, SM_90)
    assert found.faults == ()
    np.testing.assert_array_equal(found.results["B"], arrays["A"][:, ::-1] + arrays["C"])


@pytest.mark.parametrize(
    ("shared", "before", "after", "kind"),
    [
        # all rows of threads at one barrier
        (BY_Y, "(arrived + ty)", "arrived", "race"),
        # a barrier that is initialized while it is one
        (IN_A_LOOP, INVALIDATED, "", "trap"),
        # a copy that is not waited for
        (BY_Y, "while (!done)", "while (false)", "in flight"),
        # fewer bytes than the barrier expects
        (BY_Y, "[%0], [%1], 1024,", "[%0], [%1], 512,", "trap"),
    ],
)
def test_the_emulation_sees_what_a_wrong_text_does(shared: str, before: str, after: str, kind: str) -> None:
    found = made(rows(shared), SM_90)
    text = found.source.text
    assert before in text
    with Emulated(text.replace(before, after)) as file:
        assert kind in {f.kind for f in run(found, {"A": numbers((12, 512), "float16", 3)}, file).faults}


def test_summaries_count_the_barriers() -> None:
    (nest,) = summarize(lower_symbolic(rows(BY_Y), SM_90), SM_90).nests
    assert nest.shared == Const(4 * 512 * 2 + 4 * 8)


def test_barriers_that_are_too_much_for_static_memory_make_it_dynamic() -> None:
    text = made(rows(BY_TURNS, 96), SM_90).source.text
    assert "extern __shared__" in text
    assert "unsigned long long arrived" not in text
    arrays = {"A": numbers((96, 512), "float16", 6)}
    found = emulate(rows(BY_TURNS, 96), arrays, SM_90)
    assert found.faults == ()
    np.testing.assert_array_equal(found.results["B"], arrays["A"][:, ::-1])


@pytest.mark.parametrize(
    ("around", "says"),
    [
        (" @ global(strides = [516, 1])", "`A` is not known to begin at a multiple of 16 bytes"),
        (" @ global(align = 8)", "`A` is not known to begin at a multiple of 16 bytes"),
    ],
)
def test_memory_that_the_copy_engine_cannot_copy_from_is_refused(around: str, says: str) -> None:
    with pytest.raises(MsError, match="`A` is not aligned as the instruction `copy_f16` takes `src`") as caught:
        made(rows(BY_Y, around=around), SM_90)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.why) == ("MS419", says)


def test_memory_that_the_copy_engine_cannot_copy_to_is_refused() -> None:
    padded = f"{BY_Y}\n    a.storage_align(axis = 0, factor = 8, offset = 4)"
    with pytest.raises(MsError, match="is not aligned as the instruction `copy_f16` takes `dst`"):
        made(rows(padded), SM_90)


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_takes_the_kernels() -> None:
    path = shutil.which("nvcc")
    assert path is not None
    copied = COPIED.replace("TYPE", "f32").replace("EACH", "256")
    for program in (
        scheduled(PRODUCT.replace("TYPE", "bf16")),
        scheduled(copied),
        rows(BY_Y),
        rows(BY_VIRTUAL_THREADS),
    ):
        compiled = Nvcc(path)(made(program, SM_90).source.text, "sm_90a", "cubin")
        assert compiled.log.count("Compiling entry function") == 1
