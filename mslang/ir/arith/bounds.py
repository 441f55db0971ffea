"""Bounds of index expressions, and the boxes that accesses cover."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.arith.convert import read
from mslang.ir.arith.divide import choice, merge, quotient, remainder, split_multiples
from mslang.ir.arith.exact import exact_div
from mslang.ir.arith.interval import HIGH, LOW, Scope, extreme, not_negative, numeric
from mslang.ir.arith.scope import Ranges, scope_for
from mslang.ir.arith.sign import at_least_0, coefficient, positive
from mslang.ir.arith.size import CHOICES, Factor, Poly, number
from mslang.ir.arith.write import write
from mslang.ir.expr import ONE, Expr
from mslang.ir.nodes import Range

Box = tuple[Range, ...]


def bounds(e: Expr, ranges: Ranges) -> tuple[Expr, Expr] | None:
    """The least and greatest value of `e` while the variables in `ranges` run; others stay symbolic in the result.

    Exact where `e` is linear in independent ranges, otherwise a hull. None where `e` cannot be bounded.
    """
    scope = scope_for((e,), ranges)
    p = read(e, scope)
    low, high = extreme(p, scope, LOW), extreme(p, scope, HIGH)
    return None if low is None or high is None else (write(low), write(high))


def relax(region: Sequence[Expr | Range], ranges: Ranges, whole: Sequence[Range] | None = None) -> Box:
    """The box that an access covers while the variables in `ranges` run; others stay symbolic in its starts.

    `region` has an index or a range for each dimension. Exact for linear indices, a hull otherwise; extents mention no
    variable where that can be had. A dimension that cannot be bounded becomes that of `whole`.

    Raises MsError (MS390) if a dimension cannot be bounded and no `whole` is given.
    """
    return tuple(_relax(x, ranges, None if whole is None else whole[k]) for k, x in enumerate(region))


def _relax(x: Expr | Range, ranges: Ranges, whole: Range | None) -> Range:
    start, extent = (x.start, x.extent) if isinstance(x, Range) else (x, ONE)
    scope = scope_for((start, extent), ranges)
    out = _covered(read(start, scope), read(extent, scope), scope)
    if out is not None:
        return Range(write(out.start), write(out.extent))
    if whole is not None:
        return whole
    raise MsError(unbounded("it depends on data or on a product of loops"))


def unbounded(why: str) -> Diagnostic:
    """The error of an access of which no box is known."""
    return problem("MS390", "an index cannot be bounded", why=why, help="let the access cover the whole dimension")


class Run:
    """`start, start + 1, …, start + extent - 1`; the extent mentions none of the variables that ran."""

    __slots__ = ("extent", "start")

    def __init__(self, start: Poly, extent: Poly) -> None:
        self.start, self.extent = start, extent


@lru_cache(maxsize=16384)
def _covered(start: Poly, extent: Poly, scope: Scope) -> Run | None:
    if not extent.vars.isdisjoint(scope.spans):
        # the box's own extent varies: take the last element apart
        low, high = extreme(start, scope, LOW), extreme(merge(start + extent - 1), scope, HIGH)
        return None if low is None or high is None else Run(low, merge(high - low + 1))
    run = run_of(start, scope)
    return None if run is None else Run(run.start, run.extent + extent - 1)


@lru_cache(maxsize=32768)
def run_of(p: Poly, scope: Scope) -> Run | None:
    """The consecutive integers that hold every value of `p` while the scope's variables run."""
    spans = scope.spans
    # atoms are taken apart one by one: the extent of each adds to that of the linear rest
    linear, width = p, number(0)
    atoms = {f for m in p.terms for f in m if f.op != "var" and not f.vars.isdisjoint(spans)}
    start = number(0)
    for f in sorted(atoms, key=lambda f: f.key):
        c = coefficient(linear, f)
        run = _run_of_atom(f, scope)
        sign = _sign_in(c, scope)
        if run is None or not sign or not c.vars.isdisjoint(spans):
            return None
        linear = linear - c * Poly({(f,): 1})
        reach = c * (run.extent - 1)
        start = start + c * run.start + (reach if sign < 0 else 0)
        width = width + (reach if sign > 0 else -reach)
    low, high = extreme(linear, scope, LOW), extreme(linear, scope, HIGH)
    if low is None or high is None:
        return None
    return Run(merge(low + start), merge(high - low + width + 1))


def _sign_in(c: Poly, scope: Scope) -> int:
    return 1 if not_negative(c, scope) else -1 if not_negative(-c, scope) else 0


def _run_of_atom(f: Factor, scope: Scope) -> Run | None:
    if f.op in CHOICES:
        return _run_of_choice(f, scope)
    if f.op not in ("//", "%"):
        return None
    x, d = f.args
    if not d.vars.isdisjoint(scope.spans) or not positive(d):
        lo, hi = numeric(Poly({(f,): 1}), scope)
        return None if lo is None or hi is None else Run(number(lo), number(hi - lo + 1))
    inner = run_of(x, scope)
    if inner is None:
        return Run(number(0), d) if f.op == "%" else None
    return _divided_run(inner, d) if f.op == "//" else _wrapped_run(inner, d)


def _divided_run(x: Run, d: Poly) -> Run:
    """What `x // d` covers."""
    start, slack = quotient(x.start, d), _slack(x, d)
    if slack is not None:
        return Run(start, quotient(slack + x.extent - 1, d) + 1)
    if not x.extent or split_multiples(x.start, x.extent)[1]:
        return Run(start, quotient(d + x.extent - 2, d) + 1)
    # runs that lie end to end: a boundary falls inside one only if neither length divides the other
    crossed = choice("min", _odd(d, x.extent), _odd(x.extent, d))
    whole = quotient(x.extent + d - 1, d)
    return Run(start, whole if at_least_0(-crossed) else whole + crossed)


def _wrapped_run(x: Run, d: Poly) -> Run:
    """What `x % d` covers."""
    slack = _slack(x, d)
    if slack is not None:
        if not quotient(slack + x.extent - 1, d):
            return Run(remainder(x.start, d), x.extent)
        return Run(number(0), d if slack else choice("min", x.extent, d))
    if not x.extent or split_multiples(x.start, x.extent)[1]:
        return Run(number(0), d)
    inside = 1 - _odd(d, x.extent)
    return Run(remainder(x.start, d) * inside, d + (x.extent - d) * inside)


def _odd(a: Poly, b: Poly) -> Poly:
    """0 where `b` divides `a`, else 1: a case distinction as a size, since structure must not depend on it."""
    return choice("min", remainder(a, b), number(1))


def _slack(x: Run, d: Poly) -> Poly | None:
    """The most that `x.start % d` can be; None if all that is known is that it is less than `d`."""
    rest = split_multiples(x.start, d)[1]
    if not rest or (rest.is_size and at_least_0(rest) and at_least_0(d - rest - 1)):
        return rest
    k = d.constant
    if k is not None and x.extent.constant is not None:
        step = gcd(k, *(c for m, c in rest.terms.items() if m))
        return number(k - step + rest.offset % step)
    # a run as long as what divides its start and `d` ends where the next one starts
    aligned = bool(x.extent) and not split_multiples(x.start, x.extent)[1] and exact_div(d, x.extent) is not None
    return d - x.extent if aligned else None


def _run_of_choice(f: Factor, scope: Scope) -> Run | None:
    me = Poly({(f,): 1})
    low, high = extreme(me, scope, LOW), extreme(me, scope, HIGH)
    return None if low is None or high is None else Run(low, merge(high - low + 1))
