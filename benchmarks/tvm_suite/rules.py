"""What `tvm_rules.py` compares: the rules that TVM's test files are about, and the programs that those files make."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.schedule.rules.add_rfactor import AddRFactor
from mslang.schedule.rules.compute_location import RandomComputeLocation
from mslang.schedule.rules.gpu.auto_bind import AutoBind
from mslang.schedule.rules.gpu.cross_thread import CrossThreadReduction
from mslang.schedule.rules.gpu.tensor_cores import TensorCores
from mslang.schedule.rules.gpu.tiling import GpuTiling
from mslang.schedule.rules.inline import AutoInline, InlineConstantScalars
from mslang.schedule.rules.multi_level import MultiLevelTiling
from mslang.schedule.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll
from mslang.schedule.rules.rule import Rule
from mslang.schedule.rules.sets import SETS
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.target.description import AVX512, SM_80, Target

VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512vnni"))
SM_75 = Target("sm_75", "cuda", vector_bits=128, registers=255, extra=(*SM_80.extra, ("arch", "sm_75")))
_LOOSE = AutoInline(into_producer=True, no_branches=False, injective=False, ordered=False, no_calls=())

RULES: Mapping[str, tuple[Rule, ...]] = {
    "schedule_rule_add_rfactor": (AddRFactor(),),
    "schedule_rule_auto_bind": (AutoBind(),),
    "schedule_rule_auto_inline": (InlineConstantScalars(), _LOOSE),
    "schedule_rule_cross_thread_reduction": (CrossThreadReduction(),),
    "schedule_rule_mlt": (GpuTiling(stages=()),),
    "schedule_rule_mlt_intrin": (GpuTiling(stages=(), intrin="std.cuda.dot.dp4a_s8s8s32"),),
    "schedule_rule_mlt_tc": (TensorCores(stages=()), _LOOSE),
    "schedule_rule_parallel_vectorize_unroll": (ParallelizeVectorizeUnroll(),),
    "schedule_rule_random_compute_location": (RandomComputeLocation(),),
    "space_cpu": (
        InlineConstantScalars(),
        AutoInline(),
        AddRFactor(),
        MultiLevelTiling("SSRSRS"),
        RandomComputeLocation(),
    ),
    "space_cuda": SETS["cuda"].rules,
    "space_cuda_async": SETS["cuda"].rules,
}
"""The rules of each file, by the end of its name; for CPUs those that stand for MetaSchedule's (`cpu` has others)."""

_INLINED_ON_CPUS = ("consumer_chain", "pure_spatial")
_STRUCTURES = {"test_multi_level_tiling_hexagon": "SRSRS", "test_max_pool_blocked": "SRS"}
"""Tests of tiling without threads, and their structures. The vectors of Hexagon are sizes, which are not compared."""
_TILED_ALONE = ("test_conv2d", "test_matmul_relu_pipeline")
"""Tests of the rule for tensor cores without `AutoInline`."""


def rules_of(stem: str, case: str) -> tuple[Rule, ...]:
    """The rules that a test is about."""
    if stem == "schedule_rule_mlt":
        structure = _STRUCTURES.get(case, "SSRSRS" if "cpu" in case else "")
        return (MultiLevelTiling(structure),) if structure else (GpuTiling(stages=()),)
    if stem == "schedule_rule_mlt_intrin" and "x86" in case:
        return (MultiLevelTiling("SSRSRS", "std.cpu.dot.u8s8_vnni"),)
    if stem == "schedule_rule_auto_inline" and case.removeprefix("test_inline_") in _INLINED_ON_CPUS:
        return (InlineConstantScalars(), AutoInline())
    if stem == "schedule_rule_mlt_tc" and case in _TILED_ALONE:
        return RULES[stem][:1]
    return RULES[stem]


_ON_CPUS = ("space_cpu", "add_rfactor", "parallel", "random")


def machine_of(stem: str, case: str) -> Target:
    """The machine that a test is about."""
    if "x86" in case:
        return VNNI
    if "async" in stem:
        return SM_80
    return AVX512 if "cpu" in case or case in _STRUCTURES or any(x in stem for x in _ON_CPUS) else SM_75


def _library(module: str, name: str, **sizes: int) -> Program:
    path = stdlib_folder() / "workloads" / f"{module}.ms"
    return instantiate(load(str(path)), name, sizes)


