"""The columns of a sketch's decisions, and arrays of decisions in this layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.expr import Domain, FreeTile, PartitionedTile, PerfectTile
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Number, Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]


class Slot(msgspec.Struct, frozen=True):
    """The columns of one decision: `start` to `start + width`.

    A tile has a column for each factor. `inferred`: the first factor is inferred at the call, its column holds 0.
    """

    address: str
    start: int
    width: int
    tile: bool
    inferred: bool = False

    @property
    def columns(self) -> slice:
        """The columns as a slice."""
        return slice(self.start, self.start + self.width)


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Where each decision's numbers stand in a row: slots in the order of the decisions.

    Example:
        >>> layout = layout_of(sketch.decisions)
        >>> layout.names
        ('ti[0]', 'ti[1]', 'unroll')
        >>> layout["ti"].columns
        slice(0, 2, None)
    """

    slots: tuple[Slot, ...]

    @cached_property
    def width(self) -> int:
        """The number of columns."""
        return sum(s.width for s in self.slots)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each column: `Symbol.text`, the address with the position of a factor."""
        return tuple(f"{s.address}[{k}]" if s.tile else s.address for s in self.slots for k in range(s.width))

    @cached_property
    def _slots(self) -> Mapping[str, Slot]:
        return {s.address: s for s in self.slots}

    def __getitem__(self, address: str) -> Slot:
        """The slot of a decision; KeyError if there is none."""
        return self._slots[address]

    def row(self, values: Values) -> list[int]:
        """The numbers of one candidate in the order of the columns.

        Raises:
            ScheduleError: MS217, a decision has no value, or one of another width.
        """
        out: list[int] = []
        for s in self.slots:
            value = values.get(s.address)
            numbers = value if isinstance(value, tuple) else () if value is None else (value,)
            if len(numbers) != s.width or isinstance(value, tuple) != s.tile:
                wanted = f"a tile of {s.width} factors" if s.tile else "one number"
                raise ScheduleError(
                    problem("MS217", f"`{s.address}` needs {wanted}", why=f"it is {value!r}" if value else None)
                )
            out += (0 if x is None else x for x in numbers)
        return out

    def values(self, row: Sequence[int]) -> dict[str, Number]:
        """The values of a row by address, as `Sketch.instantiate` takes them."""
        return {s.address: _number(s, row[s.columns]) for s in self.slots}


def _number(slot: Slot, row: Sequence[int]) -> Number:
    if not slot.tile:
        return int(row[0])
    whole = tuple(int(x) for x in row)
    return (None, *whole[1:]) if slot.inferred else whole


def layout_of(decisions: Iterable[Decision]) -> Layout:
    """The layout of a sketch's numeric decisions, in their order."""
    slots: list[Slot] = []
    start = 0
    for d in decisions:
        slots.append(_slot(d.address, d.domain, start))
        start += slots[-1].width
    return Layout(tuple(slots))


def _slot(address: str, domain: Domain, start: int) -> Slot:
    match domain:
        case PerfectTile(n=n) | PartitionedTile(n=n):
            return Slot(address, start, n, tile=True)
        case FreeTile(n=n, extent=extent):
            return Slot(address, start, n, tile=True, inferred=is_dynamic(extent))
    return Slot(address, start, 1, tile=False)


class DecisionBatch(msgspec.Struct, frozen=True, eq=False):
    """Decisions of many candidates: `array` is int64 of shape (candidates, columns of the layout), column by column in
    memory."""

    layout: Layout
    array: Column

    def __len__(self) -> int:
        """The number of candidates."""
        return len(self.array)

    def __getitem__(self, rows: slice | NDArray[Any]) -> DecisionBatch:
        """Some of the candidates: a slice, a mask, or row numbers."""
        return DecisionBatch(self.layout, self.array.T[:, rows].T)

    def columns(self) -> dict[str, Column]:
        """The columns by name."""
        return {name: self.array[:, k] for k, name in enumerate(self.layout.names)}

    def row(self, k: int) -> dict[str, Number]:
        """The values of one candidate by address, as `Sketch.instantiate` takes them."""
        return self.layout.values(self.array[k])


def batch_of(layout: Layout, rows: Iterable[Values]) -> DecisionBatch:
    """The batch of candidates given by their values.

    Raises:
        ScheduleError: MS217, a decision has no value, or one of another width.
    """
    import numpy as np

    numbers = [layout.row(values) for values in rows]
    array = np.asarray(numbers, np.int64).reshape(len(numbers), layout.width)
    return DecisionBatch(layout, np.asfortranarray(array))


def empty(layout: Layout, n: int) -> DecisionBatch:
    """A batch of `n` candidates whose numbers are all 0."""
    import numpy as np

    return DecisionBatch(layout, np.zeros((layout.width, n), np.int64).T)
