"""Extractors of features by name: the built-in one, and those of installed packages that were allowed."""

from __future__ import annotations

from typing import cast

from mslang.extensions import allowed, load
from mslang.search.features.extractor import Extractor, PerStore

GROUP = "mslang.features"
"""The entry points that name a user's own extractors: values with a `name` and `rows`."""


def extractor_named(name: str | None = None) -> Extractor:
    """The extractor of a name; without one the built-in `per-store`.

    Raises:
        MsError: MS271, MS272, MS212 or MS213, it is that of a package and cannot be loaded.

    Example:
        >>> extractor_named().name
        'per-store'
    """
    if name in (None, PerStore.name):
        return PerStore()
    return cast(Extractor, load(GROUP, name or "", allowed()))
