"""Random steps: a primitive and plausible arguments, drawn from what a program has.

A family of primitives adds its own in a module `tests/property/steps_<family>.py` that gives a `Family`;
`tests/property/families.py` joins them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.expr import Choice, Const, FreeTile, PerfectTile, Symbol
from mslang.ir.find import all_buffers, blocks_of, path_to_block, path_to_loop
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import walk
from mslang.transform.analysis.dependence import consumers, producers
from mslang.transform.analysis.position import loops_above
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef, Outcome
from mslang.transform.registry import IMPLEMENTATIONS

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A primitive's name and its arguments after the program."""

Maker = Callable[["Steps", Program], Step | None]
"""Draws arguments of one primitive that may be legal; None if the program has no place for it."""


SELDOM = 0.001
"""The weight of what pairs that are about it try: no other pair has a place for it."""


class Family(msgspec.Struct, frozen=True):
    """What a family of primitives brings to the campaign.

    `steps` draws their arguments, `weights` say how often each is tried, `programs` draws programs that have what they
    are for.
    """

    steps: Mapping[str, Maker]
    weights: Mapping[str, float]
    programs: tuple[Callable[[random.Random], Program], ...] = ()


def blocks(p: Program) -> list[str]:
    return [s.name for s in walk(p.body) if isinstance(s, Block)]


def loops(p: Program) -> list[For]:
    return [s for s in walk(p.body) if isinstance(s, For)]


