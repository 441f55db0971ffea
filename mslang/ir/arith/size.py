"""The ring: polynomials with integer coefficients whose indeterminates are symbols, variables and atoms.

A `Poly` is a map from monomials to integers; a monomial is a sorted tuple of factors. A factor is a symbol, a
variable, an atom such as `x // d` or `min(x, y)` (a value made of polynomials, equal when they are equal), or an
opaque expression. A *size* is a polynomial without variables and opaque parts.

What is known of tiles enters here: the factors of a perfect tile multiply to its extent. These relations range over
disjoint sets of symbols, so their leading monomials are coprime and replacing each full product by the extent gives
one normal form: equality is equality of dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter

import msgspec

from mslang.ir.expr import Domain, Expr, PartitionedTile, PerfectTile, Symbol, Var
from mslang.ir.visit import free_vars

DIVISIONS = ("//", "%")
CHOICES = ("min", "max")


class Decision(msgspec.Struct, frozen=True, cache_hash=True):
    """What the values of symbols come from: a decision, or a size known only at the call.

    `extent` is the extent of a tile in normal form, so that nothing about polynomials has to read an expression.
    """

    name: str
    domain: Domain
    extent: Poly | None = None


class Factor(msgspec.Struct, frozen=True, cache_hash=True):
    """One indeterminate. `key` orders factors the same way in every process; `expr` is set for var, symbol and opaque
    ones, `args` for atoms (op `//`, `%`, `min` or `max`), `decision` for symbols. `tile` is the decision of symbols
    whose product is known."""

    key: str
    op: str
    expr: Expr | None
    args: tuple[Poly, ...]
    vars: frozenset[str]
    is_size: bool
    decision: Decision | None = None
    tile: Decision | None = None

    @property
    def symbol(self) -> Symbol | None:
        """The symbol this factor is, or None."""
        return self.expr if isinstance(self.expr, Symbol) else None

    @property
    def name(self) -> str:
        """The name of a variable, else empty."""
        return self.expr.name if isinstance(self.expr, Var) else ""


Mono = tuple[Factor, ...]
_KEY = attrgetter("key")


def natural(name: str) -> str:
    """A sort key that puts `i2` before `i10`."""
    return re.sub(r"\d+", lambda m: m.group().zfill(9), name)


class Poly:
    """A polynomial; a value (never change `terms`). Coefficients are never 0."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Mono, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Poly) and self.terms == other.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def constant(self) -> int | None:
        """The value of a polynomial that is a number, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1:
            return self.terms.get((), None)
        return None

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms.get((), 0)

    @property
    def is_size(self) -> bool:
        """Whether no variable and no opaque part occurs."""
        return all(f.is_size for m in self.terms for f in m)

    @property
    def vars(self) -> frozenset[str]:
        """The names of the variables in it, inside atoms too."""
        return frozenset().union(*(f.vars for m in self.terms for f in m))

    @property
    def divided(self) -> bool:
        """Whether some factor is a quotient or remainder."""
        return any(f.op in DIVISIONS for m in self.terms for f in m)

    def sorted_terms(self) -> list[tuple[Mono, int]]:
        """The terms in an order that depends on their value only."""
        return sorted(self.terms.items(), key=lambda t: tuple(f.key for f in t[0]))

    def __add__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            if not other:
                return self
            other = number(other)
        if not other.terms:
            return self
        terms = dict(self.terms)
        for m, c in other.terms.items():
            v = terms.get(m, 0) + c
            if v:
                terms[m] = v
            else:
                del terms[m]
        return Poly(terms)

    __radd__ = __add__

    def __neg__(self) -> Poly:
        return Poly({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Poly | int) -> Poly:
        return self + (-other)

    def __rsub__(self, other: int) -> Poly:
        return -self + other

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return self.scaled(other)
        k = other.constant
        if k is not None:
            return self.scaled(k)
        k = self.constant
        if k is not None:
            return other.scaled(k)
        terms: dict[Mono, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                accumulate(terms, join(m, n), c * d)
        return reduced(terms)

    __rmul__ = __mul__

    def scaled(self, k: int) -> Poly:
        """`k` times this."""
        if k == 1:
            return self
        return Poly({m: c * k for m, c in self.terms.items()}) if k else NOTHING

    def __repr__(self) -> str:
        return f"Poly({text(self)})"


Size = Poly
"""A polynomial without variables; integers are constant ones."""

NOTHING = Poly({})


@lru_cache(maxsize=4096)
def number(k: int) -> Poly:
    """A constant."""
    return Poly({(): k}) if k else NOTHING


def accumulate(terms: dict[Mono, int], m: Mono, c: int) -> None:
    """Add `c * m` to `terms`."""
    v = terms.get(m, 0) + c
    if v:
        terms[m] = v
    else:
        terms.pop(m, None)


def join(m: Mono, n: Mono) -> Mono:
    """The product of two monomials, not reduced."""
    if not m or not n:
        return m or n
    return tuple(sorted(m + n, key=_KEY))


def without(m: Mono, n: Mono) -> Mono | None:
    """`m / n`, or None if `n` does not divide `m`."""
    rest = list(m)
    for f in n:
        if f not in rest:
            return None
        rest.remove(f)
    return tuple(rest)


def common(m: Mono, n: Mono) -> Mono:
    """The largest monomial that divides both."""
    rest, out = list(n), []
    for f in m:
        if f in rest:
            rest.remove(f)
            out.append(f)
    return tuple(out)


# ------------------------------------------------------------------ factors
@lru_cache(maxsize=16384)
def variable(name: str) -> Poly:
    """A variable as a polynomial."""
    f = Factor("v" + natural(name), "var", Var(name), (), frozenset((name,)), False)
    return Poly({(f,): 1})


@lru_cache(maxsize=16384)
def indeterminate(decision: Decision, position: int | None) -> Poly:
    """A symbol as a polynomial (the factors of a tile of one factor are its extent)."""
    return reduced({(symbol_factor(decision, position),): 1})


@lru_cache(maxsize=16384)
def symbol_factor(decision: Decision, position: int | None) -> Factor:
    """A symbol as a factor."""
    s = Symbol(decision.name, decision.domain, position)
    tile = decision if isinstance(s.domain, (PerfectTile, PartitionedTile)) else None
    return Factor("s" + natural(s.text), "symbol", s, (), frozenset(), True, decision, tile)


@lru_cache(maxsize=16384)
def opaque(e: Expr) -> Poly:
    """An expression that the ring does not look into."""
    return Poly({(Factor("z" + repr(e), "opaque", e, (), free_vars(e), False),): 1})


@lru_cache(maxsize=65536)
def atom(op: str, args: tuple[Poly, ...]) -> Poly:
    """The atom `op(args)` as a polynomial; the caller has brought the arguments to their canonical form."""
    key = "x" + op + "(" + ",".join(map(text, args)) + ")"
    names = frozenset[str]().union(*(a.vars for a in args))
    return Poly({(Factor(key, op, None, args, names, all(a.is_size for a in args)),): 1})


def text(p: Poly) -> str:
    """A text that is the same for equal polynomials, in every process."""
    return "+".join("*".join((str(c), *(f.key for f in m))) for m, c in p.sorted_terms()) or "0"


def only_factor(p: Poly, op: str) -> Factor | None:
    """The factor `f` if `p` is `1 * f` and `f` has this op."""
    if len(p.terms) != 1:
        return None
    ((m, c),) = p.terms.items()
    return m[0] if c == 1 and len(m) == 1 and m[0].op == op else None


def total(xs: Iterable[Poly]) -> Poly:
    """The sum."""
    out = NOTHING
    for x in xs:
        out = out + x
    return out


def product(xs: Iterable[Poly]) -> Poly:
    """The product."""
    out = number(1)
    for x in xs:
        out = out * x
    return out


def size_part(m: Mono) -> tuple[Mono, Mono]:
    """A monomial's factors with variables, and its size factors."""
    if all(f.is_size for f in m):
        return (), m
    return tuple(f for f in m if not f.is_size), tuple(f for f in m if f.is_size)


