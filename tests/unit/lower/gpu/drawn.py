"""Random schedules for a GPU of small programs: steps are drawn, and those that a primitive refuses are left out."""

from __future__ import annotations

import random
from collections.abc import Callable

from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.schedule.handles import Handle
from mslang.schedule.schedule import Schedule
from mslang.sema.program import parse_program

PROGRAMS = (
    """program gemm(A: f32[12, 8], B: f32[8, 10], out C: f32[12, 10]) {
        block last[i: 12, j: 10 | k: 8] { init { C[i, j] = 0.0 } C[i, j] = C[i, j] + A[i, k] * B[k, j] }
    }""",
    """program rows(A: f32[6, 24], out B: f32[6, 24]) {
        alloc S: f32[6]
        block first[i: 6 | k: 24] { init { S[i] = 0.0 } S[i] = S[i] + A[i, k] }
        block last[i: 6, j: 24] { B[i, j] = A[i, j] - S[i] }
    }""",
    """program blur(A: f32[20, 9], out B: f32[18, 9]) {
        alloc T: f32[20, 9]
        block first[i: 20, j: 9] { T[i, j] = A[i, 8 - j] * 2.0 }
        block last[i: 18, j: 9] { B[i, j] = T[i, j] + T[i + 1, j] + T[i + 2, j] }
    }""",
    """program flip(A: f32[16, 12], out B: f32[12, 16]) {
        block last[i: 12, j: 16] { B[i, j] = A[j, i] + 1.0 }
    }""",
    """program conv(A: f32[2, 14], W: f32[3, 2], out C: f32[3, 12]) {
        block last[f: 3, x: 12 | c: 2, r: 3] { where c + r >= 0
            init { C[f, x] = 0.0 }
            C[f, x] = C[f, x] + A[c, x + r] * W[f, c] }
    }""",
)

BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


