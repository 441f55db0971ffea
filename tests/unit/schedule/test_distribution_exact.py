"""The distributions of tiles, exactly: every outcome of the random numbers, counted, against TVM's definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from random import Random
from typing import Any

import pytest

from mslang.ir.arith import factorings
from mslang.ir.expr import Const, PartitionedTile, PerfectTile
from mslang.schedule import distribution


class Scripted(Random):
    """Gives the samples and choices that it is told, and remembers the weights that it was given."""

    def __init__(self, samples: Sequence[Sequence[int]] = (), pick: int = 0) -> None:
        super().__init__(0)
        self.script, self.pick, self.weights = list(samples), pick, list[Any]()

    def sample(self, population: Any, k: int, **kwargs: Any) -> Any:
        found = self.script.pop(0)
        assert len(found) == k and set(found) <= set(population)
        return list(found)

    def choices(self, population: Any, weights: Any = None, **kwargs: Any) -> Any:
        self.weights.append((list(population), list(weights)))
        return [population[self.pick]]


def compositions(extent: int, n: int) -> list[tuple[int, ...]]:
    """Every way to spread the primes of an extent over `n` places, each exponent's weak compositions by themselves."""
    spreads = [
        [tuple(p**k for k in ks) for ks in product(range(e + 1), repeat=n) if sum(ks) == e]
        for p, e in factorings.primes(extent)
    ]
    return [tuple(prod(place) for place in zip(*one)) if one else (1,) * n for one in product(*spreads)]


@pytest.mark.parametrize(("extent", "n"), [(12, 2), (64, 4), (48, 3), (1, 3), (7, 2), (360, 3)])
def test_a_spread_has_the_probability_of_its_weak_compositions(extent: int, n: int) -> None:
    exponents = [e for _, e in factorings.primes(extent)]
    scripts = product(*(combinations(range(e + n - 1), n - 1) for e in exponents))
    drawn = Counter(factorings.draw(Scripted(script), extent, n) for script in scripts)
    assert drawn == Counter(compositions(extent, n))
    assert drawn.total() == prod(comb(e + n - 1, n - 1) for e in exponents)


@pytest.mark.parametrize(("extent", "n", "cap"), [(64, 3, 4), (48, 4, 8), (360, 2, 16)])
def test_with_a_cap_only_spreads_above_it_are_drawn_again(extent: int, n: int, cap: int) -> None:
    wanted = Counter(f for f in compositions(extent, n) if f[-1] <= cap)
    exponents = [e for _, e in factorings.primes(extent)]
    taken: Counter[tuple[int, ...] | None] = Counter()
    for script in product(*(combinations(range(e + n - 1), n - 1) for e in exponents)):
        # The spread that puts all into the first place is drawn where this one is refused.
        again = [tuple(range(e, e + n - 1)) for e in exponents]
        taken[factorings.draw(Scripted([*script, *again]), extent, n, cap)] += 1
    first = (extent, *(1,) * (n - 1))
    refused = len(compositions(extent, n)) - wanted.total()
    assert taken - Counter({first: refused}) == wanted


@pytest.mark.parametrize(("extent", "n", "cap"), [(64, 3, 4), (48, 4, 8), (2**6 * 3**2, 2, 1)])
def test_where_draws_are_given_up_the_last_factor_is_drawn_by_what_it_leaves(
    extent: int, n: int, cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factorings, "_TRIES", 0)
    wanted = Counter(f for f in compositions(extent, n) if f[-1] <= cap)
    for pick, last in enumerate(d for d in factorings.divisors(extent) if d <= cap):
        rest = [e for _, e in factorings.primes(extent // last)]
        rng = Scripted([tuple(range(e, e + n - 2)) for e in rest], pick)
        found = factorings.draw(rng, extent, n, cap)
        assert found is not None and found[-1] == last
        (values, weights) = rng.weights[0]
        share = Fraction(weights[pick], sum(weights))
        assert values[pick] == last
        assert share == Fraction(sum(k for f, k in wanted.items() if f[-1] == last), wanted.total())


@pytest.mark.parametrize(("extent", "n", "at", "factor"), [(64, 4, 2, 8), (48, 3, 1, 4), (24, 2, 0, 3), (36, 3, 2, 6)])
def test_partitioned_tiles_are_perfect_tiles_that_satisfy_the_factor(extent: int, n: int, at: int, factor: int) -> None:
    domain = PartitionedTile(Const(extent), n, at, factor)
    wanted = [f for f in compositions(extent, n) if prod(f[at:]) % factor == 0]
    assert sorted(distribution.enumerate_values(domain, {})) == sorted(wanted)
    for pick in range(len({prod(f[at:]) for f in wanted})):
        rng = _Partition(pick)
        found = distribution.draw(domain, rng, {})
        assert isinstance(found, tuple)
        (pairs, ways) = rng.weights[0]
        inner = pairs[pick][1]
        share = Fraction(ways[pick], sum(ways))
        assert share == Fraction(sum(prod(f[at:]) == inner for f in wanted), len(wanted))


class _Partition(Scripted):
    """Samples freely, chooses as told."""

    def __init__(self, pick: int) -> None:
        super().__init__((), pick)

    def sample(self, population: Any, k: int, **kwargs: Any) -> Any:
        return list(population)[:k]


def test_without_a_cap_any_innermost_size_is_drawn() -> None:
    values = set(distribution.enumerate_values(PerfectTile(Const(128), 2, None), {}))
    assert (1, 128) in values and len(values) == 8
