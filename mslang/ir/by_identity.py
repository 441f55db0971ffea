"""Results kept for the very objects that they were computed from.

`functools.lru_cache` looks a nest of statements up by equality: where an equal nest that is another object is kept,
each look-up compares the two to their leaves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def by_identity(size: int) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """A decorator for a function of one value that never changes.

    Args:
        size: how many results are kept; when there are as many, all are dropped.

    Example:
        >>> @by_identity(size=2)
        ... def length(names: tuple[str, ...]) -> int:
        ...     return len(names)
        >>> length(("i", "j"))
        2
    """

    def decorated(function: Callable[[T], R]) -> Callable[[T], R]:
        kept: dict[int, tuple[T, R]] = {}

        @functools.wraps(function)
        def found(value: T) -> R:
            # What is kept holds its object, so that no other one can have its identity.
            known = kept.get(id(value))
            if known is not None:
                return known[1]
            made = function(value)
            if len(kept) >= size:
                kept.clear()
            kept[id(value)] = value, made
            return made

        return found

    return decorated
