"""Whether numbers are in the domains of their decisions, as arrays (`distribution.objection` for many candidates)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import Choice, Domain, FreeTile, PartitionedTile, PerfectTile, Uniform
from mslang.schedule import distribution
from mslang.schedule.batch.draw import extents_of
from mslang.schedule.distribution import Tile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

Member = Callable[["Integers", Mapping[str, "Integers"]], "Mask"]
"""Whether the numbers of one decision, of shape (rows, columns), are in its domain; takes the columns of all too."""

Extent = Callable[[Mapping[str, "Integers"]], "Integers | int"]


def member_of(domain: Domain) -> Member:
    """The test of membership in a domain, compiled once."""
    import numpy as np

    match domain:
        case Uniform(lo=lo, hi=hi):
            return lambda x, all_columns: (lo <= x[:, 0]) & (x[:, 0] < hi)
        case Choice(values=values):
            known = np.asarray(values, np.int64)
            return lambda x, all_columns: np.isin(x[:, 0], known)
        case FreeTile(extent=e, max_inner=cap) if is_dynamic(e):
            return lambda x, all_columns: _sizes(x[:, 1:], cap) & (x[:, 0] == 0)
        case FreeTile(max_inner=cap):
            extent = _extent(domain)
            return lambda x, all_columns: _sizes(x, cap) & _covers(x, extent(all_columns))
        case PerfectTile(max_inner=cap):
            extent = _extent(domain)
            return lambda x, all_columns: _sizes(x, cap) & _multiplies(x, extent(all_columns))
        case PartitionedTile(at=at, factor=factor):
            extent = _extent(domain)
            return lambda x, all_columns: (
                _sizes(x, None) & _multiplies(x, extent(all_columns)) & (_product(x[:, at:]) % factor == 0)
            )
    raise TypeError(f"no decision has this domain: {domain!r}")


def _extent(domain: Tile) -> Extent:
    if distribution.depends_on(domain):
        return extents_of(domain)
    known = distribution.extent_of(domain, {})
    assert known is not None
    return lambda all_columns: known


def _sizes(x: Integers, cap: int | None) -> Mask:
    """Whether all are at least 1, and the last at most the cap."""
    import numpy as np

    found = np.ones(len(x), np.bool_)
    for k in range(x.shape[1]):
        found &= x[:, k] >= 1
    return found if cap is None or not x.shape[1] else found & (x[:, -1] <= cap)


def _product(x: Integers) -> Integers:
    import numpy as np

    out = np.ones(len(x), np.int64)
    for k in range(x.shape[1]):
        out = out * x[:, k]
    return out


def _multiplies(x: Integers, extent: Integers | int) -> Mask:
    """Whether sizes multiply to an extent; they are first known to divide it, so that no product is too large."""
    import numpy as np

    left = np.broadcast_to(np.asarray(extent, np.int64), len(x))
    found = np.ones(len(x), np.bool_)
    for k in range(x.shape[1]):
        quotient = left // np.maximum(x[:, k], 1)
        found &= quotient * x[:, k] == left
        left = quotient
    out: Mask = found & (left == 1)
    return out


def _covers(x: Integers, extent: Integers | int) -> Mask:
    """Whether the first size is what the others leave, none of which is more than what is left for it."""
    import numpy as np

    found = np.ones(len(x), np.bool_)
    covered = np.ones(len(x), np.int64)
    for k in reversed(range(1, x.shape[1])):
        found &= (x[:, k] >= 1) & (x[:, k] <= -(-extent // covered))
        covered = np.where(found, covered * x[:, k], 1)  # at most twice the extent
    out: Mask = found & (x[:, 0] == -(-extent // covered))
    return out
