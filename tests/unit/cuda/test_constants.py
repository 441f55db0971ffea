"""Numbers as CUDA C writes them: they read back to the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from mslang.backend.cuda.types import constant

LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("x", [LARGEST, -LARGEST, 3.4e38, 1e-45, 0.1, -0.0, 16777217.0])
def test_singles_read_back(x: float):
    text = constant(x, "f32").text
    assert np.float32(text.removesuffix("f")).tobytes() == np.float32(x).tobytes()


def test_beyond_the_largest_single():
    assert "0x7f800000" in constant(1e39, "f32").text
