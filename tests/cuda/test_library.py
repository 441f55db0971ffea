"""The library's schedules for GPUs: equal to the interpreter on small sizes, and without a fault."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping

import numpy as np
import pytest

from mslang.backend.cuda.nvcc import Nvcc
from mslang.backend.reference import interpret
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.kernel import Allocate, Function
from mslang.kernel.visit import walk
from mslang.lower.gpu import lower
from mslang.lower.gpu.memory import elements
from mslang.lower.summary import summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import SM_80
from tests.cuda.emulator import why_not
from tests.cuda.modules import Ran, emulate, made
from tests.property.judge import sparse_inputs

GEMM, ROWS = "std.cuda.gemm", "std.cuda.rows"
GEMM_F16, CONV, ATTENTION = "std.cuda.gemm_f16", "std.cuda.conv", "std.cuda.attention"
MMA, ONLINE = "std.cuda.gemm_mma", "std.cuda.online_attention"
Case = tuple[str, str, str, Mapping[str, int], str]
CASES: list[Case] = [
    (
        GEMM,
        "simt",
        "gemm",
        {"M": 40, "N": 48, "K": 24},
        "rows = 2, columns = 4, depth = 8, down = 4, across = 8, vector = 2",
    ),
    (
        GEMM,
        "simt",
        "gemm",
        {"M": 33, "N": 20, "K": 17},
        "rows = 2, columns = 2, depth = 4, down = 4, across = 4, vector = 1",
    ),
    (
        GEMM,
        "batched_simt",
        "batch_gemm",
        {"BATCH": 2, "M": 16, "N": 16, "K": 16},
        "rows = 2, columns = 2, depth = 8, down = 4, across = 4",
    ),
    (
        GEMM,
        "split_k",
        "gemm",
        {"M": 24, "N": 16, "K": 64},
        "parts = 2, rows = 2, columns = 2, depth = 8, down = 4, across = 4, vector = 2",
    ),
    (ROWS, "block_sums", "reduce.row_sum", {"M": 3, "N": 300}, "threads = 64"),
    (ROWS, "block_sums", "reduce.row_sum", {"M": 2, "N": 40}, "threads = 32"),
    (ROWS, "block_maxima", "reduce.row_max", {"M": 3, "N": 300}, "threads = 128"),
    (ROWS, "fused_rows", "softmax", {"M": 3, "N": 70}, "threads = 32"),
    (ROWS, "normalised_rows", "layer_norm", {"M": 3, "N": 70}, "threads = 64"),
    (ROWS, "tiles_through_shared", "transpose", {"M": 24, "N": 40}, "side = 8, rows = 2"),
    (
        GEMM_F16,
        "tensor_cores",
        "std.cuda.gemm_f16.gemm_f16",
        {"M": 64, "N": 64, "K": 64},
        "warps_across = 1, down = 2, across = 1, vector = 4, stages = 1",
    ),
    (
        GEMM_F16,
        "tensor_cores",
        "std.cuda.gemm_f16.gemm_f16",
        {"M": 32, "N": 32, "K": 96},
        "warps_down = 1, down = 1, across = 1, deep = 1",
    ),
    (GEMM_F16, "tensor_cores_drawn", "std.cuda.gemm_f16.gemm_f16", {"M": 32, "N": 32, "K": 64}, ""),
    (
        MMA,
        "f16_by_warps",
        "std.cuda.gemm_f16.gemm_f16",
        {"M": 64, "N": 64, "K": 96},
        "down = 2, across = 2, stages = 3",
    ),
    (
        MMA,
        "bf16_by_warps",
        "std.cuda.gemm_mma.gemm_bf16",
        {"M": 32, "N": 32, "K": 64},
        "warps_down = 1, down = 2, across = 1, deep = 1, stages = 2",
    ),
    (
        MMA,
        "s8_by_warps",
        "std.cuda.gemm_mma.gemm_s8",
        {"M": 64, "N": 64, "K": 256},
        "down = 2, across = 2, stages = 3",
    ),
    (
        CONV,
        "shared_tiles",
        "conv2d.conv2d_nhwc",
        {"N": 1, "H": 6, "W": 7, "CI": 8, "CO": 16},
        "pixels = 2, channels = 2, depth = 4, down = 2, across = 8, vector = 2",
    ),
    (
        CONV,
        "shared_tiles",
        "conv2d.conv2d_nhwc",
        {"N": 2, "H": 7, "W": 9, "CI": 3, "CO": 10, "STRIDE": 2},
        "pixels = 2, channels = 2, depth = 4, down = 2, across = 4, vector = 1",
    ),
    (CONV, "shared_tiles_drawn", "conv2d.conv2d_nhwc", {"N": 1, "H": 5, "W": 6, "CI": 8, "CO": 8}, ""),
    (
        CONV,
        "depthwise_tiles",
        "depthwise.depthwise_nhwc",
        {"N": 2, "H": 6, "W": 9, "C": 10},
        "tall = 2, pixels = 2, down = 2, across = 8",
    ),
    (
        ONLINE,
        "by_tiles",
        "std.cuda.online_attention.online_attention",
        {"B": 1, "L": 3, "T": 128, "D": 64, "TILE": 64},
        "rows = 2",
    ),
    (ATTENTION, "fused_queries", "attention", {"B": 2, "L": 9, "T": 40, "D": 40}, "rows = 4"),
]
"""Module, schedule, workload (module and program), sizes, parameters."""


def name_of(case: Case) -> str:
    return f"{case[1]}-{'x'.join(map(str, case[3].values()))}"


def scheduled(module: str, schedule: str, workload: str, sizes: Mapping[str, int], parameters: str) -> Program:
    home, _, name = workload.rpartition(".")
    home = home if home.startswith("std.") else f"std.workloads.{home or name}"
    call = f"{schedule}({parameters})" if parameters else schedule
    text = f"""use {module}.{{{schedule}}}
