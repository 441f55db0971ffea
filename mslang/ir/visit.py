"""Walking and rebuilding programs: the few traversals that everything above is written with.

All rebuilds share what does not change: a subtree that comes back the same is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import copysign
from typing import TYPE_CHECKING, TypeGuard

from msgspec.structs import replace

from mslang.ir.dtype import is_float
from mslang.ir.expr import LEAVES, TRUE, Binary, Const, Expr, Load, Var, children, with_children
from mslang.ir.nodes import (
    Annotations,
    AttrValue,
    Axis,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Param,
    Range,
    Region,
    Stmt,
    Store,
    View,
    While,
)

if TYPE_CHECKING:
    from mslang.ir.program import Program

CACHED = 1 << 14
"""How many statements and expressions have what was found in them kept."""

Path = tuple[Stmt, ...]
"""The statements from a top-level one down to (and including) the one meant."""


# ------------------------------------------------------------------ expressions
def map_expr(e: Expr, f: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild bottom-up: `f` gets each node (operands already rebuilt) and returns another or None to keep it."""
    if type(e) not in LEAVES and (xs := children(e)):
        e = with_children(e, tuple([map_expr(x, f) for x in xs]))
    changed = f(e)
    return e if changed is None else changed


def walk_expr(e: Expr) -> Iterator[Expr]:
    """Every node of an expression, outermost first."""
    waiting = [e]
    while waiting:
        x = waiting.pop()
        yield x
        if type(x) not in LEAVES:
            waiting += children(x)[::-1]


@lru_cache(maxsize=CACHED)
def free_vars(e: Expr) -> frozenset[str]:
    """The names of the `Var`s in an expression."""
    return frozenset(x.name for x in walk_expr(e) if isinstance(x, Var))


