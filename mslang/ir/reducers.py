"""Reducers: how values are combined, as data, and which of them an update is.

A reducer of `n` buffers combines what there is so far, the variables `so_far(0)`, `so_far(1)`, …, with what is new,
`new(0)`, …; one expression a buffer. What is combined in any order from the identity on gives the same, if the
reducer is not `ordered`; one that is may be taken apart, but what it combines must keep its order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import product

import msgspec

from mslang.ir.dtype import is_float
from mslang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, dtype_of
from mslang.ir.functions import FUNCTIONS
from mslang.ir.nodes import Block, Evaluate, Let, Stmt, Store
from mslang.ir.reduction import highest, lowest, update_of
from mslang.ir.visit import free_vars, loads_of, map_expr, stmt_exprs, substitute, walk


class Extreme(StrEnum):
    """An end of what a type can hold."""

    LOWEST = "lowest"
    HIGHEST = "highest"


class Reducer(msgspec.Struct, frozen=True):
    """A way to combine values.

    `identity` gives, for each buffer, what leaves the others as they are; `combine` is over `so_far(k)` and `new(k)`.
    An `ordered` one is associative but does not commute; `keeps_first` says that of equals the first wins. `rising` is
    what does the same in any order, where `new(0)` rises in the order in which it combines. Constants keep their types.
    """

    name: str
    identity: tuple[int | float | Extreme, ...]
    combine: tuple[Expr, ...]
    ordered: bool = False
    rising: tuple[Expr, ...] = ()
    keeps_first: bool = False


class Match(msgspec.Struct, frozen=True):
    """What some updates are: a reducer, and what they combine in."""

    reducer: Reducer
    values: tuple[Expr, ...]


def so_far(k: int) -> Var:
    """What buffer `k` holds before."""
    return Var(f"x{k}")


def new(k: int) -> Var:
    """What is combined with what buffer `k` holds."""
    return Var(f"y{k}")


def identity_of(reducer: Reducer, k: int, dtype: str) -> Const:
    """The identity of buffer `k` as a literal."""
    match reducer.identity[k]:
        case Extreme.LOWEST:
            return lowest(dtype)
        case Extreme.HIGHEST:
            return highest(dtype)
        case number:
            return Const(float(number) if is_float(dtype) else int(number), dtype)


def combined(reducer: Reducer, before: Sequence[Expr], values: Sequence[Expr]) -> tuple[Expr, ...]:
    """What a reducer makes of what there is and what is new."""
    given = {so_far(k).name: e for k, e in enumerate(before)} | {new(k).name: e for k, e in enumerate(values)}

    def put(e: Expr) -> Expr | None:
        match e:
            case Var(name=n):
                return given.get(n)
            case Call(name=n, args=xs):
                return Call(n, xs, FUNCTIONS[n].result(dtype_of(xs[0])) if n in FUNCTIONS else dtype_of(xs[0]))
        return None

    return tuple(map_expr(e, put) for e in reducer.combine)


# ------------------------------------------------------------------ the known ones
def _argument(name: str, better: str, extreme: Extreme) -> Iterator[Reducer]:
    """The best value and where it is; of equals the first, the last, the one of the smallest or of the largest
    index."""
    x, y, i, j = so_far(1), new(1), so_far(0), new(0)
    pick = {">": "max", "<": "min"}[better]
    same = Binary("==", x, y)
    least, greatest = (_or(Binary(better, x, y), _and(same, Binary(less, i, j))) for less in ("<", ">"))
    keeps: tuple[tuple[str, Expr, Expr | None, Expr | None], ...] = (
        ("first", Binary(f"{better}=", x, y), Binary(better, y, x), least),
        ("last", Binary(better, x, y), Binary(f"{better}=", y, x), greatest),
        ("least index", least, None, None),
        ("greatest index", greatest, None, None),
    )
    values = (
        Select(Binary(f"{better}=", x, y), x, y),
        Select(Binary(better, x, y), x, y),
        Select(Binary(better, y, x), y, x),
        Select(Binary(f"{better}=", y, x), y, x),
        Binary(pick, x, y),
    )
    for (which, keep, replace, rising), value in product(keeps, values):
        wheres = [Select(keep, i, j)] + ([] if replace is None else [Select(replace, j, i)])
        # `max` and `min` of values keep a NaN in whatever order; a selection by position would lose it
        chosen = value if isinstance(value, Binary) else Select(rising, x, y) if rising is not None else value
        anyhow = () if rising is None else (Select(rising, i, j), chosen)
        for where in wheres:
            combine = (where, value)
            text, ordered = f"{name}, the {which} of equals", rising is not None
            yield Reducer(text, (-1, extreme), combine, ordered, anyhow, keeps_first=which == "first")
    for which, index in (("least index", "<"), ("greatest index", ">")):
        take = _or(Binary(better, y, x), _and(same, Binary(index, j, i)))
        for value in values:
            yield Reducer(f"{name}, the {which} of equals", (-1, extreme), (Select(take, j, i), value))


def _or(a: Expr, b: Expr) -> Expr:
    return Binary("or", a, b)


def _and(a: Expr, b: Expr) -> Expr:
    return Binary("and", a, b)


def _plain(name: str, op: str, identity: int | Extreme, buffers: int = 1) -> Reducer:
    combine = tuple(Binary(op, so_far(k), new(k)) for k in range(buffers))
    return Reducer(name, (identity,) * buffers, combine)


BUILTIN: tuple[Reducer, ...] = (
    _plain("sum", "+", 0),
    _plain("product", "*", 1),
    _plain("min", "min", Extreme.HIGHEST),
    _plain("max", "max", Extreme.LOWEST),
    _plain("two sums", "+", 0, 2),
    *_argument("argmax", ">", Extreme.LOWEST),
    *_argument("argmin", "<", Extreme.HIGHEST),
)
"""The reducers that are always known."""


# ------------------------------------------------------------------ matching
def match_reducer(updates: Sequence[Store], reducers: Sequence[Reducer] = BUILTIN) -> Match | None:
    """The first reducer of which some stores, meant to happen at once, are the update; None if there is none.

    Operands of operators that commute may stand in any order, and comparisons either way round. What is combined in
    must not read the buffers that are updated.
    """
    written = {s.buffer for s in updates}
    loads = {so_far(k).name: Load(s.buffer, s.indices, _stored(s)) for k, s in enumerate(updates)}
    for reducer in reducers:
        if len(reducer.combine) != len(updates):
            continue
        for found in _unify_all(reducer.combine, tuple(s.value for s in updates), loads):
            values = tuple(found.get(new(k).name) for k in range(len(updates)))
            given = tuple(v for v in values if v is not None)
            if len(given) == len(values) and not any(x.buffer in written for v in given for x in loads_of(v)):
                return Match(reducer, given)
    return None


def combines_in_any_order(block: Block, reducers: Sequence[Reducer] = BUILTIN) -> bool:
    """May what a block stores be combined in any order? So it may where each buffer is updated by sums, products,
    minima or maxima alone, by values and under conditions that do not depend on what the block writes, or where all
    stores together are the update of a reducer that keeps no order."""
    viewed = _viewed(block)
    written = {r.buffer for r in block.writes}
    outside = (block.predicate, *(a.binding for a in block.axes))
    if any(viewed(x.buffer) in written for e in outside for x in loads_of(e)):
        return False
    if _only_updates(block, written, viewed):
        return True
    stores = _at_once_in_turn(block.body)
    moving = {a.name for a in block.axes if a.kind != "spatial"}
    steady = all(moving.isdisjoint(free_vars(i)) for s in stores for i in s.indices)
    found = match_reducer(stores, reducers) if steady or len({s.indices for s in stores}) == 1 else None
    return found is not None and not found.reducer.ordered


def _viewed(block: Block) -> Callable[[str], str]:
    """What a name stands for in a block: for a view, its own or of a block inside, the buffer that it looks at."""
    views = {v.buffer.name: v.source.buffer for s in walk((block,)) if isinstance(s, Block) for v in s.views}

    def root(name: str) -> str:
        return root(views[name]) if name in views else name

    return root


def _only_updates(block: Block, written: Collection[str], viewed: Callable[[str], str]) -> bool:
    """Does a block store to what it writes by updates alone, of each buffer by one operator, and load of that nothing
    but what it updates?"""
    how: dict[str, str] = {}
    for s in walk(block.body):
        if isinstance(s, Evaluate):
            return False
        exprs = stmt_exprs(s)
        if isinstance(s, Store) and viewed(s.buffer) in written:
            update = update_of(s)
            if update is None or how.setdefault(viewed(s.buffer), update.op) != update.op:
                return False
            exprs = (*s.indices, update.value)
        if any(viewed(x.buffer) in written for e in exprs for x in loads_of(e)):
            return False
    return True


def _at_once_in_turn(body: tuple[Stmt, ...]) -> tuple[Store, ...]:
    """The stores of a body that holds, after some `let`s, nothing else, if one after the other they store what they
    would at once; none otherwise."""
    rest = body
    while len(rest) == 1 and isinstance(rest[0], Let):
        rest = rest[0].body
    plain = tuple(s for s in rest if isinstance(s, Store))
    before: set[str] = set()
    for s in plain:
        if any(x.buffer in before for e in (s.value, *s.indices) for x in loads_of(e)):
            return ()
        before.add(s.buffer)
    return at_once(body) if len(plain) == len(rest) else ()


def at_once(body: tuple[Stmt, ...]) -> tuple[Store, ...]:
    """The stores after some `let`s, which are put in: what they store is computed before any of them."""
    lets: dict[str, Expr] = {}
    while len(body) == 1 and isinstance(body[0], Let):
        lets[body[0].name] = substitute(body[0].value, lets)
        body = body[0].body
    return tuple(Store(s.buffer, s.indices, substitute(s.value, lets)) for s in body if isinstance(s, Store))


def _stored(s: Store) -> str:
    return dtype_of(s.value)


_COMMUTES = frozenset({"+", "*", "min", "max", "and", "or", "==", "!=", "&", "|", "^"})
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _unify_all(
    patterns: Sequence[Expr], exprs: Sequence[Expr], bound: Mapping[str, Expr]
) -> Iterator[Mapping[str, Expr]]:
    """The ways in which expressions are instances of patterns, given what some variables of these stand for."""
    if not patterns:
        yield bound
        return
    for first in _unify(patterns[0], exprs[0], bound):
        yield from _unify_all(patterns[1:], exprs[1:], first)


def _unify(pattern: Expr, e: Expr, bound: Mapping[str, Expr]) -> Iterator[Mapping[str, Expr]]:
    match pattern, e:
        case Var(name=n), _:
            if n not in bound:
                yield {**bound, n: e}
            elif bound[n] == e:
                yield bound
        case Const(value=a), Const(value=b):
            if a == b:
                yield bound
        case Binary(op=op, left=left, right=right), Binary(op=other, left=a, right=b):
            if op == other:
                yield from _unify_all((left, right), (a, b), bound)
            if _MIRRORED.get(op, op if op in _COMMUTES else "") == other:
                yield from _unify_all((left, right), (b, a), bound)
        case Unary(op=op, operand=x), Unary(op=other, operand=y) if op == other:
            yield from _unify(x, y, bound)
        case Cast(dtype=d, operand=x), Cast(dtype=other, operand=y) if d == other:
            yield from _unify(x, y, bound)
        case Select(condition=c, then=t, otherwise=o), Select(condition=d, then=u, otherwise=p):
            yield from _unify_all((c, t, o), (d, u, p), bound)
        case Call(name=n, args=xs), Call(name=other, args=ys) if n == other and len(xs) == len(ys):
            yield from _unify_all(xs, ys, bound)
