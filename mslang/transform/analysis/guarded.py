"""Guards inside an index: sums of loops that a condition bounds are one loop.

A tile split again by a factor that does not divide leaves `b * 3 + c < 8` on the blocks below, and bindings such as
`a * 8 + (b * 3 + c)`. Without the guard the digits overlap; with it `b * 3 + c` is one digit of extent 8. Sums that are
one loop anyway are told again where an index is a part of them: `a * 16 + c // 64` is `(a * 1024 + c) // 64`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mslang.ir import arith
from mslang.ir.arith.convert import write
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Const, Expr, Var
from mslang.ir.program import Range
from mslang.ir.visit import conjunction, conjuncts, free_vars, fresh, map_expr, walk_expr
from mslang.transform.analysis.linear import linear_terms


class Indices(msgspec.Struct, frozen=True):
    """Indices over variables, and the conditions under which they are meant."""

    exprs: tuple[Expr, ...]
    ranges: Mapping[str, Range]
    conditions: tuple[Expr, ...]


def detect(
    bindings: Sequence[Expr], ranges: Mapping[str, Range], predicate: Expr = TRUE
) -> arith.IterMap | arith.NotAffine:
    """What kind of map the bindings are of the variables in `ranges`, where `predicate` holds; see `arith.detect`.

    Conditions on variables that stand still are left out: what is found holds for all of their values.
    """
    conditions = tuple(c for c in conjuncts(predicate) if free_vars(c) & ranges.keys())
    found = arith.detect(bindings, ranges, conjunction(conditions))
    if isinstance(found, arith.IterMap) and found.level == "bijective":
        return found
    whole: tuple[Expr, ...] = ()
    if isinstance(found, arith.IterMap) and found.level == "affine":
        whole = tuple(Binary("<", write(mark), write(s.extent)) for mark, s in found.fused.items())
    indices = Indices(tuple(bindings), ranges, (*conditions, *whole))
    simpler = collapsed(indices)
    if simpler is indices:
        return found
    rest = tuple(c for c in simpler.conditions if c not in whole)
    again = arith.detect(simpler.exprs, simpler.ranges, conjunction(rest))
    better = isinstance(again, arith.IterMap) and (isinstance(found, arith.NotAffine) or again.level != "affine")
    return again if better else found


def collapsed(indices: Indices) -> Indices:
    """The same indices, where sums of variables that a condition bounds are variables of their own.

    Iterations that the conditions allow correspond one to one; what cannot be rewritten stays as it is.
    """
    for _ in indices.conditions:
        simpler = next((p for c in indices.conditions for p in (_collapsed(indices, c),) if p is not None), None)
        if simpler is None:
            break
        indices = simpler
    return indices


def _collapsed(indices: Indices, condition: Expr) -> Indices | None:
    if not isinstance(condition, Binary) or condition.op != "<":
        return None
    total, bound = condition.left, condition.right
    inner = {v: r for v, r in indices.ranges.items() if v in free_vars(total)}
    if len(inner) < 2 or free_vars(bound) & indices.ranges.keys() or not free_vars(total) <= inner.keys():
        return None
    if any(free_vars(r.extent) & indices.ranges.keys() or not arith.equal(r.start, ZERO) for r in inner.values()):
        return None
    found = arith.detect([total], inner)
    if not isinstance(found, arith.IterMap) or found.level != "bijective" or not arith.equal(found.starts[0], ZERO):
        return None
    if not arith.proved(Binary("<=", bound, found.extents[0])):
        return None
    name = fresh("g", set(indices.ranges) | {v for e in indices.exprs for v in free_vars(e)})
    ranges = {v: r for v, r in indices.ranges.items() if v not in inner}
    if any(free_vars(x) & inner.keys() for r in ranges.values() for x in (r.start, r.extent)):
        return None
    exprs = [_with_digit(e, total, name, frozenset(inner)) for e in indices.exprs]
    others = [_with_digit_in(c, total, name, frozenset(inner)) for c in indices.conditions if c is not condition]
    if None in exprs or None in others:
        return None
    return Indices(
        tuple(e for e in exprs if e is not None),
        ranges | {name: Range(ZERO, bound)},
        tuple(c for c in others if c is not None),
    )


def _with_digit(e: Expr, total: Expr, name: str, inner: frozenset[str]) -> Expr | None:
    """An index with `total` written as `name`; None if the variables stand in it otherwise."""
    plain = map_expr(e, lambda x: _part(x, total, name))
    if not free_vars(plain) & inner:
        return plain
    mine, of_total = linear_terms(e, inner), linear_terms(total, inner)
    if mine is None or of_total is None:
        return None
    unit = next((v for v, c in of_total.items() if arith.equal(c, ONE)), None)
    scale = mine.get(unit) if unit is not None else None
    if scale is None:
        return None
    rest = arith.simplify(arith.sub(e, arith.mul(scale, total)))
    return None if free_vars(rest) & inner else arith.add(rest, arith.mul(scale, Var(name)))


def _part(x: Expr, total: Expr, name: str) -> Expr | None:
    """`total`, `total // n` or `total % n` with `total` written as `name`, in whatever form they were brought to."""
    if x == total:
        return Var(name)
    match x:
        case Binary(op="%", right=Const() as n) if arith.equal(arith.mod(total, n), x):
            return arith.mod(Var(name), n)
        case Binary(op="+"):
            inner = (y.right for y in walk_expr(x) if isinstance(y, Binary) and y.op == "//")
            by = next((n for n in inner if isinstance(n, Const) and arith.equal(arith.floordiv(total, n), x)), None)
            return arith.floordiv(Var(name), by) if by is not None else None
    return None


def _with_digit_in(condition: Expr, total: Expr, name: str, inner: frozenset[str]) -> Expr | None:
    if not isinstance(condition, Binary):
        return condition if not free_vars(condition) & inner else None
    left = _with_digit(condition.left, total, name, inner)
    right = _with_digit(condition.right, total, name, inner)
    return None if left is None or right is None else Binary(condition.op, left, right)