def substitute(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replace `Var`s by name, without simplifying anything."""
    return _substituted(e, values) if values else e


def _substituted(e: Expr, values: Mapping[str, Expr]) -> Expr:
    # Every analysis comes here: `map_expr` with the look-up as its function takes twice as long.
    if type(e) is Var:
        return values.get(e.name, e)
    if type(e) in LEAVES:
        return e
    return with_children(e, tuple([_substituted(x, values) for x in children(e)]))


@lru_cache(maxsize=CACHED)
def loads_of(e: Expr) -> tuple[Load, ...]:
    """Every load in an expression, outer before inner."""
    return tuple([x for x in walk_expr(e) if isinstance(x, Load)])


def zero_signs(e: Expr) -> tuple[float, ...]:
    """The signs of the floating zeros in an expression: expressions that differ in them alone are equal, but not the
    same."""
    return tuple([copysign(1.0, x.value) for x in walk_expr(e) if _is_zero(x)]) if has_zero(e) else ()


@lru_cache(maxsize=CACHED)
def has_zero(e: Expr) -> bool:
    """Whether a floating zero is in an expression."""
    return any(_is_zero(x) for x in walk_expr(e))


def _is_zero(e: Expr) -> TypeGuard[Const]:
    return isinstance(e, Const) and is_float(e.dtype) and e.value == 0


# ------------------------------------------------------------------ statements
def bodies(s: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The statement lists directly inside a statement (a block's init first).

    Raises:
        TypeError: it is not a statement of a program.
    """
    match s:
        case For(body=b) | While(body=b) | Let(body=b):
            return (b,)
        case If(then=t, otherwise=o):
            return (t, o)
        case Block(init=i, body=b):
            return (b,) if i is None else (i, b)
        case Store() | Evaluate():
            return ()
    raise TypeError(f"not a statement: {s!r}")


def walk(body: tuple[Stmt, ...], into_blocks: bool = True) -> Iterator[Stmt]:
    """Every statement in program order, outer before inner; `into_blocks=False` stays outside block bodies."""
    waiting = list(reversed(body))
    while waiting:
        s = waiting.pop()
        yield s
        if into_blocks or not isinstance(s, Block):
            for b in reversed(bodies(s)):
                waiting.extend(reversed(b))


def walk_paths(body: tuple[Stmt, ...], above: Path = ()) -> Iterator[Path]:
    """The path of every statement, in program order, block bodies included."""
    for s in body:
        path = (*above, s)
        yield path
        for b in bodies(s):
            yield from walk_paths(b, path)


def stmt_exprs(s: Stmt) -> tuple[Expr, ...]:
    """The expressions written directly in a statement (for a block: bindings, extents, predicate, regions)."""
    match s:
        case Store(indices=xs, value=v):
            return (*xs, v)
        case Let(value=v) | Evaluate(value=v):
            return (v,)
        case If(condition=c) | While(condition=c):
            return (c,)
        case For(start=a, extent=e):
            return (a, e)
        case Block(axes=axes, reads=r, writes=w, predicate=p):
            regions = tuple(x for g in (*r, *w) for d in g.ranges for x in (d.start, d.extent))
            return (*(x for a in axes for x in (a.extent, a.binding)), p, *regions)
    raise TypeError(f"not a statement: {s!r}")


def map_region(r: Region, f: Callable[[Expr], Expr]) -> Region:
    """A region with each expression rebuilt by `f`."""
    return Region(r.buffer, tuple(Range(f(d.start), f(d.extent)) for d in r.ranges))


def map_buffer(b: Buffer, f: Callable[[Expr], Expr]) -> Buffer:
    """A buffer with its shape, strides and offset rebuilt by `f`."""
    return replace(
        b,
        shape=tuple(f(x) for x in b.shape),
        strides=None if b.strides is None else tuple(f(x) for x in b.strides),
        offset=None if b.offset is None else f(b.offset),
    )


def map_annotations(notes: Annotations, f: Callable[[Expr], Expr]) -> Annotations:
    """Annotations with the expressions in them, in lists too, rebuilt by `f`."""

    def value(v: AttrValue) -> AttrValue:
        if isinstance(v, Expr):
            return f(v)
        return tuple(value(x) for x in v) if isinstance(v, tuple) else v

    return tuple((key, value(v)) for key, v in notes)


def map_stmt_exprs(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """A statement with every expression in it, at any depth, those of annotations too, rebuilt by `f`."""

    def several(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(map_stmt_exprs(x, f) for x in body)

    match s:
        case Store(buffer=b, indices=xs, value=v):
            return Store(b, tuple(f(x) for x in xs), f(v))
        case Let(name=n, value=v, body=b):
            return Let(n, f(v), several(b))
        case If(condition=c, then=t, otherwise=o):
            return If(f(c), several(t), several(o))
        case While(condition=c, body=b):
            return While(f(c), several(b))
        case Evaluate(value=v):
            return Evaluate(f(v))
        case For():
            return replace(
                s,
                start=f(s.start),
                extent=f(s.extent),
                body=several(s.body),
                annotations=map_annotations(s.annotations, f),
            )
        case Block():
            return replace(
                s,
                axes=tuple(Axis(a.name, f(a.extent), a.kind, f(a.binding)) for a in s.axes),
                reads=tuple(map_region(r, f) for r in s.reads),
                writes=tuple(map_region(r, f) for r in s.writes),
                init=None if s.init is None else several(s.init),
                predicate=f(s.predicate),
                allocs=tuple(map_buffer(b, f) for b in s.allocs),
                views=tuple(View(map_buffer(v.buffer, f), map_region(v.source, f)) for v in s.views),
                annotations=map_annotations(s.annotations, f),
                body=several(s.body),
            )
    raise TypeError(f"not a statement: {s!r}")


def map_param(q: Param, f: Callable[[Expr], Expr]) -> Param:
    """A parameter with the expressions of its buffer, its packing and its range rebuilt by `f`."""
    packing = q.packing
    if packing is not None:
        shape, results = tuple(map(f, packing.shape)), tuple(map(f, packing.results))
        packing = replace(packing, shape=shape, results=results)
    within = q.within
    if within is not None:
        within = replace(within, low=f(within.low), high=f(within.high))
    return replace(q, buffer=map_buffer(q.buffer, f), packing=packing, within=within)


def map_program_exprs(p: Program, f: Callable[[Expr], Expr]) -> Program:
    """A program with every expression in it rebuilt by `f`."""
    return replace(
        p,
        params=tuple(map_param(q, f) for q in p.params),
        allocs=tuple(map_buffer(b, f) for b in p.allocs),
        body=tuple(map_stmt_exprs(s, f) for s in p.body),
        annotations=map_annotations(p.annotations, f),
    )


def replace_at(body: tuple[Stmt, ...], path: Path, new: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """`body` with the last statement of `path` replaced by the statements `new`, copying only along the path.

    Statements are found by identity. A loop or `if` whose body becomes empty is left empty: `prune` takes it away.
    """
    first, *rest = path
    out: list[Stmt] = []
    for s in body:
        if s is not first:
            out.append(s)
        elif not rest:
            out.extend(new)
        else:
            out.append(_with_child(s, tuple(rest), new))
    return tuple(out)


def _with_child(s: Stmt, path: Path, new: tuple[Stmt, ...]) -> Stmt:
    def inside(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        if len(body) == 1 and len(path) > 1:
            return (_with_child(path[0], path[1:], new),) if body[0] is path[0] else body
        return replace_at(body, path, new) if any(x is path[0] for x in body) else body

    match s:
        case For() | While() | Let():
            return replace(s, body=inside(s.body))
        case If():
            return replace(s, then=inside(s.then), otherwise=inside(s.otherwise))
        case Block():
            return replace(s, body=inside(s.body), init=None if s.init is None else inside(s.init))
    raise TypeError(f"no body: {s!r}")


def prune(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """`body` without loops, lets and ifs that hold nothing."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case For(body=b) | Let(body=b):
                inner = prune(b)
                if inner:
                    out.append(s if inner == b else replace(s, body=inner))
            case If(then=t, otherwise=o):
                then, otherwise = prune(t), prune(o)
                if then or otherwise:
                    out.append(s if (then, otherwise) == (t, o) else replace(s, then=then, otherwise=otherwise))
            case _:
                out.append(s)
    return tuple(out)


# ------------------------------------------------------------------ names and conditions
def fresh(name: str, taken: frozenset[str] | set[str]) -> str:
    """`name` if it is free, else `name_1`, `name_2`, …"""
    if name not in taken:
        return name
    k = 1
    while f"{name}_{k}" in taken:
        k += 1
    return f"{name}_{k}"


def conjuncts(e: Expr) -> tuple[Expr, ...]:
    """The parts of a predicate joined by `and`; none for `true`."""
    if isinstance(e, Binary) and e.op == "and":
        return (*conjuncts(e.left), *conjuncts(e.right))
    return () if e == TRUE else (e,)


def guarded(predicate: Expr, conditions: tuple[Expr, ...]) -> Expr:
    """A predicate with conditions on loops or axes added.

    `and` evaluates from left to right and stops at the first false part. Whatever loads stands behind the parts that
    do not: a load must not happen where one of them is false.
    """
    parts = (*conjuncts(predicate), *conditions)
    return conjunction(tuple(sorted(parts, key=lambda c: any(loads_of(c)))))


def conjunction(parts: tuple[Expr, ...]) -> Expr:
    """The parts joined by `and`, duplicates dropped; `true` for none."""
    result: Expr | None = None
    for x in dict.fromkeys(parts):
        result = x if result is None else Binary("and", result, x)
    return TRUE if result is None else result


def map_bodies(s: Stmt, f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """A statement with each statement list directly inside it rebuilt by `f` (a block's init too)."""
    match s:
        case For() | While() | Let():
            return replace(s, body=f(s.body))
        case If():
            return replace(s, then=f(s.then), otherwise=f(s.otherwise))
        case Block():
            return replace(s, body=f(s.body), init=None if s.init is None else f(s.init))
    return s
