"""Arrays of other libraries: read and given back by DLPack, tested with a library that knows nothing else."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import MsError

DOUBLE = "program p(A: {0}[2, 3], out C: {0}[2, 3]) {{ block a[i: 2, j: 3] {{ C[i, j] = A[i, j] + A[i, j] }} }}"
ONE, TWO = 0x3F80, 0x4000
"""Bits of 1.0 and 2.0 in bfloat16."""


class Tensor:
    """A tensor that offers DLPack only; bfloat16 is exported as PyTorch does."""

    def __init__(self, array: np.ndarray, bfloat: bool = False) -> None:
        self.array, self.bfloat = array, bfloat

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        capsule = self.array.__dlpack__(**keywords)
        if self.bfloat:
            api = ctypes.pythonapi
            pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
                ("PyCapsule_GetPointer", api)
            )
            versioned = "versioned" in repr(capsule)
            head = pointer(capsule, b"dltensor_versioned" if versioned else b"dltensor")
            # The code of the element type: after data, device and dimensions; 4 is bfloat16.
            ctypes.c_uint8.from_address(head + (32 if versioned else 0) + 20).value = 4
        return capsule

    def view(self, dtype: str) -> Tensor:
        assert dtype == "bfloat16"
        return Tensor(self.array.view(np.uint16), bfloat=True)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A library of tensors, found by the package of their class as PyTorch is."""
    made = ModuleType("faketensors")
    setattr(made, "from_dlpack", lambda x: Tensor(np.from_dlpack(x)))  # noqa: B010
    setattr(made, "bfloat16", "bfloat16")  # noqa: B010
    monkeypatch.setitem(sys.modules, "faketensors", made)
    monkeypatch.setattr(Tensor, "__module__", "faketensors.core")
    return made


def kernel(dtype: str) -> Any:
    return ms.build(ms.parse_program(DOUBLE.format(dtype)))


def test_tensors_give_tensors(library: ModuleType):
    a = Tensor(np.ones((2, 3), np.float32))
    out = kernel("f32")(a)
    assert isinstance(out, Tensor)
    assert (out.array == 2).all()


def test_arrays_give_arrays(library: ModuleType):
    assert isinstance(kernel("f32")(np.ones((2, 3), np.float32)), np.ndarray)


def test_the_namespace_that_a_tensor_names_is_used(library: ModuleType):
    class Standard(Tensor):
        """A tensor of the array API."""

        def __array_namespace__(self) -> ModuleType:
            return library

    Standard.__module__ = "elsewhere"
    assert isinstance(kernel("f32")(Standard(np.ones((2, 3), np.float32))), Tensor)


def test_a_tensor_given_for_an_output_is_filled_and_returned(library: ModuleType):
    a, c = Tensor(np.ones((2, 3), np.float32)), Tensor(np.zeros((2, 3), np.float32))
    assert kernel("f32")(a, c) is c
    assert (c.array == 2).all()


def test_a_tensor_of_an_unknown_library_gives_an_array():
    assert isinstance(kernel("f32")(Tensor(np.ones((2, 3), np.float32))), np.ndarray)


def test_bfloat16_tensors_are_read_in_place_and_given_back(library: ModuleType):
    a = Tensor(np.full((2, 3), ONE, np.uint16), bfloat=True)
    c = Tensor(np.zeros((2, 3), np.uint16), bfloat=True)
    k = kernel("bf16")
    out = k(a)
    assert isinstance(out, Tensor) and out.bfloat
    assert (out.array == TWO).all()
    assert k(a, c) is c
    assert (c.array == TWO).all()


def test_bfloat16_tensors_outlive_their_owner(library: ModuleType):
    k = kernel("bf16")
    bound = k.bind(Tensor(np.full((2, 3), ONE, np.uint16), bfloat=True))
    junk = [np.zeros((2, 3), np.uint16) for _ in range(100)]
    bound.run()
    assert (bound.arrays["C"] == TWO).all() and junk


def test_bfloat16_tensors_keep_their_strides(library: ModuleType):
    backwards = Tensor(np.arange(6, dtype=np.uint16).reshape(3, 2)[::-1].T, bfloat=True)
    with pytest.raises(MsError, match="not contiguous") as caught:
        kernel("bf16")(backwards)
    assert caught.value.diagnostic.code == "MS413"


class Old(Tensor):
    """A tensor of a library that speaks DLPack before 1.0, which cannot say whether a tensor may be written."""

    def __dlpack__(self, stream: object = None) -> Any:
        return super().__dlpack__()


@pytest.mark.parametrize(("dtype", "given"), [("f32", np.float32), ("bf16", np.uint16)])
def test_tensors_are_written_if_they_may_be(monkeypatch: pytest.MonkeyPatch, dtype: str, given: type):
    one = np.full((2, 3), ONE if dtype == "bf16" else 1, given)
    a, c = (Old(array, bfloat=dtype == "bf16") for array in (one, np.zeros_like(one)))
    k = kernel(dtype)
    with pytest.raises(MsError, match="read-only") as caught:
        k(a, c)
    assert caught.value.diagnostic.code == "MS414" and (c.array == 0).all()
    monkeypatch.setattr(Old, "__module__", "torch._tensor")
    assert k(a, c) is c
    assert (c.array == (TWO if dtype == "bf16" else 2)).all()


def test_bfloat16_tensors_that_say_that_they_are_read_only_are_not_written(monkeypatch: pytest.MonkeyPatch):
    kept = np.zeros((2, 3), np.uint16)
    kept.flags.writeable = False
    with pytest.raises(MsError, match="read-only"):
        kernel("bf16")(Tensor(np.full((2, 3), ONE, np.uint16), bfloat=True), Tensor(kept, bfloat=True))


def test_a_tensor_that_cannot_be_exported_is_refused():
    class Wanting(Tensor):
        """A tensor that needs a gradient."""

        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    with pytest.raises(MsError) as caught:
        kernel("f32")(Wanting(np.ones((2, 3), np.float32)))
    d = caught.value.diagnostic
    assert d.code == "MS411" and "gradient" in (d.why or "") and "A.detach().cpu()" in (d.help or "")


def test_torch_tensors_if_there_is_torch():
    torch = pytest.importorskip("torch")
    a = torch.ones((2, 3), dtype=torch.bfloat16)
    out = kernel("bf16")(a)
    assert out.dtype is torch.bfloat16 and (out == 2).all()
    given = torch.zeros((2, 3), dtype=torch.bfloat16)
    assert kernel("bf16")(a, given) is given and (given == 2).all()
    for name, dtype in (("f32", torch.float32), ("i32", torch.int32), ("u8", torch.uint8), ("f16", torch.float16)):
        out = kernel(name)(torch.ones((2, 3), dtype=dtype))
        assert out.dtype is dtype and (out == 2).all()
    with pytest.raises(MsError, match="DLPack"):
        kernel("f32")(torch.ones((2, 3), requires_grad=True))
