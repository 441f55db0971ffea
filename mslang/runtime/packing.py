"""Parameters whose layout differs from their caller's: where each element goes, there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.arith.arrays import Compiled, compile_arrays
from mslang.ir.program import Packing
from mslang.ir.text import print_expr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]


class Packed:
    """An array in the layout in which a kernel takes a parameter: what `kernel.pack` makes, and the kernel takes as it
    is. `shape` is that of the array it was made from, `packing` the layout (None: that of a compact array)."""

    def __init__(self, array: NDArray[Any], shape: tuple[int, ...], packing: Packing | None) -> None:
        self.array = array
        self.shape = shape
        self.packing = packing


class PackedForSizes:
    """A constant in each of the layouts in which kernels for different sizes take it."""

    def __init__(self, name: str, layouts: Sequence[Packed]) -> None:
        self.name = name
        self._layouts = tuple(layouts)

    def laid_out(self, packing: Packing | None) -> Packed:
        """The array in one of the layouts; the first where there is no such: a kernel refuses it."""
        return next((x for x in self._layouts if x.packing == packing), self._layouts[0])


def places(packing: Packing, shape: tuple[int, ...], into: tuple[int, ...], sizes: Mapping[str, int]) -> Places:
    """Where each element of an array of a shape goes, both counted in row-major order.

    Args:
        packing: the map.
        shape: the shape of the caller's array.
        into: the shape of the buffer.
        sizes: values of what the map names besides its parameters.

    Raises:
        MsError: MS420, two elements would go to one place, or one outside of the buffer.
    """
    return _places(packing, shape, into, tuple(sorted(sizes.items())))


@lru_cache(maxsize=2)
def _places(
    packing: Packing, shape: tuple[int, ...], into: tuple[int, ...], sizes: tuple[tuple[str, int], ...]
) -> Places:
    import numpy as np

    grid = np.meshgrid(*(np.arange(n, dtype=np.int64) for n in shape), indexing="ij", sparse=True)
    names: dict[str, Any] = {**dict(sizes), **dict(zip(packing.params, grid, strict=True))}
    flat: Any = np.zeros(shape, np.int64)
    for index, n in zip(_indices(packing)(names), into, strict=True):
        if prod(shape) and not (np.min(index) >= 0 and np.max(index) < n):
            raise _unfit("an element would be packed outside of the buffer", packing, shape, into)
        flat = flat * n + index
    flat = np.ascontiguousarray(np.broadcast_to(flat, shape)).reshape(-1)
    if flat.size and np.bincount(flat, minlength=1).max() > 1:
        raise _unfit("two elements would be packed into one place", packing, shape, into)
    flat.flags.writeable = False
    found: Places = flat
    return found


def _indices(packing: Packing) -> Compiled:
    try:
        return compile_arrays(packing.results)
    except MsError as error:
        results = ", ".join(print_expr(e) for e in packing.results)
        raise MsError(
            problem(
                "MS420",
                "the map of a packing cannot be computed where arrays are packed",
                why=f"`{results}`: {error.diagnostic.message}",
                help="use `+`, `-`, `*`, `//`, `%`, `min`, `max`, comparisons and `select`",
            )
        ) from error


def _unfit(message: str, packing: Packing, shape: tuple[int, ...], into: tuple[int, ...]) -> MsError:
    why = f"{list(shape)} is packed as {list(into)} by a map of {', '.join(packing.params)}"
    return MsError(problem("MS420", message, why=why))


class Staging(msgspec.Struct, frozen=True):
    """A caller's array with the packed one that the kernel works on. One that is `kept` is packed already, once."""

    given: Any
    packed: Any
    at: Any
    pad: float
    kept: bool = False

    def put(self) -> None:
        """Pack: the caller's elements go to their places."""
        if not self.kept:
            self.fill()

    def fill(self) -> None:
        """Pack, whether it is kept or not."""
        self.packed[...] = self.pad
        self.packed.reshape(-1)[self.at] = self.given.reshape(-1)

    def take(self) -> None:
        """Unpack: the elements go back; padding is dropped."""
        self.given[...] = self.packed.reshape(-1)[self.at].reshape(self.given.shape)
