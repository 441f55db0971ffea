"""The inverse of an injective affine map: the loops in terms of the indices."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir.arith.convert import read
from mslang.ir.arith.divide import merge, quotient, remainder
from mslang.ir.arith.interval import EMPTY, Scope
from mslang.ir.arith.itermap import Digit, IterMap, IterSum, chain, detect, digits_of_top, from_zero
from mslang.ir.arith.scope import Ranges, scope_for
from mslang.ir.arith.size import Poly, number, variable
from mslang.ir.arith.write import write
from mslang.ir.expr import TRUE, Expr


def invert(
    bindings: Sequence[Expr],
    results: Sequence[Expr],
    ranges: Ranges,
    domain: Ranges | None = None,
    predicate: Expr = TRUE,
) -> dict[str, Expr] | None:
    """Each variable of `ranges` as an expression of `results`, the values of `bindings`.

    Holds wherever the results are values that the bindings take; `domain` says what the variables in `results` run
    over, for simpler expressions. None if the bindings are not an injective affine map of the variables.
    """
    found = detect(bindings, ranges, predicate)
    if not isinstance(found, IterMap) or found.level == "affine":
        return None
    scope = scope_for(results, domain) if domain else EMPTY
    solved = _Solution(found, from_zero(ranges), scope)
    for s, value in zip(found.sums, results, strict=True):
        solved.take(s, read(value, scope))
    return solved.variables(ranges)


class _Solution:
    """Values of digits and marks as they become known."""

    def __init__(self, found: IterMap, ranges: Ranges, scope: Scope) -> None:
        self.fused, self.scope = found.fused, scope
        self.extents = {variable(n): read(r.extent, EMPTY) for n, r in ranges.items()}
        self.extents |= {m: s.extent for m, s in found.fused.items()}
        self.digits: dict[Digit, Poly] = {}

    def take(self, s: IterSum, value: Poly) -> None:
        """The digits of a sum whose value is known: each is cut out between its scale and the next larger one."""
        if not s.separable:
            return
        rest = merge(value - s.offset)
        terms = [t for t in s.terms if t.digit.extent != number(1)]
        for t in s.terms:
            if t.digit.extent == number(1):
                self.digits.setdefault(t.digit, number(0))
        for t in reversed(terms):
            digit = merge(quotient(rest, t.scale, self.scope))
            rest = merge(remainder(rest, t.scale, self.scope))
            self.digits.setdefault(t.digit, merge(t.digit.extent - 1 - digit) if t.reflected else digit)
        # what remains is 0 wherever the value is one that the sum takes

    def mark(self, m: Poly) -> Poly | None:
        """The value of a mark, if its digits are known."""
        found = chain(m, self.extents[m], self.digits)
        if found is None:
            return None
        out = number(0)
        for d in found:
            out = out + d.lower * self.digits[d]
        return merge(out)

    def variables(self, ranges: Ranges) -> dict[str, Expr] | None:
        """All variables, fused marks opened on the way."""
        closed = dict(self.fused)
        while True:
            for m, s in closed.items():
                for known_digit, lifted in digits_of_top(m, s, self.digits, self.extents.__getitem__):
                    self.digits.setdefault(lifted, self.digits[known_digit])
            known = {m: v for m in closed if (v := self.mark(m)) is not None}
            if not known:
                break
            for m, value in known.items():
                self.take(closed.pop(m), value)
        out: dict[str, Expr] = {}
        for n, r in ranges.items():
            found = self.mark(variable(n))
            start = read(r.start, EMPTY)
            if found is None or start.vars:
                return None
            out[n] = write(merge(found + start))
        return out
