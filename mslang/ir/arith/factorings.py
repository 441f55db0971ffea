"""Ordered factorings of an extent: the values of perfect tiles.

A perfect tile distributes each prime's exponent over its positions; all distributions are equally likely.
Together this is the uniform distribution over the ordered factorings that satisfy the cap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import comb, prod
from random import Random

Factors = tuple[int, ...]


@lru_cache(maxsize=4096)
def primes(n: int) -> tuple[tuple[int, int], ...]:
    """The primes of `n` with their exponents: `primes(12) == ((2, 2), (3, 1))`."""
    found: list[tuple[int, int]] = []
    p = 2
    while p * p <= n:
        exponent = 0
        while n % p == 0:
            n //= p
            exponent += 1
        if exponent:
            found.append((p, exponent))
        p += 1
    if n > 1:
        found.append((n, 1))
    return tuple(found)


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of `n` in ascending order."""
    powers = [[p**k for k in range(e + 1)] for p, e in primes(n)]
    return tuple(sorted(prod(x) for x in product(*powers)))


@lru_cache(maxsize=4096)
def count(extent: int, n: int, max_inner: int | None = None) -> int:
    """The number of ordered factorings of `extent` into `n` factors, the last at most `max_inner`."""
    if n == 1:
        return int(max_inner is None or extent <= max_inner)
    if max_inner is None:
        return prod(comb(e + n - 1, n - 1) for _, e in primes(extent))
    return sum(count(extent // d, n - 1) for d in divisors(extent) if d <= max_inner)


def factorings(extent: int, n: int, max_inner: int | None = None) -> Iterator[Factors]:
    """Every ordered factoring of `extent` into `n` factors, the last at most `max_inner`, in ascending order."""
    if n == 1:
        if max_inner is None or extent <= max_inner:
            yield (extent,)
        return
    for d in divisors(extent):
        yield from ((d, *rest) for rest in factorings(extent // d, n - 1, max_inner))


_TRIES = 200


def draw(rng: Random, extent: int, n: int, max_inner: int | None = None) -> Factors | None:
    """One uniformly drawn factoring; None if none satisfies the cap."""
    for _ in range(_TRIES):
        factors = _spread(rng, extent, n)
        if max_inner is None or factors[-1] <= max_inner:
            return factors
    # Few factorings satisfy the cap: draw the last factor weighted by its number of factorings, then the others freely.
    last = [d for d in divisors(extent) if max_inner is None or d <= max_inner]
    if not last or (n == 1 and extent not in last):
        return None
    if n == 1:
        return (extent,)
    chosen = rng.choices(last, [count(extent // d, n - 1) for d in last])[0]
    return (*_spread(rng, extent // chosen, n - 1), chosen)


def _spread(rng: Random, extent: int, n: int) -> Factors:
    factors = [1] * n
    for p, exponent in primes(extent):
        bars = sorted(rng.sample(range(exponent + n - 1), n - 1))
        edges = (-1, *bars, exponent + n - 1)
        for k in range(n):
            factors[k] *= p ** (edges[k + 1] - edges[k] - 1)
    return tuple(factors)


def repair(extent: int, wanted: Factors, max_inner: int | None = None) -> Factors | None:
    """A factoring close to `wanted`: from innermost outwards the largest divisor of the remaining extent
    that is at most the wanted factor; the outermost takes the remainder. None if the cap cannot hold."""
    left = extent
    out: list[int] = []
    for k in reversed(range(1, len(wanted))):
        cap = wanted[k] if k < len(wanted) - 1 or max_inner is None else min(wanted[k], max_inner)
        best = max((d for d in divisors(left) if d <= max(cap, 1)), default=1)
        out.append(best)
        left //= best
    out.append(left)
    if len(wanted) == 1 and max_inner is not None and extent > max_inner:
        return None
    return tuple(reversed(out))


def moves(factors: Factors, max_inner: int | None = None) -> Iterator[Factors]:
    """The factorings that differ by moving one prime from one position to another."""
    for i, j in product(range(len(factors)), repeat=2):
        if i == j:
            continue
        for p, _ in primes(factors[i]):
            moved = list(factors)
            moved[i] //= p
            moved[j] *= p
            if max_inner is None or moved[-1] <= max_inner:
                yield tuple(moved)
