"""What makes features: the built-in extractor, and the protocol of a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from mslang.lower.summary import Summary
from mslang.schedule.sketch import Sketch
from mslang.search.features.ansor import Around, ansor_features
from mslang.search.features.buffers import Named
from mslang.search.features.machine import machine_features, target_features
from mslang.search.features.order import Ranked, ranked
from mslang.search.formulas import Formulas
from mslang.target.description import Target

STORES = 8
"""Statements of a sketch that have features: the heaviest ones."""


@runtime_checkable
class Extractor(Protocol):
    """Gives the features of a sketch as formulas over its decisions.

    `rows` has an entry for each of the sketch's stores, the heaviest first: features by name, the same names for every
    store of every sketch.

    Example:
        >>> class Trips:
        ...     name = "trips"
        ...
        ...     def rows(self, f, sketch, summary, target):
        ...         return [[("trips", f.expr(s.trips).slog())] for s in summary.statements]
    """

    name: str

    def rows(self, f: Formulas, sketch: Sketch, summary: Summary, target: Target) -> Sequence[Sequence[Named]]:
        """The features of a sketch, a row a store."""


class PerStore:
    """The built-in extractor: Ansor's groups, and what the machine makes of a statement."""

    name = "per-store"

    def rows(self, f: Formulas, sketch: Sketch, summary: Summary, target: Target) -> list[list[Named]]:
        """The features of the heaviest stores."""
        return [store_features(f, summary, x, target) for x in ranked(summary, sketch.decisions)[:STORES]]


def store_features(f: Formulas, summary: Summary, at: Ranked, target: Target) -> list[Named]:
    """All features of one statement of a summary by name."""
    s = summary.statements[at.statement]
    ordered = [s.accesses[k] for k in at.accesses]
    others = [o for o in summary.statements if o.nest == s.nest and o is not s]
    stored = next((b for b in summary.buffers if b.name == s.buffer), None)
    nest = summary.nests[s.nest]
    around = Around(ordered, others, stored, summary.line, target.has_threads)
    return [
        *ansor_features(f, s, around),
        *machine_features(f, s, nest, target),
        *target_features(f, target),
    ]
