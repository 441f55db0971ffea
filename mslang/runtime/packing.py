"""Parameters whose layout differs from their caller's: where each element goes, there and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.expr import Binary, Const, Expr, Select, Symbol, Unary, Var
from mslang.ir.program import Packing
from mslang.ir.text import print_expr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]


class Packed:
    """An array in the layout in which a kernel takes a parameter: what `kernel.pack` makes, and the kernel takes as it
    is. `shape` is that of the array it was made from."""

    def __init__(self, array: NDArray[Any], shape: tuple[int, ...], packing: Packing) -> None:
        self.array = array
        self.shape = shape
        self.packing = packing


def places(packing: Packing, shape: tuple[int, ...], into: tuple[int, ...], sizes: Mapping[str, int]) -> Places:
    """Where each element of an array of a shape goes, both counted in row-major order.

    Args:
        packing: the map.
        shape: the shape of the caller's array.
        into: the shape of the buffer.
        sizes: values of what the map names beside its parameters.

    Raises:
        MsError: MS420, two elements would go to one place, or one outside of the buffer.
    """
    return _places(packing, shape, into, tuple(sorted(sizes.items())))


@lru_cache(maxsize=16)
def _places(
    packing: Packing, shape: tuple[int, ...], into: tuple[int, ...], sizes: tuple[tuple[str, int], ...]
) -> Places:
    import numpy as np

    grid = np.meshgrid(*(np.arange(n, dtype=np.int64) for n in shape), indexing="ij", sparse=True)
    names: dict[str, Any] = {**dict(sizes), **dict(zip(packing.params, grid, strict=True))}
    flat: Any = np.zeros(shape, np.int64)
    for e, n in zip(packing.results, into, strict=True):
        index = _value(e, names)
        if prod(shape) and not (np.min(index) >= 0 and np.max(index) < n):
            raise _unfit("an element would be packed outside of the buffer", packing, shape, into)
        flat = flat * n + index
    flat = np.ascontiguousarray(np.broadcast_to(flat, shape)).reshape(-1)
    if flat.size and np.bincount(flat, minlength=1).max() > 1:
        raise _unfit("two elements would be packed into one place", packing, shape, into)
    flat.flags.writeable = False
    found: Places = flat
    return found


def _unfit(message: str, packing: Packing, shape: tuple[int, ...], into: tuple[int, ...]) -> MsError:
    why = f"{list(shape)} is packed as {list(into)} by a map of {', '.join(packing.params)}"
    return MsError(problem("MS420", message, why=why))


def _value(e: Expr, names: Mapping[str, Any]) -> Any:
    """An index over whole arrays of indices."""
    import numpy as np

    match e:
        case Const(value=v):
            return v
        case Var(name=n) if n in names:
            return names[n]
        case Symbol(text=n) if n in names:
            return names[n]
        case Unary(op=op, operand=x):
            return np.logical_not(_value(x, names)) if op == "not" else np.negative(_value(x, names))
        case Select(condition=c, then=t, otherwise=o):
            return np.where(_value(c, names), _value(t, names), _value(o, names))
        case Binary(op=op, left=left, right=right) if op in _UFUNCS:
            return getattr(np, _UFUNCS[op])(_value(left, names), _value(right, names))
    raise MsError(
        problem(
            "MS420",
            "the map of a packing cannot be computed where arrays are packed",
            why=f"`{print_expr(e)}` is in it, which is no arithmetic of its indices",
            help="use `+`, `-`, `*`, `//`, `%`, `min`, `max`, comparisons and `select`",
        )
    )


_UFUNCS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "//": "floor_divide",
    "%": "remainder",
    "min": "minimum",
    "max": "maximum",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "and": "logical_and",
    "or": "logical_or",
}
"""NumPy's functions by operator; their floor division and remainder are those of the language."""


class Staging(msgspec.Struct, frozen=True):
    """A caller's array beside the packed one that the kernel works on."""

    given: Any
    packed: Any
    at: Any
    pad: float

    def put(self) -> None:
        """Pack: the caller's elements go to their places."""
        self.packed[...] = self.pad
        self.packed.reshape(-1)[self.at] = self.given.reshape(-1)

    def take(self) -> None:
        """Unpack: the elements go back; padding is dropped."""
        self.given[...] = self.packed.reshape(-1)[self.at].reshape(self.given.shape)