use {home}.{{{name}}}
use std.cuda.{{sm_80}}
space s for {name} on sm_80 = {call}
"""
    return space_of(load("test.ms", text), "s", sizes=sizes).sample(0).program


def ran(case: Case) -> tuple[Ran, dict[str, np.ndarray]]:
    program = scheduled(*case)
    arrays = sparse_inputs(program, 5)
    return emulate(program, arrays, SM_80), interpret.run(program, arrays, check=False)


@pytest.mark.one_in(2)
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_schedules_compute_what_the_program_says(case: Case) -> None:
    found, wanted = ran(case)
    assert found.faults == ()
    for name, array in wanted.items():
        np.testing.assert_allclose(found.results[name], array, rtol=1e-5, atol=1e-6)


def allocated(f: Function, scopes: frozenset[str]) -> int:
    """Bytes of the buffers of some scopes that a function allocates."""
    buffers = [s.buffer for s in walk(f.body) if isinstance(s, Allocate) and s.buffer.scope in scopes]
    return sum(elements(b) * size_of(b.dtype) for b in buffers)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_launches_have_what_the_summary_says(case: Case) -> None:
    """Limits are checked of the summary: it says what the kernels have that run, exchanges of threads included."""
    program = scheduled(*case)
    functions = lower(program, SM_80).functions
    nests = summarize(lower_symbolic(program, SM_80), SM_80).nests
    for f, nest in zip(functions, nests, strict=True):
        assert f.launch is not None
        assert (nest.grid, nest.block) == (f.launch.grid, f.launch.block)
        assert nest.shared == Const(allocated(f, frozenset({"shared", "shared.dyn"})))
        assert nest.local == Const(allocated(f, frozenset({"local"})))


def test_attention_by_tiles_is_attention() -> None:
    """A running maximum with rescaling gives what the plain program gives; nothing on the chip grows with the keys."""
    sizes = {"B": 2, "L": 5, "T": 24, "D": 6}
    random = np.random.default_rng(0)
    arrays = {
        n: random.standard_normal((2, sizes[m], 6)).astype(np.float32) for n, m in (("Q", "L"), ("K", "T"), ("V", "T"))
    }
    arrays["Q"] *= 20.0  # maxima that rise from tile to tile, weights that vanish
    online = scheduled(
        ONLINE, "by_tiles", f"{ONLINE}.online_attention", {**sizes, "TILE": 8}, "rows = 2, across = 2, vector = 1"
    )
    plain = scheduled("std.cuda.attention", "fused_queries", "attention", sizes, "rows = 1, across = 2, vector = 1")
    found, wanted = (interpret.run(p, arrays)["O"] for p in (online, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    short, long = (
        made(scheduled(ONLINE, "by_tiles", f"{ONLINE}.online_attention", {"T": t}, ""), SM_80).source.text
        for t in (1024, 65536)
    )
    declared = re.compile(r"(?:__shared__|__align__\(16\)) .*\[\d+\];")
    assert declared.findall(short) == declared.findall(long) != []


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nvcc_takes_every_schedule_with_its_defaults(arch: str) -> None:
    """All in one file, which takes a quarter of the time that one each does."""
    includes, spaces = set[str](), list[str]()
    for module, schedule, workload in sorted({c[:3] for c in CASES if not c[1].endswith("_drawn")}):
        text = made(scheduled(module, schedule, workload, {}, ""), SM_80).source.text.replace('extern "C" ', "")
        lines = text.splitlines()
        includes |= {line for line in lines if line.startswith("#include")}
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        spaces.append(f"namespace {schedule} {{\n{body}\n}}")
    path = shutil.which("nvcc")
    assert path is not None
    compiled = Nvcc(path)("\n".join([*sorted(includes), *spaces]), arch, "cubin")
    assert compiled.log.count("Compiling entry function") == sum(x.count("__global__") for x in spaces)
    assert not re.search(r"[1-9]\d* bytes spill", compiled.log), "a schedule's defaults do not fit the registers"


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_contracts_products_and_keeps_arrays_of_a_thread_in_registers() -> None:
    path = shutil.which("nvcc")
    assert path is not None
    source = made(scheduled(GEMM, "simt", "gemm", {}, ""), SM_80).source.text
    ptx = Nvcc(path)(source, "sm_80", "ptx").image.decode()
    assert ptx.count("fma.rn.f32") >= 64
    assert not re.search(r"\b(mul|add)(\.rn)?\.f32|\.local\b", ptx)
