"""Points with weights: divided into strata, drawn by weight, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from mslang.ir.expr import Binary, Choice, Const, FreeTile, PerfectTile, Symbol, Uniform
from mslang.schedule.decisions import Decision
from mslang.search.bounds import bounds_of
from mslang.search.numbering import Numbering, numbering_of
from mslang.search.permutation import Permutation, Permutations
from mslang.search.strata import BLOCK, MOST, Order, Ranges, Strata, combined, of_weights, whole

SIZES, WEIGHTS = (40_000, 100, 0, 9000, 1, 70_000), (3.0, 2.0, 5.0, 1e-9, 1.0, 4.0)
A, B, TILE = Choice((1, 2, 3, 4), (1.0, 3.0, 0.0, 4.0)), Choice((1, 2), (9.0, 1.0)), PerfectTile(Const(36), 3)
OTHER = Uniform(1, 8)
other = Symbol("other", OTHER)
a, b, tile = Symbol("a", A), Symbol("b", B), [Symbol("tile", TILE, k) for k in range(3)]


def strata(sizes: Sequence[int] = SIZES, weights: Sequence[float] = WEIGHTS) -> Strata:
    """With gaps between the ranges."""
    starts = np.cumsum([7, *(n + 10 for n in sizes)])[:-1]
    return ranges(starts.tolist(), sizes, weights)


def ranges(starts: Sequence[int], sizes: Sequence[int], weights: Sequence[float]) -> Strata:
    count = max((a + n for a, n in zip(starts, sizes, strict=True)), default=0)
    return Strata((Ranges(count, np.asarray(starts, np.int64), np.asarray(sizes, np.int64)),), np.asarray(weights))


def members(found: Strata) -> list[list[int]]:
    """The numbers of each stratum."""
    return [found.numbers(np.full(n, k), np.arange(n)).tolist() for k, n in enumerate(found.sizes.tolist())]


def numbers_of(found: Strata) -> list[int]:
    return [x for numbers in members(found) for x in numbers]


def counts(found: Strata, numbers: NDArray[np.int64]) -> list[int]:
    """How many of some numbers are in each of some ranges."""
    (digit,) = found.digits
    limits = zip(digit.starts, digit.sizes, strict=True)
    return [int(((numbers >= at) & (numbers < at + n)).sum()) for at, n in limits]


# ------------------------------------------------------------------ permutations side by side
def test_permutations_side_by_side_are_bijections() -> None:
    sizes = [1, 2, 5, 0, 1000, 4097, 5]
    which = np.repeat(np.arange(len(sizes)), sizes)
    places = np.concatenate([np.arange(n) for n in sizes])
    shuffled = np.random.default_rng(1).permutation(len(which))
    out = np.empty(len(which), np.int64)
    out[shuffled] = Permutations(np.asarray(sizes), 3)(which[shuffled], places[shuffled])
    orders = [out[which == k].tolist() for k in range(len(sizes))]
    assert [sorted(order) for order in orders] == [list(range(n)) for n in sizes]
    assert orders[4] != sorted(orders[4]) and orders[2] != orders[6]


def test_the_first_of_several_permutations_is_the_single_one() -> None:
    for sizes in ([1000], [1000, 30]):
        found = Permutations(np.asarray(sizes), 3)(np.zeros(1000, np.int64), np.arange(1000))
        assert np.array_equal(found, Permutation(1000, 3)(np.arange(1000)))


# ------------------------------------------------------------------ orders
def test_every_number_is_drawn_once() -> None:
    order = Order(strata(), seed=5)
    found = [order.take(10_000) for _ in range(12)]
    assert [len(x) for x in found] == [10_000] * 11 + [sum(SIZES) - 110_000]
    assert sorted(np.concatenate(found).tolist()) == numbers_of(strata())
    assert not len(order.take(1))


@pytest.mark.parametrize("sizes", [[], [0], [1], [3], [BLOCK], [BLOCK + 1]])
def test_orders_of_few_numbers_end(sizes: list[int]) -> None:
    order = Order(strata(sizes, [1.0] * len(sizes)), seed=5)
    assert sorted(order.take(10**5).tolist()) == numbers_of(strata(sizes, [1.0] * len(sizes)))


def test_strata_of_one_number_each_are_used_up_too() -> None:
    weights = np.logspace(0, -320, MOST)
    assert weights[-1] == 0 or weights[-1] < 1e-307, "weights that vanish next to the others"
    assert sorted(Order(of_weights(weights), 5).take(MOST)) == list(range(MOST))


def test_an_order_does_not_depend_on_how_it_is_asked_for() -> None:
    once = Order(strata(), seed=5).take(60_000)
    order = Order(strata(), seed=5)
    parts = [order.take(n) for n in (1, 7, 0, 300, BLOCK, 1, 20_000, BLOCK - 1, 10**5)]
    assert np.array_equal(np.concatenate(parts)[:60_000], once)


def test_another_seed_gives_another_order() -> None:
    one, other = (set(Order(strata(), seed).take(1000).tolist()) for seed in (5, 6))
    assert len(one & other) < 200, "of the stratum of 100 numbers both draw all"


def test_one_stratum_is_in_the_order_of_its_permutation() -> None:
    assert np.array_equal(Order(whole(10**9), 5).take(9000), Permutation(10**9, 5)(np.arange(9000)))


def test_any_run_of_draws_is_allocated_by_weight() -> None:
    """Random draws would be off by a standard deviation, 40 of 7000."""
    weights = [3.0, 2.0, 0.5, 1e-9, 1.0, 4.0]
    found, shares = strata([10**8] * 6, weights), np.asarray(weights) / sum(weights)
    order = Order(found, seed=5)
    for n in (10, 100, 1000, 7000):
        assert np.abs(counts(found, order.take(n)) - n * shares).max() < 4


def test_over_all_seeds_the_first_draw_has_the_distribution_of_the_weights() -> None:
    found, shares = strata([10**8] * 3, [5.0, 1.0, 2.0]), np.asarray([5.0, 1.0, 2.0]) / 8
    drawn = sum(np.asarray(counts(found, Order(found, seed).take(1))) for seed in range(2000))
    assert (np.abs(drawn - 2000 * shares) < 5 * (2000 * shares * (1 - shares)) ** 0.5).all()


def test_the_weight_of_used_up_strata_passes_to_the_others() -> None:
    found = strata([500, 10**8, 10**8], [8.0, 1.0, 3.0])
    order = Order(found, seed=5)
    assert counts(found, order.take(2 * BLOCK))[0] == 500
    assert np.abs(counts(found, order.take(4000)) - np.asarray([0, 1000, 3000])).max() < 4


# ------------------------------------------------------------------ numbers in mixed radix
def test_strata_of_digits_are_combined() -> None:
    few, wide = of_weights(np.asarray([1.0, 3.0])), ranges([0, 2], [2, 4], [1.0, 5.0])
    found = combined([whole(10), wide, few])
    assert found is not None
    (digit,) = found.digits
    assert digit.starts.tolist() == [0, 20, 60, 80] and digit.sizes.tolist() == [20, 40, 20, 40]
    assert found.weights.tolist() == [1, 5, 3, 15]
    assert of_weights(np.asarray([2.0, 2.0])).sizes.tolist() == [2]


def test_strata_of_two_divided_digits_are_no_ranges() -> None:
    wide, other = ranges([0, 2], [2, 4], [1.0, 5.0]), ranges([0, 3], [3, 2], [1.0, 7.0])
    for parts in ([wide, other], [wide, other, of_weights(np.asarray([1.0, 3.0]))]):
        found = combined([whole(2), *parts])
        assert found is not None
        radices = [2, 6, 5, 2][: len(parts) + 1]
        assert sorted(numbers_of(found)) == list(range(int(np.prod(radices))))
        for numbers, n in zip(members(found), found.sizes.tolist(), strict=True):
            low, high = {x // 2 % 6 >= 2 for x in numbers}, {x // 12 % 5 >= 3 for x in numbers}
            assert len(low) == len(high) == len({x // 60 for x in numbers}) == 1 and len(numbers) == n
    assert found.weights.tolist() == [1, 5, 7, 35, 3, 15, 21, 105]


def test_there_are_not_too_many_strata() -> None:
    n = int(MOST**0.5)
    few, more = (Decision(f"w{k}", Choice(tuple(range(k)), tuple(float(x + 1) for x in range(k)))) for k in (n, n + 1))
    found = numbering_of([few, Decision("other", few.domain), Decision("free", Uniform(0, 3))])
    assert found is not None and found.strata is not None and len(found.strata) == MOST
    assert found.strata.sizes.tolist() == [3] * MOST
    beyond = numbering_of([few, more])
    assert beyond is not None and beyond.strata is None and beyond.count == n * (n + 1)


# ------------------------------------------------------------------ decisions
def exact(found: Numbering, weight_of: Sequence[float]) -> None:
    """Check the strata against the probability of every vector, in the order of their numbers."""
    assert found.strata is not None
    wanted = np.asarray(weight_of)
    assert sorted(numbers_of(found.strata)) == list(range(found.count))
    here = np.zeros(found.count)
    for numbers, w in zip(members(found.strata), found.strata.weights, strict=True):
        here[numbers] = w / max(len(numbers), 1)
    assert np.allclose(here / here.sum(), wanted / wanted.sum())


def rows_of(found: Numbering) -> list[dict[str, object]]:
    batch = found.rows(np.arange(found.count))
    return [dict(batch.row(k)) for k in range(len(batch))]


OF_A, OF_B = {1: 1, 2: 3, 4: 4}, {1: 9, 2: 1}


def weight(row: dict[str, object]) -> float:
    return OF_A[row["a"]] * OF_B[row["b"]]  # type: ignore[index]


def test_weighted_decisions_are_strata() -> None:
    found = numbering_of([Decision("a", A), Decision("tile", TILE), Decision("b", B), Decision("free", Uniform(0, 3))])
    assert found is not None and found.strata is not None and len(found.strata) == 6
    assert len(found.strata.digits) == 1, "each is a single range"
    exact(found, [weight(r) for r in rows_of(found)])


def test_values_that_are_written_twice_are_twice_as_probable() -> None:
    found = numbering_of([Decision("x", Choice((5, 6, 5))), Decision("free", Uniform(0, 3))])
    assert found is not None
    exact(found, [2 if r["x"] == 5 else 1 for r in rows_of(found)])


def test_a_pinned_decision_has_no_weights() -> None:
    found = numbering_of([Decision("a", A, 3), Decision("free", Uniform(0, 3))])
    assert found is not None and found.strata is not None
    assert found.strata.sizes.tolist() == [3] and {r["a"] for r in rows_of(found)} == {3}


def test_a_decision_of_unknown_weights_has_no_strata() -> None:
    found = numbering_of([Decision("a", A), Decision("t", FreeTile(Const(64), 2))])
    assert found is not None and found.strata is None


@pytest.mark.parametrize(
    "bounds",
    [
        [Binary("<=", Binary("*", a, tile[1]), Const(6))],
        [Binary("<=", Binary("*", Binary("*", a, tile[1]), b), Const(6))],
        [Binary("==", Binary("%", tile[1], a), Const(0))],
        [Binary("==", Binary("%", tile[1], a), Const(0)), Binary("<=", Const(4), Binary("*", tile[2], b))],
        [Binary("==", Binary("%", tile[1], a), Const(0)), Binary("<=", Binary("*", other, b), Const(9))],
        [Binary("<=", Const(1000), Binary("*", a, tile[1]))],
    ],
)
def test_weighted_decisions_within_bounds_are_strata(bounds: list[Binary]) -> None:
    decisions = [Decision("tile", TILE), Decision("a", A), Decision("b", B), Decision("other", OTHER)]
    known = bounds_of(bounds)
    assert len(known) == len(bounds)
    found, every = numbering_of(decisions, known), numbering_of(decisions)
    assert found is not None and every is not None
    assert found.count < every.count
    assert found.strata is not None
    assert len(found.strata.digits) == (2 if "other" in known[0].addresses | known[-1].addresses else 1)
    exact(found, [weight(r) for r in rows_of(found)])


def test_tiles_of_tiles_are_strata() -> None:
    """The tile of a tile is uniform for each value of the outer one: not all vectors have the same probability."""
    inner = PerfectTile(Symbol("tile", TILE, 2), 2)
    found = numbering_of([Decision("tile", TILE), Decision("inner", inner), Decision("b", B)])
    assert found is not None
    rows = rows_of(found)
    ways = Counter((r["tile"], r["b"]) for r in rows)
    assert len(set(ways.values())) > 1
    exact(found, [OF_B[r["b"]] / ways[r["tile"], r["b"]] for r in rows])  # type: ignore[index]


def test_tiles_of_tiles_of_tiles_have_no_strata() -> None:
    inner = PerfectTile(Symbol("tile", TILE, 2), 2)
    inmost = PerfectTile(Symbol("inner", inner, 1), 2)
    found = numbering_of([Decision("tile", TILE), Decision("inner", inner), Decision("inmost", inmost)])
    assert found is not None and found.strata is None


def test_all_combinations_of_weights_occur() -> None:
    found = numbering_of([Decision("a", A), Decision("b", B), Decision("free", Uniform(0, 1000))])
    assert found is not None and found.strata is not None
    rows = found.rows(Order(found.strata, 5).take(800))
    drawn = Counter(zip(rows.array[:, 0].tolist(), rows.array[:, 1].tolist(), strict=True))
    wanted = {(x, y): 800 * OF_A[x] * OF_B[y] / 80 for x, y in product(OF_A, OF_B)}
    assert drawn.keys() == wanted.keys() and all(abs(drawn[k] - n) < 4 for k, n in wanted.items())
