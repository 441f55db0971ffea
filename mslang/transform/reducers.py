"""The reducers that primitives know: the built-in ones and those that packages register.

A package registers one by an entry point of the group `mslang.reducers` that names a `Reducer`:

    [project.entry-points."mslang.reducers"]
    logsumexp = "package.module:logsumexp"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from mslang.ir.reducers import BUILTIN, Extreme, Match, Reducer, combined, identity_of, match_reducer, new, so_far

GROUP = "mslang.reducers"
"""The group of entry points that name reducers."""


@cache
def known_reducers() -> tuple[Reducer, ...]:
    """The built-in reducers, then those of installed packages in the order of their names.

    Raises:
        TypeError: an entry point names something else.
    """
    found: list[Reducer] = list(BUILTIN)
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        reducer = point.load()
        if not isinstance(reducer, Reducer):
            raise TypeError(f"entry point {point.name!r} of {GROUP} names no Reducer: {reducer!r}")
        found.append(reducer)
    return tuple(found)


__all__ = [
    "BUILTIN",
    "GROUP",
    "Extreme",
    "Match",
    "Reducer",
    "combined",
    "identity_of",
    "known_reducers",
    "match_reducer",
    "new",
    "so_far",
]
