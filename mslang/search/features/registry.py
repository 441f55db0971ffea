"""Extractors of features by name: the built-in one, and those of installed packages that were allowed."""

from __future__ import annotations

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
    if name is None or name == PerStore.name:
        return PerStore()
    found = load(GROUP, name, allowed(), Extractor)
    assert isinstance(found, Extractor)
    return found


def extractor_of(given: Extractor | str | None) -> Extractor:
    """The extractor that is given, or that of a name; see `extractor_named`.

    Example:
        >>> extractor_of(PerStore()).name
        'per-store'
    """
    return extractor_named(given) if given is None or isinstance(given, str) else given
