"""The distributions of numeric decisions: enumeration, drawing, membership, repair, neighbours.

Every function takes the `Domain` of a decision and the values of the decisions made before it, because
the extent of a tile may depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from random import Random

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.arith import factorings, substitute_symbols
from mslang.ir.expr import (
    Choice,
    Const,
    Domain,
    DynamicRange,
    Expr,
    FreeTile,
    PartitionedTile,
    PerfectTile,
    Symbol,
    Uniform,
)
from mslang.ir.visit import walk_expr

Sizes = tuple[int | None, ...]
"""The values of a tile; the first is None where the extent is known only at the call and the size is inferred."""

Number = int | Sizes
"""The value of a numeric decision."""

Values = Mapping[str, Number]
"""Values by address."""


Tile = PerfectTile | PartitionedTile | FreeTile
"""The domains whose values are tiles."""


def extent_of(domain: Tile, values: Values) -> int | None:
    """The extent of a tile, or None if it is known only at the call."""
    found = substitute_symbols(domain.extent, plain(values))
    return int(found.value) if isinstance(found, Const) else None


def plain(values: Values) -> dict[str, int | tuple[int, ...]]:
    """The values in the form that substitution takes (an inferred size is never needed)."""
    return {name: v if isinstance(v, int) else tuple(0 if x is None else x for x in v) for name, v in values.items()}


def drawn(domain: Domain) -> Domain:
    """The domain of what is drawn and searched: a choice without the values whose weight is 0."""
    return Choice(domain.drawn) if isinstance(domain, Choice) else domain


def depends_on(domain: Domain) -> frozenset[str]:
    """The addresses of the decisions that the extent of a tile depends on."""
    return frozenset(s.name for s in extent_symbols(domain) if not isinstance(s.domain, DynamicRange))


def extent_symbols(domain: Domain) -> tuple[Symbol, ...]:
    """The symbols in the extent of a tile: sizes known only at the call, and factors of other decisions."""
    match domain:
        case PerfectTile(extent=e) | PartitionedTile(extent=e) | FreeTile(extent=e):
            return tuple(x for x in walk_expr(e) if isinstance(x, Symbol))
    return ()


def draw(domain: Domain, rng: Random, values: Values) -> Number | None:
    """One value; None if the domain has none."""
    match domain:
        case PerfectTile(n=n, max_inner=cap):
            return factorings.draw(rng, known_extent(domain, values), n, cap)
        case PartitionedTile(n=n, at=at, factor=factor):
            return _draw_partitioned(rng, known_extent(domain, values), n, at, factor)
        case FreeTile():
            return _draw_free(domain, rng, extent_of(domain, values))
        case Choice(values=xs, weights=weights):
            return rng.choices(xs, weights)[0] if xs else None
        case Uniform(lo=lo, hi=hi):
            return rng.randrange(lo, hi) if lo < hi else None
    raise TypeError(f"no decision has this domain: {domain!r}")


def enumerate_values(domain: Domain, values: Values) -> Iterator[Number]:
    """Every value that a draw may give, in a fixed order."""
    match domain:
        case PerfectTile(n=n, max_inner=cap):
            yield from factorings.factorings(known_extent(domain, values), n, cap)
        case PartitionedTile(n=n, at=at, factor=factor):
            for outer, inner in _partitions(known_extent(domain, values), n, at, factor):
                for a in factorings.factorings(outer, at) if at else ((),):
                    yield from ((*a, *b) for b in factorings.factorings(inner, n - at))
        case FreeTile():
            yield from _free_values(domain, extent_of(domain, values))
        case Choice():
            yield from domain.drawn
        case Uniform(lo=lo, hi=hi):
            yield from range(lo, hi)
        case _:
            raise TypeError(f"no decision has this domain: {domain!r}")


def count(domain: Domain, values: Values) -> int:
    """The number of values that a draw may give."""
    match domain:
        case PerfectTile(n=n, max_inner=cap):
            return factorings.count(known_extent(domain, values), n, cap)
        case PartitionedTile(n=n, at=at, factor=factor):
            return sum(
                factorings.count(a, at) * factorings.count(b, n - at) if at else factorings.count(b, n)
                for a, b in _partitions(known_extent(domain, values), n, at, factor)
            )
        case Uniform(lo=lo, hi=hi):
            return max(hi - lo, 0)
        case Choice():
            return len(domain.drawn)
        case FreeTile(n=n, max_inner=cap) if n > 1:
            extent = extent_of(domain, values)
            return _free_count(draw_limit(domain.extent) if extent is None else extent, n - 1, cap)
    return sum(1 for _ in enumerate_values(domain, values))


@lru_cache(maxsize=1 << 14)
def _free_count(limit: int, inner: int, cap: int | None) -> int:
    """How many ways there are to choose inner sizes, the last at most `cap`, so that none is more than what is left."""
    if inner == 0:
        return 1
    most, total, x = limit if cap is None else min(limit, cap), 0, 1
    while x <= most:
        left = -(-limit // x)
        same = most if left == 1 else min(most, (limit - 1) // (left - 1))
        total += (same - x + 1) * _free_count(left, inner - 1, None)
        x = same + 1
    return total


def objection(domain: Domain, value: object, values: Values) -> str | None:
    """The reason why `value` is not in the domain; None if it is."""
    match domain:
        case Choice(values=xs):
            return None if value in xs and _is_int(value) else f"{_text(value)} is none of {_text(xs)}"
        case Uniform(lo=lo, hi=hi):
            return None if _is_int(value) and lo <= value < hi else f"{_text(value)} is not in {lo}..{hi}"  # type: ignore[operator]
        case PerfectTile(n=n) | PartitionedTile(n=n) | FreeTile(n=n):
            extent = extent_of(domain, values)
            if not isinstance(value, tuple) or len(value) != n:
                return f"{_text(value)} is not a list of {n} sizes"
            # Only a tile that need not fill its extent has an open first size.
            open_ = isinstance(domain, FreeTile) and extent is None and value[0] is None
            sizes = value[1:] if open_ else value
            if not all(_is_int(x) and x >= 1 for x in sizes):
                return f"{_text(value)} holds something that is not a size"
            return _tile_objection(domain, value, extent)
    raise TypeError(f"no decision has this domain: {domain!r}")


def _tile_objection(domain: Tile, value: tuple[int, ...], extent: int | None) -> str | None:
    match domain:
        case FreeTile(max_inner=cap):
            return _free_objection(value, extent) or _cap_objection(value, cap)
        case PartitionedTile(at=at, factor=factor):
            if prod(value) != extent:
                return f"the product of {_text(value)} is {prod(value)}, not {extent}"
            inner = prod(value[at:])
            fits = inner % factor == 0
            return None if fits else f"the sizes from position {at} on multiply to {inner}, no multiple of {factor}"
        case PerfectTile(max_inner=cap):
            if prod(value) != extent:
                return f"the product of {_text(value)} is {prod(value)}, not {extent}"
            return _cap_objection(value, cap)


def _free_objection(value: tuple[int, ...], extent: int | None) -> str | None:
    if extent is None:
        return None if value[0] is None else f"the first size of {_text(value)} must be `_`"
    covered = 1
    for x in reversed(value[1:]):
        limit = -(-extent // covered)
        if x > limit:
            return f"{x} in {_text(value)} is more than the {limit} that are left to tile"
        covered *= x
    outer = -(-extent // covered)
    return None if value[0] == outer else f"the first size of {_text(value)} must be {outer} to cover {extent}"


def _cap_objection(value: Sizes, cap: int | None) -> str | None:
    last = value[-1]
    return None if cap is None or last is None or last <= cap else f"the innermost size {last} is more than {cap}"


def kept(domain: Domain, value: object, values: Values) -> tuple[Number, str | None] | None:
    """A pinned value if the domain has it, otherwise a similar value and the objection; None if the domain is empty."""
    reason = objection(domain, value, values)
    if reason is None:
        assert isinstance(value, int | tuple)
        return value, None
    mended = _mended(domain, value, values)
    return None if mended is None or objection(domain, mended, values) is not None else (mended, reason)


def _mended(domain: Domain, value: object, values: Values) -> Number | None:
    match domain:
        case Choice(values=xs):
            return min(xs, key=lambda x: (abs(x - value), x)) if xs and isinstance(value, int) else None
        case Uniform(lo=lo, hi=hi):
            return min(max(value, lo), hi - 1) if lo < hi and isinstance(value, int) else None
        case PerfectTile(n=n) | PartitionedTile(n=n) | FreeTile(n=n):
            if not isinstance(value, tuple) or not all(x is None or (_is_int(x) and x >= 1) for x in value):
                return None
            given = tuple(1 if x is None else x for x in value)
            wanted = (1,) * (n - len(given)) + given[max(len(given) - n, 0) :]
            return _mended_tile(domain, wanted, extent_of(domain, values))
    raise TypeError(f"no decision has this domain: {domain!r}")


def _mended_tile(domain: Tile, wanted: tuple[int, ...], extent: int | None) -> Sizes | None:
    match domain:
        case FreeTile(max_inner=cap):
            return _mended_free(wanted, extent, cap)
        case _ if extent is None:
            return None
        case PerfectTile(max_inner=cap):
            return factorings.repair(extent, wanted, cap)
        case PartitionedTile(n=n, at=at, factor=factor):
            plain = factorings.repair(extent, wanted)
            if plain is not None and prod(plain[at:]) % factor == 0:
                return plain
            if extent % factor:
                return None
            rest = [1] * n
            rest[0] = extent // factor
            rest[at] *= factor
            return tuple(rest)


def _mended_free(wanted: tuple[int, ...], extent: int | None, cap: int | None) -> Sizes:
    inner: list[int] = []
    covered = 1
    for k in reversed(range(1, len(wanted))):
        limits = [wanted[k]]
        if extent is not None:
            limits.append(-(-extent // covered))
        if cap is not None and k == len(wanted) - 1:
            limits.append(cap)
        inner.append(min(limits))
        covered *= inner[-1]
    return (None if extent is None else -(-extent // covered), *reversed(inner))


def neighbours(domain: Domain, value: Number, values: Values) -> Iterator[Number]:
    """Values one small step from `value`: a prime moved within a tile, one size doubled or halved, the next choice."""
    match domain, value:
        case (PerfectTile(max_inner=cap), tuple()):
            yield from dict.fromkeys(factorings.moves(_whole(value), cap))
        case (PartitionedTile(), tuple()):
            moved = dict.fromkeys(factorings.moves(_whole(value)))
            yield from (x for x in moved if objection(domain, x, values) is None)
        case (FreeTile(max_inner=cap), tuple()):
            yield from _free_neighbours(value, extent_of(domain, values), cap)
        case (Choice() as choice, int()):
            order = sorted({*choice.drawn, value})
            k = order.index(value)
            yield from (*order[max(k - 1, 0) : k], *order[k + 1 : k + 2])
        case (Uniform(lo=lo, hi=hi), int()):
            yield from (x for x in (value - 1, value + 1) if lo <= x < hi)


def _free_neighbours(value: Sizes, extent: int | None, cap: int | None) -> Iterator[Number]:
    seen: set[Sizes] = {value}
    whole = tuple(1 if x is None else x for x in value)
    for k in range(1, len(value)):
        for changed in (whole[k] * 2, whole[k] // 2, whole[k] + 1, whole[k] - 1):
            moved = _mended_free((*whole[:k], max(changed, 1), *whole[k + 1 :]), extent, cap)
            if moved not in seen:
                seen.add(moved)
                yield moved


# ------------------------------------------------------------------ parts
def known_extent(domain: PerfectTile | PartitionedTile, values: Values) -> int:
    """The extent of a perfect tile.

    Raises:
        ScheduleError: MS259, it is known only at the call.
    """
    extent = extent_of(domain, values)
    if extent is None:
        raise ScheduleError(
            problem(
                "MS259",
                "a perfect tile of an extent that is known only at the call cannot be drawn",
                why="its divisors are not known",
                help="use `tile`, which draws any sizes and guards the remainder",
            )
        )
    return extent


def _partitions(extent: int, n: int, at: int, factor: int) -> Iterator[tuple[int, int]]:
    for inner in factorings.divisors(extent):
        if inner % factor == 0 and (at > 0 or inner == extent):
            yield extent // inner, inner


def _draw_partitioned(rng: Random, extent: int, n: int, at: int, factor: int) -> Sizes | None:
    pairs = list(_partitions(extent, n, at, factor))
    if not pairs:
        return None
    ways = [(factorings.count(a, at) if at else 1) * factorings.count(b, n - at) for a, b in pairs]
    outer, inner = rng.choices(pairs, ways)[0]
    head = factorings.draw(rng, outer, at) if at else ()
    tail = factorings.draw(rng, inner, n - at)
    return None if head is None or tail is None else (*head, *tail)


def _draw_free(domain: FreeTile, rng: Random, extent: int | None) -> Sizes | None:
    """From innermost outwards each size has a uniformly drawn bit length: small and large tiles are equally likely."""
    inner: list[int] = []
    covered = 1
    for k in range(domain.n - 1):
        limit = draw_limit(domain.extent) if extent is None else extent
        limit = -(-limit // covered)
        if k == 0 and domain.max_inner is not None:
            limit = min(limit, domain.max_inner)
        bits = rng.randrange(limit.bit_length())
        inner.append(rng.randint(1 << bits, min((2 << bits) - 1, limit)))
        covered *= inner[-1]
    sizes = (None if extent is None else -(-extent // covered), *reversed(inner))
    return sizes if _cap_objection(sizes, domain.max_inner) is None else None


def draw_limit(extent: Expr) -> int:
    """The largest size that is drawn for a free tile whose extent is known only at the call."""
    domain = getattr(extent, "domain", None)
    return domain.hi if isinstance(domain, DynamicRange) else 1 << 16


def _free_values(domain: FreeTile, extent: int | None) -> Iterator[Number]:
    limit = draw_limit(domain.extent) if extent is None else extent

    def inner(k: int, covered: int) -> Iterator[tuple[int, ...]]:
        if k == domain.n - 1:
            yield ()
            return
        most = -(-limit // covered)
        if k == 0 and domain.max_inner is not None:
            most = min(most, domain.max_inner)
        for x in range(1, most + 1):
            yield from ((*rest, x) for rest in inner(k + 1, covered * x))

    for sizes in inner(0, 1):
        whole = (None if extent is None else -(-extent // prod(sizes)), *sizes)
        if _cap_objection(whole, domain.max_inner) is None:
            yield whole


def _whole(value: Sizes) -> tuple[int, ...]:
    return tuple(x for x in value if x is not None)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join("_" if x is None else str(x) for x in value) + "]"
    return str(value)
