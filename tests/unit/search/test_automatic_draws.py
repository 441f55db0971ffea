"""Automatic spaces are drawn without a table of earlier draws: by number, in the order of keyed permutations."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

import mslang as ms
from mslang.ir.expr import Choice
from mslang.resources import stdlib_folder
from mslang.schedule.batch.sketch_batch import SketchBatch
from mslang.schedule.rules.automatic import automatic_space
from mslang.search.leaves import Leaf, Leaves
from mslang.search.strategy import Rejections
from mslang.target.description import GENERIC

PROGRAMS = {"gemm": "gemm", "conv2d": "conv2d_nhwc", "dense": "dense_bias_relu"}


@cache
def space(name: str, **sizes: int) -> ms.Space:
    module = ms.load(stdlib_folder() / "workloads" / f"{name}.ms")
    return automatic_space(module.program(PROGRAMS[name], **sizes), GENERIC)


def leaves(found: ms.Space, rejections: Rejections, seed: int = 1) -> tuple[Leaf, ...]:
    return tuple(Leaves(found, GENERIC, seed, rejections).all())


def registers(leaf: Leaf) -> tuple[int, dict[int, float]]:
    """The column of the register tile, and the share of each of its values."""
    (decision,) = (d for d in leaf.sketch.decisions if d.address.endswith("/registers"))
    assert isinstance(decision.domain, Choice) and decision.domain.weights is not None
    weights = dict(zip(decision.domain.values, decision.domain.weights, strict=True))
    column = leaf.sketch.batch().layout[decision.address].start
    return column, {x: w / sum(weights.values()) for x, w in weights.items() if w > 0}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_draw_of_an_automatic_space_is_random(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: SketchBatch, n: int, seed: int, start: int = 0) -> object:
        raise AssertionError("decisions are drawn at random")

    monkeypatch.setattr(SketchBatch, "draw", refused)
    rejections = Rejections()
    for leaf in leaves(space(name), rejections):
        assert leaf.count is not None and leaf.count > 1 << 16
        keys = [leaf.sketch.batch().keys(leaf.draw(n)) for n in (10, 5000, 3000)]
        assert len(np.unique(np.concatenate(keys))) == 8010
    assert not rejections.duplicates


@pytest.mark.parametrize("name", PROGRAMS)
def test_register_tiles_are_drawn_by_weight_and_the_rest_evenly(name: str) -> None:
    rejections = Rejections()
    leaf = leaves(space(name), rejections)[0]
    batch = leaf.draw(4000)
    assert len(batch) == 4000 and not rejections.constraint
    column, shares = registers(leaf)
    drawn = Counter(batch.array[:, column].tolist())
    # Random draws of the most frequent tile would be off by a standard deviation of 12.
    assert all(abs(drawn[x] - 4000 * share) < 4 for x, share in shares.items())
    (frequent, n), *_ = drawn.most_common(1)
    of_it = batch.array[batch.array[:, column] == frequent]
    for d, slot in zip(leaf.sketch.decisions, leaf.sketch.batch().layout.slots, strict=True):
        if isinstance(d.domain, Choice) and d.domain.weights is None:
            share = 1 / len(d.domain.values)
            for rows in (batch.array, of_it):
                here = np.unique(rows[:, slot.start], return_counts=True)[1]
                deviation = (len(rows) * share * (1 - share)) ** 0.5
                assert np.abs(here - len(rows) * share).max() < 5 * deviation, (d.address, n)


@pytest.mark.parametrize("name", PROGRAMS)
def test_draws_depend_on_the_seed_only(name: str) -> None:
    one, same, other = (leaves(space(name), Rejections(), seed)[0] for seed in (1, 1, 2))
    whole = one.draw(6000).array
    parts = [same.draw(n).array for n in (1, 16, 4200, 1783)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(other.draw(6000).array, whole)


def test_an_automatic_structure_is_drawn_to_its_last_point() -> None:
    """Each of 336 960 points once; register tiles of little weight last the longest."""
    leaf = leaves(space("gemm", M=32, N=32, K=32), Rejections())[0]
    keys = []
    while len(batch := leaf.draw(50_000)):
        keys.append(leaf.sketch.batch().keys(batch))
    found = np.concatenate(keys)
    assert len(found) == leaf.count == leaf.valid_count and leaf.count > 1 << 16
    assert len(np.unique(found)) == len(found)
