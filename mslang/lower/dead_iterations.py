"""The iterations of a loop in which a statement may run: before the first and after the last all guards are false.

The last tile of a dimension has loops as long as a whole tile has. Those of them that are beyond the edge do nothing;
without them the tile's remainder is often a single iteration, whose guards become bounds of the loops inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from msgspec.structs import replace

from mslang.ir.arith import linear
from mslang.ir.arith.linear import Interval
from mslang.ir.expr import Const, Expr
from mslang.ir.visit import conjuncts
from mslang.kernel.nodes import Allocate, Body, For, If, Invoke, Let, Stmt, Within
from mslang.kernel.visit import bodies, with_bodies
from mslang.lower.fused_indices import part_bounds


def live_iterations(s: For, whole: Interval, bounds: Mapping[str, Interval]) -> Interval | None:
    """The first and the last value of a loop's variable for which a statement may run; None if none does.

    Args:
        s: the loop.
        whole: its first and its last value.
        bounds: what is known of the variables around it.
    """
    return _live(s.body, s.var, whole, {k: v for k, v in bounds.items() if k != s.var})


def without_dead(body: Body, bounds: Mapping[str, Interval]) -> Body:
    """Statements whose loops over constant ranges, at any depth, have their live iterations only.

    Args:
        body: the statements.
        bounds: what is known of the variables around them.
    """
    out: list[Stmt] = []
    for s in body:
        match s:
            case For(var=name, start=Const(value=start), extent=Const(value=extent)):
                whole = int(start), int(start) + int(extent) - 1
                live = live_iterations(s, whole, bounds) if extent > 0 else None
                if live is None:
                    continue
                inner = without_dead(s.body, {**bounds, name: live})
                if live != whole:
                    s = replace(s, start=Const(live[0]), extent=Const(live[1] - live[0] + 1))
                out.append(s if inner is s.body else replace(s, body=inner))
            case Invoke():
                out.append(s)
            case For(var=name) | Let(name=name):
                known = {k: v for k, v in bounds.items() if k != name}
                out.append(with_bodies(s, (without_dead(s.body, known),)))
            case _:
                out.append(with_bodies(s, tuple([without_dead(b, bounds) for b in bodies(s)])))
    return body if all(map(is_, body, out)) and len(out) == len(body) else tuple(out)


def _live(body: Body, var: str, range_: Interval, bounds: Mapping[str, Interval]) -> Interval | None:
    found: Interval | None = None
    for s in body:
        found = _hull(found, _statement(s, var, range_, bounds))
        if found == range_:
            break
    return found


def _statement(s: Stmt, var: str, range_: Interval, bounds: Mapping[str, Interval]) -> Interval | None:
    match s:
        case For(var=name, start=Const(value=start), extent=Const(value=extent)):
            last = int(start) + int(extent) - 1
            return _live(s.body, var, range_, {**bounds, name: (int(start), last)}) if extent > 0 else None
        case For(var=name):
            return _live(s.body, var, range_, {k: v for k, v in bounds.items() if k != name})
        case Let(name=name, value=value):
            part = part_bounds(value, bounds)
            known = {k: v for k, v in bounds.items() if k != name}
            return _live(s.body, var, range_, known if part is None else {**known, name: part})
        case If(condition=c, then=then, otherwise=otherwise):
            narrow: Interval | None = range_
            for part_of in conjuncts(c):
                narrow = None if narrow is None else _where(part_of, var, narrow, bounds)
            inside = None if narrow is None else _live(then, var, narrow, bounds)
            return _hull(inside, _live(otherwise, var, range_, bounds))
        case Allocate(body=inner) | Within(body=inner):
            return _live(inner, var, range_, bounds)
    return range_


def _where(e: Expr, var: str, range_: Interval, bounds: Mapping[str, Interval]) -> Interval | None:
    """The part of a range outside of which a condition is false, whatever other variables are."""
    condition = linear.condition(e)
    if condition is None or condition.relation != "<":
        return range_
    terms = dict(condition.form.terms)
    step = terms.pop(var, 0)
    rest = linear.interval(linear.Linear(condition.form.constant, terms), bounds)
    if rest is None:
        return range_
    # step · v + rest < 0 holds for some rest exactly if it holds for the least.
    first, last = range_
    if step > 0:
        last = min(last, -(rest[0] // step) - 1)
    elif step < 0:
        first = max(first, rest[0] // -step + 1)
    elif rest[0] >= 0:
        return None
    return (first, last) if first <= last else None


def _hull(a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a[0], b[0]), max(a[1], b[1])
