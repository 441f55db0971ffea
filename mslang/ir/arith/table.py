"""Exhaustive proofs: a size at all values of its symbols, where these are few enough."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product as cartesian
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mslang.ir.arith.domain import TABLE_LIMIT, is_dynamic, limits, rows
from mslang.ir.arith.poly_value import arrays_at, number_at
from mslang.ir.arith.size import Decision, Poly
from mslang.ir.arith.verdict import Verdict, verdict
from mslang.ir.expr import Const, FreeTile, PartitionedTile, PerfectTile

if TYPE_CHECKING:
    from numpy.typing import NDArray


def decisions(p: Poly, found: dict[Decision, None] | None = None) -> dict[Decision, None]:
    """The decisions whose symbols occur in a size, atoms opened, in a stable order; a tile comes after those that its
    extent depends on."""
    out: dict[Decision, None] = {} if found is None else found
    for m, _ in p.sorted_terms():
        for f in m:
            if f.decision is not None:
                if f.decision.extent is not None:
                    decisions(f.decision.extent, out)
                out[f.decision] = None
            for a in f.args:
                decisions(a, out)
    return out


def by_table(p: Poly) -> Verdict:
    """The verdict on `p >= 0` from all values of its symbols; UNKNOWN where they are too many."""
    if not p.is_size:
        return Verdict.UNKNOWN
    wanted = tuple(decisions(p))
    signs = _few_signs(p, wanted)
    if signs is not None:
        return signs
    columns = all_values(wanted)
    if columns is None or not _fits(p):
        return Verdict.UNKNOWN
    try:
        holds = arrays_at(p, columns) >= 0
    except ZeroDivisionError:
        return Verdict.UNKNOWN
    return Verdict.PROVED if holds.all() else Verdict.DEPENDS if holds.any() else Verdict.REFUTED


def _fits(p: Poly) -> bool:
    """Whether a size and all that it is computed from are known to fit in machine integers."""
    reach = sum(max(map(abs, limits_or_huge(Poly({m: c})))) for m, c in p.terms.items())
    return reach < 2**62 and all(_fits(x) for m in p.terms for f in m for x in f.args)


FEW = 512
"""Tables up to this size, and samples of larger ones, are looked at without NumPy (whose import takes longer)."""
SAMPLES = 24


def _few_signs(p: Poly, wanted: tuple[Decision, ...]) -> Verdict | None:
    """The verdict on `p >= 0` if the tables are small, or if a few values of the decisions give it both signs."""
    tables = [rows(d.domain) for d in wanted]
    known = [t for t in tables if t]
    if len(known) < len(tables):
        return None
    names = [d.name for d in wanted]
    few = prod(map(len, known)) <= FEW
    seen: set[bool] = set()
    for chosen in cartesian(*known) if few else _sampled(known):
        values: dict[str, int] = {}
        for name, row in zip(names, chosen, strict=True):
            values |= {f"{name}[{k}]": v for k, v in enumerate(row)}
            values[name] = row[0]
        try:
            seen.add(number_at(p, values) >= 0)
        except ZeroDivisionError:
            return None
        if len(seen) == 2:
            return Verdict.DEPENDS
    return verdict(True in seen) if few and seen else None


def _sampled(tables: list[tuple[tuple[int, ...], ...]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Rows of several tables: the first of all, the last of all, and others in mixed steps."""
    for q in range(SAMPLES):
        yield tuple(t[q * (2 * at + 1) * len(t) // 7 % len(t)] for at, t in enumerate(tables))
    yield tuple(t[-1] for t in tables)


def limits_or_huge(p: Poly) -> tuple[int, int]:
    """Limits, with numbers beyond any machine integer where not known."""
    lo, hi = limits(p)
    return (-(2**63) if lo is None else lo), (2**63 if hi is None else hi)


@lru_cache(maxsize=64)
def all_values(wanted: tuple[Decision, ...]) -> dict[str, NDArray[Any]] | None:
    """Columns (`symbol.text` -> values) with a row for each combination of values of some decisions; None where these
    are too many or not known. The extent of a tile may depend on other decisions among them."""
    import numpy as np

    columns: dict[str, NDArray[Any]] = {}
    count = 1
    for decision in wanted:
        name, table = decision.name, rows(decision.domain)
        if table is None:
            found = _rows_by_extent(decision, columns, count)
        elif 0 < count * len(table) <= TABLE_LIMIT:
            found = _crossed(np.arange(count), table)
        else:
            return None
        if found is None or not len(found[0]):
            return None
        count = len(found[0])
        columns = {n: c[found[0]] for n, c in columns.items()}
        columns |= {f"{name}[{k}]": c for k, c in enumerate(found[1].T)}
        columns[name] = found[1][:, 0]
    return columns


Crossed = tuple["NDArray[Any]", "NDArray[Any]"]
"""Row numbers, and the row of a further table that each is joined with."""


def _crossed(at: NDArray[Any], table: tuple[tuple[int, ...], ...]) -> Crossed:
    import numpy as np

    values = np.asarray(table, np.int64).reshape(len(table), -1)
    return np.repeat(at, len(table)), np.tile(values, (len(at), 1))


def _rows_by_extent(decision: Decision, columns: dict[str, NDArray[Any]], count: int) -> Crossed | None:
    """Each row so far with the values of a tile whose extent it decides."""
    import numpy as np

    domain, extent = decision.domain, decision.extent
    if extent is None or not isinstance(domain, (PerfectTile, PartitionedTile, FreeTile)):
        return None
    if isinstance(domain, FreeTile) and is_dynamic(domain.extent):
        return None  # drawn before the extent is known: nothing relates the two
    if any(d.name not in columns for d in decisions(extent)):
        return None
    extents = np.broadcast_to(np.asarray(arrays_at(extent, columns)), (count,))
    parts: list[Crossed] = []
    total = 0
    for e in np.unique(extents):
        table = rows(replace(domain, extent=Const(int(e))))
        where = np.flatnonzero(extents == e)
        total += 0 if table is None else len(table) * len(where)
        if not table or total > TABLE_LIMIT:
            return None
        parts.append(_crossed(where, table))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
