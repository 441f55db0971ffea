"""What the `spatial` axes of a block promise of its stores, as far as a run must check it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from mslang.backend.reference.expressions import Level
from mslang.ir.expr import ONE, Var
from mslang.ir.program import Block, For, Stmt, Store, While
from mslang.ir.visit import walk


class Promise(Enum):
    """What is to be checked of a store: that no other instance writes the element, or the same value if again."""

    ALONE = auto()
    SAME = auto()


def promise_of(s: Store, level: Level, viewed: Callable[[str], str]) -> Promise | None:
    """What a store in the body of a block is held to; None if nothing, or if its indices show it already.

    `viewed` gives the buffer whose memory a name stands for.
    """
    b = level.block
    kinds = {a.kind for a in b.axes}
    if not kinds <= {"spatial", "reduce"}:
        return None
    if kinds <= {"spatial"} and not level.once and _stored_plainly(s, (*(b.init or ()), *b.body), viewed):
        return Promise.SAME
    named = {x.name for x in s.indices if isinstance(x, Var)}
    alone = all(a.name in named or a.extent == ONE for a in b.axes if a.kind == "spatial")
    return None if alone else Promise.ALONE


def _stored_plainly(s: Store, body: tuple[Stmt, ...], viewed: Callable[[str], str]) -> bool:
    """Whether one run of an instance, its init included, stores to the memory of `s` once."""
    inside = tuple(walk(body))
    return (
        not any(isinstance(x, For | While | Block) for x in inside)
        and sum(isinstance(x, Store) and viewed(x.buffer) == viewed(s.buffer) for x in inside) == 1
    )


def runs_once(b: Block, loops: tuple[str, ...]) -> bool:
    """Whether no instance runs twice, as each loop is bound to an axis of its own."""
    bound = [a.binding.name for a in b.axes if isinstance(a.binding, Var)]
    return set(loops) <= set(bound)
