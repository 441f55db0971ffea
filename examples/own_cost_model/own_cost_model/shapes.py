"""Features of one's own: the trip count and the lanes of each statement, two columns a store."""

from __future__ import annotations

from mslang.lower.summary import Summary
from mslang.schedule.sketch import Sketch
from mslang.search.formulas import Formula, Formulas
from mslang.target.description import Target


class Shapes:
    """An extractor; see `mslang.search.features.extractor.Extractor`."""

    name = "shapes"

    def rows(self, f: Formulas, sketch: Sketch, summary: Summary, target: Target) -> list[list[tuple[str, Formula]]]:
        """The features of each statement."""
        return [[("trips", f.expr(s.trips).slog()), ("lanes", f.expr(s.lanes).slog())] for s in summary.statements]


shapes = Shapes()
