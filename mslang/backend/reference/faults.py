"""What a running program may do wrong, and the shadow memory by which races show.

A *context* is where control stands among the concurrent loops: a tuple of (loop, execution, iteration), outermost
first. Two accesses are concurrent if their contexts first differ in the iteration of one execution of one loop.
The interpreter runs in program order, so of the writers of an element only the last one matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec

Context = tuple[tuple[str, int, int], ...]


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


class Shadow:
    """Who last wrote and who has read each element of a buffer since, by number of context.

    `writer` and `reader` hold -1 for nobody; `others` are earlier readers; `who` is the store that wrote.
    `private` are the loops of which each iteration has the buffer to itself: there only a read of what
    another iteration wrote is a race.
    """

    __slots__ = ("others", "private", "reader", "shape", "who", "writer")

    def __init__(self, shape: tuple[int, ...], private: frozenset[str]) -> None:
        size = prod(shape)
        self.writer = [-1] * size
        self.reader = [-1] * size
        self.who: dict[int, int] = {}
        self.others: dict[int, set[int]] = {}
        self.shape, self.private = shape, private


class Checker:
    """The state of one checked run: contexts, and the tables that faults are reported with."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = sites
        self.contexts: list[Context] = [()]
        self.executions = 0

    # -------------------------------------------------------------- concurrent loops
    def shadow(self, shape: tuple[int, ...], private: Sequence[str]) -> Shadow:
        """Shadow memory for a buffer."""
        return Shadow(shape, frozenset(private))

    def execution(self) -> int:
        """A number for one more execution of a loop."""
        self.executions += 1
        return self.executions

    def enter(self, outer: int, loop: str, execution: int, iteration: int) -> int:
        """The context of one iteration."""
        self.contexts.append((*self.contexts[outer], (loop, execution, iteration)))
        return len(self.contexts) - 1

    def diverging(self, a: int, b: int) -> tuple[str, int, int] | None:
        """The loop, and its two iterations, in which two contexts are concurrent; None if they are ordered."""
        for x, y in zip(self.contexts[a], self.contexts[b], strict=False):
            if x != y:
                return (x[0], x[2], y[2]) if x[:2] == y[:2] else None
        return None

    def read(self, s: Shadow, at: int, context: int, site: int) -> bool:
        """Note a read; always True."""
        writer = s.writer[at]
        if writer >= 0 and (found := self.diverging(writer, context)) is not None:
            self._race(s, at, site, s.who.get(at), found, "reads what", "writes")
        before = s.reader[at]
        if before >= 0:
            s.others.setdefault(at, set()).add(before)
        s.reader[at] = context
        return True

    def write(self, s: Shadow, at: int, context: int, site: int) -> None:
        """Note a write."""
        writer = s.writer[at]
        if writer >= 0 and (found := self.diverging(writer, context)) is not None and found[0] not in s.private:
            self._race(s, at, site, s.who.get(at), found, "writes what", "writes")
        for reader in (s.reader[at], *s.others.pop(at, ())):
            if reader >= 0 and (found := self.diverging(reader, context)) is not None and found[0] not in s.private:
                self._race(s, at, site, None, found, "writes what", "reads")
        s.writer[at] = s.reader[at] = context
        s.who[at] = site

    def _race(self, s: Shadow, at: int, site: int, other: int | None, found: tuple[str, int, int], does: str,
              did: str) -> None:
        where = self.sites[site]
        loop, before, now = found
        by = None if other is None else self.sites[other].block
        element = f"{where.buffer}[{', '.join(map(str, unflattened(at, s.shape)))}]"
        raise Fault("MS483", f"iteration {now} of loop `{loop}` {does} iteration {before} {did}: `{element}`",
                    where.block, f"the iterations of `{loop}` run at the same time"
                    + (f"; the other access is in block `{by}`" if by is not None and by != where.block else ""))

    # -------------------------------------------------------------- faults; each of these raises
    def bounds(self, site: int, dimension: int, index: int, extent: int) -> bool:
        """An index outside of its dimension."""
        s = self.sites[site]
        raise Fault("MS480", f"{s.text} of `{s.buffer}` out of bounds: index {index} of dimension {dimension}",
                    s.block, f"the dimension has {extent} elements")

    def unset(self, site: int, at: int, shape: tuple[int, ...]) -> bool:
        """A read of an element that nothing has written."""
        s = self.sites[site]
        element = f"{s.buffer}[{', '.join(map(str, unflattened(at, shape)))}]"
        raise Fault("MS481", f"`{element}` is read before it is written", s.block)

    def region(self, site: int, block: str, index: tuple[int, ...]) -> bool:
        """An access outside of what a block declares."""
        s = self.sites[site]
        kind = "writes" if s.write else "reads"
        element = f"{s.buffer}[{', '.join(map(str, index))}]"
        raise Fault("MS482", f"{s.text} of `{element}` outside of what block `{block}` {kind}", s.block,
                    f"a block may touch only what its `{kind}` says")

    def axis(self, block: str, axis: str, value: int, extent: int) -> bool:
        """An axis outside of its extent."""
        raise Fault("MS484", f"axis `{axis}` of block `{block}` is {value}, outside of 0..{extent}", block,
                    "where a loop runs over more, the block needs a `where`")

    def twice(self, site: int, before: tuple[int, ...], now: tuple[int, ...], values: tuple[object, object]) -> None:
        """Two instances of a block that write one element, or one that does so again with another value."""
        s = self.sites[site]
        if before == now:
            raise Fault("MS485", f"block `{s.block}` runs twice at {now} and stores {values[0]}, then {values[1]}",
                        s.block, "an instance whose axes are all spatial gives one value, however often it runs")
        raise Fault("MS485", f"block `{s.block}` writes one element of `{s.buffer}` at {before} and at {now}",
                    s.block, "instances that differ in a spatial axis must not write the same element")

    def endless(self, block: str | None) -> None:
        """A `while` without end."""
        raise Fault("MS489", "a `while` does not come to an end", block)


def unflattened(at: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices of element number `at`."""
    found: list[int] = []
    for n in reversed(shape):
        at, index = divmod(at, n)
        found.append(index)
    return tuple(reversed(found))
