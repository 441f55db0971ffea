"""The workloads of `cpu.py`, and what NumPy and torch call for each.

A peer is a function of the workload's arrays, by the names of the program's parameters, that gives calls by name. Each
call returns its result. `packed`: weights are reordered ahead of time, outside of what is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]
Calls = dict[str, Callable[[], Any]]
Peer = Callable[[Arrays], Calls]


class Compared(NamedTuple):
    """A workload of `workloads.py`: its name there, peers by library, the unit that bounds it, its weights."""

    workload: str
    peers: Mapping[str, Peer]
    unit: str = "f32"
    weights: tuple[str, ...] = ()


def numpy_product(left: str, right: str) -> Peer:
    """A matrix product, or several."""

    def peer(given: Arrays) -> Calls:
        a, b = given[left], given[right]
        out = np.matmul(a, b)
        return {"numpy": lambda: np.matmul(a, b, out=out)}

    return peer


def torch_product(left: str, right: str) -> Peer:
    """A matrix product, or several; of two matrices, also with the right one packed for MKL and for oneDNN."""

    def peer(given: Arrays) -> Calls:
        import torch

        a, b = torch.from_numpy(given[left]), torch.from_numpy(given[right])
        out = torch.matmul(a, b)
        calls: Calls = {"torch": lambda: torch.matmul(a, b, out=out)}
        return calls if a.dim() > 2 else calls | _packed(a, b, None, "none")

    return peer


def _packed(a: Any, b: Any, bias: Any, after: str) -> Calls:
    import torch

    rows, weight = a.shape[0], b.T.contiguous()
    one = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    calls: Calls = {"oneDNN packed": lambda: torch.ops.mkldnn._linear_pointwise(a, one, bias, after, [], "")}
    if bias is None and hasattr(torch.ops.mkl, "_mkl_linear"):
        other = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)
        calls["MKL packed"] = lambda: torch.ops.mkl._mkl_linear(a, other, weight, None, rows)
    return calls


def numpy_dense(given: Arrays) -> Calls:
    """Matrix product, bias, ReLU."""
    x, w, bias = (given[k] for k in ("X", "W", "bias"))
    out = x @ w

    def run() -> Any:
        np.matmul(x, w, out=out)
        np.add(out, bias, out=out)
        return np.maximum(out, 0.0, out=out)

    return {"numpy": run}


def torch_dense(given: Arrays) -> Calls:
    """Matrix product with bias, ReLU in place; fused and packed by oneDNN."""
    import torch

    x, w, bias = (torch.from_numpy(given[k]) for k in ("X", "W", "bias"))
    out = torch.addmm(bias, x, w)
    return {"torch": lambda: torch.addmm(bias, x, w, out=out).relu_(), **_packed(x, w, bias, "relu")}


def torch_conv(stride: int, pad: int, depthwise: bool = False) -> Peer:
    """A convolution in channels-last layout, which is how the program's arrays lie; also with packed weights."""

    def peer(given: Arrays) -> Calls:
        import torch

        x = torch.from_numpy(given["x"]).permute(0, 3, 1, 2)
        f = torch.from_numpy(given["f"])
        f = f.permute(2, 0, 1).unsqueeze(1) if depthwise else f.permute(3, 2, 0, 1)
        f = f.contiguous(memory_format=torch.channels_last)
        groups = x.shape[1] if depthwise else 1
        s, p, d = [stride, stride], [pad, pad], [1, 1]
        own = torch.ops.mkldnn._reorder_convolution_weight(f, p, s, d, groups, list(x.shape))

        def packed() -> Any:
            y = torch.ops.mkldnn._convolution_pointwise(x, own, None, p, s, d, groups, "none", [], "")
            return y.permute(0, 2, 3, 1)

        return {
            "torch": lambda: torch.nn.functional.conv2d(x, f, None, s, p, d, groups).permute(0, 2, 3, 1),
            "oneDNN packed": packed,
        }

    return peer


def numpy_softmax(given: Arrays) -> Calls:
    """Softmax along rows."""
    x = given["X"]

    def run() -> Any:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return {"numpy": run}


def torch_softmax(given: Arrays) -> Calls:
    """Softmax along rows."""
    import torch

    x = torch.from_numpy(given["X"])
    out = torch.empty_like(x)
    return {"torch": lambda: torch.softmax(x, 1, out=out)}


def numpy_layer_norm(given: Arrays) -> Calls:
    """Layer normalisation along rows."""
    x, gamma, beta = (given[k] for k in ("X", "gamma", "beta"))

    def run() -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * gamma + beta

    return {"numpy": run}


def torch_layer_norm(given: Arrays) -> Calls:
    """Layer normalisation along rows."""
    import torch

    x, gamma, beta = (torch.from_numpy(given[k]) for k in ("X", "gamma", "beta"))
    return {"torch": lambda: torch.nn.functional.layer_norm(x, x.shape[1:], gamma, beta)}


def torch_attention(given: Arrays) -> Calls:
    """Attention by the fused kernel."""
    import torch

    q, k, v = (torch.from_numpy(given[name]).unsqueeze(0) for name in "QKV")
    return {"torch": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)[0]}


def torch_bytes(given: Arrays) -> Calls:
    """s8 by s8, summed in 32 bits."""
    import torch

    a, b = torch.from_numpy(given["A"]), torch.from_numpy(given["B"])
    out = torch._int_mm(a, b)
    return {"torch": lambda: torch._int_mm(a, b, out=out)}


def torch_bfloat(given: Arrays) -> Calls:
    """bf16 by bf16, into bf16."""
    import torch

    a, b = (torch.from_numpy(given[k]).view(torch.bfloat16) for k in "AB")
    out = torch.matmul(a, b)
    return {"torch": lambda: torch.matmul(a, b, out=out)}


_GEMM = {"numpy": numpy_product("A", "B"), "torch": torch_product("A", "B")}


def _gemm(name: str) -> Compared:
    return Compared(name, _GEMM, weights=("B",))


def _conv(name: str, stride: int, pad: int) -> Compared:
    return Compared(name, {"torch": torch_conv(stride, pad)}, weights=("f",))


WORKLOADS: Mapping[str, Compared] = {
    **{name: _gemm(name) for name in ("gemm_128", "gemm_512", "gemm_1024", "gemm_odd", "gemm_deep")},
    "bmm_128": Compared("bmm_8x128", _GEMM),
    "dense_bias_relu": Compared("dense_bias_relu", {"numpy": numpy_dense, "torch": torch_dense}, weights=("W", "bias")),
    "conv2d_c64_3x3": _conv("conv2d_c64_3x3", 1, 1),
    "conv2d_stem_7x7": _conv("conv2d_stem_7x7", 2, 3),
    "conv2d_1x1": _conv("conv2d_1x1", 1, 0),
    "depthwise_112": Compared("depthwise_112", {"torch": torch_conv(1, 1, depthwise=True)}),
    "softmax": Compared("softmax", {"numpy": numpy_softmax, "torch": torch_softmax}),
    "layer_norm": Compared("layer_norm", {"numpy": numpy_layer_norm, "torch": torch_layer_norm}),
    "attention": Compared("attention", {"torch": torch_attention}),
    "gemm_s8": Compared("gemm_s8", {"torch": torch_bytes}, "i8", ("B",)),
    "gemm_bf16": Compared("gemm_bf16", {"torch": torch_bfloat}, "bf16", ("B",)),
}
"""The table of `docs/performance.md`, where the product of eight matrices of 128 × 128 is called bmm_128."""
