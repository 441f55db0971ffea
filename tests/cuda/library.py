"""The library's schedules for GPUs at sizes that the emulation computes in a fraction of a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from mslang.backend.reference import interpret
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import SM_80
from tests.cuda.emulator import Emulated
from tests.cuda.modules import Made, as_numbers, made, run
from tests.cuda.on_gpu import Emulation, OnCases, verdict
from tests.property.judge import Arrays, Case, sparse_inputs
from tests.property.tally import Fault, Tally

LIBRARY = "the library"
"""What a fault names in place of a generator."""

RTOL, ATOL = 1e-5, 1e-6
"""Sums are of small integers, but for softmax, normalisation and attention."""

GEMM, ROWS = "std.cuda.gemm", "std.cuda.rows"
GEMM_F16, CONV, ATTENTION = "std.cuda.gemm_f16", "std.cuda.conv", "std.cuda.attention"
MMA, ONLINE = "std.cuda.gemm_mma", "std.cuda.online_attention"


class LibraryCase(NamedTuple):
    """A schedule of a module with its parameters, for a workload (module and program) at some sizes."""

    module: str
    schedule: str
    workload: str
    sizes: Mapping[str, int]
    parameters: str

    @property
    def name(self) -> str:
        """No two cases have the same."""
        return f"{self.schedule}-{'x'.join(map(str, self.sizes.values()))}"


CASES = (
    LibraryCase(
        GEMM,
        "simt",
        "gemm",
        {"M": 40, "N": 48, "K": 24},
        "rows = 2, columns = 4, depth = 8, down = 4, across = 8, vector = 2",
    ),
    LibraryCase(
        GEMM,
        "simt",
        "gemm",
        {"M": 33, "N": 20, "K": 17},
        "rows = 2, columns = 2, depth = 4, down = 4, across = 4, vector = 1",
    ),
    LibraryCase(
        GEMM,
        "batched_simt",
        "batch_gemm",
        {"BATCH": 2, "M": 16, "N": 16, "K": 16},
        "rows = 2, columns = 2, depth = 8, down = 4, across = 4",
    ),
    LibraryCase(
        GEMM,
        "split_k",
        "gemm",
        {"M": 24, "N": 16, "K": 64},
        "parts = 2, rows = 2, columns = 2, depth = 8, down = 4, across = 4, vector = 2",
    ),
    LibraryCase(ROWS, "block_sums", "reduce.row_sum", {"M": 3, "N": 300}, "threads = 64"),
    LibraryCase(ROWS, "block_sums", "reduce.row_sum", {"M": 2, "N": 40}, "threads = 32"),
    LibraryCase(ROWS, "block_maxima", "reduce.row_max", {"M": 3, "N": 300}, "threads = 128"),
    LibraryCase(ROWS, "fused_rows", "softmax", {"M": 3, "N": 70}, "threads = 32"),
    LibraryCase(ROWS, "normalised_rows", "layer_norm", {"M": 3, "N": 70}, "threads = 64"),
    LibraryCase(ROWS, "tiles_through_shared", "transpose", {"M": 24, "N": 40}, "side = 8, rows = 2"),
    LibraryCase(
        GEMM_F16,
        "tensor_cores",
        "std.cuda.gemm_f16.gemm_f16",
        {"M": 64, "N": 64, "K": 64},
        "warps_across = 1, down = 2, across = 1, vector = 4, stages = 1",
    ),
    LibraryCase(
        GEMM_F16,
        "tensor_cores",
        "std.cuda.gemm_f16.gemm_f16",
        {"M": 32, "N": 32, "K": 96},
        "warps_down = 1, down = 1, across = 1, deep = 1",
    ),
    LibraryCase(GEMM_F16, "tensor_cores_drawn", "std.cuda.gemm_f16.gemm_f16", {"M": 32, "N": 32, "K": 64}, ""),
    LibraryCase(
        MMA,
        "f16_by_warps",
        "std.cuda.gemm_f16.gemm_f16",
        {"M": 64, "N": 64, "K": 96},
        "down = 2, across = 2, stages = 3",
    ),
    LibraryCase(
        MMA,
        "bf16_by_warps",
        "std.cuda.gemm_mma.gemm_bf16",
        {"M": 32, "N": 32, "K": 64},
        "warps_down = 1, down = 2, across = 1, deep = 1, stages = 2",
    ),
    LibraryCase(
        MMA,
        "s8_by_warps",
        "std.cuda.gemm_mma.gemm_s8",
        {"M": 64, "N": 64, "K": 256},
        "down = 2, across = 2, stages = 3",
    ),
    LibraryCase(
        CONV,
        "shared_tiles",
        "conv2d.conv2d_nhwc",
        {"N": 1, "H": 6, "W": 7, "CI": 8, "CO": 16},
        "pixels = 2, channels = 2, depth = 4, down = 2, across = 8, vector = 2",
    ),
    LibraryCase(
        CONV,
        "shared_tiles",
        "conv2d.conv2d_nhwc",
        {"N": 2, "H": 7, "W": 9, "CI": 3, "CO": 10, "STRIDE": 2},
        "pixels = 2, channels = 2, depth = 4, down = 2, across = 4, vector = 1",
    ),
    LibraryCase(CONV, "shared_tiles_drawn", "conv2d.conv2d_nhwc", {"N": 1, "H": 5, "W": 6, "CI": 8, "CO": 8}, ""),
    LibraryCase(
        CONV,
        "depthwise_tiles",
        "depthwise.depthwise_nhwc",
        {"N": 2, "H": 6, "W": 9, "C": 10},
        "tall = 2, pixels = 2, down = 2, across = 8",
    ),
    LibraryCase(
        ONLINE,
        "by_tiles",
        "std.cuda.online_attention.online_attention",
        {"B": 1, "L": 3, "T": 128, "D": 64, "TILE": 64},
        "rows = 2",
    ),
    LibraryCase(ATTENTION, "fused_queries", "attention", {"B": 2, "L": 9, "T": 40, "D": 40}, "rows = 4"),
)

NAMED = {c.name: c for c in CASES}


def scheduled(module: str, schedule: str, workload: str, sizes: Mapping[str, int], parameters: str) -> Program:
    """A workload of the library after a schedule of it for sm_80."""
    home, _, name = workload.rpartition(".")
    home = home if home.startswith("std.") else f"std.workloads.{home or name}"
    call = f"{schedule}({parameters})" if parameters else schedule
    text = f"""use {module}.{{{schedule}}}
