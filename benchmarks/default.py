"""The default schedule for CPUs beside programs without a schedule and beside schedules by hand: ratios of times.

    python benchmarks/default.py

The kernels of a program are timed in turn, `ROUNDS` times; the medians of ratios of one round are printed. Where a
program has weights, the default schedule is timed with these declared constant, too.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from msgspec.structs import replace

import mslang as ms
from mslang.resources import stdlib_folder
from mslang.runtime.timing import Limits
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.target.detect import host

ROUNDS = 5

PROGRAMS: tuple[tuple[str, str, str, dict[str, int]], ...] = (
    ("workloads/gemm", "gemm", "packed", {"M": 512, "N": 512, "K": 512}),
    ("workloads/dense", "dense_bias_relu", "fused", {}),
    ("workloads/conv2d", "conv2d_nhwc", "direct", {}),
    ("workloads/depthwise", "depthwise_nhwc", "direct", {}),
    ("workloads/softmax", "softmax", "rows_vectorized", {}),
    ("workloads/layer_norm", "layer_norm", "rows_vectorized", {}),
    ("cpu/gemm_bytes", "gemm_u8s8", "u8s8_on_vnni", {}),
)
"""File, program, schedule by hand, sizes."""

NUMPY = {"f32": np.float32, "i8": np.int8, "i32": np.int32}

WEIGHTS = {"gemm": "B", "dense_bias_relu": "W", "conv2d_nhwc": "f", "gemm_u8s8": "B"}
"""Parameters that may be constant."""


def main() -> None:
    """Print a row for each program."""
    print(f"{'program':18} {'none / default':>15} {'default / by hand':>18} {'default / constant':>19}")
    for file, name, schedule, sizes in PROGRAMS:
        source = ms.load(str(stdlib_folder() / f"{file}.ms"))
        program = source.program(name, **sizes)
        kernels = {
            "none": ms.build(program),
            "default": ms.build(default_schedule(program, host()).program),
            "hand": ms.build(source.space(schedule, sizes=sizes)),
        }
        if name in WEIGHTS:
            params = tuple(replace(p, constant=p.buffer.name == WEIGHTS[name]) for p in program.params)
            kernels["constant"] = ms.build(default_schedule(replace(program, params=params), host()).program)
        arrays = [_array(p) for p in program.params]
        times: dict[str, list[float]] = {k: [] for k in kernels}
        for _ in range(ROUNDS):
            for k, kernel in kernels.items():
                times[k].append(kernel.time(*arrays, limits=Limits(repeats=3, max_repeats=3, max_total=0.5)).min)
        first = _ratio(times["none"], times["default"])
        second = _ratio(times["default"], times["hand"])
        third = f"{_ratio(times['default'], times['constant']):.2f}" if name in WEIGHTS else ""
        print(f"{name:18} {first:15.1f} {second:18.2f} {third:>19}")


def _ratio(a: list[float], b: list[float]) -> float:
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def _array(param: Any) -> Any:
    shape = [int(n.value) for n in param.buffer.shape]
    least, dtype = (0, np.uint8) if param.buffer.dtype == "u8" else (-3, NUMPY[param.buffer.dtype])
    return np.random.default_rng(0).integers(least, 4, shape).astype(dtype)


if __name__ == "__main__":
    main()
