"""Emptying the caches of a CPU, so that a run finds its data in memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mslang.target.detect import host

if TYPE_CHECKING:
    import numpy as np

WALKED = 2
"""A core walks over so many times its share of the last cache, and over no less than that many of its own caches."""


class CacheFlush:
    """Walks over buffers larger than the caches, on all cores at once, as each core has caches of its own.

    `parts` are the buffers, one for each core.

    Args:
        cores: how many (default: those of this machine).
        size: bytes that each of them walks over.

    Example:
        >>> flush = CacheFlush(cores=1, size=1 << 20)
        >>> flush()
    """

    def __init__(self, cores: int | None = None, size: int | None = None) -> None:
        import numpy as np

        own = host()
        cores = own.cores if cores is None else cores
        each = WALKED * max(own.l3 // cores, own.l2, own.l1) if size is None else size
        self.parts = [np.zeros(-(-each // 8), np.int64) for _ in range(cores)]

    def __call__(self) -> None:
        """Empty the caches."""
        others = [threading.Thread(target=_walk, args=(part,)) for part in self.parts[1:]]
        for t in others:
            t.start()
        _walk(self.parts[0])
        for t in others:
            t.join()


def _walk(part: np.ndarray) -> None:
    # Read and written: what is only read may stay in other cores' caches.
    part += 1
