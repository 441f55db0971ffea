"""Arrays that a kernel cannot use in place: one diagnostic, and its help is a call that fixes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mslang as ms
from mslang.diagnostics import Diagnostic, MsError

COPY = "program p(A: f32[2, 3], out C: f32[2, 3]) { block a[i: 2, j: 3] { C[i, j] = A[i, j] } }"
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def misaligned() -> np.ndarray:
    return np.frombuffer(b"\0" + ROWS.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)


def field_of_records() -> np.ndarray:
    """Elements that are 5 bytes apart, which is not a whole number of elements."""
    records = np.zeros((2, 3), np.dtype([("value", "<f4"), ("flag", "i1")]))
    records["value"] = ROWS
    found: np.ndarray = records["value"]
    return found


def refused(*arrays: Any) -> Diagnostic:
    with pytest.raises(MsError) as caught:
        ms.build(ms.parse_program(COPY))(*arrays)
    assert len(caught.value.diagnostics) == 1
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("given", "message", "help"),
    [
        (ROWS.astype(">f4"), "big-endian", 'A.astype(A.dtype.newbyteorder("="))'),
        (ROWS[::-1], "not contiguous", "np.ascontiguousarray(A)"),
        (ROWS[:, ::-1], "not contiguous", "np.ascontiguousarray(A)"),
        (np.asfortranarray(ROWS), "not contiguous", "np.ascontiguousarray(A)"),
        (np.repeat(ROWS, 2, axis=1)[:, ::2], "not contiguous", "np.ascontiguousarray(A)"),
        (np.broadcast_to(ROWS[:1], (2, 3)), "not contiguous", "np.ascontiguousarray(A)"),
        (field_of_records(), "not contiguous", "np.ascontiguousarray(A)"),
        (misaligned(), "not aligned", "A.copy()"),
    ],
)
def test_the_help_is_a_call_that_mends(given: np.ndarray, message: str, help: str):
    found = refused(given)
    assert (found.code, found.help) == ("MS413", help)
    assert message in found.message
    mended = eval(help, {"A": given, "np": np})
    assert (ms.build(ms.parse_program(COPY))(mended) == given).all()


def test_integers_of_another_byte_order_are_refused():
    kernel = ms.build(ms.parse_program(COPY.replace("f32", "i32")))
    with pytest.raises(MsError, match="big-endian"):
        kernel(ROWS.astype(">i4"))


def test_an_output_of_another_layout_is_filled_by_way_of_a_copy():
    found = refused(ROWS, np.zeros((2, 3), np.float32, order="F"))
    assert found.help == "pass a copy, `copy = np.ascontiguousarray(C)`, and copy the result back: `C[...] = copy`"
    assert "big-endian" in refused(ROWS, np.zeros((2, 3), ">f4")).message


def test_a_declared_alignment_is_asked_of_the_address():
    kernel = ms.build(ms.parse_program(COPY.replace("A: f32[2, 3]", "A: f32[2, 3] @ global(align = 64)")))
    aligned = ms.empty((2, 3), "f32")
    aligned[...] = ROWS
    assert (kernel(aligned) == ROWS).all()
    beside = ms.empty((8,), "f32")[1:7].reshape(2, 3)
    for _ in range(2):
        with pytest.raises(MsError, match="not a multiple of 64, which `align = 64` declares") as caught:
            kernel(beside)
        assert caught.value.diagnostic.code == "MS413"
        assert 'ms.empty((2, 3), "f32", align=64)' in (caught.value.diagnostic.help or "")
        assert (kernel(aligned) == ROWS).all(), "asked again of arrays of the same form"


def test_new_outputs_and_packed_arrays_have_a_declared_alignment():
    text = COPY.replace("out C: f32[2, 3]", "out C: f32[2, 3] @ global(align = 4096)")
    made = ms.build(ms.parse_program(text))(ROWS)
    assert made.ctypes.data % 4096 == 0 and (made == ROWS).all()
    constant = ms.build(ms.parse_program(COPY.replace("A: f32[2, 3]", "const A: f32[2, 3] @ global(align = 4096)")))
    packed = constant.pack("A", ROWS)
    assert packed.array.ctypes.data % 4096 == 0 and (constant(packed) == ROWS).all()


def test_aligned_arrays():
    assert ms.empty(5, "f64").shape == (5,) and ms.empty((2, np.int64(3)), "bf16").dtype == np.uint16
    assert all(ms.empty((2, 3), "f32", align=n).ctypes.data % n == 0 for n in (1, 64, 4096))
    for shape, dtype, align, code in (
        ((3,), "f33", 64, "MS117"),
        ((3,), None, 64, "MS117"),
        ((3, -1), "f32", 64, "MS412"),
        ("ab", "f32", 64, "MS412"),
        (True, "f32", 64, "MS412"),
        ((3,), "f32", 3, "MS413"),
        ((3,), "f32", "64", "MS413"),
    ):
        with pytest.raises(MsError) as caught:
            ms.empty(shape, dtype, align=align)
        assert caught.value.diagnostic.code == code
