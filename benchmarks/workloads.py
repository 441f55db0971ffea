"""The workloads that the benchmarks share: programs of the library with sizes, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mslang.ir.program import Program


class Workload(NamedTuple):
    """A program of the library: its file below `stdlib`, without the ending, its name, and its sizes."""

    file: str
    program: str
    sizes: Mapping[str, int]

    @property
    def path(self) -> Path:
        """The file."""
        from mslang.resources import stdlib_folder

        return Path(stdlib_folder()) / f"{self.file}.ms"

    def bare(self) -> Program:
        """The program, without the schedules that stand beside it."""
        import mslang as ms

        return ms.load(self.path).program(self.program, **self.sizes)


def _gemm(m: int, n: int, k: int) -> Workload:
    return Workload("workloads/gemm", "gemm", {"M": m, "N": n, "K": k})


def _bmm(batch: int) -> Workload:
    return Workload("workloads/batch_gemm", "batch_gemm", {"BATCH": batch, "M": 128, "N": 128, "K": 128})


def _conv(stride: int, pad: int, **sizes: int) -> Workload:
    return Workload("workloads/conv2d", "conv2d_nhwc", {"STRIDE": stride, "PAD": pad, **sizes})


TABLE: Mapping[str, Workload] = {
    "gemm_128": _gemm(128, 128, 128),
    "gemm_512": _gemm(512, 512, 512),
    "gemm_1024": _gemm(1024, 1024, 1024),
    "gemm_odd": _gemm(509, 1021, 253),
    "gemm_deep": _gemm(512, 512, 8192),
    "bmm_128": _bmm(1),
    "bmm_8x128": _bmm(8),
    "dense_bias_relu": Workload("workloads/dense", "dense_bias_relu", {"M": 128, "N": 3072, "K": 768}),
    "conv2d_c64_3x3": _conv(1, 1, H=56, W=56, CI=64, CO=64, R=3, S=3),
    "conv2d_stem_7x7": _conv(2, 3, H=224, W=224, CI=3, CO=64, R=7, S=7),
    "conv2d_1x1": _conv(1, 0, H=14, W=14, CI=1024, CO=256, R=1, S=1),
    "depthwise_112": Workload("workloads/depthwise", "depthwise_nhwc", {"H": 112, "W": 112, "C": 32}),
    "softmax": Workload("workloads/softmax", "softmax", {"M": 256, "N": 4096}),
    "layer_norm": Workload("workloads/layer_norm", "layer_norm", {"M": 256, "N": 1024}),
    "attention": Workload("workloads/attention", "attention", {"B": 8, "L": 128, "T": 128, "D": 64}),
    "gemm_s8": Workload("cpu/gemm_bytes", "gemm_s8s8", {"M": 1024, "N": 1024, "K": 1024}),
    "gemm_bf16": Workload("cpu/gemm_bf16", "gemm_bf16_rounded", {"M": 1024, "N": 1024, "K": 1024}),
}
