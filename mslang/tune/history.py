"""What a search knows: the records of its run, those of others that need no second measurement, and the best so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec.structs import replace

from mslang.tune.progress import Tally
from mslang.tune.record import INCUMBENT, Outcome, Record
from mslang.tune.recording import lower_bound
from mslang.tune.sampling import CUT_OFF
from mslang.tune.verification import DENSE


class History:
    """The records of one run by candidate, and of earlier runs of the same machine.

    Args:
        cache: with which caches this search times; a record that was timed with others is not taken over.
    """

    def __init__(self, cache: Literal["warm", "cold"] | None) -> None:
        self._cache = cache
        self.tally = Tally()
        self.records: dict[str, Record] = {}
        """The last record of each candidate of this run."""
        self.unseen: dict[str, Record] = {}
        """The first record of each candidate that this run has not proposed again since it was resumed."""
        self._passed: dict[str, Record] = {}
        """Those that were counted all the same, as the run goes on otherwise than it began."""
        self.known: Mapping[str, Record] = {}
        """The last record of each candidate that other runs have tried."""
        self.reused: set[str] = set()
        """The candidates of which a record of another run was taken over."""
        self.best: Record | None = None
        """The fastest of this run, what it had on record when it was resumed included."""
        self.proposed = 0
        """Candidates of this run so far, in the order of the uninterrupted run."""
        self.since_better = 0
        """Trials since the best was found, as far as they were proposed: in the order of the uninterrupted run."""
        self._lowest: float | None = None
        """The lowest cost of these trials, as each was measured first."""

    def resume(self, records: Iterable[object]) -> None:
        """Count what this run has on record already."""
        for record in records:
            if not isinstance(record, Record):
                continue
            if record.trial == INCUMBENT and record.candidate not in self.records:
                continue  # it was not proposed
            # Finalists have several records, as they are measured again: the strategy was shown the first one, but the
            # last one counts.
            self.unseen.setdefault(record.candidate, record)
            self.records[record.candidate] = record
        for record in self.records.values():
            self.tally.add(record.result.outcome, record.result.reason)
        self.best = next(iter(self.fastest_first()), None)

    def replayed(self, hash: str) -> Record | None:
        """What the strategy was shown of a candidate before this run was resumed, which is now proposed again."""
        record = self.unseen.pop(hash, None)
        if record is None:
            return self._passed.pop(hash, None)
        known = self.known.get(hash)
        if known is not None and self._is_time(known):
            # It was taken over from another run, and measured again at the end.
            record = replace(record, result=known.result)
        self._count(record)
        return record

    def catch_up(self) -> None:
        """Count what is on record and was not proposed again: the run goes on otherwise than it began."""
        for record in self.unseen.values():
            self._count(record)
        self._passed |= self.unseen
        self.unseen.clear()

    def add(self, record: Record) -> bool:
        """Count a record of this run; whether it is better than the best so far."""
        self.tally.add(record.result.outcome, record.result.reason)
        self.records[record.candidate] = record
        self._count(record)
        better = _less(record.cost, self.best_cost)
        self.best = record if better else self.best
        return better

    def _count(self, record: Record) -> None:
        self.proposed += 1
        better = _less(record.cost, self._lowest)
        self._lowest = record.cost if better else self._lowest
        self.since_better = 0 if better else self.since_better + 1

    def needs_measuring(self, hash: str) -> bool:
        """Whether no record says all that is needed of a candidate."""
        return hash not in self.unseen and hash not in self._passed and self.reusable(hash) is None

    def reusable(self, hash: str) -> Record | None:
        """A record of this candidate that another run made on this machine, if it says all that is needed now."""
        known = self.known.get(hash)
        if known is None or self._is_time(known):
            return known
        if known.result.outcome is not Outcome.CUT_OFF or not self._same_caches(known):
            return None
        bound = lower_bound(known)
        cutoff = None if self.best_cost is None else CUT_OFF * self.best_cost
        return known if bound is not None and cutoff is not None and bound > cutoff else None

    def _is_time(self, record: Record) -> bool:
        """Whether a record has a time that this search would measure."""
        return record.result.outcome is Outcome.MEASURED and self._same_caches(record)

    def _same_caches(self, record: Record) -> bool:
        """Whether a record was timed with warm or cold caches as this search does."""
        return record.cold in (None, self._cache == "cold")

    @property
    def best_cost(self) -> float | None:
        """The cost of the best so far."""
        return None if self.best is None else self.best.cost

    def cost_of(self, hash: str) -> float:
        """The cost of a candidate; 0 where it has none."""
        record = self.records.get(hash)
        return 0.0 if record is None or record.cost is None else record.cost

    def fastest_first(self) -> list[Record]:
        """The records of this run that have a time."""
        return sorted((r for r in self.records.values() if r.cost is not None), key=lambda r: r.cost or 0.0)

    def confirmed_before(self, record: Record) -> bool:
        """Whether another run measured a candidate twice, so that this one need not."""
        return record.candidate in self.reused and any(v.inputs == DENSE for v in record.result.verified)


def _less(cost: float | None, best: float | None) -> bool:
    """Whether a cost is better than the best, either of which there may not be."""
    return cost is not None and (best is None or cost < best)
