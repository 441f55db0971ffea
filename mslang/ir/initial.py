"""What a block starts its reductions from, where it does not say."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir.expr import Expr, dtype_of
from mslang.ir.nodes import Axis, Let, Stmt, Store
from mslang.ir.reducers import at_once, identity_of, match_reducer
from mslang.ir.reduction import identity, update_of
from mslang.ir.visit import free_vars, substitute


def inferred_init(body: tuple[Stmt, ...], axes: tuple[Axis, ...], started: frozenset[str]) -> tuple[Stmt, ...] | None:
    """The init of a block that does not say one: the identity for each store that updates over a reduction axis.

    Args:
        body: the block's statements; stores in `let`s count, stores in loops and branches do not.
        axes: its axes.
        started: the buffers that already have a value (`in`, `inout`, or written by an earlier block).

    Returns:
        The init's stores, or None where nothing is to be initialised.
    """
    reduced = {a.name for a in axes if a.kind == "reduce"}
    if not reduced:
        return None
    stores = _stores(body, {})
    together = _of_several(body, stores, axes, started)
    if together is not None:
        return together
    found: dict[tuple[str, tuple[Expr, ...]], Stmt] = {}
    for s in stores:
        update = update_of(s)
        if update is not None and _is_started(s, axes, reduced, started):
            found.setdefault((s.buffer, s.indices), Store(s.buffer, s.indices, identity(update.op, update.dtype)))
    return tuple(found.values()) or None


def _of_several(
    body: tuple[Stmt, ...], stores: Sequence[Store], axes: tuple[Axis, ...], started: frozenset[str]
) -> tuple[Stmt, ...] | None:
    """The init of a reduction of several buffers together, such as the place and value of the largest element."""
    together = at_once(body)
    match = match_reducer(together) if len(together) == len(stores) > 1 else None
    reduced = {a.name for a in axes if a.kind == "reduce"}
    if match is None or not all(_is_started(s, axes, reduced, started) for s in together):
        return None
    return tuple(
        Store(s.buffer, s.indices, identity_of(match.reducer, k, dtype_of(s.value))) for k, s in enumerate(together)
    )


def _is_started(s: Store, axes: tuple[Axis, ...], reduced: set[str], started: frozenset[str]) -> bool:
    """Is it this block that starts what a store updates, at one place for all iterations of the reduction?"""
    free = frozenset[str]().union(*(free_vars(x) for x in s.indices))
    return s.buffer not in started and not free & reduced and free <= {a.name for a in axes}


def _stores(body: tuple[Stmt, ...], lets: dict[str, Expr]) -> tuple[Store, ...]:
    found: tuple[Store, ...] = ()
    for s in body:
        match s:
            case Store():
                found = (*found, Store(s.buffer, s.indices, substitute(s.value, lets)))
            case Let(name=n, value=v, body=inner):
                found = (*found, *_stores(inner, lets | {n: substitute(v, lets)}))
    return found