def _matmul(
    n: int, dtype: str = "f32", relu: bool = False, *, columns: int | None = None, depth: int | None = None
) -> Program:
    m, k = columns or n, depth or n

    def cast(x: str) -> str:
        return x if dtype == "f32" else f"f32({x})"

    head = f"A: {dtype}[{n}, {k}], B: {dtype}[{k}, {m}]"
    body = f"block mm[i: {n}, j: {m} | k: {k}] {{ C[i, j] += {cast('A[i, k]')} * {cast('B[k, j]')} }}"
    if not relu:
        return parse_program(f"program matmul({head}, out C: f32[{n}, {m}]) {{ {body} }}")
    after = f"block compute[i: {n}, j: {m}] {{ D[i, j] = max(C[i, j], 0.0) }}"
    return parse_program(
        f"program matmul_relu({head}, out D: f32[{n}, {m}]) {{ alloc C: f32[{n}, {m}]\n{body}\n{after} }}"
    )


def _dense(n: int, read: str, written: str) -> Program:
    return parse_program(
        f"program dense(X: {read}[{n}, {n}], W: {read}[{n}, {n}], out C: {written}[{n}, {n}]) {{"
        f" block compute[i: {n}, j: {n} | k: {n}] {{ C[i, j] += {written}(X[i, k]) * {written}(W[j, k]) }} }}"
    )


def _conv_f16(
    size: int, channels: int, results: int, window: int, stride: int, padding: int, written: str = "f32"
) -> Program:
    padded, out = size + 2 * padding, (size + 2 * padding - window) // stride + 1
    inside = f"i >= {padding} and i < {size + padding} and j >= {padding} and j < {size + padding}"
    return parse_program(f"""program conv(X: f16[1, {size}, {size}, {channels}],
        F: f16[{window}, {window}, {channels}, {results}], out Y: {written}[1, {out}, {out}, {results}]) {{
        alloc P: f16[1, {padded}, {padded}, {channels}]
        block pad[n: 1, i: {padded}, j: {padded}, c: {channels}] {{
            P[n, i, j, c] = select({inside}, X[n, i - {padding}, j - {padding}, c], 0.0)
        }}
        block conv[n: 1, h: {out}, w: {out}, o: {results} | r: {window}, s: {window}, c: {channels}] {{
            Y[n, h, w, o] += {written}(P[n, h * {stride} + r, w * {stride} + s, c]) * {written}(F[r, s, c, o])
        }}
    }}""")


