"""Guards inside an index: sums of loops that a condition bounds are one loop.

A tile split again by a factor that does not divide leaves `b * 3 + c < 8` on the blocks below, and bindings such as
`a * 8 + (b * 3 + c)`. Without the guard the digits overlap; with it `b * 3 + c` is one digit of extent 8. Sums that are
one loop anyway are expressed by it where an index is a part of them: `a * 16 + c // 64` is `(a * 1024 + c) // 64`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.arith.write import write
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Expr, Var, children, with_children
from mslang.ir.program import Range
from mslang.ir.visit import conjunction, conjuncts, free_vars, fresh, substitute, walk_expr


class Indices(msgspec.Struct, frozen=True):
    """Indices over variables, the conditions under which they are meant, and others that hold anyway."""

    exprs: tuple[Expr, ...]
    ranges: Mapping[str, Range]
    conditions: tuple[Expr, ...]
    implied: tuple[Expr, ...] = ()


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
    indices = _without_unit_loops(Indices(tuple(bindings), ranges, conditions))
    if indices.ranges is not ranges:
        found = _better(found, arith.detect(indices.exprs, indices.ranges, conjunction(indices.conditions)))
    indices = replace(indices, implied=(*_coarser(indices), *_whole(found, indices)))
    simpler = collapsed(indices)
    if simpler is indices:
        return found
    return _better(found, arith.detect(simpler.exprs, simpler.ranges, conjunction(simpler.conditions)))


def _better(
    found: arith.IterMap | arith.NotAffine, again: arith.IterMap | arith.NotAffine
) -> arith.IterMap | arith.NotAffine:
    """Which of two findings about the same indices says more; `again`, over fewer loops, if both are one to one."""
    match found, again:
        case (_, arith.NotAffine()) | (arith.IterMap(level="bijective"), arith.IterMap()):
            return found
        case arith.IterMap(), arith.IterMap(level="affine"):
            return found
    return again


def _without_unit_loops(indices: Indices) -> Indices:
    """The same indices over the variables that take several values."""
    values = {v: r.start for v, r in indices.ranges.items() if r.extent == ONE and not free_vars(r.start)}
    if not values:
        return indices
    ranges = {
        v: Range(substitute(r.start, values), substitute(r.extent, values))
        for v, r in indices.ranges.items()
        if v not in values
    }
    exprs, conditions = (tuple(substitute(e, values) for e in x) for x in (indices.exprs, indices.conditions))
    return Indices(exprs, ranges, conditions)


def _coarser(indices: Indices) -> tuple[Expr, ...]:
    """What guards say of all but the last digits: `i * 5 + j < 15` is `i < 3` for `j < 5`."""
    found: list[Expr] = []
    for c in indices.conditions:
        if isinstance(c, Binary) and c.op == "<":
            inner = free_vars(c.left) & indices.ranges.keys()
            for step in (coefficients(c.left, inner) or {}).values():
                bound, total = (arith.simplify(arith.floordiv(x, step), indices.ranges) for x in (c.right, c.left))
                if not arith.proved(Binary("<", ONE, step)):
                    continue
                if arith.equal(arith.mul(bound, step), c.right) and coefficients(total, inner):
                    found.append(Binary("<", total, bound))
    return tuple(found)


def _whole(found: arith.IterMap | arith.NotAffine, indices: Indices) -> tuple[Expr, ...]:
    """The conditions that sums of loops which are one loop are below what it runs to: they hold always."""
    if isinstance(found, arith.IterMap):
        told = found.fused.items() if found.level != "bijective" else ()
        return tuple(Binary("<", write(mark), write(s.extent)) for mark, s in told)
    divided = (x.left for e in indices.exprs for x in walk_expr(e) if isinstance(x, Binary) and x.op in ("//", "%"))
    conditions: list[Expr] = []
    for total in dict.fromkeys(divided):
        inner = {v: r for v, r in indices.ranges.items() if v in free_vars(total)}
        one = arith.detect([total], inner) if len(inner) > 1 and free_vars(total) <= inner.keys() else None
        if isinstance(one, arith.IterMap) and one.level == "bijective" and arith.equal(one.starts[0], ZERO):
            conditions.append(Binary("<", total, one.extents[0]))
    return tuple(conditions)


def collapsed(indices: Indices) -> Indices:
    """The same indices, where sums of variables that a condition bounds are variables of their own.

    Iterations that the conditions allow correspond one to one; what cannot be rewritten stays as it is.
    """
    for _ in (*indices.conditions, *indices.implied):
        told = (*indices.conditions, *indices.implied)
        simpler = next((p for c in told for p in (_collapsed(indices, c),) if p is not None), None)
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
    name = fresh("$g", _names(indices))
    ranges = {v: r for v, r in indices.ranges.items() if v not in inner}
    if any(free_vars(x) & inner.keys() for r in ranges.values() for x in (r.start, r.extent)):
        return None
    exprs = [_with_digit(e, total, name, inner) for e in indices.exprs]
    others = [_with_digit_in(c, total, name, inner) for c in indices.conditions if c is not condition]
    if None in exprs or None in others:
        return None
    implied = (_with_digit_in(c, total, name, inner) for c in indices.implied if c is not condition)
    return Indices(
        tuple(e for e in exprs if e is not None),
        ranges | {name: Range(ZERO, bound)},
        tuple(c for c in others if c is not None),
        tuple(c for c in implied if c is not None),
    )


def _names(indices: Indices) -> set[str]:
    """The variables in indices, ranges and conditions. Those of ranges outside of these have names without `$`."""
    bounds = (e for r in indices.ranges.values() for e in (r.start, r.extent))
    return {*indices.ranges}.union(*map(free_vars, (*indices.exprs, *indices.conditions, *indices.implied, *bounds)))


def _with_digit(e: Expr, total: Expr, name: str, inner: Mapping[str, Range]) -> Expr | None:
    """An index with `total` written as `name`; None if the variables stand in it otherwise."""
    plain = _told(e, total, name, inner)
    if not free_vars(plain) & inner.keys():
        return plain
    mine, of_total = (coefficients(x, frozenset(inner)) for x in (e, total))
    if mine is None or of_total is None:
        return None
    unit = next((v for v, c in of_total.items() if arith.equal(c, ONE)), None)
    scale = mine.get(unit) if unit is not None else None
    if scale is None:
        return None
    rest = arith.simplify(arith.sub(e, arith.mul(scale, total)))
    return None if free_vars(rest) & inner.keys() else arith.add(rest, arith.mul(scale, Var(name)))


def _told(e: Expr, total: Expr, name: str, inner: Mapping[str, Range]) -> Expr:
    """An index with the largest parts of it that are made of `total` written with `name`."""
    if not free_vars(e) & inner.keys():
        return e
    part = _part(e, total, name, inner)
    return part if part is not None else with_children(e, tuple(_told(x, total, name, inner) for x in children(e)))


def _part(x: Expr, total: Expr, name: str, inner: Mapping[str, Range]) -> Expr | None:
    """`total`, `total // n` or `total // n % m`, in whatever form they were brought to, with `total` written as
    `name`; of a sum, the part of it that is this."""
    if x == total:
        return Var(name)
    if not isinstance(x, Binary) or x.op not in ("+", "//", "%"):
        return None
    nothing: Expr = ZERO
    rest = reduce(arith.add, (t for t in _terms(x) if not free_vars(t) & inner.keys()), nothing)
    mine = arith.sub(x, rest)
    for n in (ONE, *_numbers(x, "//", total)):
        digit = arith.floordiv(total, n)
        if arith.equal(digit, mine, inner):
            return arith.add(arith.floordiv(Var(name), n), rest)
        for m in _numbers(x, "%", total):
            if arith.equal(arith.mod(digit, m), mine, inner):
                return arith.add(arith.mod(arith.floordiv(Var(name), n), m), rest)
    return None


def _numbers(x: Expr, op: str, total: Expr) -> tuple[Expr, ...]:
    """What `total` may have been divided by where `x` was made of it: what is divided by in it, before a common
    factor of `total` but for its last digits was taken out."""
    steps = (coefficients(total, free_vars(total)) or {}).values()
    found = [y.right for y in walk_expr(x) if isinstance(y, Binary) and y.op == op and not free_vars(y.right)]
    return tuple(dict.fromkeys(arith.mul(n, s) for s in (ONE, *steps) for n in found))


def _terms(x: Expr) -> tuple[Expr, ...]:
    if isinstance(x, Binary) and x.op == "+":
        return (*_terms(x.left), *_terms(x.right))
    return (x,)


def _with_digit_in(condition: Expr, total: Expr, name: str, inner: Mapping[str, Range]) -> Expr | None:
    if not isinstance(condition, Binary):
        return condition if not free_vars(condition) & inner.keys() else None
    left = _with_digit(condition.left, total, name, inner)
    right = _with_digit(condition.right, total, name, inner)
    return None if left is None or right is None else Binary(condition.op, left, right)
