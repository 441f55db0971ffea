"""A fault to plant: one text in one file, replaced by another."""

from __future__ import annotations

import msgspec


class Planted(msgspec.Struct, frozen=True):
    """A fault: in `path` the text `right`, which stands there once, becomes `wrong`.

    `pair` is the number of a pair of the campaign by `generator` that showed it, in which half of the tries were of the
    primitives `only`: the first pair to look at. `caught_by` is a file of tests that catch what the campaign cannot;
    `needs` a feature of the processor without which the faulty code is not reached.
    """

    name: str
    path: str
    right: str
    wrong: str
    pair: int = 0
    needs: str | None = None
    only: tuple[str, ...] = ()
    generator: str = "stages"
    caught_by: str | None = None
