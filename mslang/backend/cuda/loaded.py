"""A compiled module in this process: called with arrays of the host, which are copied to the GPU and back."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from mslang.backend.cuda.device import Device, Three
from mslang.backend.cuda.executable import CudaExecutable
from mslang.backend.cuda.source import KernelLaunch
from mslang.backend.cuda.timing import Run, measured
from mslang.backend.cuda.types import FITS
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import size_of
from mslang.ir.expr import DynamicRange, Expr
from mslang.ir.program import Buffer
from mslang.lower.layout import span
from mslang.runtime.arguments import Arguments, evaluate, number_of_threads, pack, prepare
from mslang.runtime.packing import Packed
from mslang.runtime.timing import Limits, Timing

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LoadedModule:
    """A module that can be called. Its image is loaded when it is made.

    Raises:
        MsError: MS447, the driver refuses the image; MS443, the compiler refuses the source for this GPU.
        TargetError: MS444, there is no compiler.
    """

    def __init__(self, executable: CudaExecutable, device: Device) -> None:
        self.executable = executable.loadable_on(device.sm)
        self.signature = executable.signature
        self.device = device
        image = self.executable.image or b""
        self.functions = {
            k.function: device.function(image, k.function, k.dynamic_shared) for k in executable.source.launches
        }

    def __repr__(self) -> str:
        return f"<kernel {self.signature.name}({', '.join(p.name for p in self.signature.parameters)})>"

    def __call__(self, /, *arrays: object, **named: object) -> Any:
        """Run on arrays of the host, in the order of the parameters, by name, or with the outputs left out.

        Returns the output, or all of them if there are several.
        """
        _, named = number_of_threads(self.signature, named)
        bound = BoundModule(self, prepare(self.signature, arrays, named, once=True))
        bound.run()
        outputs = tuple(bound.arguments.result(p) for p in self.signature.parameters if p.direction != "in")
        return outputs[0] if len(outputs) == 1 else outputs

    def bind(self, /, *arrays: object, **named: object) -> BoundModule:
        """Check the arguments once, and reserve their memory on the GPU. Raises MsError MS410 to MS414, MS447."""
        _, named = number_of_threads(self.signature, named)
        return BoundModule(self, prepare(self.signature, arrays, named))

    def pack(self, name: str, array: object) -> Packed:
        """An array as the kernel takes it for a parameter of another layout."""
        for p in self.signature.parameters:
            if p.name == name:
                return pack(p, self.signature, array)
        names = ", ".join(p.name for p in self.signature.parameters)
        raise MsError(problem("MS410", f"{self.signature.name} has no parameter {name}", help=f"it has {names}"))

    def time(self, /, *arrays: object, limits: Limits | None = None, **named: object) -> Timing:
        """How long a run takes on the GPU; copies are not part of it."""
        return self.bind(*arrays, **named).time(limits)


class Ready(NamedTuple):
    """A launch with its numbers."""

    function: Any
    grid: Three
    block: Three
    dynamic_shared: int
    arguments: list[Any]


class BoundModule:
    """A module with its arguments: `arrays` are the caller's, copied to the GPU before runs and back after them."""

    def __init__(self, module: LoadedModule, arguments: Arguments) -> None:
        self.module = module
        self.arguments = arguments
        self.arrays = arguments.arrays
        self.device = module.device
        self._turn = threading.Lock()
        self._worked_on: dict[str, NDArray[Any]] = {
            **arguments.arrays,
            **{name: s.packed for name, s in arguments.staged.items()},
        }
        sizes = arguments.sizes
        memory = {name: self.device.allocate(_span(a).nbytes) for name, a in self._worked_on.items()}
        for b in module.executable.source.workspaces:
            memory[b.name] = self.device.allocate(_bytes(b, sizes))
        self._memory = memory
        self._finalizer = weakref.finalize(self, _free, self.device, tuple(memory.values()))
        self._launches = [self._ready(k, sizes) for k in module.executable.source.launches]

    def _ready(self, k: KernelLaunch, sizes: Mapping[str, int]) -> Ready:
        import numpy as np

        dynamic = {s.text: s.domain for s in self.module.signature.dynamic}
        arguments: list[Any] = [np.uint64(self._memory[name]) for name in k.params]
        for size in k.sizes:
            domain = dynamic[size]
            narrow = isinstance(domain, DynamicRange) and domain.hi <= FITS[1]
            arguments.append(np.int32(sizes[size]) if narrow else np.int64(sizes[size]))
        return Ready(
            self.module.functions[k.function],
            _three(k.grid, sizes),
            _three(k.block, sizes),
            k.dynamic_shared,
            arguments,
        )

    def start(self) -> None:
        """Start all launches in order; they run one after another."""
        for k in self._launches:
            # A launch without blocks is an error of the driver; it has nothing to do.
            if 0 not in k.grid:
                self.device.launch(*k)

    def run(self, times: int = 1) -> None:
        """Run so many times, to the end."""
        with self.prepared() as (enter, _):
            enter(times)

    @contextmanager
    def prepared(self) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
        """What runs the module so many times, and what copies the caller's arrays again after a change to them.

        At the end the outputs are in the caller's arrays.

        Raises:
            MsError: MS447, a kernel failed.
        """

        def put() -> None:
            for s in self.arguments.staged.values():
                s.put()
            for name, array in self._worked_on.items():
                self.device.put(self._memory[name], _span(array))

        def enter(times: int) -> None:
            for _ in range(times):
                self.start()
            self.device.finish()

        with self._turn:
            put()
            yield enter, put
            for p in self.module.signature.parameters:
                if p.direction != "in":
                    self.device.get(_span(self._worked_on[p.name]), self._memory[p.name])
                    if p.name in self.arguments.staged:
                        self.arguments.staged[p.name].take()

    def time(self, limits: Limits | None = None) -> Timing:
        """How long a run takes, by events, with a cold L2 cache.

        Each run begins with the arrays as they were given, so that outputs are those of a single one.
        """
        return time_together([(self, 1)], limits or Limits())

    @contextmanager
    def kept(self) -> Iterator[Callable[[], None] | None]:
        """What copies the first contents of all that is read and written back, on the device; None: nothing is."""
        sizes = {
            p.name: _span(self._worked_on[p.name]).nbytes
            for p in self.module.signature.parameters
            if p.direction == "inout"
        }
        copies: dict[str, int] = {}
        try:
            for name, size in sizes.items():
                copies[name] = self.device.allocate(size)
                self.device.copy(copies[name], self._memory[name], size)

            def restore() -> None:
                for name, address in copies.items():
                    self.device.copy(self._memory[name], address, sizes[name])

            yield restore if copies else None
        finally:
            _free(self.device, tuple(copies.values()))