class Drawn:
    """One schedule while it is drawn; `own` is the scope of what threads have to themselves, `local` or `warp`."""

    def __init__(self, seed: int, own: str = "local") -> None:
        self.dice, self.own = random.Random(seed), own
        self.before = parse_program(self.dice.choice(PROGRAMS))
        self.s = Schedule(self.before)

    def attempt(self, *steps: Callable[[], object]) -> bool:
        """Do steps until one is refused."""
        try:
            for step in steps:
                step()
        except MsError:
            return False
        return True

    def tiled(self) -> None:
        """The output's loops split and bound."""
        s, dice = self.s, self.dice
        out = s.get("last")
        spatial, reduced = list(s.spatial_loops(out)), list(s.reduction_loops(out))
        parts: list[list[Handle]] = []
        for loop in spatial:
            count = dice.choice((1, 2, 2, 3, 4))
            factors = [None, *(dice.choice((2, 3, 4)) for _ in range(count - 1))]
            parts.append(list(s.split(loop, factors)) if count > 1 else [loop])
        inner: list[Handle] = []
        for loop in reduced:
            inner += s.split(loop, [None, dice.choice((2, 4, 8))]) if dice.random() < 0.7 else [loop]
        outer, middle, last = [], [], []
        for part in parts:
            outer.append(part[0])
            middle += part[1:-1]
            last += part[-1:] if len(part) > 1 else []
        order = [*outer, *middle, *last, *inner] if dice.random() < 0.7 else [*outer, *middle, *inner, *last]
        self.attempt(lambda: s.reorder(*order))
        blocks, threads = list(BLOCKS), list(THREADS)
        for loop in outer:
            if dice.random() < 0.85:
                self.attempt(lambda loop=loop: s.bind(loop, blocks.pop(0)))
        for loop in middle:
            kind = dice.choice(("vthread", "thread", "serial", "unrolled"))
            if kind == "vthread":
                self.attempt(lambda loop=loop: s.bind(loop, dice.choice(("vthread.x", "vthread.y"))))
            elif kind == "thread" and threads:
                self.attempt(lambda loop=loop: s.bind(loop, threads.pop(0)))
            elif kind == "unrolled":
                self.attempt(lambda loop=loop: s.unroll(loop))
        for loop in last:
            if threads and dice.random() < 0.8:
                self.attempt(lambda loop=loop: s.bind(loop, threads.pop(0)))
            elif dice.random() < 0.3:
                self.attempt(lambda loop=loop: s.vectorize(loop))
        if inner and dice.random() < 0.3:
            self.attempt(lambda: s.bind(inner[-1], dice.choice(THREADS)))

    def cached(self) -> None:
        """A buffer staged in shared or local memory, its copy shared out among threads."""
        s, dice = self.s, self.dice
        out = s.get("last")
        if dice.random() < 0.75:
            source = dice.choice(list(s.reads(out)))
            copy = s.cache_read(out, source, scope=dice.choice(("shared", "shared", self.own, "shared.dyn")))
            at = dice.choice(list(s.loops(out)))
            if self.attempt(lambda: s.compute_at(copy, at)):
                self.fetched(copy)
            else:
                self.bound(copy)
        else:
            copy = s.cache_write(out, s.writes(out)[0], scope=dice.choice((self.own, self.own, "shared")))
            self.attempt(lambda: s.reverse_compute_at(copy, dice.choice(list(s.loops(out)))))

    def fetched(self, block: Handle) -> None:
        """The loops of a copy fused, and cut into rounds, threads and vectors."""
        s, dice = self.s, self.dice
        if dice.random() < 0.2:
            return
        own = [x for x in s.spatial_loops(block) if len(s.children(x)) == 1]
        if not own:
            return
        names = dice.sample(THREADS[:2], dice.choice((1, 2)))
        factors = [None, *(dice.choice((2, 3, 4)) for _ in names), dice.choice((1, 2))]

        def share() -> None:
            flat = s.fuse(*own) if len(own) > 1 else own[0]
            _, *threads, lanes = s.split(flat, factors)
            for loop, name in zip(threads, names, strict=True):
                self.attempt(lambda loop=loop, name=name: s.bind(loop, name))
            self.attempt(lambda: s.vectorize(lanes))

        self.attempt(share)

    def bound(self, block: Handle) -> None:
        """The loops of another block bound, so that it is a kernel of its own."""
        loops, axes = list(self.s.loops(block)), [*BLOCKS[:1], *THREADS[:1]]
        for loop in loops:
            if axes and self.dice.random() < 0.8:
                self.attempt(lambda loop=loop: self.s.bind(loop, axes.pop(0)))

    def produced(self) -> None:
        """The first block in the loops of the output, or in a kernel of its own."""
        s, dice = self.s, self.dice
        first = s.get("first")
        buffer = s.writes(first)[0]
        if dice.random() < 0.7:
            self.attempt(lambda: s.set_scope(first, buffer, dice.choice(("shared", "shared", self.own, "global"))))
            if self.attempt(lambda: s.compute_at(first, dice.choice(list(s.loops(s.get("last")))))):
                self.fetched(first)
                for loop in s.reduction_loops(first):
                    if dice.random() < 0.6:
                        self.attempt(lambda loop=loop: s.bind(loop, dice.choice(THREADS)))
                return
        self.bound(first)

    def program(self) -> Program:
        """The program that was drawn."""
        steps: list[Callable[[], None]] = [self.tiled]
        later = [self.cached] * self.dice.randint(0, 3)
        if self.before.name in ("rows", "blur"):
            later.append(self.produced)
        self.dice.shuffle(later)
        for step in (*steps, *later):
            self.attempt(step)
        if self.dice.random() < 0.4:
            loops = list(self.s.loops(self.s.get("last")))
            copy = self.dice.choice((None, "cp_async"))
            for loop in loops:
                if self.attempt(lambda loop=loop: self.s.pipeline(loop, stages=self.dice.choice((2, 3)), copy=copy)):
                    break
        return self.s.program
