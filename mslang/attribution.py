"""Whose error it is: an exception that a user's own code raises becomes a diagnostic that names this code.

What mslang calls of a user (a strategy, a cost model) is called within `attributed`. Exceptions of mslang's own classes
pass as they are: they are faults of mslang.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

from mslang.diagnostics import MsError, problem

_MSLANG = Path(__file__).parent


class ExtensionError(MsError):
    """A user's own code raised an exception, which is the cause (MS549)."""


@contextmanager
def attributed(kind: str, value: object, method: str = "") -> Iterator[None]:
    """Call a user's own code: an exception is reported as that code's.

    Args:
        kind: what the value is (`strategy`).
        value: what is called, or the object whose method is.
        method: the method's name; none where the value itself is called.

    Raises:
        ExtensionError: MS549, the code raised an exception that is no `MsError`, and is not mslang's.

    Example:
        >>> with attributed("strategy", strategy, "propose"):  # doctest: +SKIP
        ...     proposals = strategy.propose(16)
    """
    try:
        yield
    except (MsError, BrokenPipeError):
        raise
    except Exception as error:
        if name_of(value).partition(".")[0] == "mslang":
            raise
        raise ExtensionError(
            problem(
                "MS549",
                f"the {kind} `{name_of(value)}` failed{f' in `{method}`' if method else ''}",
                why=described(error, getattr(value, method, value) if method else value),
                help=f"correct the {kind}, or tune without it; every record so far is kept",
            )
        ) from error


def described(error: Exception, called: object) -> str:
    """An exception's type and message, and the line of the user's code that raised it.

    Args:
        error: the exception.
        called: what was called; its definition is named where none of the user's lines ran.
    """
    place = _raised_at(error) or _defined_at(called)
    return f"{type(error).__name__}: {error}" + (f" ({place})" if place else "")


def name_of(value: object) -> str:
    """The module and the name of a class or function, or of a value's class.

    >>> name_of(Path("a"))[:8], name_of(name_of)
    ('pathlib.', 'mslang.attribution.name_of')
    """
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"


def _raised_at(error: Exception) -> str | None:
    """The innermost line in the folder of the first code outside mslang: what a library raises is the caller's."""
    frames = [(Path(f.f_code.co_filename), line) for f, line in walk_tb(error.__traceback__)]
    entered = next((path.parent for path, _ in frames if _MSLANG not in path.parents), None)
    return next((f"{path}:{line}" for path, line in reversed(frames) if path.parent == entered), None)


def _defined_at(called: object) -> str | None:
    try:
        line = inspect.getsourcelines(called)[1]  # type: ignore[arg-type]
        return f"{inspect.getsourcefile(called)}:{line}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
