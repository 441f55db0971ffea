"""Pairs of the short campaign that go wrong and are not mended yet, by what is wrong. Each goes when it is mended."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """A fault by name: what is wrong, and the pairs of the short campaign that show it."""

    name: str
    what: str
    pairs: tuple[tuple[str, int], ...]


OPEN: tuple[Finding, ...] = ()
