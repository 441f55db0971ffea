"""Each workload of the library computes what NumPy computes for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mslang.backend.reference import interpret
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.tune import inputs

Arrays = dict[str, np.ndarray]
WORKLOADS = stdlib_folder() / "workloads"


def small(file: str, name: str, **sizes: int) -> Program:
    return instantiate(load(str(WORKLOADS / f"{file}.ms")), name, sizes)


def drawn(program: Program) -> Arrays:
    rng = np.random.default_rng(0)
    made: Arrays = {}
    for p in program.params:
        shape = tuple(int(n.value) for n in p.buffer.shape)  # type: ignore[attr-defined]
        if p.direction == "out":
            continue
        if p.within is not None:
            made[p.buffer.name] = inputs.drawn(shape, p.buffer.dtype, inputs.bounds_of(p.buffer, p.within), False, 0)
        elif p.buffer.dtype == "f32":
            made[p.buffer.name] = rng.uniform(0.1, 1.0, shape).astype(np.float32)
        else:
            info = np.iinfo({"u8": np.uint8, "i8": np.int8, "i32": np.int32}[p.buffer.dtype])
            low, high = (0, 1 << 30) if p.buffer.name == "factor" else (max(info.min, -1000), min(info.max, 1000))
            made[p.buffer.name] = rng.integers(low, high, shape).astype(info.dtype)
    return made


def windows(x: np.ndarray, size: tuple[int, ...], stride: int, dilation: int, axes: tuple[int, ...]) -> np.ndarray:
    """Windows over `axes`, their elements as the last axes."""
    full = tuple((n - 1) * dilation + 1 for n in size)
    seen = np.lib.stride_tricks.sliding_window_view(x, full, axes)
    cut: list[slice] = [slice(None)] * seen.ndim
    for k, a in enumerate(axes):
        cut[a] = slice(None, None, stride)
        cut[x.ndim + k] = slice(None, None, dilation)
    return seen[tuple(cut)]


def pad(x: np.ndarray, by: int, axes: tuple[int, ...], value: float = 0.0) -> np.ndarray:
    return np.pad(x, [(by, by) if a in axes else (0, 0) for a in range(x.ndim)], constant_values=value)


def conv1d(a: Arrays) -> np.ndarray:
    return np.einsum("nlck,kcd->nld", windows(pad(a["x"], 2, (1,)), (3,), 2, 2, (1,)), a["f"])


def conv2d(a: Arrays) -> np.ndarray:
    return np.einsum("nhwcrs,rscd->nhwd", windows(pad(a["x"], 2, (1, 2)), (3, 3), 2, 2, (1, 2)), a["f"])


def conv2d_nchw(a: Arrays) -> np.ndarray:
    return np.einsum("nchwrs,dcrs->ndhw", windows(pad(a["x"], 1, (2, 3)), (3, 3), 2, 1, (2, 3)), a["f"])


def conv2d_grouped(a: Arrays) -> np.ndarray:
    seen = windows(pad(a["x"], 1, (2, 3)), (3, 3), 1, 1, (2, 3))
    groups = [np.einsum("nchwrs,dcrs->ndhw", seen[:, 2 * g : 2 * g + 2], a["f"][3 * g : 3 * g + 3]) for g in range(2)]
    return np.concatenate(groups, axis=1)


def conv2d_int8(a: Arrays) -> np.ndarray:
    x, f = a["x"].astype(np.int32), a["f"].astype(np.int32)
    seen = windows(x, (3, 3), 1, 1, (2, 3))
    seen = seen.reshape(*seen.shape[:4], x.shape[4] // 4, 4, 3, 3)
    return np.einsum("nchwvkrs,dcrsvok->ndhwo", seen, f)


def conv3d(a: Arrays) -> np.ndarray:
    seen = windows(pad(a["x"], 1, (1, 2, 3)), (3, 3, 3), 1, 1, (1, 2, 3))
    return np.einsum("ndhwcqrs,qrsco->ndhwo", seen, a["f"])


def depthwise(a: Arrays) -> np.ndarray:
    return np.einsum("nhwcrs,rsc->nhwc", windows(pad(a["x"], 1, (1, 2)), (3, 3), 2, 1, (1, 2)), a["f"])


def transposed(a: Arrays) -> np.ndarray:
    x, f = a["x"], a["f"]
    whole = np.zeros((1, (x.shape[1] - 1) * 2 + 4, (x.shape[2] - 1) * 2 + 4, f.shape[3]), np.float32)
    for i, j in np.ndindex(x.shape[1], x.shape[2]):
        whole[:, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4] += np.einsum("nc,rscd->nrsd", x[:, i, j], f)
    return whole[:, 1:-1, 1:-1]


def capsule(a: Arrays) -> np.ndarray:
    return np.einsum("nhwcpmrs,rscdmq->nhwdpq", windows(pad(a["x"], 1, (1, 2)), (3, 3), 2, 1, (1, 2)), a["f"])


def gemm(a: Arrays) -> np.ndarray:
    return a["A"] @ a["B"]


def batch_norm(a: Arrays) -> np.ndarray:
    return (a["x"] - a["mean"]) / np.sqrt(a["variance"] + 1e-5) * a["gamma"] + a["beta"]


def batch_norm_train(a: Arrays) -> np.ndarray:
    x = a["x"]
    return (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-5) * a["gamma"] + a["beta"]


def max_pool(a: Arrays) -> np.ndarray:
    return windows(pad(a["x"], 1, (1, 2), -np.inf), (3, 3), 2, 1, (1, 2)).max((4, 5))


def average_pool(a: Arrays) -> np.ndarray:
    return windows(a["x"], (2, 2), 2, 1, (1, 2)).mean((4, 5))


def global_average_pool(a: Arrays) -> np.ndarray:
    return a["x"].mean((1, 2))


def attention(a: Arrays) -> np.ndarray:
    score = a["Q"] @ a["K"].transpose(0, 2, 1) / np.sqrt(a["Q"].shape[2])
    weight = np.exp(score - score.max(2, keepdims=True))
    return weight / weight.sum(2, keepdims=True) @ a["V"]


def softmax(a: Arrays) -> np.ndarray:
    weight = np.exp(a["X"] - a["X"].max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True)


def layer_norm(a: Arrays) -> np.ndarray:
    x = a["X"]
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * a["gamma"] + a["beta"]


def dense(a: Arrays) -> np.ndarray:
    return np.maximum(a["X"] @ a["W"] + a["bias"], 0)


def blur(a: Arrays) -> np.ndarray:
    return windows(a["X"], (3, 3), 1, 1, (0, 1)).mean((2, 3))


def quantized_gemm(a: Arrays) -> np.ndarray:
    sums = a["A"].astype(np.int64) @ a["B"].astype(np.int64) + a["bias"]
    scaled = (sums * a["factor"].astype(np.int64) + (1 << 36)) >> 37
    return np.clip(scaled + 128, 0, 255)


def spmv(a: Arrays) -> np.ndarray:
    dense = np.zeros((len(a["ptr"]) - 1, len(a["x"])))
    for i in range(len(dense)):
        for k in range(a["ptr"][i], a["ptr"][i + 1]):
            dense[i, a["col"][k]] += a["val"][k]
    return dense @ a["x"]


CASES: tuple[tuple[str, str, dict[str, int], Callable[[Arrays], np.ndarray | tuple[np.ndarray, ...]]], ...] = (
    ("conv1d", "conv1d_nlc", {"L": 13, "CI": 3, "CO": 5, "STRIDE": 2, "PAD": 2, "DILATION": 2}, conv1d),
    ("conv2d", "conv2d_nhwc", {"H": 9, "W": 8, "CI": 3, "CO": 4, "STRIDE": 2, "PAD": 2, "DILATION": 2}, conv2d),
    ("conv2d_nchw", "conv2d_nchw", {"H": 9, "W": 8, "CI": 3, "CO": 4, "STRIDE": 2}, conv2d_nchw),
    ("conv2d_nchw", "conv2d_grouped", {"H": 6, "W": 5, "CI": 4, "CO": 6, "STRIDE": 1, "GROUPS": 2}, conv2d_grouped),
    ("conv2d_nchwc_int8", "conv2d_nchwc_int8", {"H": 6, "W": 7, "CI": 16, "CO": 8, "VI": 8, "VO": 4}, conv2d_int8),
    ("conv3d", "conv3d_ndhwc", {"D": 3, "H": 4, "W": 5, "CI": 2, "CO": 3}, conv3d),
    ("depthwise", "depthwise_nhwc", {"H": 7, "W": 6, "C": 5, "STRIDE": 2}, depthwise),
    ("conv2d_transposed", "conv2d_transposed_nhwc", {"H": 3, "W": 4, "CI": 3, "CO": 2}, transposed),
    ("conv2d_capsule", "conv2d_capsule_nhwc", {"H": 5, "W": 6, "CI": 2, "CO": 3}, capsule),
    ("gemm", "gemm", {"M": 5, "N": 6, "K": 7}, gemm),
    ("batch_gemm", "batch_gemm", {"BATCH": 2, "M": 5, "N": 6, "K": 7}, gemm),
    ("dense", "dense_bias_relu", {"M": 3, "N": 4, "K": 5}, dense),
    ("blur", "blur", {"H": 4, "W": 5}, blur),
    ("batch_norm", "batch_norm", {"H": 3, "W": 4, "C": 5}, batch_norm),
    ("batch_norm", "batch_norm_train", {"N": 2, "H": 3, "W": 4, "C": 5}, batch_norm_train),
    ("pool", "max_pool", {"H": 7, "W": 6, "C": 3}, max_pool),
    ("pool", "average_pool", {"H": 6, "W": 4, "C": 3, "R": 2, "S": 2, "PAD": 0}, average_pool),
    ("pool", "global_average_pool", {"H": 3, "W": 4, "C": 5}, global_average_pool),
    ("attention", "attention", {"B": 2, "L": 3, "T": 4, "D": 5}, attention),
    ("softmax", "softmax", {"M": 3, "N": 7}, softmax),
    ("layer_norm", "layer_norm", {"M": 3, "N": 7}, layer_norm),
    ("transpose", "transpose", {"M": 3, "N": 5}, lambda a: a["A"].T),
    ("norm", "matrix_norm", {"B": 2, "M": 3, "N": 4}, lambda a: np.sqrt((a["A"] ** 2).sum((1, 2)))),
    ("reduce", "row_sum", {"M": 3, "N": 7}, lambda a: a["X"].sum(1)),
    ("reduce", "row_max", {"M": 3, "N": 7}, lambda a: a["X"].max(1)),
    ("reduce", "argmax", {"M": 3, "N": 7}, lambda a: (a["X"].argmax(1), a["X"].max(1))),
    ("spmv", "spmv", {"N": 5, "M": 4, "NNZ": 12}, spmv),
    ("scan", "cumulative_sum", {"M": 3, "N": 6}, lambda a: np.cumsum(a["X"], 1)),
    ("quantized_gemm", "quantized_gemm", {"M": 4, "N": 5, "K": 20}, quantized_gemm),
)


@pytest.mark.parametrize(("file", "name", "sizes", "meaning"), CASES, ids=[c[1] for c in CASES])
def test_a_workload_computes_what_numpy_computes(
    file: str, name: str, sizes: dict[str, int], meaning: Callable[[Arrays], np.ndarray | tuple[np.ndarray, ...]]
) -> None:
    program = small(file, name, **sizes)
    given = drawn(program)
    got = interpret.run(program, given)
    found = meaning(given)
    wanted = found if isinstance(found, tuple) else (found,)
    outputs = [p.buffer.name for p in program.params if p.direction == "out"][-len(wanted) :]
    for output, want in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(got[output].astype(np.float64), want, rtol=1e-4, atol=1e-5)


def test_no_workload_is_left_out() -> None:
    there = {name for path in WORKLOADS.glob("*.ms") for name in load(str(path)).programs}
    assert there == {name for _, name, _, _ in CASES}