use {home}.{{{name}}}
use std.cuda.{{sm_80}}
space s for {name} on sm_80 = {call}
"""
    return space_of(load("test.ms", text), "s", sizes=sizes).sample(0).program


@cache
def made_of(name: str) -> Made:
    """The kernels of the case of a name."""
    return made(scheduled(*NAMED[name]), SM_80)


def check_schedules(cases: Sequence[LibraryCase] = CASES, on_gpu: OnCases | None = None) -> Tally:
    """Each case gives what the interpreter gives, without a fault; on a GPU, too, if there is one."""
    tally = Tally()
    kernels = [made_of(c.name) for c in cases]
    with Emulated(*(k.source.text for k in kernels)) as file:
        for number, (case, kernel) in enumerate(zip(cases, kernels, strict=True)):
            given = Case(sparse_inputs(kernel.program, 5))
            wanted = interpret.run(kernel.program, given.arrays, check=False)
            ran = run(kernel, given.arrays, file, number)
            found = {n: as_numbers(kernel, n, a) for n, a in ran.results.items()}
            said = [*(f.text for f in ran.faults[:4]), differs(wanted, found)]
            emulation = Emulation([found], "; ".join(filter(None, said)))
            wrong = emulation.wrong
            if on_gpu is not None:
                wrong = verdict(kernel, [given], [wanted], emulation, on_gpu, differs, tally.checks)
            tally.pairs += 1
            tally.checks["run"] += 1
            if wrong:
                text = print_program(kernel.program)
                tally.faults.append(Fault(number, f"{case.name}: {wrong}", (), text, LIBRARY))
    return tally


def differs(wanted: Arrays, found: Arrays) -> str:
    """Where results differ by more than rounding; "" if nowhere."""
    for name, array in wanted.items():
        apart = ~np.isclose(found[name], array, rtol=RTOL, atol=ATOL, equal_nan=True)
        if apart.any():
            at = tuple(int(x) for x in np.argwhere(apart)[0])
            return f"{name}{list(at)}: {array[at]} expected, {found[name][at]} found"
    return ""
