"""The evaluation of formulas: float32 arrays, a few thousand candidates at a time, in buffers that are used again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mslang.ir.arith import compile_arrays
from mslang.search.formulas import Formula, Formulas, Step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.schedule.batch.layout import DecisionBatch

    Rows = NDArray[np.float32]

ROWS = 8192
"""So many candidates are computed at a time. Fewer fit closer caches, but then the calls of NumPy cost more than that
gains: drafts of a product are computed at 2.8, 4.4 and 6.3 million a second with 2048, 4096 and 8192 rows."""

PADDING = 16
"""Numbers between two columns in memory, so that the columns of one candidate do not share a cache set."""


class FloatEvaluator:
    """Formulas compiled to operations of arrays, a column each; steps that none of them needs are left out.

    Args:
        formulas: what has made them.
        results: the formulas, in the order of the columns.
    """

    def __init__(self, formulas: Formulas, results: Sequence[Formula]) -> None:
        import numpy as np

        self.width = len(results)
        steps = _needed(formulas.steps, results)
        used = {id(x) for s in steps for x in s.args} | {id(r) for r in results}
        self._columns = [(name, id(x)) for name, x in formulas.columns.items() if id(x) in used]
        exact = {e: x for e, x in formulas.exact.items() if id(x) in used}
        self._exact = compile_arrays(list(exact))
        self._exact_values = [id(x) for x in exact.values()]
        self._fixed = [(k, r.constant) for k, r in enumerate(results) if r.constant is not None]
        made = {id(s.made) for s in steps}
        self._results: dict[int, list[int]] = {}
        for k, r in enumerate(results):
            if r.constant is None:
                self._results.setdefault(id(r), []).append(k)
        self._place = {v: ks[0] for v, ks in self._results.items() if v in made}
        self._taken, self._registers = _registers(steps, frozenset(self._place))
        self._constants = {
            id(x): np.bool_(x.constant) if x.truth else np.float32(x.constant)
            for s in steps
            for x in s.args
            if x.constant is not None
        }
        self._steps: list[tuple[Any, tuple[int, ...], int, tuple[int, ...]]] = [
            (None if s.function == "where" else getattr(np, s.function), tuple(map(id, s.args)), id(s.made), dead)
            for s, dead in zip(steps, _dead(steps, results), strict=True)
        ]
        self._kept = formulas  # the values are named by identity

    @property
    def operations(self) -> int:
        """Operations of arrays for a batch of at most `ROWS` rows."""
        return len(self._steps)

    def rows(self, batch: DecisionBatch) -> Rows:
        """The values, float32 of shape (candidates, formulas), row by row in memory."""
        import numpy as np

        out = np.empty((len(batch), self.width), np.float32)
        for start, part in self._parts(batch):
            out[start : start + part.shape[1]] = part.T
        return out

    def column(self, batch: DecisionBatch) -> Rows:
        """The values of the only formula, float32 of shape (candidates,)."""
        import numpy as np

        out = np.empty(len(batch), np.float32)
        for start, part in self._parts(batch):
            out[start : start + part.shape[1]] = part[0]
        return out

    def of_columns(self, columns: dict[str, float]) -> list[float]:
        """The values for one candidate, whose decisions are given by column."""
        import numpy as np

        given = {name: np.array([v]) for name, v in columns.items()}
        scratch = np.empty((self.width, 1 + PADDING), np.float32)
        with np.errstate(all="ignore"):
            return [float(x) for x in self._run(given, 1, scratch, self._buffers(1))[:, 0]]

    def _parts(self, batch: DecisionBatch) -> Any:
        import numpy as np

        columns = batch.columns()
        most = min(len(batch), ROWS)
        scratch = np.empty((self.width, most + PADDING), np.float32)
        buffers = self._buffers(most)
        with np.errstate(all="ignore"):
            for start in range(0, len(batch), ROWS):
                n = min(ROWS, len(batch) - start)
                given = {name: x[start : start + n] for name, x in columns.items()}
                yield start, self._run(given, n, scratch, buffers)

    def _buffers(self, rows: int) -> list[Any]:
        import numpy as np

        return [np.empty(rows, np.bool_ if truth else np.float32) for truth, _ in self._registers]

    def _run(self, columns: dict[str, Any], n: int, scratch: Rows, buffers: list[Any]) -> Rows:
        import numpy as np

        values: dict[int, Any] = dict(self._constants)
        for name, value in self._columns:
            values[value] = columns[name].astype(np.float32)
        if self._exact_values:
            found = self._exact(dict(columns))
            values.update(zip(self._exact_values, (x.astype(np.float32) for x in found), strict=True))
        out = scratch[:, :n]
        cut = [b[:n] for b in buffers]
        for function, args, target, dead in self._steps:
            taken = [values[a] for a in args]
            if function is None:
                values[target] = np.where(*taken)
            else:
                place = self._place.get(target)
                into = cut[self._taken[target]] if place is None else out[place]
                values[target] = function(*taken, out=into)
            for a in dead:
                del values[a]
        for value, places in self._results.items():
            for k in places:
                if values[value] is not out[k]:
                    out[k] = values[value]
        for k, constant in self._fixed:
            out[k] = constant
        return out


def _needed(steps: Sequence[Step], results: Sequence[Formula]) -> list[Step]:
    wanted = {id(r) for r in results}
    out = []
    for s in reversed(steps):
        if id(s.made) in wanted:
            out.append(s)
            wanted.update(map(id, s.args))
    return out[::-1]


def _dead(steps: Sequence[Step], results: Sequence[Formula]) -> list[tuple[int, ...]]:
    """After each step the arrays that `where` has made and nothing uses any more."""
    kept = {id(r) for r in results}
    last = {id(a): k for k, s in enumerate(steps) for a in s.args}
    out: list[list[int]] = [[] for _ in steps]
    for s in steps:
        made = id(s.made)
        if s.function == "where" and made not in kept:
            out[last[made]].append(made)
    return [tuple(x) for x in out]


def _registers(steps: Sequence[Step], placed: frozenset[int]) -> tuple[dict[int, int], list[tuple[bool, int]]]:
    """A buffer for each value that has no place in the results, free again after its last use."""
    last = {id(a): k for k, s in enumerate(steps) for a in s.args}
    free: dict[bool, list[int]] = {True: [], False: []}
    registers: list[tuple[bool, int]] = []
    taken: dict[int, int] = {}
    for k, s in enumerate(steps):
        made = id(s.made)
        if made not in placed and s.function != "where":
            if not free[s.made.truth]:
                free[s.made.truth].append(len(registers))
                registers.append((s.made.truth, len(registers)))
            taken[made] = free[s.made.truth].pop()
        for a in dict.fromkeys(s.args):
            if id(a) in taken and last[id(a)] == k:
                free[a.truth].append(taken[id(a)])
    return taken, registers
