"""Small questions about lowered statements."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from mslang.ir.annotations import MAX_STEPS
from mslang.ir.by_identity import by_identity
from mslang.ir.expr import COMPARISONS, LEAVES, LOGICAL, Binary, Const, Expr, Load, MaskedLoad, Select, Var, children
from mslang.ir.program import Store as ProgramStore
from mslang.ir.reduction import Update, update_of
from mslang.ir.visit import CACHED, free_vars, walk_expr
from mslang.kernel.nodes import Allocate, Atomic, Body, Evaluate, For, If, Invoke, Let, Stmt, Store
from mslang.kernel.visit import bodies, expressions, walk
from mslang.lower.fold import fold

Access = Load | MaskedLoad | Store | Atomic


@lru_cache(maxsize=CACHED)
def loaded(e: Expr) -> tuple[Load | MaskedLoad, ...]:
    """Every load in an expression, masked ones too, outer before inner."""
    return tuple([x for x in walk_expr(e) if isinstance(x, Load | MaskedLoad)])


@lru_cache(maxsize=CACHED)
def has_condition(e: Expr) -> bool:
    """Whether an expression compares, combines truth values, or selects."""
    if type(e) in LEAVES:
        return False
    if isinstance(e, Select) or (isinstance(e, Binary) and e.op in _CONDITIONS):
        return True
    return any(has_condition(x) for x in children(e))


_CONDITIONS = COMPARISONS | LOGICAL


def selected_by(e: Expr) -> tuple[Expr, ...]:
    """The conditions of the selects in an expression."""
    return _selected_by(e) if has_condition(e) else ()


@lru_cache(maxsize=CACHED)
def _selected_by(e: Expr) -> tuple[Expr, ...]:
    return tuple([x.condition for x in walk_expr(e) if isinstance(x, Select)])


def accesses(body: Body) -> Iterator[Access]:
    """Every load and store, in no particular order within a statement."""
    for s in walk(body):
        if isinstance(s, Store | Atomic):
            yield s
        for e in expressions(s):
            yield from loaded(e)


@by_identity(size=8192)
def accessed(s: Stmt) -> frozenset[str]:
    """The buffers that a statement loads or stores."""
    own = [x.buffer for e in expressions(s) for x in loaded(e)]
    if isinstance(s, Store | Atomic):
        own.append(s.buffer)
    return frozenset(own).union(*(accessed(inner) for body in bodies(s) for inner in body))


def names(body: Body) -> set[str]:
    """Every name in statements: variables that they bind or only use, and buffers."""
    found = set[str]().union(*map(accessed, body))
    for s in walk(body):
        match s:
            case For(var=name) | Let(name=name):
                found.add(name)
            case Allocate(buffer=b):
                found.add(b.name)
        found.update(*map(free_vars, expressions(s)))
    return found


def mentions(e: Expr, name: str) -> bool:
    """Whether the variable occurs in the expression."""
    return any(isinstance(x, Var) and x.name == name for x in walk_expr(e))


def indexes(s: For, buffers: Collection[str]) -> bool:
    """Whether the loop's variable occurs in an index of one of the buffers."""
    return not accessed(s).isdisjoint(buffers) and any(
        a.buffer in buffers and any(s.var in free_vars(e) for e in a.indices) for a in accesses(s.body)
    )


def stored(body: Body) -> frozenset[str]:
    """The buffers that statements store to."""
    return frozenset(s.buffer for s in walk(body) if isinstance(s, Store | Atomic))


def given_strides(body: Body, buffer: str) -> int:
    """How many of the last strides of a buffer are declared by instructions that it is an operand of."""
    return max(
        (
            min(rank, len(formal.strides))
            for s in walk(body)
            if isinstance(s, Invoke)
            for formal, e, rank in zip(s.params, s.operands, s.ranks, strict=True)
            if isinstance(e, Load) and e.buffer == buffer
        ),
        default=0,
    )


def changes_bounds(s: For) -> bool:
    """Whether a loop stores to what its bounds load: these are as they were before the first iteration."""
    read = {x.buffer for e in (s.start, s.extent) for x in loaded(e)}
    return bool(read) and not read.isdisjoint(stored(s.body))


def updated_by(s: Store) -> Update | None:
    """How a store updates what it writes; None if it does something else."""
    return update_of(ProgramStore(s.buffer, s.indices, s.value))


MAX_UNROLLED = 1024
"""Statements that unrolling may make of one loop; a loop beyond stays a loop."""

COUNTED_LANES = 16
"""A vector of so many lanes counts as one statement; as many shorter ones may be written out as have its lanes."""

VECTORS_WRITTEN_OUT = 8
"""A vectorized loop of more whole vectors becomes a loop of them, unless they are registers."""


def weight(body: Body) -> int:
    """How many statements a body is once its unrolled and vectorized loops are written out."""
    return sum(map(_weight, body))


@by_identity(size=8192)
def _weight(s: Stmt) -> int:
    match s:
        case For(kind="unrolled", extent=Const(value=n), body=body):
            inner = weight(body)
            return int(n) * inner if n <= max_steps(s) and n * inner <= MAX_UNROLLED else inner
        case For(kind="vectorized", extent=Const(value=n), body=body):
            vectors = max(1, int(n) // COUNTED_LANES)
            return weight(body) * (vectors if vectors <= VECTORS_WRITTEN_OUT else 1)
        case If(condition=Const(value=holds), then=then, otherwise=otherwise):
            return weight(then if holds else otherwise)
        case Store() | Atomic() | Evaluate():
            return 1
        case Invoke(text=text):
            return text.count("\n") + 1
    return sum(map(weight, bodies(s)))


def max_steps(s: For) -> int:
    """How many iterations of an unrolled loop the schedule lets be written out."""
    limit = dict(s.annotations).get(MAX_STEPS, MAX_UNROLLED)
    if isinstance(limit, Expr):
        limit = fold(limit)
    return int(limit.value) if isinstance(limit, Const) else limit if isinstance(limit, int) else MAX_UNROLLED


def work(body: Body) -> int:
    """About how many statements run."""
    return sum(map(_work, body))


@by_identity(size=8192)
def _work(s: Stmt) -> int:
    match s:
        case For():
            return trips(s) * work(s.body)
        case If(condition=Const(value=holds), then=then, otherwise=otherwise):
            return work(then if holds else otherwise)
        case Store() | Atomic() | Evaluate():
            return 1
    return sum(map(work, bodies(s)))


def trips(s: For) -> int:
    """How often a loop runs; one of unknown length is taken to run a few times."""
    return int(s.extent.value) if isinstance(s.extent, Const) else _SOME


_SOME = 16
