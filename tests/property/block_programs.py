"""Random programs of a few stages, and random steps on them that mix all primitives of loops and blocks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from mslang.backend.reference.interpret import run
from mslang.ir.build import ProgramBuilder, Tensor, reduce, spatial
from mslang.ir.expr import Const
from mslang.ir.operators import maximum, select
from mslang.ir.program import Program
from tests.property.arrays import difference, outputs_equal, random_inputs


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


# ------------------------------------------------------------------ judging
def same_meaning(before: Program, after: Program, sizes: Mapping[str, int | list[int]], seed: int) -> None:
    """The interpreter accepts `after` and gets from it what it gets from `before`, bit for bit."""
    given = random_inputs(before, seed)
    want, got = run(before, given, check=False), run(after, given, sizes=sizes)
    assert outputs_equal(want, got), difference(want, got)


__all__ = ["random_program", "same_meaning"]
