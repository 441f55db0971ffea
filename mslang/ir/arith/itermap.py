"""Iter-map detection: are these index expressions an affine, injective or bijective map of the loops?

Every index is taken apart into digits. A *mark* is a number that runs over `0 .. extent`: a loop variable, or a sum of
digits whose scales telescope (loops fused). A *digit* is `mark // lower % extent` (loops split). If the digits of a
mark that can be read off the indices leave nothing of it out, the mark is known, hence the digits it was fused from,
hence in the end the loops. Scales, lower ends and extents are sizes: all is decided for all values of the symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from mslang.ir.arith.convert import read
from mslang.ir.arith.digits import as_digits
from mslang.ir.arith.divide import merge, quotient
from mslang.ir.arith.interval import Scope
from mslang.ir.arith.scope import Ranges, scope_for
from mslang.ir.arith.sign import at_least_0, positive
from mslang.ir.arith.simplify import decide_in
from mslang.ir.arith.size import Factor, Mono, Poly, collect, number, only_factor, product, text, variable
from mslang.ir.arith.verdict import Verdict
from mslang.ir.arith.write import write
from mslang.ir.expr import TRUE, ZERO, Binary, Expr, Var
from mslang.ir.nodes import Range
from mslang.ir.text import print_expr
from mslang.ir.visit import conjuncts, free_vars, substitute

Level = Literal["affine", "injective", "bijective"]


class Digit(NamedTuple):
    """`mark // lower % extent`; the mark is a loop variable or a sum of digits."""

    mark: Poly
    lower: Poly
    extent: Poly


class Term(NamedTuple):
    """`scale * digit`, or `scale * (extent - 1 - digit)` where `reflected`; the scale is positive."""

    digit: Digit
    scale: Poly
    reflected: bool = False


class IterSum(msgspec.Struct, frozen=True):
    """`value = offset + terms`, smallest scale first. `separable`: the sum determines every digit.
    `compact`: it takes every value in `offset .. offset + extent`."""

    value: Poly
    terms: tuple[Term, ...]
    offset: Poly
    extent: Poly
    separable: bool
    compact: bool


class IterMap(msgspec.Struct, frozen=True):
    """A map of loops to indices. `sums` are the indices, `fused` the marks made of digits, and `starts`/`extents` the
    box that the indices lie in (exactly that box where the level is "bijective"; its values are distinct for distinct
    iterations where it is "injective" or "bijective")."""

    level: Level
    sums: tuple[IterSum, ...]
    fused: Mapping[Poly, IterSum]
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]


KEPT = 1 << 11
"""How many results are kept: primitives ask the same of a block again and again."""


class NotAffine(msgspec.Struct, frozen=True):
    """Not an affine map: why not, and which of the indices is at fault."""

    reason: str
    binding: int


class _Refused(Exception):
    """The reason why an index is not affine."""


def detect(bindings: Sequence[Expr], ranges: Ranges, predicate: Expr = TRUE) -> IterMap | NotAffine:
    """What kind of map from the loops in `ranges` to `bindings` this is, where `predicate` holds.

    Affine: each binding is a sum of digits of loops or of fused loops, with offsets. Injective: different iterations
    give different values. Bijective: besides, the values fill the box `starts`, `extents`. Other variables stand still.
    """
    given, items = tuple(bindings), tuple(ranges.items())
    found = _detected(given, items, predicate)
    if _level(found) > _LEVELS.index("affine"):
        return found
    # Digits of one number may have had other things divided out of each.
    digits = tuple(as_digits(e, ranges) for e in given)
    again = found if digits == given else _detected(digits, items, predicate)
    return again if _level(again) > _level(found) else found


_LEVELS = ("", "affine", "injective", "bijective")


def _level(found: IterMap | NotAffine) -> int:
    return _LEVELS.index(found.level) if isinstance(found, IterMap) else 0


@lru_cache(maxsize=KEPT)
def _detected(bindings: tuple[Expr, ...], items: tuple[tuple[str, Range], ...], predicate: Expr) -> IterMap | NotAffine:
    ranges = dict(items)
    moved = from_zero(ranges)
    shift = _values(ranges)
    exprs = [substitute(e, shift) for e in (*bindings, predicate)]
    work = _Detection(moved, scope_for((*exprs, *map(Var, moved)), moved))
    sums = []
    for k, e in enumerate(exprs[:-1]):
        try:
            sums.append(work.sum_of(read(e, work.scope)))
        except _Refused as reason:
            return NotAffine(f"{reason}", k)
    return work.result(sums, exprs[-1])


def from_zero(ranges: Ranges) -> dict[str, Range]:
    """The ranges moved to start at 0, for variables that count from there."""
    shift = _values(ranges)
    return {n: Range(ZERO, substitute(r.extent, shift)) for n, r in ranges.items()}


def _values(ranges: Ranges) -> dict[str, Expr]:
    """The values of variables that do not start at 0, in terms of all variables counted from 0."""
    done: dict[str, Expr] = {}

    def value(name: str, inside: frozenset[str]) -> Expr:
        start = ranges[name].start
        if name not in done and start != ZERO:
            outer = (free_vars(start) & ranges.keys()) - inside
            done[name] = Binary("+", Var(name), substitute(start, {v: value(v, inside | {v}) for v in outer}))
        return done.get(name, Var(name))

    for name in ranges:
        value(name, frozenset({name}))
    return done


class _Detection:
    """One run of the analysis: the loops, and the fused marks met."""

    def __init__(self, ranges: Ranges, scope: Scope) -> None:
        self.ranges, self.scope = ranges, scope
        self.extents = {variable(n): read(r.extent, scope) for n, r in ranges.items()}
        self.fused: dict[Poly, IterSum] = {}

    def sum_of(self, p: Poly) -> IterSum:
        """An index as a sum of digits."""
        offset, terms = number(0), []
        for v, c in sorted(collect(p).items(), key=lambda t: tuple(f.key for f in t[0])):
            if not any(f.vars & self.ranges.keys() for f in v):
                offset = offset + c * Poly({v: 1})
                continue
            digit = self._digit(v)
            if at_least_0(c):
                terms.append(Term(digit, c))
            elif at_least_0(-c):
                terms.append(Term(digit, -c, True))
                offset = offset + c * (digit.extent - 1)
            else:
                raise _Refused(f"the sign of the stride {text_of(c)} is not known")
        return _ordered(p, terms, offset)

    def _digit(self, v: Mono) -> Digit:
        if len(v) != 1:
            raise _Refused(f"`{text_of(Poly({v: 1}))}` is a product of loops")
        f = v[0]
        if f.op == "var":
            mark = Poly({v: 1})
            return Digit(mark, number(1), self.extents[mark])
        if f.op not in ("//", "%"):
            raise _Refused(f"`{text_of(Poly({v: 1}))}` is not affine")
        x, d = f.args
        if not d.is_size or not positive(d):
            raise _Refused(f"the divisor `{text_of(d)}` is not a positive size")
        if f.op == "//":
            extent = self._mark(x, f)
            return Digit(x, d, quotient(extent + d - 1, d))
        inner = only_factor(x, "//")
        if inner is not None and inner.args[1].is_size:
            self._mark(inner.args[0], f)
            return Digit(inner.args[0], inner.args[1], d)
        self._mark(x, f)
        return Digit(x, number(1), d)

    def _mark(self, x: Poly, f: Factor) -> Poly:
        """The extent of a mark, which is fused here if it is not a loop variable."""
        if x in self.extents:
            return self.extents[x]
        if x not in self.fused:
            found = self.sum_of(x)
            if not found.compact or found.offset:
                raise _Refused(f"`{text_of(x)}` under `{f.op}` is not one fused loop")
            self.fused[x] = found
        return self.fused[x].extent

    # -------------------------------------------------------------- the level
    def result(self, sums: Sequence[IterSum], predicate: Expr) -> IterMap:
        """The level of the whole map."""
        known = self._known(sums)
        level: Level = "affine"
        extents = [s.extent for s in sums]
        if all(m in known or e == number(1) for m, e in self.extents.items()):
            level = "injective"
            bounded = self._bounded(sums, predicate)
            if bounded is not None and self._exact(sums):
                level, extents = "bijective", bounded
        return IterMap(
            level, tuple(sums), dict(self.fused), tuple(write(s.offset) for s in sums), tuple(write(e) for e in extents)
        )

    def _known(self, sums: Iterable[IterSum]) -> set[Poly]:
        """The marks that the indices determine."""
        known: set[Poly] = set()
        digits = {t.digit for s in sums if s.separable for t in s.terms}
        while True:
            for m in self.fused.keys() - known:
                digits |= {lifted for _, lifted in digits_of_top(m, self.fused[m], digits, self.extent_of)}
            found = {m for m in {d.mark for d in digits} - known if self._chain(m, digits) is not None}
            if not found:
                return known
            known |= found
            digits |= {t.digit for m in found if m in self.fused for t in self.fused[m].terms}

    def extent_of(self, mark: Poly) -> Poly:
        """How many values a mark takes."""
        return self.extents[mark] if mark in self.extents else self.fused[mark].extent

    def _chain(self, mark: Poly, digits: Iterable[Digit]) -> list[Digit] | None:
        return chain(mark, self.extent_of(mark), digits)

    def _exact(self, sums: Sequence[IterSum]) -> bool:
        """Whether all digits are independent and take all of their values: every mark is split into consecutive digits,
        each used once, with nothing over."""
        uses = [t.digit for s in (*sums, *self.fused.values()) for t in s.terms]
        if len(set(uses)) < len(uses) or not all(s.compact for s in sums):
            return False
        for mark in {*self.extents, *self.fused}:
            own = [d for d in uses if d.mark == mark]
            extent = self.extent_of(mark)
            found = chain(mark, extent, own)
            if not extent.is_size or (
                own and (found is None or len(found) < len(own) or not _same(spanned(found), extent))
            ):
                return False
        return True

    def _bounded(self, sums: Sequence[IterSum], predicate: Expr) -> list[Poly] | None:
        """The extents of the indices where the predicate holds; None if it cuts out something else than a box."""
        extents = [s.extent for s in sums]
        for condition in conjuncts(predicate):
            if decide_in(condition, self.scope) is Verdict.PROVED:
                continue
            bound = self._upper_bound(condition, sums)
            if bound is None:
                return None
            k, extent = bound
            if not at_least_0(extents[k] - extent) or not positive(extent):
                return None
            extents[k] = extent
        return extents

    def _upper_bound(self, condition: Expr, sums: Sequence[IterSum]) -> tuple[int, Poly] | None:
        """`(k, extent)` if the condition says that index `k` is below `its offset + extent`."""
        match condition:
            case Binary(op="<" | "<=" | ">" | ">=" as op, left=a, right=b):
                low, high = (a, b) if op[0] == "<" else (b, a)
                p = merge(read(low, self.scope) - read(high, self.scope))
                strict = op in ("<", ">")
            case _:
                return None
        for k, s in enumerate(sums):
            rest = merge(p - s.value)
            if rest.is_size:
                return k, (-rest if strict else 1 - rest) - s.offset
        return None


def _ordered(value: Poly, terms: list[Term], offset: Poly) -> IterSum:
    """The terms by scale, each at least as large as what the smaller ones reach."""
    left = sorted(terms, key=lambda t: (t.digit.extent != number(1), text(t.scale), text(t.digit.mark)))
    done: list[Term] = []
    reach = want = number(1)
    compact = separable = True
    while left:
        t = next((t for t in left if t.digit.extent == number(1) or t.scale == want), None)
        if t is None:
            compact = False
            t = next((t for t in left if at_least_0(t.scale - reach) and _smallest(t, left)), None)
        if t is None:
            separable = False
            t = left[0]
        left.remove(t)
        done.append(t)
        reach = reach + t.scale * (t.digit.extent - 1)
        if t.digit.extent != number(1):
            want = t.scale * t.digit.extent
    return IterSum(value, tuple(done), offset, reach, separable, compact)


def _smallest(t: Term, among: list[Term]) -> bool:
    return all(at_least_0(u.scale - t.scale) for u in among)


def chain(mark: Poly, extent: Poly, digits: Iterable[Digit]) -> list[Digit] | None:
    """Consecutive digits of a mark, from the lowest, that leave nothing of it out; None if there are none."""
    own = sorted({d for d in digits if d.mark == mark}, key=lambda d: (d.extent != number(1), text(d.extent)))

    def go(want: Poly, left: list[Digit]) -> list[Digit] | None:
        for d in left:
            if d.lower == want:
                above = go(want * d.extent, [x for x in left if x is not d])
                if above is not None:
                    return [d, *above]
        return [] if at_least_0(want - extent) else None

    return go(number(1), own)


def digits_of_top(
    mark: Poly, fused: IterSum, digits: Iterable[Digit], extent_of: Callable[[Poly], Poly]
) -> list[tuple[Digit, Digit]]:
    """Digits of the largest term of a fused mark, each with the digit of the mark that it is: of `a * s + b`, where
    `b < s`, `a // k % n` is `(a * s + b) // (s * k) % n`."""
    top, scale, reflected = fused.terms[-1] if fused.terms else (None, number(1), True)
    if top is None or reflected:
        return []
    whole = top.lower == number(1) and top.extent == extent_of(top.mark)
    found = []
    for d in digits:
        if d.mark != top.mark or d.extent == number(1):
            continue
        k = quotient(d.lower, top.lower)
        reach = k * d.extent
        if k * top.lower == d.lower and (whole or quotient(top.extent, reach) * reach == top.extent):
            found.append((d, Digit(mark, scale * k, d.extent)))
    return found


def _same(a: Poly, b: Poly) -> bool:
    """Whether two sizes are equal for all values of the symbols."""
    return a == b or (at_least_0(a - b) and at_least_0(b - a))


def spanned(digits: Iterable[Digit]) -> Poly:
    """The product of the extents."""
    return product(d.extent for d in digits)


def text_of(p: Poly) -> str:
    """A polynomial as it is written."""
    return print_expr(write(p))
