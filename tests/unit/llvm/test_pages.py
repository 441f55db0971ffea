"""Memory of large arrays: aligned, writable, and there as long as the array is."""

from __future__ import annotations

import gc
import mmap

import numpy as np
import pytest

from mslang.runtime.arrays import address_of, empty
from mslang.runtime.pages import HUGE, LARGE, memory


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, LARGE + 1, HUGE, 2 * HUGE + 5])
@pytest.mark.parametrize("align", [64, 4096, 2 * HUGE])
def test_it_is_aligned_and_can_be_written(size: int, align: int) -> None:
    array = memory(size, align)
    assert array.shape == (size,) and array.flags.writeable
    assert not size or array.ctypes.data % align == 0
    array[:] = 7
    assert array.sum(dtype=np.int64) == 7 * size


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="the system has no huge pages")
def test_large_arrays_begin_at_a_huge_page() -> None:
    assert address_of(empty((LARGE // 4,), "f32")) % HUGE == 0


def test_without_huge_pages_it_is_memory_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert memory(LARGE, 64).ctypes.data % 64 == 0


def test_a_part_of_an_array_keeps_its_memory() -> None:
    parts = [memory(LARGE, 64)[k : k + 100] for k in range(50)]
    for k, part in enumerate(parts):
        part[:] = k
    gc.collect()
    assert [int(part[99]) for part in parts] == list(range(50))


@pytest.mark.parametrize("size", [1 << 50, 1 << 62])
def test_what_there_is_not_is_a_memory_error(size: int) -> None:
    with pytest.raises(MemoryError):
        memory(size, 64)


def test_a_mapping_that_is_refused_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert memory(LARGE, 64).shape == (LARGE,)
