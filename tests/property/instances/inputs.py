"""Inputs and sizes for drawn programs: small whole numbers, and the extreme values of each type."""

from __future__ import annotations

import random
from collections.abc import Mapping

import msgspec
import numpy as np

from tests.property.arrays import NUMPY, concrete_shape
from tests.property.instances.programs import Drawn
from tests.property.instances.scene import FLOATS

Arrays = dict[str, np.ndarray]


class Case(msgspec.Struct, frozen=True):
    """What a program is run on: values of its sizes, and arrays."""

    sizes: Mapping[str, int]
    arrays: Arrays


def cases(drawn: Drawn, seed: int, count: int = 2) -> list[Case]:
    """Inputs of a few sizes, the smallest among them; extreme values in every second."""
    rng = random.Random(seed)
    found: list[Case] = []
    for k in range(count + bool(drawn.sizes)):
        sizes = {n: _size(rng, k, *span) for n, span in drawn.sizes.items()}
        found.append(Case(sizes, _arrays(drawn, sizes, seed + k, extreme=k % 2 == 1)))
    return found


def _size(rng: random.Random, k: int, lo: int, hi: int, multiple: int) -> int:
    """The least size first, then a middle one, then any below ten."""
    least, most = -(-lo // multiple), min(hi, 9) // multiple
    return multiple * (least if k == 0 else rng.randint(least, most))


def _arrays(drawn: Drawn, sizes: Mapping[str, int], seed: int, *, extreme: bool) -> Arrays:
    rng, indices = np.random.default_rng(seed), drawn.indices
    found: Arrays = {}
    finite = _computed(drawn)
    for p in drawn.program.params:
        if p.direction == "out":
            continue
        name, dtype = p.given.name, p.given.dtype
        shape = concrete_shape(p.given.shape, sizes)
        if name in indices:
            below = indices[name]
            made = rng.integers(0, sizes[below] if isinstance(below, str) else below, shape)
            made = np.sort(made) if name.startswith("P") else made
        else:
            made = (
                rng.integers(0, 2, shape) if dtype == "bool" else rng.integers(0 if dtype[0] == "u" else -3, 4, shape)
            )
        found[name] = made.astype(NUMPY[dtype])
        if extreme and name not in indices and dtype != "bool":
            spots = rng.random(shape) < 0.35
            found[name][spots] = rng.choice(_extremes(dtype), shape)[spots]
            if dtype in FLOATS and (finite or name in drawn.compared):
                found[name][np.isnan(found[name])] = 2
            if dtype in FLOATS and finite:
                found[name][np.isinf(found[name])] = 3
    return found


def _computed(drawn: Drawn) -> bool:
    """Whether a position is sought among values that the program computes, which infinities may make NaN.

    The position is unspecified if a compared value is NaN, and schedules change it.
    """
    given = {p.given.name for p in drawn.program.params if p.direction == "in"}
    return not drawn.compared <= given


def _extremes(dtype: str) -> np.ndarray:
    if dtype in FLOATS:
        return np.array([np.nan, np.nan, np.inf, -np.inf, -0.0], NUMPY[dtype])
    top = np.iinfo(NUMPY[dtype])
    return np.array([top.min, top.max, top.max - 1, top.min + 1], NUMPY[dtype])
