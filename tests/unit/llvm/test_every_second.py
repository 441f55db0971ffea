"""Loads of every second element: two vectors and a shuffle, no gather, and nothing read beyond the last element."""

from __future__ import annotations

import numpy as np
import pytest

import mslang as ms
from mslang.backend.llvm.compile import compile
from mslang.lower.passes import lower
from mslang.target.description import AVX2, AVX512, GENERIC
from mslang.target.detect import host

TEXT = """
use std.cpu.{{host}}
program odd[N = {n}](X: {dtype}[2 * N], out Y: {dtype}[N]) {{ block b[i: N] {{ Y[i] = X[2 * i + 1] }} }}
schedule lanes for odd on host {{ b.i.vectorize() }}
"""
NUMPY = {"f32": "f4", "f64": "f8", "i8": "i1"}


def in_lanes(n: int, dtype: str) -> ms.Program:
    return ms.parse(TEXT.format(n=n, dtype=dtype)).space("lanes", target=host()).attempt(0, 0).program


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("n", [1, 2, 9, 12, 16, 28, 100])
def test_every_second_element(n: int, dtype: str) -> None:
    x = np.random.default_rng(n).integers(-99, 99, 2 * n).astype(NUMPY[dtype])
    for target in (host(), GENERIC):
        y = np.zeros(n, x.dtype)
        ms.build(in_lanes(n, dtype), target)(x, y)
        np.testing.assert_array_equal(y, x[1::2])


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_no_gather(target: ms.Target) -> None:
    assert "gather" not in compile(lower(in_lanes(28, "f32"), target), target).assembly