class Steps:
    """Draws steps; tile sizes are numbers, or symbols (`symbolic`) whose values are drawn later."""

    scopes: Sequence[str] = ("global", "shared", "local")

    def __init__(
        self,
        rng: random.Random,
        symbolic: bool,
        wanted: Sequence[str] = tuple(IMPLEMENTATIONS),
        families: Mapping[str, Maker] = MappingProxyType({}),
    ) -> None:
        self.rng, self.symbolic, self.wanted, self.families = rng, symbolic, wanted, families
        self.symbols: dict[str, Callable[[random.Random], int | list[int]]] = {}

    def draw(self, p: Program) -> Step | None:
        """A step that may be legal or not."""
        return self.step(p, self.rng.choice(self.wanted))

    def step(self, p: Program, name: str) -> Step | None:
        """A step by a certain primitive, that may be legal or not."""
        if name in self.families and loops(p) and blocks(p):
            return self.families[name](self, p)
        maker = getattr(self, f"_{name}", None)
        return None if maker is None or not loops(p) or not blocks(p) else maker(p, name)

    def values(self, rng: random.Random) -> dict[str, int | list[int]]:
        """Values of the symbols that were used."""
        return {n: f(rng) for n, f in self.symbols.items()}

    def block(self, p: Program) -> BlockRef:
        return BlockRef(self.rng.choice(blocks(p)))

    def loop(self, p: Program) -> LoopRef:
        return LoopRef(self.rng.choice(loops(p)).var)

    def touched(self, p: Program, block: BlockRef, write: bool) -> BufferRef:
        found = next(s for s in walk(p.body) if isinstance(s, Block) and s.name == block.name)
        names = [r.buffer for r in (found.writes if write else found.reads)] or list(all_buffers(p))
        return BufferRef(self.rng.choice(names))

    def size(self, most: int) -> Any:
        """A size from 1 to `most`: a number, or a decision."""
        values = sorted({self.rng.randint(1, most), self.rng.randint(1, most)})
        if self.rng.random() < 0.5 or not self.symbolic:
            return Const(values[0])
        name = f"size{len(self.symbols)}"
        self.symbols[name] = lambda rng: rng.choice(values)
        return Symbol(name, Choice(tuple(values)))

    def factors(self, p: Program, loop: For) -> list[Any]:
        extent = loop.extent
        n = int(extent.value) if isinstance(extent, Const) else None
        if not self.symbolic or n is None or self.rng.random() < 0.3:
            return self.rng.choice([[None, Const(2)], [None, Const(3)], [Const(2), None], [None, Const(2), Const(2)]])
        name = f"size{len(self.symbols)}"
        match self.rng.choice(["perfect", "free", "choice"]):
            case "perfect":
                pairs = [[a, n // a] for a in range(1, n + 1) if n % a == 0]
                self.symbols[name] = lambda rng: rng.choice(pairs)
                return [Symbol(name, PerfectTile(extent, 2), k) for k in range(2)]
            case "free":
                self.symbols[name] = lambda rng: (lambda f: [-(-n // f), f])(rng.randint(1, n))
                return [None, Symbol(name, FreeTile(extent, 2), 1)]
        self.symbols[name] = lambda rng: rng.choice([1, 2, 3])
        return [None, Symbol(name, Choice((1, 2, 3)))]

    def _split(self, p: Program, name: str) -> Step:
        loop = self.rng.choice(loops(p))
        return name, (LoopRef(loop.var), self.factors(p, loop)), {}

    def _chain(self, p: Program) -> list[LoopRef]:
        loop = self.rng.choice(loops(p))
        chain = [loop]
        while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], For) and self.rng.random() < 0.8:
            chain.append(chain[-1].body[0])
        return [LoopRef(s.var) for s in chain]

    def _fuse(self, p: Program, name: str) -> Step:
        return name, (self._chain(p),), {}

    def _reorder(self, p: Program, name: str) -> Step:
        chain = self._chain(p)
        self.rng.shuffle(chain)
        return name, (chain,), {}

    def _on_loop(self, p: Program, name: str) -> Step:
        return name, (self.loop(p),), {}

    def _alone(self, p: Program, name: str) -> Step:
        """Mostly a loop that stands neither around nor inside of others that run at once in lanes or on cores."""
        marked = [s for s in loops(p) if s.kind in ("parallel", "vectorized")]
        above = [s for m in marked for s in (path_to_loop(p, m.var) or ())[:-1]]
        below = [s for m in marked for s in walk(m.body)]
        free = [s for s in loops(p) if not any(s is x for x in (*above, *below))]
        if not free or self.rng.random() < 0.1:
            return self._on_loop(p, name)
        return name, (LoopRef(self.rng.choice(free).var),), {}

    _parallel = _alone

    def _vectorize(self, p: Program, name: str) -> Step:
        _, loop, named = self._alone(p, name)
        return name, loop, {**named, "reduction": True} if self.rng.random() < 0.3 else named

    def _unroll(self, p: Program, name: str) -> Step:
        return name, (self.loop(p),), {"max_steps": self.rng.choice([None, Const(4), Const(16)])}

    def _add_unit_loop(self, p: Program, name: str) -> Step:
        return name, (self.loop(p) if self.rng.random() < 0.5 else self.block(p),), {}

    def _annotate(self, p: Program, name: str) -> Step:
        return name, (self.loop(p) if self.rng.random() < 0.5 else self.block(p), "note", self.rng.randint(0, 9)), {}

    def _unannotate(self, p: Program, name: str) -> Step | None:
        noted: list[BlockRef | LoopRef] = [LoopRef(s.var) for s in loops(p) if "note" in dict(s.annotations)]
        noted += [BlockRef(b.name) for b in blocks_of(p.body) if "note" in dict(b.annotations)]
        if not noted and self.rng.random() < 0.9:
            return None
        return name, (self.rng.choice(noted) if noted else self.block(p), "note"), {}

    def _set_scope(self, p: Program, name: str) -> Step:
        own = {b.name for b in p.allocs}
        found = [(b.name, r.buffer) for b in blocks_of(p.body) for r in b.writes if r.buffer in own]
        block, buffer = self.rng.choice(found) if found else (self.block(p).name, self.rng.choice(list(all_buffers(p))))
        return name, (BlockRef(block), BufferRef(buffer), self.rng.choice(["local", "global"])), {}

    def _compute_inline(self, p: Program, name: str) -> Step:
        return name, (self._likely(p, lambda b: bool(consumers(p, path_to_block(p, b.name))) and b.init is None),), {}

    def _reverse_compute_inline(self, p: Program, name: str) -> Step:
        return name, (self._likely(p, lambda b: bool(producers(p, path_to_block(p, b.name))) and b.init is None),), {}

    def _likely(self, p: Program, fits: Callable[[Block], bool]) -> BlockRef:
        """Mostly a block that fits, if there is one."""
        found = [b.name for b in blocks_of(p.body) if fits(b)]
        return BlockRef(self.rng.choice(found)) if found and self.rng.random() < 0.9 else self.block(p)

    def _compute_at(self, p: Program, name: str) -> Step:
        block, found = self.block(p), self.loop(p)
        path = path_to_block(p, block.name)
        others = (consumers if name == "compute_at" else producers)(p, path)
        near = [s for b in others for s in loops_above(path_to_block(p, b.name)) if s not in path]
        if near and self.rng.random() < 0.9:
            found = LoopRef(self.rng.choice(near).var)
        return name, (block, found), {"index": self.rng.choice([-1, -1, -2, 0, 1])}

    _reverse_compute_at = _compute_at

    def _decompose_reduction(self, p: Program, name: str) -> Step:
        block = self._likely(p, lambda b: b.init is not None)
        above = loops_above(path_to_block(p, block.name))
        return name, (block, LoopRef(self.rng.choice(above).var) if above else self.loop(p)), {}

    def _cache_read(self, p: Program, name: str) -> Step:
        block = self.block(p)
        buffer = self.touched(p, block, False)
        return name, (block, buffer, self.rng.choice(self.scopes)), {"consumers": self._readers(p, buffer)}

    def _cache_write(self, p: Program, name: str) -> Step:
        block = self.block(p)
        buffer = self.touched(p, block, True)
        return name, (block, buffer, self.rng.choice(["global", "local"])), {"consumers": self._readers(p, buffer)}

    def _readers(self, p: Program, buffer: BufferRef) -> list[BlockRef] | None:
        """Some of the blocks that read a buffer and do not write it; mostly all, and seldom any block."""
        if self.rng.random() < 0.7:
            return None
        found = [
            BlockRef(b.name)
            for b in blocks_of(p.body)
            if any(r.buffer == buffer.name for r in b.reads) and all(w.buffer != buffer.name for w in b.writes)
        ]
        if self.rng.random() < 0.05:
            return [self.block(p)]
        return self.rng.sample(found, self.rng.randint(1, len(found))) if found else None


def apply(p: Program, step: Step) -> Outcome | None:
    """The outcome of a step, or None if it is refused."""
    name, args, named = step
    try:
        return IMPLEMENTATIONS[name](p, *args, **named)
    except MsError:
        return None


__all__ = ["Family", "Maker", "Step", "Steps", "apply", "blocks", "loops"]
