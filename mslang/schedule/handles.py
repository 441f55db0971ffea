"""Handles: what a schedule calls loops, blocks and buffers by, followed through every rewrite."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mslang.diagnostics import Diagnostic, Note, ScheduleError, Span, problem
from mslang.ir.program import Program
from mslang.ir.visit import contents
from mslang.transform.outcome import BlockRef, BufferRef, Forward, Gone, LoopRef
from mslang.transform.outcome import Handle as Ref


class Handle(msgspec.Struct, frozen=True):
    """An opaque handle. `kind` is "loop", "block" or "buffer"; `name` is what it was called when it was made."""

    number: int
    kind: str
    name: str

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


class Site(msgspec.Struct, frozen=True):
    """Where a statement stands: its text in short, and its place in a file if it has one: an offset in a `.ms` file,
    a line of a Python file."""

    text: str
    path: str | None = None
    span: Span | None = None
    line: int | None = None


class Death(msgspec.Struct, frozen=True):
    """Why a handle is dead: the statement that consumed it, and the handles of what came in its place."""

    site: Site
    into: tuple[Handle, ...] = ()


class HandleTable:
    """Which handles there are, what each stands for now, and how the dead ones died."""

    def __init__(self) -> None:
        self._state: dict[int, Ref | Death] = {}
        self._of: dict[Ref, Handle] = {}
        self._bound: dict[int, str] = {}
        self._made: list[Handle] = []

    def handle(self, ref: Ref) -> Handle:
        """The handle of a thing of the current program, made if it has none yet."""
        known = self._of.get(ref)
        if known is not None:
            return known
        made = Handle(len(self._made), kind_of(ref), ref.name)
        self._made.append(made)
        self._state[made.number] = ref
        self._of[ref] = made
        return made

    def bind(self, handle: Handle, name: str) -> None:
        """Note the name by which a trace refers to a handle."""
        self._bound[handle.number] = name

    def bound(self, handle: Handle) -> str | None:
        """The name by which a trace refers to a handle, if it has one."""
        return self._bound.get(handle.number)

    def resolve(self, handle: Handle) -> Ref:
        """What a handle stands for now.

        Raises:
            ScheduleError: MS211, it was consumed; MS203, it is another schedule's.
        """
        if not isinstance(handle, Handle):
            raise ScheduleError(problem("MS203", f"{handle!r} is not a handle", help="`schedule.get(name)` gives one"))
        if handle.number >= len(self._made) or self._made[handle.number] != handle:
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
        """What became of a dead handle: who consumed it and what came in its place, and so on to what lives."""
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
        """Whether a handle still stands for something."""
        return not isinstance(self._state[handle.number], Death)

    def live(self) -> Iterator[tuple[Handle, Ref]]:
        """Every handle that still stands for something."""
        return ((h, r) for r, h in self._of.items())

    def follow(self, forward: Forward, site: Site, program: Program) -> None:
        """Carry every handle through a rewrite; one whose thing is not in `program` any more is dead."""
        inside = [contents(s) for s in program.body]
        there = {
            LoopRef: frozenset[str]().union(*(c.loops for c in inside)),
            BlockRef: frozenset[str]().union(*(c.blocks for c in inside)),
            BufferRef: frozenset[str]().union(
                (q.buffer.name for q in program.params), (b.name for b in program.allocs), *(c.buffers for c in inside)
            ),
        }
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
    """A statement as a message names it, with its place where that is a line of Python."""
    return f"`{site.text}`" + (f" at {site.path}:{site.line}" if site.line is not None else "")


def kind_of(ref: Ref) -> str:
    """What a reference is of, in a word."""
    match ref:
        case LoopRef():
            return "loop"
        case BlockRef():
            return "block"
        case BufferRef():
            return "buffer"


def moved(forward: Forward, ref: Ref) -> Ref:
    """Where a renaming moved a reference."""
    to = forward.get(ref, ref)
    return ref if isinstance(to, Gone) else to


def composed(first: Forward, renaming: Forward) -> Forward:
    """Where handles go by a rewrite and a renaming after it."""
    both = {
        old: Gone(to.by, tuple(moved(renaming, r) for r in to.into)) if isinstance(to, Gone) else moved(renaming, to)
        for old, to in first.items()
    }
    return {**renaming, **both}
