"""When a search stops: enough trials, enough time, or too long without getting better."""

from __future__ import annotations

import msgspec

CONFIRMING = 0.2
"""The share of the time kept for measuring the fastest candidates again."""


class Budget(msgspec.Struct, frozen=True):
    """Limits of one search; None sets none. `seconds` is wall time, `patience` trials without a better result.

    The time includes the preparation, and the second measurement of the fastest candidates.
    """

    trials: int | None = 64
    seconds: float | None = None
    patience: int | None = None

    def spent(self, trials: int, seconds: float, since_better: int) -> str | None:
        """Why the search is over, or None while it is not. `seconds` have passed since the start."""
        if self.trials is not None and trials >= self.trials:
            return f"{trials} {'trial' if trials == 1 else 'trials'} done"
        searching = self.searching
        if searching is not None and seconds >= searching:
            return self.time_is_up
        if self.patience is not None and since_better >= self.patience:
            return f"{since_better} trials without a better one"
        return None

    @property
    def searching(self) -> float | None:
        """Seconds from the start after which no new candidate is tried; the rest is for the second measurement."""
        return None if self.seconds is None else (1.0 - CONFIRMING) * self.seconds

    @property
    def time_is_up(self) -> str:
        """Why a search is over whose time is spent."""
        return f"the budget of {self.seconds:g} s is spent"


def parse_seconds(text: str) -> float:
    """`90`, `60s`, `5m`, `1h` in seconds; ValueError otherwise."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 1.0)
    value = float(number)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value * unit
