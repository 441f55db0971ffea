"""Which thread an element belongs to: whether two accesses of one element are always those of one thread.

The indices of an access are a map from threads and loops to elements. Where its inverse gives a thread axis as an
expression of the indices, that is the *owner* of the element along the axis. Two accesses with equal owners never meet
in an element from different threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from mslang.ir import arith
from mslang.ir.arith import Verdict
from mslang.ir.arith.digits import as_digits
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Binary, Const, Expr, Var, dtype_of
from mslang.ir.program import Range
from mslang.ir.visit import conjuncts, free_vars, loads_of, substitute, walk_expr
from mslang.lower.gpu.digits import one_number

Pairs = list[tuple[Expr, Expr]]
"""Indices and their values."""


class Place(NamedTuple):
    """An access of a buffer by many threads and iterations.

    `ranges` are the variables that take part, axes and loops; what else the indices mention is one value for all.
    `facts` are expressions with the values that they have wherever the access happens.
    """

    buffer: str
    indices: tuple[Expr, ...]
    write: bool
    ranges: Mapping[str, Range]
    facts: tuple[tuple[Expr, Expr], ...] = ()


def facts_of(condition: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """The equalities of indices that hold where a condition does."""
    return tuple(
        (part.left, part.right)
        for part in conjuncts(condition)
        if isinstance(part, Binary) and part.op == "==" and not any(loads_of(part)) and dtype_of(part.left) == INDEX
    )


def apart(a: Place, b: Place, axes: Iterable[str], fixed: frozenset[str] = frozenset()) -> bool:
    """Do two accesses provably never access one element from different places along the axes?

    `fixed` are loops in the same iteration of which both are.
    """
    ours, theirs = _varying(a, fixed), _varying(b, fixed)
    if _disjoint(a, b, ours, theirs):
        return True
    known = _constants(a, b, ours, theirs)
    for axis in axes:
        x, y = _owner(a, axis, ours), _owner(b, axis, theirs)
        if x is None or y is None:
            return False
        left, right = substitute(x, known), substitute(y, known)
        if left != right and not arith.equal(left, right):
            return False
    return True


def owned(a: Place, axis: str, fixed: frozenset[str] = frozenset()) -> bool:
    """Does the element determine the place along an axis from which it is accessed?"""
    return _owner(a, axis, _varying(a, fixed)) is not None


def _varying(a: Place, fixed: frozenset[str]) -> dict[str, Range]:
    return {v: r for v, r in a.ranges.items() if v not in fixed}


def _owner(a: Place, axis: str, ranges: Mapping[str, Range]) -> Expr | None:
    known = ranges.get(axis)
    if known is not None and known.extent == Const(1):
        return known.start
    whole: list[tuple[Expr, Expr]] = [(i, _element(k)) for k, i in enumerate(a.indices) if not any(loads_of(i))]
    whole += [(e, v) for e, v in a.facts if free_vars(v).isdisjoint(ranges)]
    pairs = [(e, v) for e, v in whole if axis in free_vars(e)]
    together = {v: a.ranges[v] for e, _ in pairs for v in _fused_with(axis, e) if v in a.ranges}
    # what all indices together cannot be inverted for, some may give alone. Loops that are fused with the axis are
    # digits of one number: it is known if they are all asked for, even if some are the same for both
    for some in (pairs, *([x] for x in pairs if len(pairs) > 1), whole, *_rewritten(whole, a.ranges, ranges)):
        for varying in (ranges, {**ranges, **together}):
            names = frozenset[str]().union(*(free_vars(e) for e, _ in some)) & varying.keys()
            known_ranges = tuple((v, varying[v]) for v in sorted(names))
            if axis in names and (owner := _inverse(tuple(some), known_ranges, axis)) is not None:
                return owner
    return None


def _rewritten(pairs: Pairs, ranges: Mapping[str, Range], varying: Mapping[str, Range]) -> Iterator[Pairs]:
    """The same indices as digits: of what is left where common factors are divided out, or of one number."""
    yield [(as_digits(e, ranges), v) for e, v in pairs]
    if (one := one_number(pairs, ranges, frozenset(ranges.keys() - varying.keys()))) is not None:
        yield [one]


def _fused_with(axis: str, e: Expr) -> frozenset[str]:
    """The variables that are divided together with an axis."""
    divided = (x for x in walk_expr(e) if isinstance(x, Binary) and x.op in ("//", "%"))
    return frozenset[str]().union(*(names for x in divided if axis in (names := free_vars(x))))


@lru_cache(maxsize=4096)
def _inverse(pairs: tuple[tuple[Expr, Expr], ...], ranges: tuple[tuple[str, Range], ...], axis: str) -> Expr | None:
    found = arith.invert([e for e, _ in pairs], [v for _, v in pairs], dict(ranges))
    return None if found is None else found.get(axis)


def _element(dimension: int) -> Var:
    return Var(f"@{dimension}")


def _constants(a: Place, b: Place, ours: Mapping[str, Range], theirs: Mapping[str, Range]) -> dict[str, Expr]:
    """The dimensions in which one of the accesses has one index only: it is that of every element that both access."""
    found: dict[str, Expr] = {}
    for k, (i, j) in enumerate(zip(a.indices, b.indices, strict=True)):
        if free_vars(i).isdisjoint(ours):
            found[f"@{k}"] = i
        elif free_vars(j).isdisjoint(theirs):
            found[f"@{k}"] = j
    return found


def _disjoint(a: Place, b: Place, ours: Mapping[str, Range], theirs: Mapping[str, Range]) -> bool:
    """Does some dimension never have the same index in both?"""
    other = {v: f"{v}'" for v in theirs}
    ranges = {**ours, **{other[v]: r for v, r in theirs.items()}}
    renamed = {v: Var(n) for v, n in other.items()}
    for i, j in zip(a.indices, b.indices, strict=True):
        moved = substitute(j, renamed)
        if _differ(i, moved) or arith.decide(Binary("==", i, moved), ranges) is Verdict.REFUTED:
            return True
    return False


def _differ(i: Expr, j: Expr) -> bool:
    """`x % n` and `(x + c) % n` where n does not divide c: two of the versions that iterations take in turn."""
    match i, j:
        case Binary(op="%", left=x, right=Const(value=n)), Binary(op="%", left=y, right=Const(value=m)) if n == m:
            gap = arith.simplify(Binary("-", x, y))
            return isinstance(gap, Const) and int(gap.value) % int(n) != 0
    return False
