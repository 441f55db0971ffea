"""Random programs of a few stages, and random steps on them that mix all primitives of loops and blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mslang.backend.reference.interpret import run
from mslang.diagnostics import MsError
from mslang.ir.build import ProgramBuilder, Tensor, maximum, reduce, select, spatial
from mslang.ir.expr import Choice, Const, FreeTile, PerfectTile, Symbol
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import all_buffers, blocks_of, path_to_block, walk
from mslang.transform.dependence import consumers, producers
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef, Outcome
from mslang.transform.position import loops_above
from mslang.transform.registry import IMPLEMENTATIONS
from tests.property.strategies import difference, outputs_equal, random_inputs

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A primitive's name and its arguments after the program."""


# ------------------------------------------------------------------ programs
class _Stages:
    """Builds a program stage by stage; each stage reads what is there and writes a buffer of its own."""

    def __init__(self, rng: random.Random, length: int) -> None:
        self.rng, self.length = rng, length
        self.b = ProgramBuilder("p")
        self.there: list[Tensor] = []
        self.read: set[str] = set()
        self.made = 0

    def build(self) -> Program:
        n, m = self.rng.choice([4, 6, 7, 8]), self.rng.choice([3, 4, 6])
        self.there = [self.b.input("A", (n, m)), self.b.input("W", (m,))]
        kinds = [k for k in dir(self) if k.startswith("stage_")]
        while self.made < self.length:
            getattr(self, self.rng.choice(kinds))(self.made == self.length - 1)
        return self.b.finish()

    def pick(self, rank: int) -> Tensor | None:
        found = [t for t in self.there if len(t.buffer.shape) == rank]
        fresh = [t for t in found if t.buffer.name not in self.read]
        if not found:
            return None
        chosen = self.rng.choice(fresh if fresh and self.rng.random() < 0.8 else found)
        self.read.add(chosen.buffer.name)
        return chosen

    def out(self, shape: Sequence[int], last: bool) -> Tensor:
        made = (
            self.b.output(f"O{self.made}", shape)
            if last or self.rng.random() < 0.1
            else self.b.alloc(f"T{self.made}", shape)
        )
        self.there.append(made)
        self.made += 1
        return made

    @staticmethod
    def shape(t: Tensor) -> tuple[int, ...]:
        return tuple(int(n.value) for n in t.buffer.shape if isinstance(n, Const))

    def stage_map(self, last: bool) -> None:
        a = self.pick(self.rng.choice([1, 2]))
        if a is None:
            return
        shape = self.shape(a)
        same = [t for t in self.there if self.shape(t) == shape]
        o, c = self.rng.choice(same), self.out(shape, last)
        with self.b.block(f"b{self.made}", *(spatial(f"x{d}", n) for d, n in enumerate(shape))) as x:
            c[x] = a[x] + o[x] if self.rng.random() < 0.5 else maximum(a[x], 1.0)

    def stage_halo(self, last: bool) -> None:
        a = self.pick(2)
        if a is None or self.shape(a)[0] < 4:
            return
        n, m = self.shape(a)
        c = self.out((n - 2, m), last)
        with self.b.block(f"b{self.made}", spatial("i", n - 2), spatial("j", m)) as (i, j):
            c[i, j] = a[i, j] + a[i + 2, j]

    def stage_pad(self, last: bool) -> None:
        a = self.pick(2)
        if a is None or self.shape(a)[0] > 12:
            return
        n, m = self.shape(a)
        c = self.out((n + 2, m), last)
        with self.b.block(f"b{self.made}", spatial("i", n + 2), spatial("j", m)) as (i, j):
            c[i, j] = select((i >= 1) & (i < n + 1), a[i - 1, j], 0.0)

    def stage_stride(self, last: bool) -> None:
        a = self.pick(2)
        if a is None or self.shape(a)[0] < 4:
            return
        n, m = self.shape(a)
        c = self.out((n // 2, m), last)
        with self.b.block(f"b{self.made}", spatial("i", n // 2), spatial("j", m)) as (i, j):
            c[i, j] = a[i * 2, j] + a[i * 2 + 1, j]

    def stage_pool(self, last: bool) -> None:
        a = self.pick(2)
        if a is None or self.shape(a)[0] < 4:
            return
        n, m = self.shape(a)
        step = self.rng.choice([1, 2])
        c = self.out(((n - 2) // step, m), last)
        with self.b.block(f"b{self.made}", spatial("i", (n - 2) // step), spatial("j", m), reduce("r", 2)) as (i, j, r):
            c[i, j] += a[i * step + r, j]

    def stage_sum(self, last: bool) -> None:
        a = self.pick(2)
        if a is None:
            return
        n, m = self.shape(a)
        c = self.out((n,), last)
        with self.b.block(f"b{self.made}", spatial("i", n), reduce("k", m)) as (i, k):
            if self.rng.random() < 0.5:
                c[i] += a[i, k]
            else:
                c[i] = maximum(c[i], a[i, k])

    def stage_rows(self, last: bool) -> None:
        a = self.pick(2)
        if a is None:
            return
        rows = [t for t in self.there if self.shape(t) == self.shape(a)[:1]]
        if not rows:
            return
        r, c = self.rng.choice(rows), self.out(self.shape(a), last)
        n, m = self.shape(a)
        with self.b.block(f"b{self.made}", spatial("i", n), spatial("j", m)) as (i, j):
            c[i, j] = a[i, j] - r[i]

    def stage_turn(self, last: bool) -> None:
        a = self.pick(2)
        if a is None:
            return
        n, m = self.shape(a)
        c = self.out((m, n), last)
        with self.b.block(f"b{self.made}", spatial("i", m), spatial("j", n)) as (i, j):
            c[i, j] = a[j, i] + 1.0

    def stage_flat(self, last: bool) -> None:
        a = self.pick(2)
        if a is None or self.shape(a)[0] * self.shape(a)[1] > 48:
            return
        n, m = self.shape(a)
        c = self.out((n * m,), last)
        if self.rng.random() < 0.5:
            with self.b.block(f"b{self.made}", spatial("x", n * m)) as (x,):
                c[x] = a[x // m, x % m]
        else:
            with self.b.block(f"b{self.made}", spatial("i", n), spatial("j", m)) as (i, j):
                c[i * m + j] = a[i, j]

    def stage_fold(self, last: bool) -> None:
        a = self.pick(1)
        if a is None or self.shape(a)[0] % 2:
            return
        n = self.shape(a)[0] // 2
        c = self.out((n, 2), last)
        with self.b.block(f"b{self.made}", spatial("i", n), spatial("j", 2)) as (i, j):
            c[i, j] = a[i * 2 + j] + 2.0

    def stage_product(self, last: bool) -> None:
        a = self.pick(2)
        if a is None:
            return
        n, m = self.shape(a)
        others = [t for t in self.there if len(self.shape(t)) == 2 and self.shape(t)[1] == m]
        w = self.rng.choice(others)
        p = self.shape(w)[0]
        c = self.out((n, p), last)
        with self.b.block(f"b{self.made}", spatial("i", n), spatial("j", p), reduce("k", m)) as (i, j, k):
            c[i, j] += a[i, k] * w[j, k]


def random_program(rng: random.Random, length: int) -> Program:
    """A program of `length` stages."""
    return _Stages(rng, length).build()


# ------------------------------------------------------------------ steps
def blocks(p: Program) -> list[str]:
    return [s.name for s in walk(p.body) if isinstance(s, Block)]


def loops(p: Program) -> list[For]:
    return [s for s in walk(p.body) if isinstance(s, For)]


class Steps:
    """Draws steps; tile sizes are numbers, or symbols (`symbolic`) whose values are drawn later."""

    scopes: Sequence[str] = ("global", "shared", "local")

    def __init__(self, rng: random.Random, symbolic: bool, wanted: Sequence[str] = tuple(IMPLEMENTATIONS)) -> None:
        self.rng, self.symbolic, self.wanted = rng, symbolic, wanted
        self.symbols: dict[str, Callable[[random.Random], int | list[int]]] = {}

    def draw(self, p: Program) -> Step | None:
        """A step that may be legal or not."""
        return self.step(p, self.rng.choice(self.wanted))

    def step(self, p: Program, name: str) -> Step | None:
        """A step by a certain primitive, that may be legal or not."""
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

    _parallel = _vectorize = _on_loop

    def _unroll(self, p: Program, name: str) -> Step:
        return name, (self.loop(p),), {"max_steps": self.rng.choice([None, Const(4), Const(16)])}

    def _add_unit_loop(self, p: Program, name: str) -> Step:
        return name, (self.loop(p) if self.rng.random() < 0.5 else self.block(p),), {}

    def _annotate(self, p: Program, name: str) -> Step:
        return name, (self.loop(p) if self.rng.random() < 0.5 else self.block(p), "note", self.rng.randint(0, 9)), {}

    def _unannotate(self, p: Program, name: str) -> Step:
        noted: list[BlockRef | LoopRef] = [LoopRef(s.var) for s in loops(p) if "note" in dict(s.annotations)]
        noted += [BlockRef(b.name) for b in blocks_of(p.body) if "note" in dict(b.annotations)]
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
        chosen = None if self.rng.random() < 0.7 else [self.block(p)]
        return name, (block, self.touched(p, block, False), self.rng.choice(self.scopes)), {"consumers": chosen}

    def _cache_write(self, p: Program, name: str) -> Step:
        block = self.block(p)
        chosen = None if self.rng.random() < 0.7 else [self.block(p)]
        return name, (block, self.touched(p, block, True), self.rng.choice(["global", "local"])), {"consumers": chosen}


def apply(p: Program, step: Step) -> Outcome | None:
    """The outcome of a step, or None if it is refused."""
    name, args, named = step
    try:
        return IMPLEMENTATIONS[name](p, *args, **named)
    except MsError:
        return None


# ------------------------------------------------------------------ judging
def same_meaning(before: Program, after: Program, sizes: Mapping[str, int | list[int]], seed: int) -> None:
    """The interpreter accepts `after` and gets from it what it gets from `before`, bit for bit."""
    given = random_inputs(before, seed)
    want, got = run(before, given, check=False), run(after, given, sizes=sizes)
    assert outputs_equal(want, got), difference(want, got)


__all__ = ["Steps", "apply", "random_program", "same_meaning"]
