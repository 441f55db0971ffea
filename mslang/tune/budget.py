"""When a search stops: enough trials, enough time, or too long without getting better."""

from __future__ import annotations

import msgspec


class Budget(msgspec.Struct, frozen=True):
    """Limits of one search; None sets none. `seconds` is wall time, `patience` trials without a better result."""

    trials: int | None = 64
    seconds: float | None = None
    patience: int | None = None

    def spent(self, trials: int, seconds: float, since_better: int) -> str | None:
        """Why the search is over, or None while it is not."""
        if self.trials is not None and trials >= self.trials:
            return f"{trials} trials done"
        if self.seconds is not None and seconds >= self.seconds:
            return f"the budget of {self.seconds:g} s is spent"
        if self.patience is not None and since_better >= self.patience:
            return f"{since_better} trials without a better one"
        return None


def parse_seconds(text: str) -> float:
    """`90`, `60s`, `5m`, `1h` in seconds; ValueError otherwise."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text and text[-1] in units else (text, 1.0)
    value = float(number)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value * unit
