"""Which of many similar cases a test tries."""

from __future__ import annotations

from collections.abc import Callable, Collection
from zlib import crc32

Chosen = Callable[[int, int], bool]
"""Whether the k-th case is tried, where one of n is."""


def chosen_by(name: str, everything: bool) -> Chosen:
    """One case of n by default, others in each test, so that together they are all tried often; all in campaigns."""
    offset = crc32(name.encode())
    return lambda k, n: everything or (k + offset) % n == 0


def one_in(n: int, names: Collection[str]) -> frozenset[str]:
    """Of similar cases, one in n, at least one, spread over the values of each parameter: in the order of checksums."""
    return frozenset(sorted(names, key=lambda name: crc32(name.encode()))[::n])
