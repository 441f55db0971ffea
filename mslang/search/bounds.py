"""Conditions that bound sums of products of decisions, or say what divides them: threads of a block, bytes of its
tiles, rows of whole vectors.

What keeps such bounds is counted before anything is drawn (`mslang.search.bounded`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import is_dynamic, symbol_limits
from mslang.ir.arith.size import Mono, Poly
from mslang.ir.expr import Binary, Const, Expr


class Term(msgspec.Struct, frozen=True):
    """A product: `coefficient` times some columns of each of some decisions, by their addresses.

    A column is the position of a factor of a tile; None for a decision that is one number.
    """

    coefficient: int
    parts: tuple[tuple[str, tuple[int | None, ...]], ...]


Kind = Literal["most", "least", "multiple"]


class Bound(msgspec.Struct, frozen=True):
    """The sum of some terms, all of which are positive, is at most, or at least, `limit`.

    A `multiple` has two terms, the second of which divides the first; its limit means nothing.
    """

    terms: tuple[Term, ...]
    kind: Kind
    limit: int = 0

    @property
    def addresses(self) -> frozenset[str]:
        """The decisions that occur."""
        return frozenset(a for t in self.terms for a, _ in t.parts)


def bounds_of(conditions: Iterable[Expr]) -> tuple[Bound, ...]:
    """Those of some conditions that are bounds, each once, those of the fewest terms first.

    Example:
        >>> bounds_of([condition])  # `ti`[1] * `tj`[1] <= 1024
        (Bound(terms=(Term(coefficient=1, parts=(('ti', (1,)), ('tj', (1,)))),), kind='most', limit=1024),)
    """
    found = dict.fromkeys(b for c in conditions if (b := _bound(c)) is not None)
    return tuple(sorted(found, key=lambda b: (b.kind == "multiple", len(b.terms))))


def _bound(condition: Expr) -> Bound | None:
    try:
        match condition:
            case _ if is_dynamic(condition):
                return None
            case Binary(op="<=" | "<" as op, left=a, right=b):
                return _of_difference(read_size(a) - read_size(b) + int(op == "<"))
            case Binary(op="==", left=Binary(op="%", left=a, right=b), right=Const(value=0)):
                whole, part = _single(read_size(a)), _single(read_size(b))
                return None if whole is None or part is None else Bound((whole, part), "multiple")
    except MsError:  # What is compared is not made of whole numbers.
        return None
    return None


def _single(size: Poly) -> Term | None:
    """A polynomial of one term."""
    return _term(*next((c, m) for m, c in size.terms.items())) if len(size.terms) == 1 else None


def _of_difference(difference: Poly) -> Bound | None:
    """The bound that says that a polynomial is at most 0."""
    varying = {m: c for m, c in difference.terms.items() if m}
    if len({c > 0 for c in varying.values()}) != 1:
        return None
    terms = [_term(abs(c), m) for m, c in varying.items()]
    known = tuple(t for t in terms if t is not None)
    if len(known) < len(terms):
        return None
    if min(varying.values()) < 0:
        return Bound(known, "least", difference.offset)
    return Bound(known, "most", -difference.offset)


def _term(coefficient: int, mono: Mono) -> Term | None:
    """A product of the factors of decisions; None where something else is a factor, or one may be less than 1."""
    parts: dict[str, list[int | None]] = {}
    for f in mono:
        symbol = f.symbol
        low = None if symbol is None else symbol_limits(symbol)[0]
        if symbol is None or low is None or low < 1:
            return None
        parts.setdefault(symbol.name, []).append(symbol.position)
    return Term(coefficient, tuple((a, tuple(parts[a])) for a in sorted(parts)))
