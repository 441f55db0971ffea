"""Arrays for kernels: aligned, filled so that mistakes show."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from mslang.ir.dtype import is_float, is_unsigned, size_of
from mslang.runtime.pages import memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIGNMENT = 64


_first: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def address_of(array: NDArray[Any]) -> int:
    """Where the elements of an array begin: for most arrays in 0.4 µs, by `array.ctypes.data` in 1.1 µs."""
    try:
        return ctypes.addressof(_first(array))
    except (TypeError, ValueError):
        # Read-only, not contiguous, or of a type that buffers of Python do not have (bfloat16).
        return int(array.ctypes.data)


def empty(
    shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None, align: int = ALIGNMENT
) -> NDArray[Any]:
    """An array whose data begins at a multiple of `align` bytes, of 64 at least; what it holds is not defined. Large
    ones are in huge pages.

    Without `strides` (in elements) it is row-major and compact.
    """
    import numpy as np

    size = size_of(dtype)
    count = prod(shape) if strides is None else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    flat = memory(count * size, max(align, ALIGNMENT)).view(numpy_name(dtype))
    if strides is None:
        return flat.reshape(shape)
    return np.lib.stride_tricks.as_strided(flat, shape, tuple(s * size for s in strides))


def row_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a compact array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def sparse_integers(
    shape: tuple[int, ...],
    dtype: str,
    seed: int,
    density: float = 0.25,
    bound: int = 3,
) -> NDArray[Any]:
    """Mostly zeros, the rest small integers: sums of their products are exact in any order.

    Arguments: `density` the share that is not 0, `bound` the largest magnitude.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    low = 0 if is_unsigned(dtype) or dtype == "bool" else -bound
    values = random.integers(low, bound + 1, shape) * (random.random(shape) < density)
    out = empty(shape, dtype)
    if dtype == "bf16":
        out[...] = values.astype(np.float32).view(np.uint32) >> 16
    else:
        out[...] = values.astype(out.dtype)
    return out


def poison(array: NDArray[Any], dtype: str) -> None:
    """Fill with what no right result holds: NaN, or an extreme integer with an odd pattern."""
    import numpy as np

    if dtype == "bool":
        array[...] = True
        return
    byte = 0xFF if is_float(dtype) else 0xA5
    array[...] = np.frombuffer(bytes([byte] * array.dtype.itemsize), array.dtype)[0]


_NUMPY = {
    "bool": "bool",
    "bf16": "uint16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    **{f"i{b}": f"int{b}" for b in (8, 16, 32, 64)},
    **{f"u{b}": f"uint{b}" for b in (8, 16, 32, 64)},
}


def numpy_name(dtype: str) -> str:
    """NumPy's name of an element type; bf16 travels as its bits in uint16."""
    return _NUMPY[dtype]
