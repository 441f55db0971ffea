"""Random numbers by address: a draw depends only on the seed and on its decision's address."""

from __future__ import annotations

import hashlib
from random import Random


def derive(seed: int, *path: str | int) -> int:
    """A 64-bit number from a seed and a path, the same in every process and on every machine."""
    text = "\0".join((str(seed), *(str(p) for p in path)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def generator(seed: int, *path: str | int) -> Random:
    """The generator of one address, independent of all other draws."""
    return Random(derive(seed, *path))
