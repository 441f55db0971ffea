"""Memory for large arrays in pages of 2 MB, where the system has them.

The L2 cache chooses a place by the physical address. In pages of 4 KB, which the system hands out in any order, parts
of one array may compete for places by chance: a kernel whose arrays fill the cache then is faster in one process than
in another. Huge pages also take fewer entries of the TLB.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HUGE = 2 << 20
"""Bytes of a huge page on x86-64, and on AArch64 with base pages of 4 KB."""

LARGE = 256 << 10
"""Bytes from which on an array gets pages of its own: an eighth of a page at least is used."""


def memory(size: int, align: int) -> NDArray[np.uint8]:
    """So many bytes that begin at a multiple of `align`; what they hold is not defined.

    Raises:
        MemoryError: there is not so much.

    >>> memory(1 << 20, 64).nbytes
    1048576
    """
    import numpy as np

    if size >= LARGE and align <= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        # Where the system refuses a mapping, NumPy finds memory, or says that there is none.
        with contextlib.suppress(OSError, OverflowError):
            return _in_huge_pages(size)
    raw = np.empty(size + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + size]


def _in_huge_pages(size: int) -> NDArray[np.uint8]:
    """Bytes that begin at a huge page.

    Raises:
        OSError, OverflowError: the system does not give a mapping of that size.
    """
    import numpy as np

    whole = -(-size // HUGE) * HUGE
    mapped = mmap.mmap(-1, whole + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(mapped)) % HUGE
    with contextlib.suppress(OSError):  # a system without huge pages: the memory is as good as any
        mapped.madvise(mmap.MADV_HUGEPAGE, start, whole)
    return np.frombuffer(mapped, np.uint8, size, start)
