"""The context of a running statement: its text, the names in scope, and the address of a decision there."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import Diagnostic, MsError, Note, ScheduleError, Span, problem
from mslang.schedule.handles import Handle, Site
from mslang.sema.module import Module
from mslang.syntax import tree


class Place(msgspec.Struct, frozen=True):
    """The item that statements belong to: its module (None: text without a module), its file and its offset there."""

    module: Module | None
    path: str | None
    start: int
    text: str = ""


class Address(msgspec.Struct, frozen=True):
    """The parts before and after a binder in the address of its decision. `closed` is true in an fn called
    without a `let`, which must not draw. `binder` is the `let` being evaluated."""

    prefix: str = ""
    suffix: str = ""
    binder: str | None = None
    closed: bool = False

    def of(self, name: str) -> str:
        """The address of a decision.

        Raises:
            ScheduleError: MS264, the fn was called without a `let`.
        """
        if self.closed:
            raise ScheduleError(
                problem(
                    "MS264",
                    "an fn that samples must be called under a `let`",
                    why="the binder is the first part of the addresses of its decisions",
                    help=f"write `let x = …`: this decision is then `x/{name}`",
                )
            )
        return f"{self.prefix}{name}{self.suffix}"

    def under(self, binder: str | None) -> Address:
        """The address of the right side of a `let`."""
        return replace(self, binder=binder)

    def at(self, element: str) -> Address:
        """The address inside an iteration."""
        return replace(self, suffix=f"{self.suffix}[{element}]")

    def called(self) -> Address:
        """The address inside an fn that is called here."""
        if self.closed or self.binder is None:
            return Address(closed=True)
        return Address(prefix=f"{self.of(self.binder)}/")


class Frame:
    """The names of a running body. `for` bodies and branches share their item's names; comprehensions do not."""

    def __init__(self, place: Place, names: dict[str, object] | None = None, address: Address | None = None) -> None:
        self.place = place
        self.names: dict[str, object] = {} if names is None else names
        self.address = address or Address()

    def with_address(self, address: Address) -> Frame:
        """The same names at another address."""
        return Frame(self.place, self.names, address)

    def inner(self, names: dict[str, object], address: Address) -> Frame:
        """A nested frame with more names."""
        return Frame(self.place, {**self.names, **names}, address)

    def site(self, node: tree.Node) -> Site:
        """The site of a node."""
        raw = self.place.text[node.span.start : node.span.end]
        return Site(
            " ".join(raw.split()) or type(node).__name__.lower(), self.place.path, node.span.shifted(self.place.start)
        )

    def blame(self, error: MsError, span: Span) -> MsError:
        """The error located at `span`, unless it already points into this text; an inner call is added as a note."""
        kind = type(error) if isinstance(error, ScheduleError) else ScheduleError
        here = span.shifted(self.place.start)
        made = MsError.__new__(kind)
        made.__dict__.update(error.__dict__)
        MsError.__init__(made, *(self._blamed(d, span, here) for d in error.diagnostics))
        return made

    def _blamed(self, d: Diagnostic, span: Span, here: Span) -> Diagnostic:
        path = self.place.path or ""
        if d.path is None:
            return d.at(span).placed(path, self.place.start)
        known = [(d.path, d.span), *((n.path, n.span) for n in d.notes)]
        if any(p == path and s is not None and here.start <= s.start and s.end <= here.end for p, s in known):
            return d
        return replace(d, notes=(*d.notes, Note("called from here", here, path)))


def element_name(value: object, index: int) -> str:
    """The label of a list's element in an address: its name, or its value."""
    match value:
        case Handle(name=name):
            return name
        case bool() | int() | str():
            return str(value)
    return str(index)