def time_together(parts: Sequence[tuple[BoundModule, int]], limits: Limits) -> Timing:
    """How long modules take that are run as one, each called so many times, as `BoundModule.time` has it."""
    with ExitStack() as held:
        runs: list[Run] = []
        for bound, calls in parts:
            held.enter_context(bound.prepared())
            runs.append(Run(bound.start, held.enter_context(bound.kept()), calls))
        return measured(parts[0][0].device, runs, limits)


def _three(extents: tuple[Expr, Expr, Expr], sizes: Mapping[str, int]) -> Three:
    x, y, z = (evaluate(e, sizes) for e in extents)
    return x, y, z


def _free(device: Device, addresses: tuple[int, ...]) -> None:
    for address in addresses:
        device.free(address)


def _bytes(b: Buffer, sizes: Mapping[str, int]) -> int:
    return size_of(b.dtype) * evaluate(span(b), sizes)


def _span(array: NDArray[Any]) -> NDArray[Any]:
    """The memory of an array from its first to its last element, padding between rows among it, as one row."""
    import numpy as np

    if not array.size:
        return array.reshape(-1)
    steps = zip(array.shape, array.strides, strict=True)
    last = sum((n - 1) * step for n, step in steps) // array.itemsize
    return np.lib.stride_tricks.as_strided(array, (last + 1,), (array.itemsize,))
