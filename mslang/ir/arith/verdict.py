"""What is known of a question."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What is known of a question, for all values of its variables and symbols: it holds for all, for none, for some
    only, or no proof was found."""

    PROVED = "proved"
    REFUTED = "refuted"
    DEPENDS = "depends"
    UNKNOWN = "unknown"

    @property
    def negated(self) -> Verdict:
        """The verdict on the negation."""
        return {Verdict.PROVED: Verdict.REFUTED, Verdict.REFUTED: Verdict.PROVED}.get(self, self)


def verdict(holds: bool) -> Verdict:
    """PROVED or REFUTED."""
    return Verdict.PROVED if holds else Verdict.REFUTED


def both(a: Verdict, b: Verdict) -> Verdict:
    """The verdict on `a and b`."""
    if Verdict.REFUTED in (a, b):
        return Verdict.REFUTED
    if a is Verdict.PROVED:
        return b
    return a if b is Verdict.PROVED else Verdict.UNKNOWN
