"""A GPU: memory, modules, launches and events. pycuda is imported when the first device is asked for."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from mslang.diagnostics import MsError, TargetError, problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

Three = tuple[int, int, int]


class Device(Protocol):
    """What running a kernel needs of a GPU. Addresses are numbers; the owner frees what it allocates."""

    @property
    def name(self) -> str:
        """As the driver calls it."""

    @property
    def sm(self) -> int:
        """Its architecture as a number: 90 for compute capability 9.0."""

    @property
    def l2(self) -> int:
        """Bytes of its L2 cache."""

    def attribute(self, name: str) -> int | None:
        """A number that the driver reports, by the end of its name (`"CLOCK_RATE"`); None where it does not."""

    def allocate(self, size: int) -> int:
        """The address of so many bytes."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def put(self, address: int, array: NDArray[Any]) -> None:
        """Copy a contiguous array to the device."""

    def get(self, array: NDArray[Any], address: int) -> None:
        """Copy a contiguous array from the device."""

    def copy(self, address: int, source: int, size: int) -> None:
        """Copy so many bytes from one address to another on the device; in order with launches."""

    def fill(self, address: int, size: int) -> None:
        """Overwrite so many bytes; in order with launches."""

    def function(self, image: bytes, name: str, dynamic_shared: int) -> Any:
        """A kernel of an image, which may reserve so many bytes of shared memory."""

    def launch(self, function: Any, grid: Three, block: Three, dynamic_shared: int, arguments: list[Any]) -> None:
        """Start a kernel. Arguments are NumPy scalars."""

    def mark(self) -> Any:
        """An event after all that was started."""

    def seconds(self, before: Any, after: Any) -> float:
        """The time between two events, once both have happened."""

    def finish(self) -> None:
        """Wait for all that was started.

        Raises:
            MsError: MS447, a kernel failed.
        """


class PycudaDevice:
    """The first GPU of this machine, through pycuda.

    Its primary context stays current in the thread that makes this; other threads enter it for each operation.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._device = driver.Device(0)
        self._context = self._device.retain_primary_context()
        self._context.push()
        self._thread = threading.get_ident()
        self._images: dict[bytes, Any] = {}
        self._memory: dict[int, Any] = {}

    @property
    def name(self) -> str:
        """As the driver calls it."""
        return str(self._device.name())

    @property
    def sm(self) -> int:
        """Its architecture as a number."""
        major, minor = self._device.compute_capability()
        return int(major) * 10 + int(minor)

    @property
    def l2(self) -> int:
        """Bytes of its L2 cache."""
        return int(self._device.get_attribute(self._driver.device_attribute.L2_CACHE_SIZE))

    def attribute(self, name: str) -> int | None:
        """A number that the driver reports, by the end of its name."""
        number = getattr(self._driver.device_attribute, name, None)
        try:
            return None if number is None else int(self._device.get_attribute(number))
        except self._driver.Error:
            return None

    def allocate(self, size: int) -> int:
        """The address of so many bytes."""
        with self._driving():
            try:
                memory = self._driver.mem_alloc(max(size, 1))
            except self._driver.MemoryError as error:
                raise MsError(
                    problem(
                        "MS447",
                        f"the GPU has no {size:,} bytes of memory left",
                        why=str(error),
                        help="use smaller sizes",
                    )
                ) from error
        address = int(memory)
        # The allocation is freed when its owner says so, not when Python's collector does.
        self._memory[address] = memory
        return address

    def free(self, address: int) -> None:
        """Give memory back."""
        memory = self._memory.pop(address, None)
        if memory is not None:
            with self._driving():
                memory.free()

    def put(self, address: int, array: NDArray[Any]) -> None:
        """Copy a contiguous array to the device."""
        if array.nbytes:
            with self._driving():
                self._driver.memcpy_htod(address, array)

    def get(self, array: NDArray[Any], address: int) -> None:
        """Copy a contiguous array from the device."""
        if array.nbytes:
            with self._driving():
                self._driver.memcpy_dtoh(array, address)

    def copy(self, address: int, source: int, size: int) -> None:
        """Copy so many bytes on the device."""
        if size:
            with self._driving():
                self._driver.memcpy_dtod_async(address, source, size)

    def fill(self, address: int, size: int) -> None:
        """Overwrite so many bytes."""
        with self._driving():
            self._driver.memset_d8(address, 0, size)

    def function(self, image: bytes, name: str, dynamic_shared: int) -> Any:
        """A kernel of an image."""
        with self._driving():
            if image not in self._images:
                self._images[image] = self._driver.module_from_buffer(image)
            found = self._images[image].get_function(name)
            if dynamic_shared:
                limit = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                found.set_attribute(limit, dynamic_shared)
        return found

    def launch(self, function: Any, grid: Three, block: Three, dynamic_shared: int, arguments: list[Any]) -> None:
        """Start a kernel."""
        with self._driving():
            function(*arguments, grid=grid, block=block, shared=dynamic_shared)

    def mark(self) -> Any:
        """An event after all that was started."""
        with self._driving():
            event = self._driver.Event()
            event.record()
        return event

    def seconds(self, before: Any, after: Any) -> float:
        """The time between two events."""
        with self._driving():
            after.synchronize()
            return float(after.time_since(before)) * 1e-3

    def finish(self) -> None:
        """Wait for all that was started."""
        with self._driving():
            self._context.synchronize()

    @contextmanager
    def _driving(self) -> Iterator[None]:
        """The context is current in this thread; errors of the driver are MS447."""
        entered = threading.get_ident() != self._thread
        if entered:
            self._context.push()
        try:
            yield
        except self._driver.Error as error:
            raise MsError(
                problem(
                    "MS447",
                    "the GPU reports an error",
                    why=str(error),
                    help="after an illegal access the process must be restarted; `compute-sanitizer` finds the access",
                )
            ) from error
        finally:
            if entered:
                self._driver.Context.pop()


def unavailable() -> str | None:
    """Why this process cannot run kernels on a GPU; None if it can."""
    try:
        device()
    except TargetError as error:
        found = error.diagnostic
        return f"{found.why or found.message}; {found.help}" if found.help else found.why or found.message
    return None


@lru_cache(maxsize=1)
def device() -> Device:
    """The GPU of this machine.

    Raises:
        TargetError: MS445, pycuda cannot be imported; MS446, there is no driver or no GPU.
    """
    try:
        # Without a driver pycuda warns before it fails.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pycuda import driver
    except ImportError as error:
        raise TargetError(
            problem(
                "MS445",
                "kernels run on GPUs through pycuda, which cannot be imported",
                why=f"pycuda cannot be imported: {error}",
                help="`pip install '.[cuda]'` where NVIDIA's driver is installed; all but running works without",
            )
        ) from error
    try:
        driver.init()
        if driver.Device.count() == 0:
            raise TargetError(problem("MS446", "this machine has no GPU", why="the driver lists no device"))
        return PycudaDevice(driver)
    except driver.Error as error:
        raise TargetError(
            problem(
                "MS446",
                "this machine has no GPU that can be used",
                why=str(error),
                help="`nvidia-smi` shows the driver and the devices; everything but running works without",
            )
        ) from error
