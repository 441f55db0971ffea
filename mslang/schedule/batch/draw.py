"""Drawing decisions as arrays, from the distributions of single draws (`distribution.draw`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslang.ir.arith import compile_arrays
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import ONE, Choice, Const, Domain, FreeTile, PartitionedTile, PerfectTile, Uniform
from mslang.schedule import distribution
from mslang.schedule.batch import tiles
from mslang.schedule.batch.layout import Slot
from mslang.schedule.batch.random_words import Stream, below, chosen, thresholds
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Tile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

Draw = Callable[[Stream, Mapping[str, "Integers"]], "Integers"]
"""The numbers of one decision, of shape (rows, columns), for a stream and the columns of the decisions before it; a row
of zeros where the domain has no value."""


def draw_of(decision: Decision, slot: Slot) -> Draw:
    """How a decision is drawn, compiled once."""
    if decision.given is not None:
        return _by_extent(decision.domain, lambda domain, stream: _given(decision, domain, slot, stream))
    match decision.domain:
        case Uniform(lo=lo, hi=hi):
            return lambda stream, before: (below(stream.words(), max(hi - lo, 1)) + lo)[:, None]
        case Choice() as choice:
            return _choice(choice)
        case FreeTile() as free:
            return _free(free)
        case PerfectTile() | PartitionedTile() as perfect:
            return _by_extent(perfect, lambda domain, stream: _perfect(domain, stream))
    raise TypeError(f"no decision has this domain: {decision.domain!r}")


def _choice(domain: Choice) -> Draw:
    import numpy as np

    weights = (1.0,) * len(domain.values) if domain.weights is None else domain.weights
    possible = [(v, w) for v, w in zip(domain.values, weights, strict=True) if w > 0]
    values = np.asarray([v for v, _ in possible], np.int64)
    limits = None if domain.weights is None else thresholds([w for _, w in possible])

    def run(stream: Stream, before: Mapping[str, Integers]) -> Integers:
        words = stream.words()
        return values[below(words, len(values)) if limits is None else chosen(words, limits)][:, None]

    return run


def _perfect(domain: Domain, stream: Stream) -> Integers:
    assert isinstance(domain, PerfectTile | PartitionedTile)
    return tiles.draw(replace(domain, extent=ONE), distribution.known_extent(domain, {}), stream)


def _given(decision: Decision, domain: Domain, slot: Slot, stream: Stream) -> Integers:
    """The value that the text pins a decision to, repaired where the domain does not have it."""
    import numpy as np

    kept = distribution.kept(domain, decision.given, {})
    numbers = (0,) * slot.width if kept is None else kept[0] if isinstance(kept[0], tuple) else (kept[0],)
    row = np.asarray([0 if x is None else x for x in numbers], np.int64)
    return np.broadcast_to(row, (len(stream), slot.width))


def _by_extent(domain: Domain, one: Callable[[Domain, Stream], Integers]) -> Draw:
    """Draws of a domain whose extent may depend on other decisions: the rows of one extent together."""
    if not isinstance(domain, Tile) or not distribution.depends_on(domain):
        fixed = domain if not isinstance(domain, Tile) else _with_extent(domain, distribution.extent_of(domain, {}))
        return lambda stream, before: one(fixed, stream)
    extents_at = extents_of(domain)

    def run(stream: Stream, before: Mapping[str, Integers]) -> Integers:
        import numpy as np

        extents = extents_at(before)
        out = np.zeros((len(stream), domain.n), np.int64)
        for extent in np.unique(extents):
            if extent >= 1:
                rows = np.flatnonzero(extents == extent)
                out[rows] = one(_with_extent(domain, int(extent)), stream.at(rows))
        return out

    return run


def _with_extent(domain: Tile, extent: int | None) -> Tile:
    return domain if extent is None else replace(domain, extent=Const(extent))


def extents_of(domain: Tile) -> Callable[[Mapping[str, Integers]], Integers]:
    """The extent of a tile in each row, for the columns of the decisions before it."""
    compiled = compile_arrays([domain.extent])
    names = {x.text for x in distribution.extent_symbols(domain)}

    def run(columns: Mapping[str, Integers]) -> Integers:
        return compiled({n: c for n, c in columns.items() if n in names})[0]

    return run


def _free(domain: FreeTile) -> Draw:
    """From innermost outwards each size has a uniformly drawn bit length."""
    dynamic = is_dynamic(domain.extent)
    fixed = distribution.draw_limit(domain.extent) if dynamic else distribution.extent_of(domain, {})
    extents_at = extents_of(domain) if fixed is None else None
    n, cap = domain.n, domain.max_inner

    def run(stream: Stream, before: Mapping[str, Integers]) -> Integers:
        import numpy as np

        whole = np.full(len(stream), fixed) if extents_at is None else extents_at(before)
        out = np.zeros((len(stream), n), np.int64)
        covered = np.ones(len(stream), np.int64)
        for k in range(n - 1):
            limit = -(-whole // covered)
            if k == 0 and cap is not None:
                limit = np.minimum(limit, cap)
            bits = below(stream.words(k, "bits"), _bit_length(limit))
            least = np.left_shift(1, bits)
            most = np.minimum(2 * least - 1, limit)
            size = least + below(stream.words(k, "size"), most - least + 1)
            out[:, n - 1 - k] = size
            covered = covered * size
        if not dynamic:
            out[:, 0] = -(-whole // covered)
            if n == 1 and cap is not None:
                out[out[:, 0] > cap] = 0
        return out

    return run


def _bit_length(x: Integers) -> Integers:
    """The bit length of positive integers."""
    import numpy as np

    bits = np.frexp(x.astype(np.float64))[1].astype(np.int64)
    return bits - (np.left_shift(1, bits - 1) > x)  # a double may round up to the next power of two
