"""Arrays of other libraries, by the DLPack protocol: read in place, and results given back as what the caller uses.

NumPy reads every DLPack type but bfloat16, which is read here from the capsule itself.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from mslang.diagnostics import MsError, problem
from mslang.runtime.arrays import row_strides

if TYPE_CHECKING:
    from numpy.typing import NDArray

CPU = 1
BFLOAT = 4
READ_ONLY = 1
"""`kDLCPU`, `kDLBfloat` and `DLPACK_FLAG_BITMASK_READ_ONLY` of the protocol."""

WRITABLE = frozenset({"torch"})
"""Packages whose tensors may all be written. Before version 1.0 the protocol cannot say so, and some that speak the old
one (JAX) have tensors that never change: for them NumPy's answer, read-only, stands."""


class _Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """The head of `DLManagedTensorVersioned`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def array_of(name: str, x: Any) -> NDArray[Any]:
    """The memory of a tensor as a NumPy array, not copied; bfloat16 as its bits in uint16.

    Args:
        name: the parameter that it is for.
        x: an object with `__dlpack__`.

    Raises:
        MsError: MS411, it cannot be read: it lies on another device, needs a gradient, or has elements that no kernel
            takes.
    """
    import numpy as np

    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        found = _bfloat16(x)
        if found is not None:
            return found
        raise MsError(
            problem(
                "MS411",
                f"{name} cannot be read through DLPack",
                why=str(error).splitlines()[0] if str(error) else type(error).__name__,
                help=f"pass an array in the CPU's memory without a gradient: `{name}.detach().cpu()`",
            )
        ) from error
    return array if array.flags.writeable or _package(x) not in WRITABLE else np.asarray(_Written(array))


class _Written:
    """The memory of a read-only array, to be written."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _package(x: object) -> str:
    return type(x).__module__.partition(".")[0]


def _bfloat16(x: Any) -> NDArray[Any] | None:
    """A bfloat16 tensor in the CPU's memory as its bits; None if it is none."""
    import numpy as np

    try:
        capsule = _capsule(x)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    tensor, says = _tensor_in(capsule)
    if tensor is None or (tensor.code, tensor.bits, tensor.lanes, tensor.device_type) != (BFLOAT, 16, 1, CPU):
        return None
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    if 0 in shape:
        return np.empty(shape, np.uint16)
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else row_strides(shape)
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    memory = (ctypes.c_uint16 * (high - low + 1)).from_address(tensor.data + tensor.byte_offset + 2 * low)
    # The capsule owns the tensor's memory and frees it when it is collected itself.
    setattr(memory, "capsule", capsule)  # noqa: B010 - a ctypes array takes attributes, which mypy does not know
    flat = np.frombuffer(memory, np.uint16)
    writable = _package(x) in WRITABLE if says is None else says
    return np.lib.stride_tricks.as_strided(flat[-low:], shape, tuple(2 * s for s in strides), writeable=writable)


def _capsule(x: Any) -> Any:
    try:
        return x.__dlpack__(max_version=(1, 0))
    except TypeError:  # of a library that speaks the protocol before 1.0
        return x.__dlpack__()


def _tensor_in(capsule: Any) -> tuple[_Tensor | None, bool | None]:
    """The tensor of a capsule, and whether it may be written, if the capsule says so."""
    api = ctypes.pythonapi
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    if is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(pointer(capsule, b"dltensor")), None
    if is_valid(capsule, b"dltensor_versioned"):
        head = _Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        return (head.tensor, not head.flags & READ_ONLY) if head.major == 1 else (None, None)
    return None, None


def namespace_of(x: object) -> Any:
    """The library that a tensor belongs to, if it can make one from DLPack; None for a NumPy array or an unknown one.

    It is what the array API's `__array_namespace__` says, else the package of the tensor's class.
    """
    import numpy as np

    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return None
    ask = getattr(x, "__array_namespace__", None)
    found = ask() if callable(ask) else sys.modules.get(_package(x))
    return found if callable(getattr(found, "from_dlpack", None)) else None


def given_back(array: NDArray[Any], dtype: str, namespace: Any) -> Any:
    """A result as a tensor of a library, not copied; as it is if the library has no such type."""
    import numpy as np

    if dtype != "bf16":
        return namespace.from_dlpack(array)
    wanted = getattr(namespace, "bfloat16", None)
    if wanted is None:
        return array
    return namespace.from_dlpack(array.view(np.int16)).view(wanted)
