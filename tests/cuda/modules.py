"""Programs after their schedules, as CUDA C in the emulation: arrays in, arrays and faults out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from mslang.backend.cuda.source import KernelLaunch, Source, cuda_source, never
from mslang.ir.expr import Expr
from mslang.ir.program import Buffer, Param, Program
from mslang.kernel.nodes import Invoke, Module
from mslang.kernel.verify import verify
from mslang.lower.gpu import lower
from mslang.runtime.packing import places
from mslang.target.description import CUDA, Target
from tests.cuda.emulator import ORDERS, Emulated, Fault, Launch
from tests.property.arrays import NUMPY, concrete_shape

Arrays = Mapping[str, np.ndarray]
BITS = {"bf16": np.uint16}


class Made(msgspec.Struct, frozen=True):
    """A program with its kernels."""

    program: Program
    module: Module
    source: Source


class Ran(msgspec.Struct, frozen=True):
    """The results of a program, bf16 as its bits, and what was found on the way."""

    results: Arrays
    faults: tuple[Fault, ...]
    harmless: tuple[Fault, ...]


def made(program: Program, target: Target = CUDA, emulated: Callable[[Invoke], bool] = never) -> Made:
    """A scheduled program as CUDA C; `emulated` instructions are printed with their meaning.

    Raises:
        MsError: it cannot be run by a GPU, or not be written in CUDA C.
    """
    module = lower(program, target)
    verify(module)
    return Made(program, module, cuda_source(module, target, emulated))


def run(
    m: Made,
    arrays: Arrays,
    file: Emulated,
    number: int = 0,
    *,
    sizes: Mapping[str, int] = {},
    orders: Sequence[str] = tuple(ORDERS),
    seed: int = 0,
    ignored_lines: Sequence[int] = (),
) -> Ran:
    """Run the kernels of a program, which are file `number` of those compiled; `seed` is of a shuffled order."""
    buffers = {p.buffer.name: _laid_out(p.buffer, _packed(p, arrays, sizes), sizes) for p in m.program.params}
    unset = [p.buffer.name for p in m.program.params if p.direction == "out"]
    for b in m.source.workspaces:
        buffers[b.name] = empty(b, sizes)
        unset.append(b.name)
    launches = [launched(k, m.module, sizes) for k in m.source.launches]
    outcome = file.run(
        launches, buffers, file=number, unset=unset, orders=orders, seed=seed, ignored_lines=ignored_lines
    )
    results = {
        p.given.name: _unpacked(p, _elements(p.buffer, outcome.arrays[p.buffer.name], sizes), sizes)
        for p in m.program.params
        if p.direction != "in"
    }
    return Ran(results, outcome.faults, outcome.harmless)


def emulate(
    program: Program,
    arrays: Arrays,
    target: Target = CUDA,
    *,
    sizes: Mapping[str, int] = {},
    emulated: Callable[[Invoke], bool] = never,
) -> Ran:
    """Lower, print, compile and run one program."""
    m = made(program, target, emulated)
    with Emulated(m.source.text) as file:
        return run(m, arrays, file, sizes=sizes)


def as_numbers(m: Made, name: str, array: np.ndarray) -> np.ndarray:
    """NumPy has no bf16: its bits as the `f32` that they stand for, as the interpreter gives them."""
    dtype = next(q.given.dtype for q in m.program.params if q.given.name == name)
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else array


def launched(k: KernelLaunch, module: Module, sizes: Mapping[str, int]) -> Launch:
    """A launch with its numbers."""

    def numbers(es: Sequence[Expr]) -> tuple[int, int, int]:
        x, y, z = concrete_shape(es, sizes)
        return x, y, z

    return Launch(
        k.function, (*k.params, *(sizes[s] for s in k.sizes)), numbers(k.grid), numbers(k.block), k.dynamic_shared
    )


def _dtype(b: Buffer) -> np.dtype:
    return np.dtype(BITS.get(b.dtype, NUMPY[b.dtype]))


def empty(b: Buffer, sizes: Mapping[str, int]) -> np.ndarray:
    """Memory for a buffer."""
    return np.zeros(concrete_shape(b.shape, sizes), _dtype(b))


def _laid_out(b: Buffer, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """An array in memory, flat where the buffer declares strides."""
    if b.strides is None:
        return array
    strides = concrete_shape(b.strides, sizes)
    memory = np.zeros(1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)), array.dtype)
    _elements(b, memory, sizes)[...] = array
    return memory


def _elements(b: Buffer, memory: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """The elements of a buffer in memory."""
    if b.strides is None:
        return memory
    strides = tuple(s * memory.itemsize for s in concrete_shape(b.strides, sizes))
    return np.lib.stride_tricks.as_strided(memory, concrete_shape(b.shape, sizes), strides)


def _packed(p: Param, arrays: Arrays, sizes: Mapping[str, int]) -> np.ndarray:
    """An argument as it lies in the buffer."""
    into = empty(p.buffer, sizes)
    if p.direction == "out":
        return into
    array = np.asarray(arrays[p.given.name])
    if p.given.dtype == "bf16" and array.dtype == np.float32:
        array = (array.view(np.uint32) >> 16).astype(np.uint16)
    if p.packing is None:
        return array
    into.reshape(-1)[places(p.packing, array.shape, into.shape, sizes)] = array.reshape(-1)
    return into


def _unpacked(p: Param, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    if p.packing is None:
        return array
    shape = concrete_shape(p.given.shape, sizes)
    return array.reshape(-1)[places(p.packing, shape, array.shape, sizes)].reshape(shape)
