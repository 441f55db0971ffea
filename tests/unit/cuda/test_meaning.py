"""What the printed source computes, run on the CPU, is what the LLVM back end computes of the same kernels."""

from collections.abc import Mapping

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.cuda.source import Source
from mslang.backend.llvm.compile import compile
from mslang.ir.dtype import SCALARS, bits, is_float, is_unsigned
from mslang.ir.expr import Call, Symbol, dtype_of
from mslang.ir.functions import FUNCTIONS
from mslang.ir.program import Param
from mslang.ir.visit import walk_expr
from mslang.kernel.nodes import For, Function, Module
from mslang.runtime.arguments import evaluate, numpy_name
from mslang.runtime.kernel import load
from mslang.target.description import CUDA
from mslang.target.detect import host
from tests.cuda.emulator import Emulated, Launch, Outcome, why_not
from tests.unit.cuda.kernels import KERNELS, cuda_source, n
from tests.unit.cuda.test_expressions import all_of

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def emulated(
    source: Source, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], unset: tuple[str, ...]
) -> Outcome:
    launches = [
        Launch(
            k.function,
            (*k.params, *(sizes[s] for s in k.sizes)),
            tuple(evaluate(e, sizes) for e in k.grid),
            tuple(evaluate(e, sizes) for e in k.block),
            k.dynamic_shared,
        )
        for k in source.launches
    ]
    with Emulated(source.text) as kernel:
        return kernel.run(launches, arrays, unset=unset)


def numbers(dtype: str, seed: int) -> np.ndarray:
    """Sixty-four numbers: zeros of both signs, infinities and NaN, extremes, and some of each size."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, 64).astype(bool)
    if not is_float(dtype):
        width = bits(dtype)
        low, high = (0, (1 << width) - 1) if is_unsigned(dtype) else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
        some = [int(x) for x in random.integers(max(low, -20), 21, 58)]
        return np.array([low, high, 0, low + 1, high - 1, 1, *some], dtype=numpy_name(dtype))
    some = np.concatenate([random.uniform(-3, 3, 28), random.uniform(0, 100, 28)])
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, *some], dtype=np.float32)
    random.shuffle(values)
    if dtype == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(numpy_name(dtype))


def as_floats(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def comparable(dtype: str) -> Module:
    """All operations of a type but exchanges, which CPUs lack, and conversions of floats that no integer can hold."""
    made = all_of(dtype).functions[0]
    kept = []
    for s in made.body:
        calls = [x.name for x in walk_expr(s.value) if isinstance(x, Call)]
        narrowed = is_float(dtype) and not is_float(dtype_of(s.value)) and not calls and dtype_of(s.value) != "bool"
        if not any(c.startswith("shuffle") for c in calls) and not narrowed:
            kept.append(s)
    names = {"a", "b", *(s.buffer for s in kept)}
    buffers = tuple(b for b in made.params if b.name in names)
    params = tuple(Param(b, "out" if b.name.startswith("out") else "in") for b in buffers)
    return Module(dtype, params, (replace(made, params=buffers, body=tuple(kept)),))


@pytest.mark.parametrize("dtype", SCALARS)
@pytest.mark.one_in(2)
def test_every_operation_means_the_same_on_gpu_and_cpu(dtype: str) -> None:
    module = comparable(dtype)
    gpu = module.functions[0]
    arrays = {b.name: np.zeros(64, numpy_name(b.dtype)) for b in gpu.params}
    arrays |= {"a": numbers(dtype, 1), "b": numbers(dtype, 2)}
    found = emulated(cuda_source(module, CUDA), arrays, {}, ())
    assert not found.faults
    cpu = Function(gpu.name, gpu.params, (For("threadIdx.x", n(64), gpu.body),))
    wanted = {name: a.copy() for name, a in arrays.items()}
    executable = compile(replace(module, functions=(cpu,)), host())
    load(executable.object, executable.signature)(**wanted)
    dtypes = {b.name: b.dtype for b in gpu.params}
    for s in gpu.body:
        name, kind = s.buffer, dtypes[s.buffer]
        calls = {x.name for x in walk_expr(s.value) if isinstance(x, Call)}
        here, there = found.arrays[name], wanted[name]
        if not is_float(kind):
            assert here.tolist() == there.tolist(), s
            continue
        here, there = as_floats(here, kind), as_floats(there, kind)
        if calls & set(FUNCTIONS):
            # Libraries differ in the last places.
            digits = {"f16": 2e-3, "bf16": 1e-2, "f32": 2e-6, "f64": 1e-13}[kind]
            np.testing.assert_allclose(here, there, rtol=digits, atol=digits * 1e-3, err_msg=str(s))
        else:
            np.testing.assert_array_equal(here, there, err_msg=str(s))
            assert np.signbit(here[~np.isnan(here)]).tolist() == np.signbit(there[~np.isnan(there)]).tolist(), s


def test_sums_of_rows() -> None:
    x = np.random.default_rng(0).integers(-3, 4, (16, 256)).astype(np.float16)
    source = cuda_source(KERNELS["row_sums"](), CUDA)
    found = emulated(source, {"X": x, "out": np.zeros(16, np.float32)}, {"M": 16}, ("out",))
    assert not found.faults
    assert found.arrays["out"].tolist() == x.astype(np.float32).sum(1).tolist()


def test_histogram() -> None:
    x = np.random.default_rng(0).integers(0, 256, 100000).astype(np.uint8)
    source = cuda_source(KERNELS["histogram"](), CUDA)
    found = emulated(source, {"X": x, "out": np.zeros(256, np.int32)}, {}, ())
    assert not found.faults
    assert found.arrays["out"].tolist() == np.bincount(x, minlength=256).tolist()


def test_sizes_of_a_launch_are_those_of_the_call() -> None:
    (launch,) = cuda_source(KERNELS["row_sums"](), CUDA).launches
    assert isinstance(launch.grid[0], Symbol)
    assert launch.sizes == ("M",)
