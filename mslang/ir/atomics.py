"""Blocks whose updates are atomic: each reads, combines and writes an element indivisibly, while others do."""

from __future__ import annotations

from mslang.ir.annotations import ATOMIC
from mslang.ir.program import Block, Let, Store
from mslang.ir.reducers import at_once
from mslang.ir.reduction import Update, update_of
from mslang.ir.visit import loads_of

COMMUTATIVE = frozenset({"+", "min", "max"})
"""The operators that updates may combine with in any order, and that machines have atomically."""


def is_atomic(block: Block) -> bool:
    """Whether a block was asked to update its elements atomically (primitive `atomic`), and only does that."""
    return dict(block.annotations).get(ATOMIC) is True and atomic_update(block) is not None


def atomic_update(block: Block) -> tuple[Store, Update] | None:
    """The one store of a block, and how it updates: `x = x op value`, with `let`s put in.

    None if the block has another form, an init, or a value or a condition that depends on what is updated.
    """
    body = block.body
    while len(body) == 1 and isinstance(body[0], Let):
        body = body[0].body
    if block.init is not None or len(body) != 1 or not isinstance(body[0], Store):
        return None
    (store,) = at_once(block.body)
    found = update_of(store)
    if found is None or found.op not in COMMUTATIVE:
        return None
    elsewhere = (x for e in (found.value, *store.indices, block.predicate) for x in loads_of(e))
    return None if any(x.buffer == store.buffer for x in elsewhere) else (store, found)
