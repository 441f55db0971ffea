"""Handles: a schedule's references to loops, blocks and buffers, kept up to date by every rewrite."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mslang.diagnostics import Diagnostic, Note, ScheduleError, Span, problem
from mslang.ir.find import contents_of
from mslang.ir.program import Program
from mslang.schedule.values import Handle as Handle
from mslang.transform.outcome import BlockRef, BufferRef, Forward, Gone, LoopRef
from mslang.transform.outcome import Handle as Ref


class Site(msgspec.Struct, frozen=True):
    """The location of a statement: its abbreviated text, and its place in a file if it has one: an offset in a `.ms`
    file, a line of a Python file."""

    text: str
    path: str | None = None
    span: Span | None = None
    line: int | None = None


class Death(msgspec.Struct, frozen=True):
    """Why a handle is dead: the statement that consumed it, and the replacing handles."""

    site: Site
    into: tuple[Handle, ...] = ()


_There = dict[type[LoopRef] | type[BlockRef] | type[BufferRef], frozenset[str]]
"""The names of a program's loops, blocks and buffers."""


class HandleTable:
    """All handles, their current referents, and why dead ones are dead."""

    def __init__(self) -> None:
        self._state: dict[int, Ref | Death] = {}
        self._of: dict[Ref, Handle] = {}
        self._bound: dict[int, str] = {}
        self._made: list[Handle] = []
        self._there: _There = {}

    def handle(self, ref: Ref) -> Handle:
        """The handle of a loop, block or buffer of the current program, created if it has none yet."""
        known = self._of.get(ref)
        if known is not None:
            return known
        made = Handle(len(self._made), kind_of(ref), ref.name)
        self._made.append(made)
        self._state[made.number] = ref
        self._of[ref] = made
        return made

    def bind(self, handle: Handle, name: str) -> None:
        """Record the name by which a trace refers to a handle."""
        self._bound[handle.number] = name

    def bound(self, handle: Handle) -> str | None:
        """The name by which a trace refers to a handle, if it has one."""
        return self._bound.get(handle.number)

    def resolve(self, handle: Handle) -> Ref:
        """The current referent of a handle.

        Raises:
            ScheduleError: MS211, it was consumed; MS203, it belongs to another schedule.
        """
        if not isinstance(handle, Handle):
            raise ScheduleError(problem("MS203", f"{handle!r} is not a handle", help="`schedule.get(name)` gives one"))
        own = self._made[handle.number] if handle.number < len(self._made) else None
        if own is not handle and own != handle:
            raise ScheduleError(
                problem(
                    "MS203",
                    f"the {handle.kind} `{handle.name}` is another schedule's",
                    help="ask this schedule for its own: `schedule.get(name)`",
                )
            )
        state = self._state[handle.number]
        if not isinstance(state, Death):
            return state
        raise ScheduleError(self._obituary(handle, state))

    def _obituary(self, handle: Handle, death: Death) -> Diagnostic:
        """The history of a dead handle: what consumed it and what replaced it, down to live handles."""
        story = [f"it was consumed by {_told(death.site)}"]
        sites = [death.site]
        living: dict[str, None] = {}
        queue = list(death.into)
        for each in queue:
            state = self._state[each.number]
            if not isinstance(state, Death):
                living[state.name] = None
                continue
            story.append(f"`{each.name}`, its replacement, by {_told(state.site)}")
            sites.append(state.site)
            queue += [h for h in state.into if h not in queue]
        into = ", ".join(f"`{n}`" for n in living)
        return problem(
            "MS211",
            f"{handle.kind} `{handle.name}` no longer exists",
            why="; ".join(story),
            help=f"use its replacement: {into}" if into else "it has no replacement",
            notes=tuple(Note("consumed here", s.span, s.path) for s in dict.fromkeys(sites) if s.span is not None),
        )

    def alive(self, handle: Handle) -> bool:
        """Whether a handle still has a referent."""
        return not isinstance(self._state[handle.number], Death)

    def live(self) -> Iterator[tuple[Handle, Ref]]:
        """Every handle that still has a referent."""
        return ((h, r) for r, h in self._of.items())

    def follow(self, forward: Forward, site: Site, program: Program) -> None:
        """Update every handle after a rewrite; a handle whose referent is no longer in `program` is dead."""
        inside = contents_of(program.body)
        there: _There = {
            LoopRef: inside.loops,
            BlockRef: inside.blocks,
            BufferRef: inside.buffers.union((q.buffer.name for q in program.params), (b.name for b in program.allocs)),
        }
        if not forward and there == self._there:
            return
        self._there = there
        moved: dict[Ref, Handle] = {}
        died: list[tuple[Handle, tuple[Ref, ...]]] = []
        for ref, handle in self._of.items():
            to = forward.get(ref, ref)
            if isinstance(to, Gone):
                died.append((handle, tuple(r for r in to.into if r.name in there[type(r)])))
            elif to.name not in there[type(to)]:
                self._state[handle.number] = Death(site)
            else:
                self._state[handle.number] = to
                moved[to] = handle if to not in moved else min(moved[to], handle, key=lambda h: h.number)
        self._of = moved
        for handle, into in died:
            self._state[handle.number] = Death(site, tuple(self.handle(r) for r in into))


def _told(site: Site) -> str:
    """A statement as messages name it, with its location if that is a line of Python."""
    return f"`{site.text}`" + (f" at {site.path}:{site.line}" if site.line is not None else "")


def kind_of(ref: Ref) -> str:
    """The kind of a reference's target, in one word."""
    match ref:
        case LoopRef():
            return "loop"
        case BlockRef():
            return "block"
        case BufferRef():
            return "buffer"


def moved(forward: Forward, ref: Ref) -> Ref:
    """A reference after a renaming."""
    to = forward.get(ref, ref)
    return ref if isinstance(to, Gone) else to


def composed(first: Forward, renaming: Forward) -> Forward:
    """The composition of a rewrite's mapping of handles and a subsequent renaming."""
    both = {
        old: Gone(to.by, tuple(moved(renaming, r) for r in to.into)) if isinstance(to, Gone) else moved(renaming, to)
        for old, to in first.items()
    }
    return {**renaming, **both}
