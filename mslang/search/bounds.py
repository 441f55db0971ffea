"""Conditions that bound sums of products of decisions, or say what divides them: threads of a block, bytes of its
tiles, rows of whole vectors.

What keeps such bounds is counted before anything is drawn (`mslang.search.bounded`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import is_dynamic, limits
from mslang.ir.arith.size import Mono, Poly
from mslang.ir.arith.write import write
from mslang.ir.expr import Binary, Const, Expr, Symbol
from mslang.ir.visit import walk_expr


class Term(msgspec.Struct, frozen=True):
    """A product: `coefficient` times an expression over each of some decisions, by their addresses."""

    coefficient: int
    parts: tuple[tuple[str, Expr], ...]


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
        (Bound(terms=(Term(coefficient=1, parts=(('ti', `ti`[1]), ('tj', `tj`[1]))),), kind='most', limit=1024),)
    """
    found = dict.fromkeys(b for c in conditions if (b := _bound(c)) is not None)
    return tuple(sorted(found, key=lambda b: (b.kind == "multiple", len(b.terms))))


def relaxed(bound: Bound) -> Bound:
    """A bound that holds wherever another one does: of a sum that has a limit, only the terms of most decisions.

    So of `(h + 2)·(w + 2)` elements of a tile with its margin `h·w` are left.
    """
    if bound.kind != "most":
        return bound
    most = max(len(t.parts) for t in bound.terms)
    return replace(bound, terms=tuple(t for t in bound.terms if len(t.parts) == most))


def _bound(condition: Expr) -> Bound | None:
    try:
        match condition:
            case _ if is_dynamic(condition):
                return None
            case Binary(op="<=", left=a, right=Const(value=int(limit))) if (terms := _written(a)) is not None:
                return Bound(terms, "most", limit)
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


def _written(size: Expr) -> tuple[Term, ...] | None:
    """Terms that are together at most a sum, as it is written: `(h + 2) * w` is one, where a normal form has two."""
    match size:
        case Binary(op="+", left=a, right=b):
            first, second = _written(a), _written(b)
            return None if first is None or second is None else first + second
    found = _of_factors(1, [_of_one(f) for f in _factors(size)])
    return None if found is None or not found.parts else (found,)


def _addresses(e: Expr) -> frozenset[str]:
    return frozenset(x.name for x in walk_expr(e) if isinstance(x, Symbol))


def _of_one(factor: Expr) -> Expr:
    """A factor; of a sum over several decisions the part of one that is no more than the sum.

    So of the rows `h + r - 1` that a tile of `h` rows reads through a window of `r` rows `h` are left.
    """
    addresses = _addresses(factor)
    if len(addresses) < 2:
        return factor
    size = read_size(factor)
    for address in sorted(addresses):
        own = Poly({m: c for m, c in size.terms.items() if m and {f.symbol.name for f in m if f.symbol} == {address}})
        low = limits(size - own)[0]
        if own and low is not None and low >= 0:
            return write(own)
    return factor


def _factors(e: Expr) -> Iterator[Expr]:
    match e:
        case Binary(op="*", left=a, right=b):
            yield from _factors(a)
            yield from _factors(b)
        case _:
            yield e


def _term(coefficient: int, mono: Mono) -> Term | None:
    """A product of the factors of a normal form."""
    factors = [f.symbol for f in mono]
    known = [x for x in factors if x is not None]
    return _of_factors(coefficient, known) if len(known) == len(factors) else None


def _of_factors(coefficient: int, factors: Iterable[Expr]) -> Term | None:
    """A product, the factors of each decision together; None where one is of several, or may be less than 1."""
    parts: dict[str, Expr] = {}
    for f in factors:
        if isinstance(f, Const) and isinstance(f.value, int) and f.value > 0:
            coefficient *= f.value
            continue
        addresses = _addresses(f)
        low = limits(read_size(f))[0]
        if len(addresses) != 1 or low is None or low < 1:
            return None
        (address,) = addresses
        parts[address] = Binary("*", parts[address], f) if address in parts else f
    return Term(coefficient, tuple((a, parts[a]) for a in sorted(parts)))
