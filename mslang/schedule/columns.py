"""Vectorized draws: arrays with one column per number and one row per candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mslang.ir.expr import Choice, Domain, FreeTile, PartitionedTile, PerfectTile, Uniform
from mslang.schedule import distribution
from mslang.schedule.decisions import Decision
from mslang.schedule.seeds import derive, generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

TABLE = 1 << 17
"""Tiles with at most this many values are drawn from a table of all values."""


def sample_columns(decisions: Sequence[Decision], n: int, seed: int) -> Mapping[str, Column]:
    """Draw each numeric decision `n` times, from the distributions of single draws (the numbers differ).

    Args:
        decisions: a sketch's decisions in order.
        n: how many rows.
        seed: each column depends on it and on the decision's address only.

    Returns:
        By address: an array of shape (n,) for a single number, (n, factors) for a tile.
    """
    columns: dict[str, Column] = {}
    for decision in decisions:
        columns[decision.address] = _column(decision, n, seed, columns)
    return columns


def _column(decision: Decision, n: int, seed: int, before: Mapping[str, Column]) -> Column:
    import numpy as np

    if decision.given is not None:
        fixed = np.asarray(decision.given, dtype=np.int64)
        return np.broadcast_to(fixed, (n, *fixed.shape)).copy()
    rng = np.random.default_rng(derive(seed, "columns", decision.address))
    match decision.domain:
        case Uniform(lo=lo, hi=hi):
            return rng.integers(lo, hi, size=n)
        case Choice(values=values, weights=weights):
            shares = None if weights is None else np.asarray(weights) / sum(weights)
            return np.asarray(values, dtype=np.int64)[rng.choice(len(values), size=n, p=shares)]
    needs = sorted(distribution.depends_on(decision.domain))
    if not needs:
        return _tiles(decision.domain, {}, n, rng, seed, decision.address)
    # A tile whose extent depends on other decisions: rows with equal values of these are drawn together.
    key = np.concatenate([before[a].reshape(n, -1) for a in needs], axis=1)
    distinct, group = np.unique(key, axis=0, return_inverse=True)
    width = decision.domain.n if isinstance(decision.domain, PerfectTile | PartitionedTile | FreeTile) else 1
    out = np.empty((n, width), dtype=np.int64)
    for k in range(len(distinct)):
        rows = np.flatnonzero(group.reshape(-1) == k)
        known: distribution.Values = {a: _value(before[a][rows[0]]) for a in needs}
        out[rows] = _tiles(decision.domain, known, len(rows), rng, seed, f"{decision.address}/{k}")
    return out


def _tiles(
    domain: Domain,
    values: distribution.Values,
    n: int,
    rng: np.random.Generator,
    seed: int,
    address: str,
) -> Column:
    import numpy as np

    if isinstance(domain, PerfectTile | PartitionedTile) and 0 < distribution.count(domain, values) <= TABLE:
        table = np.asarray(list(distribution.enumerate_values(domain, values)), dtype=np.int64)
        return table[rng.integers(0, len(table), size=n)]
    one = generator(seed, "columns", address)
    rows = [distribution.draw(domain, one, values) for _ in range(n)]
    return np.asarray([[0 if x is None else x for x in r] for r in rows if isinstance(r, tuple)], dtype=np.int64)


def _value(row: Column) -> int | tuple[int, ...]:
    return int(row) if row.ndim == 0 else tuple(int(x) for x in row)
