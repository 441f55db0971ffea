"""The reducers that primitives know: the built-in ones and those that packages register.

A package registers one by an entry point of the group `mslang.reducers` that names a `Reducer`:

    [project.entry-points."mslang.reducers"]
    logsumexp = "package.module:logsumexp"

It counts where the package is allowed (`mslang/extensions.py`).
"""

from __future__ import annotations

from functools import cache

from mslang.extensions import REDUCERS, allowed, loaded
from mslang.ir.reducers import BUILTIN, Extreme, Match, Reducer, combined, identity_of, match_reducer, new, so_far


def known_reducers() -> tuple[Reducer, ...]:
    """The built-in reducers, then those of allowed packages in the order of their names; one that cannot be loaded is
    left out (`mslang env` says why)."""
    return _known(allowed())


@cache
def _known(packages: frozenset[str]) -> tuple[Reducer, ...]:
    own = (e.value for e in loaded(REDUCERS, Reducer, packages)) if packages else ()
    return (*BUILTIN, *(r for r in own if isinstance(r, Reducer)))


__all__ = [
    "BUILTIN",
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
