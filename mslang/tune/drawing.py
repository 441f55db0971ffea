"""Distinct candidates of a space in the order that a seed gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mslang.ir.equal import structural_hash
from mslang.schedule.space import Candidate, Rejection, Space
from mslang.tune.progress import Tally
from mslang.tune.record import Outcome

DRAWS_WITHOUT_NEWS = 2000
"""After so many draws in a row that gave nothing new, the space counts as exhausted."""

DUPLICATES_PER_CANDIDATE = 16
"""After so many duplicates in a row for each known candidate, too."""

LEAST_DUPLICATES = 64
"""But not before so many."""


class Distinct(NamedTuple):
    """A candidate that differs from all drawn before, its hash, and its place in the order."""

    candidate: Candidate
    hash: str
    number: int


def distinct_candidates(
    space: Space,
    seed: int,
    tally: Tally,
    done: frozenset[str] = frozenset(),
    over: Callable[[], bool] = lambda: False,
) -> Iterator[Distinct]:
    """Distinct valid candidates in the order that `seed` gives; ends when no new ones come any more.

    Draws that give no candidate are counted in `tally`, except those that are `done` (hashes of programs). A structure
    that is refused for all values is counted once: later draws of it are none. `over` ends the sequence.
    """
    known: set[str] = set()
    dead: set[object] = set()
    number = without_news = duplicates = attempt = 0
    while without_news < DRAWS_WITHOUT_NEWS and not over():
        drawn = space.attempt(seed, attempt)
        attempt += 1
        without_news += 1
        if isinstance(drawn, Rejection):
            if not drawn.illegal:
                tally.add(Outcome.CONSTRAINT, drawn.reason)
            elif drawn.structure not in dead:
                dead.add(drawn.structure)
                tally.add(Outcome.ILLEGAL, _never_legal(drawn))
                if not drawn.structure:
                    # The schedule has no other structure.
                    return
            continue
        hash = structural_hash(drawn.program)
        if hash in known:
            tally.add(Outcome.DUPLICATE)
            duplicates += 1
            if duplicates >= max(LEAST_DUPLICATES, DUPLICATES_PER_CANDIDATE * len(known)):
                return
            continue
        known.add(hash)
        without_news = duplicates = 0
        if hash not in done:
            yield Distinct(drawn, hash, number)
        number += 1
        if not drawn.sketch.open:
            # There is nothing to choose, so there is no other candidate.
            return


def _never_legal(rejection: Rejection) -> str:
    """Why no draw of a structure is a candidate, with the cases that lead to it."""
    cases = ", ".join(f"{address} = {label}" for address, label in rejection.structure)
    return f"with {cases} no draw is legal: {rejection.reason}" if cases else f"no draw is legal: {rejection.reason}"
