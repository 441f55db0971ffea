"""What a primitive gives back: the new program, the handles it made, and where the old handles went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.program import Program


class LoopRef(msgspec.Struct, frozen=True):
    """A handle of the loop whose variable is `name`."""

    name: str


class BlockRef(msgspec.Struct, frozen=True):
    """A handle of the block `name`."""

    name: str


class BufferRef(msgspec.Struct, frozen=True):
    """A handle of the buffer `name`."""

    name: str


Handle = LoopRef | BlockRef | BufferRef


class Gone(msgspec.Struct, frozen=True):
    """A handle that died: `by` is the primitive, `into` are the handles that stand in its place."""

    by: str
    into: tuple[Handle, ...] = ()


Forward = Mapping[Handle, Handle | Gone]
"""Where handles went; one that is not in the map is as it was."""

UNMOVED: Forward = MappingProxyType({})


class Outcome(msgspec.Struct, frozen=True):
    """The result of a primitive. `handles` are what it returns, outermost or first first."""

    program: Program
    handles: tuple[Handle, ...] = ()
    forward: Forward = UNMOVED


def refuse(
    code: str, primitive: str, message: str, *, why: str | None = None, help: str | None = None
) -> ScheduleError:
    """The error of a primitive that does not apply: `raise refuse("MS4xx", "split", "…", why=…, help=…)`."""
    return ScheduleError(problem(code, f"{primitive}: {message}", why=why, help=help))


def then(first: Outcome, second: Outcome, handles: Sequence[Handle] = ()) -> Outcome:
    """Two primitives as one: the program of the second, which was applied to that of the first, and where handles
    went by both. `handles` are what the whole returns, as they are called at the end."""

    def onward(to: Handle | Gone) -> Handle | Gone:
        if not isinstance(to, Gone):
            return second.forward.get(to, to)
        into: list[Handle] = []
        for each in to.into:
            moved = second.forward.get(each, each)
            into += moved.into if isinstance(moved, Gone) else (moved,)
        return Gone(to.by, tuple(dict.fromkeys(into)))

    forward = {**second.forward, **{old: onward(to) for old, to in first.forward.items()}}
    return Outcome(second.program, tuple(handles), forward)
