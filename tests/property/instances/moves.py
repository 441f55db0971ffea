"""Moves: a primitive with arguments for what a schedule's program holds now. Each is proposed, and may be refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mslang.ir.expr import Const, Expr
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Block, Buffer, For, Stmt, Store
from mslang.ir.visit import bodies, free_vars, walk
from mslang.schedule.handles import Handle
from mslang.schedule.schedule import Schedule
from mslang.schedule.values import Size
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef


class Call(msgspec.Struct, frozen=True):
    """A primitive's arguments."""

    args: tuple[Any, ...]
    named: Mapping[str, Any] = {}


Proposal = Callable[["Board"], Call | None]
"""Arguments of one primitive; None where the program has no place for it."""


class Board:
    """What can be named in a schedule's program, and decisions to use as sizes."""

    def __init__(self, rng: random.Random, schedule: Schedule) -> None:
        self.rng, self.schedule = rng, schedule
        self.known: list[tuple[str, Any]] = []
        self.samplers: list[str] = []
        self.used: list[str] = []
        self.look()

    def look(self) -> None:
        """See the program as it is now."""
        self.program = self.schedule.parametric
        self.statements: list[Stmt] = list(walk(self.program.body))
        self.blocks = [s for s in self.statements if isinstance(s, Block)]
        # A loop in the body of a block that holds no blocks is no schedule's business: text has no name for it.
        self.loops = [s for s in self.statements if isinstance(s, For) and self.below(s)]
        self.buffers: dict[str, Buffer] = dict(all_buffers(self.program))
        self.allocated = {b.name for b in self.program.allocs}
        self.used = []

    # ------------------------------------------------------------------ things
    def coin(self, chance: float = 0.5) -> bool:
        """True as often as `chance` says."""
        return self.rng.random() < chance

    def handle(self, thing: Block | For | str) -> Handle:
        """The handle of a block, a loop, or a buffer by its name."""
        match thing:
            case Block(name=name):
                return self.schedule.session.handles.handle(BlockRef(name))
            case For(var=var):
                return self.schedule.session.handles.handle(LoopRef(var))
            case str():
                return self.schedule.session.handles.handle(BufferRef(thing))

    def block(self, fits: Callable[[Block], bool] = lambda b: True) -> Block | None:
        """A block that fits; seldom another."""
        found = [b for b in self.blocks if fits(b)]
        if self.blocks and self.coin(0.03):
            return self.rng.choice(self.blocks)
        return self.rng.choice(found) if found else None

    def loop(self, fits: Callable[[For], bool] = lambda s: True) -> For | None:
        """A loop that fits; seldom another."""
        found = [s for s in self.loops if fits(s)]
        if self.loops and self.coin(0.03):
            return self.rng.choice(self.loops)
        return self.rng.choice(found) if found else None

    def above(self, b: Block) -> list[For]:
        """The loops around a block, outermost first, up to the block around it."""
        path = path_to_block(self.program, b.name) or ()
        found: list[For] = []
        for s in path[:-1]:
            found = [] if isinstance(s, Block) else [*found, s] if isinstance(s, For) else found
        return found

    def lists(self) -> list[tuple[Stmt, ...]]:
        """Every list of statements, but for those in blocks that hold no blocks."""
        every = (self.program.body, *(x for s in self.statements for x in bodies(s)))
        return [x for x in every if all(self.below(s) for s in x)]

    def below(self, s: Stmt) -> list[Block]:
        """The blocks in a statement, those in blocks left out."""
        return [x for x in walk((s,), into_blocks=False) if isinstance(x, Block)]

    def touched(self, b: Block, write: bool) -> str | None:
        """A buffer that a block writes or reads."""
        names = [r.buffer for r in (b.writes if write else b.reads)]
        return self.rng.choice(names) if names else None

    def extent(self, s: For) -> int | None:
        """The iterations of a loop, if they are a number."""
        return int(s.extent.value) if isinstance(s.extent, Const) else None

    def serves(self, s: For, kind: str) -> bool:
        """Whether an axis of a kind depends on the loop."""
        return any(a.kind == kind and s.var in free_vars(a.binding) for b in self.below(s) for a in b.axes)

    def scope(self) -> str:
        """A storage scope of a CPU."""
        return self.rng.choice(["global", "local"])

    # ------------------------------------------------------------------ sizes
    def size(self, most: int = 6) -> Any:
        """A number from 1 to `most`, a new decision, or one from before."""
        roll = self.rng.random()
        if roll < 0.5:
            return self.rng.randint(1, most)
        if roll < 0.65 and self.known:
            sampler, value = self.rng.choice(self.known)
            self.used.append(sampler)
            return value
        low = self.rng.randint(1, most)
        if roll < 0.82:
            values = sorted({low, self.rng.randint(1, most)})
            return self.decided("choose", lambda name: self.schedule.choose(values, name=name))
        high = self.rng.randint(low, most) + 1
        return self.decided("uniform", lambda name: self.schedule.uniform(low, high, name=name))

    def decided(self, sampler: str, make: Callable[[str], Any]) -> Any:
        """A new decision; a size of it may be used again."""
        self.samplers.append(sampler)
        value = make(f"size{len(self.samplers)}")
        self.used.append(sampler)
        sizes = value if isinstance(value, tuple) else (value,)
        self.known += [(sampler, s) for s in sizes if isinstance(s, Size | int)]
        return value

    def factors(self, s: For) -> Sequence[Any]:
        """Sizes for the loops that are to take the place of one."""
        rng, loop = self.rng, self.handle(s)
        n, most = rng.choice([2, 2, 2, 3]), rng.choice([2, 4, 8, 64])
        match rng.choice(["number", "number", "large", "tile", "tile", "tile", "perfect", "parts", "size", "size"]):
            case "large":
                return rng.choice([[None, 16], [None, 100], [100, None], [None, 9, 2]])
            case "tile":
                given = list(self.decided("tile", lambda name: self.schedule.tile(loop, n, most, name=name)))
                return [None, *given[1:]] if self.coin(0.3) else given
            case "perfect":
                return list(
                    self.decided("perfect_tile", lambda name: self.schedule.perfect_tile(loop, n, most, name=name))
                )
            case "parts":
                count = self.extent(s) or 1
                divides = rng.choice([k for k in range(1, count + 1) if count % k == 0])
                at = rng.randrange(n)
                return list(
                    self.decided(
                        "partitioned_tile", lambda name: self.schedule.partitioned_tile(loop, n, at, divides, name=name)
                    )
                )
            case "size":
                one = self.size(8)
                return rng.choice([[None, one], [one, None], [None, one, 2]])
        return rng.choice([[None, 2], [None, 3], [None, 4], [2, None], [3, None], [None, 2, 2], [None, 5], [None, 1]])

    def condition(self, s: For) -> Any:
        """A condition on sizes, decisions, or the loops around one."""
        outer = [x for b in self.below(s)[:1] for x in self.above(b)]
        at = next((k for k, x in enumerate(outer) if x is s), 0)
        picks: list[Any] = [self.coin()]
        for x in outer[:at]:
            var = self.handle(x)
            picks += [var < self.rng.randint(1, 3), var > self.rng.randint(0, 2), var % 2 == 0]
        for e in self.program.dynamic:
            size = Size(e)
            picks += [size % 2 == 0, size < 4, size == 3, size >= 2]
        picks += [v < self.rng.randint(1, 4) for _, v in self.known if isinstance(v, Size)]
        return self.rng.choice(picks[1:] if len(picks) > 1 and self.coin(0.9) else picks)


def formula(b: Block) -> Expr | None:
    """What a block of one store stores."""
    return b.body[0].value if len(b.body) == 1 and isinstance(b.body[0], Store) else None
