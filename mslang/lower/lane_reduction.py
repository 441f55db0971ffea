"""Reductions over the lanes of vectors: what a vectorized loop combines into one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mslang.ir.annotations import JOINED
from mslang.ir.expr import Binary, Expr, Shuffle, Var
from mslang.ir.reduction import Update
from mslang.ir.visit import free_vars, loads_of
from mslang.kernel.lanes import lanes_of
from mslang.kernel.nodes import For, Let, Stmt, Store
from mslang.lower.analysis import changes_bounds, updated_by

WIDE = 4
"""Native vectors that parts are kept in: with fewer a sum waits for the one before."""


class LaneReduction(NamedTuple):
    """`store` updates one element in all iterations of a loop: `element op= value`."""

    store: Store
    update: Update

    def into(self, value: Expr) -> Store:
        """The element updated by a scalar."""
        return Store(self.store.buffer, self.store.indices, Binary(self.update.op, self._element, value))

    @property
    def _element(self) -> Expr:
        update = self.store.value
        assert isinstance(update, Binary)
        return update.right if update.left is self.update.value else update.left


def lane_reduction(loop: For) -> LaneReduction | None:
    """The reduction that a loop is; None if it does something else, or its lanes may not be joined."""
    if dict(loop.annotations).get(JOINED) is not True or changes_bounds(loop):
        return None
    match loop.body:
        case (Store(buffer=b, indices=xs, mask=None) as s,):
            update = updated_by(s)
            if update is None or any(x.buffer == b for x in loads_of(update.value)):
                return None
            if any(loop.var in free_vars(x) or any(loads_of(x)) for x in xs):
                return None
            return LaneReduction(s, update)
    return None


def accumulator_lanes(trips: int, native: int) -> int:
    """How many lanes combine parts of so many iterations, of which a register holds `native`."""
    lanes = 1
    while lanes * 2 <= min(trips, WIDE * native):
        lanes *= 2
    return lanes


def joined(value: Expr, op: str, dtype: str, fresh: Callable[[str], str], use: Callable[[Expr], Stmt]) -> Stmt:
    """A statement that uses what the lanes of a value are combined: half with half, down to a scalar."""
    lets: list[tuple[str, Expr]] = []
    while (lanes := lanes_of(value)) > 1:
        name = fresh("lanes")
        lets.append((name, value))
        whole, half = Var(name, dtype, lanes), lanes // 2
        value = Binary(op, _part(whole, range(half)), _part(whole, range(half, lanes)))
    made = use(value)
    for name, bound in reversed(lets):
        made = Let(name, bound, (made,))
    return made


def _part(vector: Expr, order: Sequence[int]) -> Expr:
    return Shuffle((vector,), tuple(order))