_CBR = """program cbr(X: f32[1, 224, 224, 3], W: f32[7, 7, 3, 64], bias: f32[64], scale: f32[64], shift: f32[64],
    out Y: f32[1, 112, 112, 64]) {
    alloc P: f32[1, 230, 230, 3]
    alloc C: f32[1, 112, 112, 64]
    alloc B: f32[1, 112, 112, 64]
    alloc S: f32[1, 112, 112, 64]
    alloc T: f32[1, 112, 112, 64]
    block pad[n: 1, i: 230, j: 230, c: 3] {
        P[n, i, j, c] = select(i >= 3 and i < 227 and j >= 3 and j < 227, X[n, i - 3, j - 3, c], 0.0)
    }
    block conv[n: 1, h: 112, w: 112, o: 64 | r: 7, s: 7, c: 3] {
        C[n, h, w, o] += P[n, h * 2 + r, w * 2 + s, c] * W[r, s, c, o]
    }
    block add_bias[n: 1, h: 112, w: 112, o: 64] { B[n, h, w, o] = C[n, h, w, o] + bias[o] }
    block multiply[n: 1, h: 112, w: 112, o: 64] { S[n, h, w, o] = B[n, h, w, o] * scale[o] }
    block add[n: 1, h: 112, w: 112, o: 64] { T[n, h, w, o] = S[n, h, w, o] + shift[o] }
    block relu[n: 1, h: 112, w: 112, o: 64] { Y[n, h, w, o] = max(T[n, h, w, o], 0.0) }
}"""
_TBG = """program tbg(Q: f32[1, 128, 12, 64], K: f32[1, 128, 12, 64], out C: f32[1, 12, 128, 128]) {
    alloc A: f32[1, 12, 128, 64]
    alloc B: f32[1, 12, 64, 128]
    block query[b: 1, h: 12, l: 128, d: 64] { A[b, h, l, d] = Q[b, l, h, d] }
    block value[b: 1, h: 12, d: 64, l: 128] { B[b, h, d, l] = K[b, l, h, d] }
    block mm[b: 1, h: 12, i: 128, j: 128 | k: 64] { C[b, h, i, j] += A[b, h, i, k] * B[b, h, k, j] }
}"""
_POOL = """program pool(X: u8[1, 2, 8, 8, 8, 8, 32], out Y: u8[1, 2, 4, 4, 8, 8, 32]) {
    block pool[b: 1, c: 2, h: 4, w: 4, p: 8, q: 8, d: 32 | r: 2, s: 2] {
        init { Y[b, c, h, w, p, q, d] = 0 }
        Y[b, c, h, w, p, q, d] = max(
            Y[b, c, h, w, p, q, d],
            X[b, c, p // 8 * 2 + h * 2, q // 8 * 2 + w * 2, p % 4 * 2 + r, q % 4 * 2 + s, d]
        )
    }
}"""
_MATMUL_ADD = """program matmul_add(A: f32[512, 512], B: f32[512, 512], out D: f32[512, 512]) {
    alloc C: f32[512, 512]
    block mm[i: 512, j: 512 | k: 512] { C[i, j] += A[i, k] * B[k, j] }
    block add[i: 512, j: 512] { D[i, j] = C[i, j] + A[i, j] }
}"""
_SUITE: Mapping[str, Program] = {
    "c1d": _library("conv1d", "conv1d_nlc"),
    "c2d": _library("conv2d", "conv2d_nhwc"),
    "c3d": _library("conv3d", "conv3d_ndhwc"),
    "cap": _library("conv2d_capsule", "conv2d_capsule_nhwc"),
    "dep": _library("depthwise", "depthwise_nhwc"),
    "dil": _library("conv2d", "conv2d_nhwc"),
    "gmm": _library("batch_gemm", "batch_gemm", BATCH=1, M=128, N=128, K=128),
    "grp": _library("conv2d_nchw", "conv2d_grouped"),
    "t2d": _library("conv2d_transposed", "conv2d_transposed_nhwc"),
    "nrm": _library("norm", "matrix_norm", B=1, M=256, N=256),
    "sfm": _library("softmax", "softmax", M=256, N=256),
    "cbr": parse_program(_CBR),
    "tbg": parse_program(_TBG),
}
PROGRAMS: Mapping[tuple[str, str], Program] = {
    **{(f"space_{kind}", f"test_{kind}_{name}"): p for kind in ("cpu", "cuda") for name, p in _SUITE.items()},
    ("schedule_rule_add_rfactor", "test_cpu_matmul"): parse_program(
        "program mm(A: f32[4, 512], B: f32[512, 4], out C: f32[4, 4]) {"
        " block mm[i: 4, j: 4 | k: 512] { C[i, j] += A[i, k] * B[k, j] } }"
    ),
    ("schedule_rule_cross_thread_reduction", "test_gpu_softmax_mn"): _library("softmax", "softmax", M=256, N=256),
    ("schedule_rule_cross_thread_reduction", "test_gpu_batch_norm_bmn"): _library(
        "norm", "matrix_norm", B=1, M=512, N=512
    ),
    **{("schedule_rule_mlt", f"test_{x}_matmul"): _matmul(512) for x in ("cpu", "cuda")},
    **{("schedule_rule_mlt", f"test_{x}_matmul_relu"): _matmul(512, relu=True) for x in ("cpu", "cuda")},
    ("schedule_rule_mlt", "test_multi_level_tiling_hexagon"): _conv_f16(56, 64, 64, 3, 1, 1, "f16"),
    ("schedule_rule_mlt", "test_max_pool_blocked"): parse_program(_POOL),
    ("schedule_rule_mlt_intrin", "test_dp4a_dense"): _dense(128, "i8", "i32"),
    ("schedule_rule_mlt_intrin", "test_dp4a_dense_no_tensorize_1"): _dense(128, "f32", "f32"),
    ("schedule_rule_mlt_intrin", "test_dp4a_dense_no_tensorize_2"): _dense(127, "i8", "i32"),
    ("space_cuda_async", "test_cuda_c2d"): _library("conv2d", "conv2d_nhwc"),
    ("space_cuda_async", "test_cuda_gmm"): _library("batch_gemm", "batch_gemm", BATCH=1, M=1024, N=1024, K=1024),
    ("schedule_rule_mlt", "test_cache_read_specify_consumer"): parse_program(_MATMUL_ADD),
    **{
        ("schedule_rule_mlt_tc", f"test_{x}"): _matmul(128, "f16", True)
        for x in ("matmul_relu", "matmul_relu_with_fallback", "matmul_relu_pipeline")
    },
    ("schedule_rule_mlt_tc", "test_padded_matmul_relu"): _matmul(127, "f16", True),
    ("schedule_rule_mlt_tc", "test_matmul_relu_non_tensorizable"): _matmul(128, relu=True),
    ("schedule_rule_mlt_tc", "test_padded_matmul_single_padded_input"): _matmul(1023, "f16", columns=1024, depth=4096),
    ("schedule_rule_mlt_tc", "test_padded_matmul_no_padded_output"): _matmul(1024, "f16", depth=4095),
    ("schedule_rule_mlt_tc", "test_conv2d"): _conv_f16(16, 32, 32, 3, 1, 1),
    ("schedule_rule_mlt_tc", "test_conv_1x1"): _conv_f16(16, 64, 64, 1, 1, 0),
    ("schedule_rule_mlt_tc", "test_padded_conv"): _conv_f16(224, 3, 64, 7, 2, 3),
}
"""The programs that tests make with TVM's expression language, by file and test."""
