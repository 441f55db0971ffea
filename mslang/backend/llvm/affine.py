"""Index arithmetic while emitting: sums of run-time scalars times constants, plus a step a lane.

Unrolling and vectorising make most of an index a constant here, so that no instruction is spent on it, and
divisions of tile indices come out even. The atoms of a form are references to i64 scalars of the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Interval = tuple[int, int]
"""Inclusive bounds."""


class Affine(NamedTuple):
    """`constant + Σ coefficient·atom + lane·(number of the lane)`; `terms` in the order the atoms appeared."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()
    lane: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether it is a number, the same in each lane."""
        return not self.terms and self.lane == 0


def add(a: Affine, b: Affine, sign: int = 1) -> Affine:
    """`a + sign * b`."""
    if not b.terms:
        return Affine(a.constant + sign * b.constant, a.terms, a.lane + sign * b.lane)
    terms = dict(a.terms)
    for atom, k in b.terms:
        terms[atom] = terms.get(atom, 0) + sign * k
    kept = tuple((atom, k) for atom, k in terms.items() if k)
    return Affine(a.constant + sign * b.constant, kept, a.lane + sign * b.lane)


def scale(a: Affine, k: int) -> Affine:
    """`k * a`."""
    if k == 0:
        return Affine(0)
    return Affine(a.constant * k, tuple((atom, c * k) for atom, c in a.terms), a.lane * k)


def interval(a: Affine, ranges: Mapping[str, Interval], lanes: int) -> Interval | None:
    """Bounds over all lanes, or None if an atom's are not known."""
    lo = hi = a.constant
    if a.lane:
        end = a.lane * (lanes - 1)
        lo, hi = lo + min(0, end), hi + max(0, end)
    for atom, k in a.terms:
        known = ranges.get(atom)
        if known is None:
            return None
        lo += k * known[0] if k > 0 else k * known[1]
        hi += k * known[1] if k > 0 else k * known[0]
    return lo, hi


def divide(a: Affine, by: int, ranges: Mapping[str, Interval], lanes: int) -> tuple[Affine, Affine] | None:
    """Floor quotient and remainder by a positive constant, where both are of this form."""
    even = tuple(t for t in a.terms if t[1] % by == 0)
    whole = Affine(a.constant // by * by, even, a.lane if a.lane % by == 0 else 0)
    rest = add(a, whole, -1)
    bounds = interval(rest, ranges, lanes)
    if bounds is None or bounds[0] // by != bounds[1] // by:
        return None
    extra = bounds[0] // by
    quotient = Affine(whole.constant // by + extra, tuple((atom, k // by) for atom, k in whole.terms), whole.lane // by)
    return quotient, add(rest, Affine(extra * by), -1)


def compare(op: str, a: Affine, b: Affine, ranges: Mapping[str, Interval], lanes: int) -> bool | None:
    """What a comparison comes to for all values, or None."""
    bounds = interval(add(a, b, -1), ranges, lanes)
    if bounds is None:
        return None
    lo, hi = bounds
    always, never = {
        "<": (hi < 0, lo >= 0),
        "<=": (hi <= 0, lo > 0),
        ">": (lo > 0, hi <= 0),
        ">=": (lo >= 0, hi < 0),
        "==": (lo == hi == 0, lo > 0 or hi < 0),
        "!=": (lo > 0 or hi < 0, lo == hi == 0),
    }[op]
    return True if always else False if never else None
