"""A sketch over arrays of decisions: drawn, checked and evaluated, many candidates at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mslang.ir.arith import compile_arrays
from mslang.ir.arith.convert import read_decision
from mslang.ir.arith.domain import factor_limits
from mslang.ir.arith.size import symbol_factor
from mslang.ir.arith.table import all_values
from mslang.ir.expr import Expr
from mslang.schedule import distribution
from mslang.schedule.batch.draw import draw_of
from mslang.schedule.batch.layout import DecisionBatch, Layout, batch_of, empty, layout_of
from mslang.schedule.batch.membership import member_of
from mslang.schedule.batch.random_words import Stream, mixed
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Number, Tile, Values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mslang.schedule.sketch import Sketch

ROWS = 8192
"""So many candidates are computed at a time, so that what is computed stays in the cache."""

UNSET = -(1 << 62)
"""A number that no decision has."""

NO_SIZES: Mapping[str, int] = MappingProxyType({})

Evaluator = Callable[[DecisionBatch], "list[NDArray[Any]]"]
"""Gives an array for each expression, one value a candidate; not to be written to."""


class SketchBatch:
    """A sketch compiled for arrays of decisions; `Sketch.batch()` gives it.

    Example:
        >>> many = sketch.batch()
        >>> drawn = many.draw(10_000, seed=1)
        >>> valid = drawn[many.valid(drawn)]
        >>> program = sketch.instantiate(valid.row(0))
    """

    def __init__(self, sketch: Sketch) -> None:
        self.decisions = sketch.decisions
        self.layout: Layout = layout_of(sketch.decisions)
        self._guards = sketch.guards
        self._constraints = sketch.constraints

    def __repr__(self) -> str:
        return f"<batch of {len(self.decisions)} decisions in {self.layout.width} columns>"

    # ------------------------------------------------------------------ making batches
    def draw(self, n: int, seed: int, start: int = 0) -> DecisionBatch:
        """Draw candidates, each decision from its distribution.

        Row `k` depends on the seed and on `start + k` only: a batch drawn in parts, or on another machine, is the same.
        Drawn candidates may break guards and constraints; a decision that has no value is drawn as zeros, which
        `valid` rejects.

        Args:
            n: how many.
            seed: the seed.
            start: the number of the first.
        """
        import numpy as np

        out = empty(self.layout, n)
        for at in range(0, n, ROWS):
            part = out[at : at + ROWS]
            rows = np.arange(start + at, start + at + len(part), dtype=np.uint64)
            before: dict[str, NDArray[np.int64]] = {}
            for decision, slot, draw in self._draws:
                part.array[:, slot.columns] = draw(Stream(seed, decision.address, rows), before)
                before |= {name: part.array[:, k] for k, name in self._named(slot.columns)}
        return out

    @cached_property
    def _draws(self) -> list[tuple[Decision, Any, Any]]:
        return [(d, s, draw_of(d, s)) for d, s in zip(self.decisions, self.layout.slots, strict=True)]

    def repaired(self, batch: DecisionBatch, seed: int, start: int = 0) -> DecisionBatch:
        """Candidates whose numbers are all in the domains of their decisions: those that are not are drawn again.

        Args:
            batch: numbers in the layout of this sketch; `UNSET` where a number is to be drawn.
            seed: the seed of what is drawn.
            start: the number of the first row; row `k` depends on `start + k`.
        """
        import numpy as np

        out = DecisionBatch(self.layout, batch.array.copy(order="F"))
        columns = out.columns()
        with np.errstate(divide="ignore", over="ignore"):
            for (decision, slot, draw), (at, member) in zip(self._draws, self._members, strict=True):
                bad = np.flatnonzero(~member(out.array[:, at], columns))
                if not len(bad):
                    continue
                rows = (bad + start).astype(np.uint64)
                before = {name: c[bad] for name, c in columns.items()} if depends(decision) else {}
                out.array[bad, slot.columns] = draw(Stream(seed, decision.address, rows), before)
        return out

    def _named(self, columns: slice) -> list[tuple[int, str]]:
        return [(k, self.layout.names[k]) for k in range(columns.start, columns.stop)]

    def of(self, rows: Iterable[Values]) -> DecisionBatch:
        """The batch of candidates given by their values, as `Sketch.instantiate` takes them.

        Raises:
            ScheduleError: MS217, a decision has no value, or one of another width.
        """
        return batch_of(self.layout, rows)

    def all(self) -> DecisionBatch | None:
        """Every decision vector once, in a fixed order, those that guards and constraints reject included.

        None where there are more than 300,000, or their number is not known.

        Example:
            >>> every = many.all()
            >>> valid = every[many.valid(every)]
        """
        import numpy as np

        domains = (d.domain if d.given is not None else distribution.drawn(d.domain) for d in self.decisions)
        found = all_values(tuple(read_decision(d.address, x) for d, x in zip(self.decisions, domains, strict=True)))
        if found is None:
            return None
        n = len(next(iter(found.values()))) if found else 1
        out = empty(self.layout, n)
        for k, name in enumerate(self.layout.names):
            out.array[:, k] = found[name]
        for decision, slot, draw in self._draws:
            if decision.given is not None:
                kept = draw(Stream(0, decision.address, np.zeros(len(out), np.uint64)), out.columns())
                out = out[(out.array[:, slot.columns] == kept).all(axis=1)]
        return out

    def row(self, batch: DecisionBatch, k: int) -> dict[str, Number]:
        """The values of one candidate, as `Sketch.instantiate` takes them."""
        return batch.row(k)

    # ------------------------------------------------------------------ validity
    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why a candidate may not be valid, in the order in which `Sketch.violation` asks."""
        domains = (f"{d.address}: not a value of its domain" for d in self.decisions)
        return (*domains, *("another structure" for _ in self._guards), *(c.why for c in self._constraints))

    @cached_property
    def _conditions(self) -> Evaluator:
        return self.compile([*(g.question.condition for g in self._guards), *(c.condition for c in self._constraints)])

    @cached_property
    def _members(self) -> list[tuple[slice, Any]]:
        return [(s.columns, member_of(d.domain)) for d, s in zip(self.decisions, self.layout.slots, strict=True)]

    def _holding(self, batch: DecisionBatch) -> list[NDArray[np.bool_]]:
        """For each of `reasons` the candidates that it does not reject."""
        import numpy as np

        columns = batch.columns()
        with np.errstate(divide="ignore", over="ignore"):
            members = [member(batch.array[:, at], columns) for at, member in self._members]
        guards, found = len(self._guards), self._conditions(batch)
        answers = [x == g.answer for x, g in zip(found[:guards], self._guards, strict=True)]
        return [*members, *answers, *found[guards:]]

    def valid(self, batch: DecisionBatch) -> NDArray[np.bool_]:
        """Whether each candidate is one of the sketch: in all domains, with its guards and constraints."""
        import numpy as np

        out = np.ones(len(batch), np.bool_)
        for at in range(0, len(batch), ROWS):
            for holds in self._holding(batch[at : at + ROWS]):
                out[at : at + ROWS] &= holds
        return out

    def members(self, batch: DecisionBatch) -> NDArray[np.bool_]:
        """Whether each candidate's numbers are in the domains of their decisions, apart from guards and constraints."""
        import numpy as np

        columns = batch.columns()
        out = np.ones(len(batch), np.bool_)
        with np.errstate(divide="ignore", over="ignore"):
            for at, member in self._members:
                out &= member(batch.array[:, at], columns)
        return out

    def violation(self, batch: DecisionBatch) -> NDArray[np.int64]:
        """The first of `reasons` that rejects each candidate, by its number; -1 for valid ones."""
        import numpy as np

        out = np.full(len(batch), -1, np.int64)
        for at in range(0, len(batch), ROWS):
            part = out[at : at + ROWS]
            for k, holds in enumerate(self._holding(batch[at : at + ROWS])):
                part[(part < 0) & ~holds] = k
        return out

    def violations(self, batch: DecisionBatch) -> dict[str, int]:
        """How many candidates each reason rejects, by the first that does; most frequent first."""
        import numpy as np

        found = self.violation(batch)
        counts = np.bincount(found[found >= 0], minlength=len(self.reasons))
        out: dict[str, int] = {}
        for why, n in zip(self.reasons, counts.tolist(), strict=True):
            out[why] = out.get(why, 0) + n
        return dict(sorted(((w, n) for w, n in out.items() if n), key=lambda x: -x[1]))

    # ------------------------------------------------------------------ expressions
    def compile(self, exprs: Sequence[Expr], sizes: Mapping[str, int] = NO_SIZES) -> Evaluator:
        """A function that evaluates expressions over the decisions for each candidate of a batch.

        Args:
            exprs: index expressions over the symbols of the decisions, and of sizes known only at the call.
            sizes: the values of these, by name.

        Raises:
            MsError: MS391, an expression cannot be computed of arrays; or, where the function is called, a size has no
                value.
        """
        compiled = compile_arrays(exprs)

        def run(batch: DecisionBatch) -> list[NDArray[Any]]:
            return compiled.rows({**batch.columns(), **sizes}, len(batch))

        return run

    def evaluate(
        self, exprs: Sequence[Expr], batch: DecisionBatch, sizes: Mapping[str, int] = NO_SIZES
    ) -> list[NDArray[Any]]:
        """The values of expressions for each candidate; see `compile`, which compiles them once for many batches."""
        return self.compile(exprs, sizes)(batch)

    # ------------------------------------------------------------------ counting and telling apart
    def counts(self) -> dict[str, int]:
        """The number of values of each decision whose domain depends on no other decision, by address."""
        free = (d for d in self.decisions if not distribution.depends_on(d.domain))
        return {d.address: 1 if d.given is not None else distribution.count(d.domain, {}) for d in free}

    def keys(self, batch: DecisionBatch) -> NDArray[np.uint64]:
        """A key for each candidate, equal for equal ones.

        Keys of different candidates of the domains differ where `exact_keys`; otherwise two are equal by chance, with a
        probability of 2**-64.
        """
        import numpy as np

        out = np.zeros(len(batch), np.uint64)
        for k, low, bits in self._key_columns:
            number = (batch.array[:, k] - low).view(np.uint64)
            out = out << np.uint64(bits) | number if self.exact_keys else mixed(out ^ (number + np.uint64(k + 1)))
        return out

    @property
    def exact_keys(self) -> bool:
        """Whether keys tell all candidates apart."""
        return sum(bits for _, _, bits in self._key_columns) <= 64

    @cached_property
    def _key_columns(self) -> list[tuple[int, int, int]]:
        """The columns that the others do not imply: their number, least value, and the bits that tell values apart."""
        out: list[tuple[int, int, int]] = []
        for d, slot in zip(self.decisions, self.layout.slots, strict=True):
            implied = isinstance(d.domain, Tile)
            decision = read_decision(d.address, d.domain)
            for k in range(1 if implied else 0, slot.width):
                low, high = factor_limits(symbol_factor(decision, k if slot.tile else None))
                bits = 64 if low is None or high is None else (high - low).bit_length()
                if bits:
                    out.append((slot.start + k, low or 0, bits))
        return out


def depends(decision: Decision) -> bool:
    """Whether the values of a decision depend on other decisions."""
    return bool(distribution.depends_on(decision.domain))
