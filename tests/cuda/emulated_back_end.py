"""A back end that runs what the CUDA back end emits in the emulation, so that a GPU can be tuned for without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from mslang.backend.backend import Bound, Options, always_available
from mslang.backend.cuda.backend import CUDA
from mslang.backend.cuda.source import Source, cuda_source
from mslang.kernel.nodes import Module
from mslang.runtime.function_kernel import FunctionCall, FunctionKernel
from mslang.runtime.signature import Parameter, Signature
from mslang.runtime.timing import Limits, Timing
from mslang.target.description import Target
from tests.cuda.emulator import Emulated
from tests.cuda.modules import empty, launched

SECONDS = 1e-3
"""A kernel takes so long, whatever it computes."""


class Emitted(msgspec.Struct, frozen=True):
    """The executable: it is compiled for the CPU where it is loaded."""

    module: Module
    source: Source


class EmulatedKernel(FunctionKernel):
    """The kernels of a program in the emulation."""

    def __init__(self, emitted: Emitted) -> None:
        module = emitted.module
        super().__init__(Signature(module.name, tuple(map(Parameter.of, module.params)), module.dynamic), self._launch)
        self.emitted, self._file = emitted, Emulated(emitted.source.text, checked=False)

    def _launch(self, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        source, module = self.emitted.source, self.emitted.module
        buffers = {**arrays, **{b.name: empty(b, sizes) for b in source.workspaces}}
        outcome = self._file.run([launched(k, module, sizes) for k in source.launches], buffers, orders=("forward",))
        for p in module.params:
            if p.direction != "in":
                arrays[p.buffer.name][...] = outcome.arrays[p.buffer.name]


def compiled(module: Module, target: Target, options: Options) -> Emitted:
    """The source."""
    return Emitted(module, cuda_source(module, target))


def version() -> str:
    """What times belong to."""
    return "emulation 1"


def timed(bound: Bound, limits: Limits, restore: Callable[[], None] | None) -> Timing:
    """What the kernels are said to take, which run once."""
    assert isinstance(bound, FunctionCall) and isinstance(bound.kernel, EmulatedKernel)
    bound.run()
    return Timing((SECONDS * len(bound.kernel.emitted.source.launches),) * limits.repeats, 1, cold=True)


EMULATED = msgspec.structs.replace(
    CUDA,
    name="emulated",
    kinds=(),
    compile=compiled,
    load=EmulatedKernel,
    version=version,
    unavailable=always_available,
    time=timed,
    library=None,
    device=None,
)
