"""The draft: how long candidates take by estimate, from what they do and what the machine can do; it needs no data.

It ranks thousands of candidates before anything has been measured, and is a feature of the models that learn. Its
seconds are those of a nominal machine: only their order means something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mslang.schedule.sketch import Sketch
from mslang.search.cpu_draft import cpu_seconds
from mslang.search.float_arrays import FloatEvaluator
from mslang.search.formulas import Formula, Formulas
from mslang.search.gpu_draft import gpu_seconds
from mslang.search.summaries import summary_of
from mslang.target.description import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.schedule.batch.layout import DecisionBatch


def draft_formula(f: Formulas, sketch: Sketch, target: Target) -> Formula:
    """The estimate of a sketch's candidates in seconds: the roofline of a CPU, or of a GPU if the target has threads.

    Raises:
        MsError, TargetError: as `summary_of`.
    """
    summary = summary_of(sketch.program, target)
    estimate = gpu_seconds if target.has_threads else cpu_seconds
    return estimate(f, summary, sketch.decisions, target)


class Draft:
    """The estimates of one sketch's candidates.

    Args:
        sketch: the sketch.
        target: the machine.

    Raises:
        MsError, TargetError: as `summary_of`.

    Example:
        >>> draft = Draft(sketch, host())
        >>> best = np.argsort(draft.seconds(batch))[:64]
    """

    def __init__(self, sketch: Sketch, target: Target) -> None:
        f = Formulas()
        self._evaluator = FloatEvaluator(f, [draft_formula(f, sketch, target)])

    def seconds(self, batch: DecisionBatch) -> NDArray[np.float64]:
        """The estimate for each candidate in seconds: float64 of shape (candidates,)."""
        import numpy as np

        return self._evaluator.column(batch).astype(np.float64)
