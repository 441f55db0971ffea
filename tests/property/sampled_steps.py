"""Steps of which sizes, orders and places are decisions of a schedule, drawn by its samplers and used again later."""

from __future__ import annotations

import random
from typing import Any

from mslang.ir.expr import Const
from mslang.ir.program import For, Program
from mslang.schedule.handles import Handle
from mslang.schedule.schedule import Schedule
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from tests.property import families
from tests.property.steps import Step, Steps

SAMPLERS = ("perfect_tile", "tile", "partitioned_tile", "choose", "uniform", "permute", "compute_location")

KINDS_OF_FACTORS = ("number", "number", "perfect", "free", "free", "partitioned", "size", "size", "earlier")
"""Seldom those that provably divide: what becomes of the tail is where the faults are."""


class SampledSteps(Steps):
    """Draws steps for a schedule. `given` are the samplers that the last step's arguments come from."""

    scopes = ("global", "local")

    def __init__(self, rng: random.Random, schedule: Schedule) -> None:
        super().__init__(rng, symbolic=True, families=families.STEPS)
        self.schedule = schedule
        self.drawn: list[str] = []
        self.given: list[str] = []
        self.earlier: list[tuple[str, Any]] = []

    def step(self, p: Program, name: str) -> Step | None:
        """A step by a certain primitive, that may be legal or not."""
        self.given = []
        made = super().step(p, name)
        if made is None:
            return None
        often, seldom = self.rng.random() < 0.35, self.rng.random() < 0.15
        match made:
            case "reorder", (chain,), named if often and len(chain) > 1:
                return name, (list(self._permuted([self.handle(s) for s in chain])),), named
            case "reorder_block_iter_var", (block, order), named if often and order:
                return name, (block, list(self._permuted(order))), named
            case "compute_at", (block, _), named if seldom:
                self._note("compute_location")
                return name, (block, self.schedule.compute_location(self.handle(block), name=self._address())), named
            case "annotate", (target, key, _), named if often:
                return name, (target, key, self.size(9)), named
            case "unroll", target, named if often:
                return name, target, named | {"max_steps": self.size(16)}
        return made

    def handle(self, ref: LoopRef | BlockRef | BufferRef) -> Handle:
        """The schedule's handle of a loop, block or buffer."""
        return self.schedule.session.handles.handle(ref)

    def size(self, most: int) -> Any:
        """A size from 1 to `most`: a number, a decision, or one that was made before."""
        first, second = sorted(self.rng.randint(1, most) for _ in range(2))
        match self.rng.choice(["number", "number", "choose", "uniform", "earlier"]):
            case "number":
                return first
            case "uniform":
                self._note("uniform")
                return self._kept(self.schedule.uniform(first, second + 1, name=self._address()))
            case "earlier" if self.earlier:
                return self._earlier()
        self._note("choose")
        return self._kept(self.schedule.choose(sorted({first, second}), name=self._address()))

    def factors(self, p: Program, loop: For) -> list[Any]:
        """Factors of a loop: numbers, a tile, or one size and a hole."""
        n = self.rng.randint(1, 3)
        match self.rng.choice(KINDS_OF_FACTORS):
            case "perfect":
                self._note("perfect_tile")
                most = self.rng.choice([2, 64])
                return self._tile(
                    self.schedule.perfect_tile(self.handle(LoopRef(loop.var)), n, most, name=self._address())
                )
            case "free":
                self._note("tile")
                most = self.rng.choice([4, 64])
                return self._tile(self.schedule.tile(self.handle(LoopRef(loop.var)), n, most, name=self._address()))
            case "partitioned":
                self._note("partitioned_tile")
                at, factor = self.rng.randint(0, n - 1), self._divisor(loop)
                handle = self.handle(LoopRef(loop.var))
                return self._tile(self.schedule.partitioned_tile(handle, n, at, factor, name=self._address()))
            case "size":
                width = self.size(5)
                return self.rng.choice([[None, width], [width, None]])
            case "earlier" if self.earlier:
                return self.rng.choice([[None, self._earlier()], [self._earlier(), None]])
        return self.rng.choice([[None, 2], [None, 3], [2, None], [None, 4], [None, 2, 2]])

    def _divisor(self, loop: For) -> int:
        """What provably divides a loop's extent."""
        n = int(loop.extent.value) if isinstance(loop.extent, Const) else 1
        return self.rng.choice([k for k in range(1, n + 1) if n % k == 0] or [1])

    def _permuted(self, things: list[Any]) -> tuple[Any, ...]:
        self._note("permute")
        return self.schedule.permute(things, name=self._address())

    def _tile(self, sizes: tuple[Any, ...]) -> list[Any]:
        self.earlier += [(self.drawn[-1], s) for s in sizes]
        return list(sizes)

    def _kept(self, size: Any) -> Any:
        self.earlier.append((self.drawn[-1], size))
        return size

    def _earlier(self) -> Any:
        sampler, size = self.rng.choice(self.earlier)
        self.given.append(sampler)
        return size

    def _note(self, sampler: str) -> None:
        """A sampler is about to be asked."""
        self.drawn.append(sampler)
        self.given.append(sampler)

    def _address(self) -> str:
        return f"d{len(self.drawn)}"
