"""How diagnostics are made: errors and warnings at a node, and the error of an unknown name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mslang.diagnostics import Diagnostic, Fix, MsError, Note, Severity, Span
from mslang.ir.text import name_text
from mslang.suggestions import nearest
from mslang.syntax.tree import Node


def fault(
    code: str,
    at: Node | Span,
    message: str,
    *,
    why: str | None = None,
    help: str | None = None,
    notes: tuple[Note, ...] = (),
    fixes: tuple[Fix, ...] = (),
) -> Diagnostic:
    """An error diagnostic pointing at a node (or span)."""
    return Diagnostic(code, message, _span(at), Severity.ERROR, why, help, notes, fixes)


def warning(
    code: str,
    at: Node | Span,
    message: str,
    *,
    why: str | None = None,
    help: str | None = None,
    notes: tuple[Note, ...] = (),
    fixes: tuple[Fix, ...] = (),
) -> Diagnostic:
    """A warning pointing at a node (or span)."""
    return Diagnostic(code, message, _span(at), Severity.WARNING, why, help, notes, fixes)


def failure(
    code: str,
    at: Node | Span,
    message: str,
    *,
    why: str | None = None,
    help: str | None = None,
    notes: tuple[Note, ...] = (),
    fixes: tuple[Fix, ...] = (),
) -> MsError:
    """The `MsError` of one error diagnostic, to be raised."""
    return MsError(fault(code, at, message, why=why, help=help, notes=notes, fixes=fixes))


def path_text(name: str) -> str:
    """A dotted name as it is written, its parts in backticks where they need them."""
    return ".".join(map(name_text, name.split(".")))


def unknown(
    code: str,
    at: Node | Span,
    what: str,
    name: str,
    candidates: Iterable[str],
    *,
    help: str | None = None,
    why: str | None = None,
    of: str | None = None,
    written: Callable[[str], str] = path_text,
) -> Diagnostic:
    """An "unknown …" diagnostic with the nearest known name as help and as fix.

    Args:
        code: the code of the diagnostic.
        at: the place of the name, all of which the fix replaces.
        what: what sort of thing the name should be.
        name: the unknown name.
        candidates: the known names.
        help: help if no known name is near.
        why: the reason.
        of: what would have the name.
        written: the text of a known name at such a place.
    """
    close = nearest(name, candidates)
    message = f"unknown {what} `{name}`" + (f" of `{of}`" if of is not None else "")
    if close is None:
        return fault(code, at, message, help=help, why=why)
    fixes = (Fix(f"change to `{close}`", _span(at), written(close)),)
    return fault(code, at, message, help=f"did you mean `{close}`?", why=why, fixes=fixes)


def _span(at: Node | Span) -> Span:
    return at if isinstance(at, Span) else at.span
