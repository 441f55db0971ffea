"""What the features of a processor imply, and processors without some of their features."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from mslang.target.description import Target


def vector_bits(features: Collection[str]) -> int:
    """The width of a vector register."""
    if "avx512f" in features:
        return 512
    return 256 if "avx" in features else 128


def vector_registers(features: Collection[str]) -> int:
    """How many vector registers there are."""
    return 32 if "avx512f" in features or "neon" in features else 16


def without(target: Target, prefixes: tuple[str, ...]) -> Target:
    """A target without some of its features, with the vectors that the other features have.

    Args:
        target: a CPU.
        prefixes: how the names of the features begin that are left out.

    >>> from mslang.target.description import AVX512
    >>> narrow = without(AVX512, ("avx512",))
    >>> narrow.vector_bits, narrow.registers, narrow.has("avx2")
    (256, 16, True)
    """
    kept = tuple(f for f in target.features if not f.startswith(prefixes))
    if kept == target.features:
        return target
    return replace(
        target,
        features=kept,
        vector_bits=min(target.vector_bits, vector_bits(kept)),
        registers=min(target.registers, vector_registers(kept)),
    )
