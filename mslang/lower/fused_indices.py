"""The parts of a fused loop's index: what `fuse` leaves in conditions, `i_j_fused % 4 * 16 + k < 50`, named.

With a name and bounds of its own, `let j = i_j_fused % 4`, a part is what a loop's variable is to a condition: a place
to cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from mslang.ir.arith.linear import Interval
from mslang.ir.dtype import INDEX
from mslang.ir.expr import Binary, Const, Expr, Var, children
from mslang.ir.visit import conjuncts, free_vars, fresh, map_expr
from mslang.kernel.nodes import Body, If, Let, Stmt
from mslang.kernel.visit import expressions, map_deep, walk
from mslang.lower.analysis import names, selected_by


def named_parts(body: Body, var: str) -> Body:
    """Statements with the parts of a variable that are in conditions named, by `let`s around them."""
    found = dict.fromkeys(p for s in walk(body) for c in _conditions(s) for p in _parts(c, var))
    # The name of a part that others contain would hide them.
    parts = sorted(found, key=_depth, reverse=True)
    # Loops around are named in the body, too: a part must not hide one of them.
    taken = names(body) | {var} if parts else set()
    for part in parts:
        name = fresh(f"{var}_part", taken)
        taken.add(name)
        body = (Let(name, part, map_deep(body, partial(_put, part=part, name=Var(name)))),)
    return body


def part_bounds(part: Expr, known: Mapping[str, Interval]) -> Interval | None:
    """The smallest and the largest value of a part; None if `part` is something else, as a number that is no index."""
    match part:
        case Const(value=int(value), dtype=d) if d == INDEX:
            return value, value
        case Var(name=name):
            return known.get(name)
        case Binary(op="//" | "%" as op, left=left, right=Const(value=int(k))) if k > 0:
            inner = part_bounds(left, known)
            if inner is None or op == "//":
                return None if inner is None else (inner[0] // k, inner[1] // k)
            return (inner[0] % k, inner[1] % k) if inner[0] // k == inner[1] // k else (0, k - 1)
    return None


def _conditions(s: Stmt) -> Iterator[Expr]:
    """The comparisons that branches and selects of a statement depend on."""
    if isinstance(s, If):
        yield from conjuncts(s.condition)
    for e in expressions(s):
        for condition in selected_by(e):
            yield from conjuncts(condition)


def _parts(e: Expr, var: str) -> Iterator[Expr]:
    """The quotients and remainders of a variable in an expression, the outermost of those inside each other."""
    if isinstance(e, Binary) and e.op in ("//", "%") and free_vars(e) == {var} and _is_part(e):
        yield e
        return
    for x in children(e):
        yield from _parts(x, var)


def _is_part(e: Expr) -> bool:
    match e:
        case Var():
            return True
        case Binary(op="//" | "%", left=left, right=Const()):
            return _is_part(left)
    return False


def _depth(part: Expr) -> int:
    return 1 + max(map(_depth, children(part)), default=0)


def _put(e: Expr, part: Expr, name: Expr) -> Expr:
    return map_expr(e, lambda x: name if x == part else None)
