"""The one error currency: a diagnostic with a stable code, a span, what is wrong, why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

import msgspec

from mslang.rendering import Texts, as_text


class Severity(StrEnum):
    """How much a diagnostic matters: errors stop, warnings do not, information explains."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


class Span(msgspec.Struct, frozen=True, order=True):
    """A half-open range of character offsets, `start <= offset < end`.

    Inside a syntax item offsets count from the item's start; in a `Diagnostic` that has
    left its item (`path` set, see `Diagnostic.placed`) they count from the file's start.
    """

    start: int
    end: int

    def shifted(self, by: int) -> Span:
        """The same range counted from a place `by` characters earlier."""
        return Span(self.start + by, self.end + by)

    def to(self, other: Span) -> Span:
        """The smallest span that holds both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


class Note(msgspec.Struct, frozen=True):
    """A further remark; with a span it points at text (of `path`, or of the diagnostic's own file)."""

    message: str
    span: Span | None = None
    path: str | None = None


class Fix(msgspec.Struct, frozen=True):
    """An edit that would mend the fault: replace `span` by `text`."""

    title: str
    span: Span
    text: str


class Diagnostic(msgspec.Struct, frozen=True):
    """One finding. `code` is stable (`MS` and three digits) and has a page (`mslang explain CODE`).

    `message` says what is wrong in one line, `why` the reason or the condition that failed,
    `help` what to do about it.
    """

    code: str
    message: str
    span: Span | None = None
    severity: Severity = Severity.ERROR
    why: str | None = None
    help: str | None = None
    notes: tuple[Note, ...] = ()
    fixes: tuple[Fix, ...] = ()
    path: str | None = None

    def __post_init__(self) -> None:
        # A value or a list that was quoted whole must not bury the message.
        for field, most in (("message", 400), ("why", 4000), ("help", 4000)):
            text = getattr(self, field)
            if text is not None and len(text) > most:
                msgspec.structs.force_setattr(self, field, f"{text[: most - 100]} … {text[-90:]}")

    def placed(self, path: str | None, start: int) -> Diagnostic:
        """The diagnostic with item-relative spans turned into offsets in the file `path`.

        A diagnostic that already names a path is returned as it is.
        """
        if self.path is not None:
            return self
        notes = tuple(
            msgspec.structs.replace(n, span=n.span.shifted(start)) if n.span is not None and n.path is None else n
            for n in self.notes
        )
        fixes = tuple(msgspec.structs.replace(f, span=f.span.shifted(start)) for f in self.fixes)
        span = self.span.shifted(start) if self.span is not None else None
        return msgspec.structs.replace(self, path=path, span=span, notes=notes, fixes=fixes)

    def at(self, span: Span) -> Diagnostic:
        """The diagnostic pointing at `span`, unless it already points somewhere."""
        return self if self.span is not None else msgspec.structs.replace(self, span=span)


class MsError(Exception):
    """The one exception family: it carries the diagnostics that explain it.

    `str(error)` is every diagnostic in full, as the command line prints it. `sources` are texts by path, for the lines
    that it quotes of what is in no file.
    """

    def __init__(self, *diagnostics: Diagnostic, sources: Mapping[str, str] | None = None) -> None:
        super().__init__("; ".join(d.message for d in diagnostics))
        self.diagnostics = diagnostics
        self.sources = sources

    def __str__(self) -> str:
        texts = Texts(self.sources)
        return "\n".join(as_text(d, texts) for d in self.diagnostics)

    def __reduce__(self) -> tuple[object, ...]:
        # An exception is else made again from its text alone: what a worker process raises would lose its diagnostics.
        return _made_again, (type(self), *self.diagnostics), self.__dict__

    @property
    def diagnostic(self) -> Diagnostic:
        """The first of the diagnostics."""
        return self.diagnostics[0]


def _made_again(kind: type[MsError], *diagnostics: Diagnostic) -> MsError:
    error = kind.__new__(kind)
    MsError.__init__(error, *diagnostics)
    return error


class SyntaxProblem(MsError):
    """Text that cannot be read."""


class ScheduleError(MsError):
    """A primitive or a sampling statement that is refused; the program is unchanged."""


class RequireFailed(ScheduleError):
    """A `require` that does not hold for the decisions drawn."""


class TargetError(MsError):
    """A target, compiler or device that is absent or cannot do what is asked (exit status 3)."""


def problem(
    code: str,
    message: str,
    *,
    why: str | None = None,
    help: str | None = None,
    span: Span | None = None,
    notes: tuple[Note, ...] = (),
    fixes: tuple[Fix, ...] = (),
) -> Diagnostic:
    """An error diagnostic, shortly."""
    return Diagnostic(code, message, span, Severity.ERROR, why, help, notes, fixes)


@contextmanager
def bounded_depth(what: object) -> Iterator[None]:
    """Raise MS705 if a text is nested so deeply that a traversal would exhaust the stack."""
    try:
        yield
    except RecursionError:
        raise MsError(
            problem(
                "MS705",
                f"{what} is nested too deeply",
                why="hundreds of operators or brackets stand inside each other",
                help="name parts of it with `let`",
            )
        ) from None