def collect(p: Poly) -> dict[Mono, Poly]:
    """The linear form: products of non-size factors -> their coefficient, a size. The key `()` holds the rest."""
    out: dict[Mono, dict[Mono, int]] = {}
    for m, c in p.terms.items():
        v, s = size_part(m)
        out.setdefault(v, {})[s] = c
    return {v: Poly(t) for v, t in out.items()}


# ------------------------------------------------------------------ product relations
class Relation(msgspec.Struct, frozen=True):
    """The product of `factors` is `extent`."""

    factors: Mono
    extent: Poly


@lru_cache(maxsize=4096)
def relation(tile: Decision) -> Relation:
    """What the factors of a perfect tile multiply to."""
    assert isinstance(tile.domain, (PerfectTile, PartitionedTile)) and tile.extent is not None
    factors = (symbol_factor(tile, k) for k in range(tile.domain.n))
    return Relation(tuple(sorted(factors, key=_KEY)), tile.extent)


def relations_of(m: Mono) -> tuple[Relation, ...]:
    """The relations whose symbols occur in a monomial, in order of first occurrence."""
    tiles = [f.tile for f in m if f.tile is not None]
    return tuple(map(relation, dict.fromkeys(tiles))) if tiles else ()


def _reducible(m: Mono) -> tuple[Mono, Poly] | None:
    for r in relations_of(m):
        if len(m) >= len(r.factors):
            rest = without(m, r.factors)
            if rest is not None:
                return rest, r.extent
    return None


def reduced(terms: dict[Mono, int]) -> Poly:
    """The normal form: every full product of a tile is replaced by its extent."""
    out = terms
    for m, c in list(terms.items()):
        found = _reducible(m)
        if found is not None:
            if out is terms:
                out = dict(terms)
            accumulate(out, m, -c)
            rest, extent = found
            for n, d in (Poly({rest: c}) * extent).terms.items():
                accumulate(out, n, d)
    return Poly(out) if out is terms else reduced(out)
