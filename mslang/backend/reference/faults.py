"""Faults of a running program, and the shadow memory that detects races.

The iterations of concurrent loops are numbered as they begin, so that what runs inside an iteration (but in no
further concurrent loop) has that number. While a loop runs, the numbers from its first one up to that of its current
iteration are those of the iterations before: an access with such a number is concurrent with the current one. The
interpreter runs in program order, so of the writers of an element only the last one matters; and of its readers only
the last one, and among those concurrent with that one the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import prod

import msgspec


class Site(msgspec.Struct, frozen=True):
    """An access in the program: a load or a store of `buffer` in `block`."""

    buffer: str
    write: bool
    block: str | None

    @property
    def text(self) -> str:
        """What it is, for messages."""
        return "store" if self.write else "load"


class Fault(Exception):
    """A rule broken while running; `interpret` makes a diagnostic of it."""

    def __init__(self, code: str, message: str, block: str | None, why: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.block, self.why = code, message, block, why


class Execution:
    """One run of a concurrent loop from `start` on; `begun` are the numbers of its iterations."""

    __slots__ = ("begun", "first", "loop", "start")

    def __init__(self, loop: str, start: int, first: int) -> None:
        self.loop, self.start, self.first = loop, start, first
        self.begun: list[int] = []

    def iteration(self, number: int) -> int:
        """The loop variable's value where an access has this number."""
        return self.start + bisect_right(self.begun, number) - 1


Level = tuple[int, int, Execution]
"""A concurrent loop around the place where control is: its first number, that of its current iteration, itself."""


class Shadow:
    """Who last wrote and who has read each element of a buffer since, by number; -1 for nobody.

    `private` are the loops of which each iteration has the buffer to itself: there only a read of what
    another iteration wrote is a race. `joined` are the loops that combine into it what their iterations have summed.
    """

    __slots__ = ("earlier", "joined", "private", "reader", "shape", "who", "writer")

    def __init__(self, shape: tuple[int, ...], private: frozenset[str], joined: frozenset[str]) -> None:
        size = prod(shape)
        self.writer, self.reader, self.earlier, self.who = [-1] * size, [-1] * size, [-1] * size, [-1] * size
        self.shape, self.private, self.joined = shape, private, joined


class Checker:
    """The state of one checked run: the numbers of iterations, and what faults are reported with."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = sites
        self.numbers = 0

    # -------------------------------------------------------------- concurrent loops
    def shadow(self, shape: tuple[int, ...], private: Sequence[str], joined: Sequence[str] = ()) -> Shadow:
        """Shadow memory for a buffer."""
        return Shadow(shape, frozenset(private), frozenset(joined))

    def execution(self, loop: str, start: int) -> Execution:
        """A loop that begins to run."""
        return Execution(loop, start, self.numbers + 1)

    def enter(self, execution: Execution) -> int:
        """The number of the iteration that begins."""
        self.numbers += 1
        execution.begun.append(self.numbers)
        return self.numbers

    def read(self, s: Shadow, at: int, number: int, levels: tuple[Level, ...], site: int) -> bool:
        """Note a read; always True."""
        writer, last, first = s.writer[at], s.reader[at], s.earlier[at]
        kept = -1
        for begin, now, execution in levels:
            if execution.loop in s.joined:
                continue
            if begin <= writer < now:
                self._race(s, at, site, s.who[at], execution, writer, number, "reads what", "writes")
            if kept < 0 and execution.loop not in s.private:
                kept = first if begin <= first < now else last if begin <= last < now else -1
        s.earlier[at], s.reader[at] = kept, number
        return True

    def write(self, s: Shadow, at: int, number: int, levels: tuple[Level, ...], site: int) -> None:
        """Note a write."""
        writer, last, first = s.writer[at], s.reader[at], s.earlier[at]
        for begin, now, execution in levels:
            if execution.loop in s.private or execution.loop in s.joined:
                continue
            if begin <= writer < now:
                self._race(s, at, site, s.who[at], execution, writer, number, "writes what", "writes")
            for reader in (first, last):
                if begin <= reader < now:
                    self._race(s, at, site, -1, execution, reader, number, "writes what", "reads")
        s.writer[at] = s.reader[at] = number
        s.earlier[at], s.who[at] = -1, site

    def _race(
        self,
        s: Shadow,
        at: int,
        site: int,
        other: int,
        execution: Execution,
        before: int,
        number: int,
        does: str,
        did: str,
    ) -> None:
        where = self.sites[site]
        by = None if other < 0 else self.sites[other].block
        element = f"{where.buffer}[{', '.join(map(str, unflattened(at, s.shape)))}]"
        raise Fault(
            "MS483",
            f"iteration {execution.iteration(number)} of loop `{execution.loop}` {does} iteration"
            f" {execution.iteration(before)} {did}: `{element}`",
            where.block,
            f"the iterations of `{execution.loop}` are concurrent"
            + (f"; the other access is in block `{by}`" if by is not None and by != where.block else ""),
        )

    # -------------------------------------------------------------- faults; each of these raises
    def bounds(self, site: int, dimension: int, index: int, extent: int) -> bool:
        """An index outside of its dimension."""
        s = self.sites[site]
        raise Fault(
            "MS480",
            f"{s.text} of `{s.buffer}` out of bounds: index {index} of dimension {dimension}",
            s.block,
            f"the dimension has {extent} elements",
        )

    def unset(self, site: int, at: int, shape: tuple[int, ...]) -> bool:
        """A read of an element that was not written."""
        s = self.sites[site]
        element = f"{s.buffer}[{', '.join(map(str, unflattened(at, shape)))}]"
        raise Fault("MS481", f"`{element}` is read before it is written", s.block)

    def region(self, site: int, block: str, index: tuple[int, ...]) -> bool:
        """An access outside of what a block declares."""
        s = self.sites[site]
        kind = "writes" if s.write else "reads"
        element = f"{s.buffer}[{', '.join(map(str, index))}]"
        raise Fault(
            "MS482",
            f"{s.text} of `{element}` outside of the regions that block `{block}` {kind}",
            s.block,
            f"a block may access only the regions of its `{kind}`",
        )

    def axis(self, block: str, axis: str, value: int, extent: int) -> bool:
        """An axis outside of its extent."""
        raise Fault(
            "MS484",
            f"axis `{axis}` of block `{block}` is {value}, outside of 0..{extent}",
            block,
            "where a loop runs over more, the block needs a `where`",
        )

    def twice(self, site: int, before: tuple[int, ...], now: tuple[int, ...], values: tuple[object, object]) -> None:
        """Two instances of a block that write one element, or one that does so again with another value."""
        s = self.sites[site]
        if before == now:
            raise Fault(
                "MS485",
                f"block `{s.block}` runs twice at {now} and stores {values[0]}, then {values[1]}",
                s.block,
                "an instance whose axes are all spatial gives one value, however often it runs",
            )
        raise Fault(
            "MS485",
            f"block `{s.block}` writes one element of `{s.buffer}` at {before} and at {now}",
            s.block,
            "instances that differ in a spatial axis must not write the same element",
        )

    def endless(self, block: str | None) -> None:
        """A `while` without end."""
        raise Fault("MS489", "a `while` loop does not end", block)


def unflattened(at: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices of element number `at`."""
    found: list[int] = []
    for n in reversed(shape):
        at, index = divmod(at, n)
        found.append(index)
    return tuple(reversed(found))
