"""The sketches of the language page: every primitive in them is accepted with all sizes open, and keeps the meaning."""

import pytest

from mslang.backend.reference import interpret
from mslang.ir.arith.domain import rows
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Choice, Const, FreeTile, PerfectTile, Symbol
from mslang.ir.operators import maximum, select
from mslang.ir.program import For, Program
from mslang.ir.verify import verify
from mslang.ir.visit import walk
from mslang.transform.analysis.axes import axis_loop
from mslang.transform.outcome import BlockRef, BufferRef, Gone, LoopRef
from mslang.transform.registry import IMPLEMENTATIONS
from mslang.transform.rename import rename
from tests.property.strategies import random_inputs
from tests.unit.transform.programs import outline


class Steps:
    """Applies primitives one after the other, following handles."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.moved: dict[object, object] = {}
        self.symbols: list[Symbol] = []

    def __call__(self, op: str, *args: object, names: str = "", **more: object):
        follow = [self.now(a) if not isinstance(a, list) else [self.now(x) for x in a] for a in args]
        outcome = IMPLEMENTATIONS[op](self.program, *follow, **more)
        self.program = outcome.program
        self.moved |= outcome.forward
        handles = outcome.handles
        if names:
            renamed = rename(self.program, dict(zip(outcome.handles, names.split(), strict=True)))
            self.program, handles = renamed.program, renamed.handles
        assert not verify(self.program), (op, verify(self.program))
        return handles[0] if len(handles) == 1 else handles

    def now(self, handle: object) -> object:
        while handle in self.moved and not isinstance(self.moved[handle], Gone):
            handle = self.moved[handle]
        return handle

    def tile(self, address: str, block: str, axis: str, n: int, domain=PerfectTile) -> tuple[LoopRef, list[Symbol]]:
        loop = axis_loop(self.program, self.now(BlockRef(block)), axis)
        extent = next(s.extent for s in walk(self.program.body) if isinstance(s, For) and s.var == loop.name)
        found = [Symbol(address, domain(extent, n), k) for k in range(n)]
        self.symbols.append(found[0])
        return loop, found

    def split(self, address: str, block: str, axis: str, n: int, names: str, domain=PerfectTile):
        loop, sizes = self.tile(address, block, axis, n, domain)
        return self("split", loop, sizes, names=names)

    def check(self, before: Program, draws: int = 8) -> None:
        arrays = random_inputs(before, 1)
        expected = interpret.run(before, arrays)
        for k in range(draws):
            values = {s.name: rows(s.domain)[(k * 7 + len(s.name)) % len(rows(s.domain))] for s in self.symbols}
            found = interpret.run(
                self.program,
                arrays,
                sizes={s.name: values[s.name] if s.position is not None else values[s.name][0] for s in self.symbols},
            )
            assert all((expected[n] == found[n]).all() for n in expected), values


def matmul(m: int, n: int, k: int) -> Program:
    b = ProgramBuilder("matmul")
    a, w, c = b.input("A", (m, k)), b.input("B", (k, n)), b.output("C", (m, n))
    with b.block("mm", spatial("i", m), spatial("j", n), reduce("k", k)) as (i, j, z):
        c[i, j] += a[i, z] * w[z, j]
    return b.finish()


@pytest.mark.parametrize("domain", [PerfectTile, FreeTile])
@pytest.mark.parametrize("cached", [False, True])
def test_the_matmul_sketch(domain, cached):
    p = matmul(12, 8, 6) if domain is PerfectTile else matmul(5, 4, 3)
    s = Steps(p)
    mm = BlockRef("mm")
    i0, i1, i2, i3 = s.split("ti", "mm", "i", 4, "i0 i1 i2 i3", domain)
    j0, j1, j2, j3 = s.split("tj", "mm", "j", 4, "j0 j1 j2 j3", domain)
    k0, k1 = s.split("tk", "mm", "k", 2, "k0 k1", domain)
    s("reorder", [i0, j0, i1, j1, k0, i2, j2, k1, i3, j3])
    if cached:
        acc = s("cache_write", mm, BufferRef("C"), "local")
        s("reverse_compute_at", acc, j1)
    unroll = Symbol("unroll", Choice((0, 16, 64, 512)))
    s.symbols.append(unroll)
    outer = s("fuse", [i0, j0])
    s("parallel", outer)
    s("vectorize", j3)
    s("unroll", k1, max_steps=unroll)
    s("decompose_reduction", mm, k0)
    text = outline(s.program)
    assert text.startswith("i0_j0_fused in 0+ti[0] * tj[0] @ parallel\n") or "i0_j0_fused" in text
    assert "mm_init[" in text and "mm_update[" in text
    s.check(p)


def conv2d(h: int, w: int, ci: int, co: int) -> Program:
    b = ProgramBuilder("conv2d_bias_relu")
    x, f, bias = b.input("x", (1, h, w, ci)), b.input("f", (3, 3, ci, co)), b.input("bias", (co,))
    y = b.output("y", (1, h, w, co))
    xp, acc = b.alloc("xp", (1, h + 2, w + 2, ci)), b.alloc("acc", (1, h, w, co))
    biased = b.alloc("biased", (1, h, w, co))
    with b.block("pad", spatial("n", 1), spatial("h", h + 2), spatial("w", w + 2), spatial("c", ci)) as (n, i, j, c):
        inside = (i >= 1) & (i < h + 1) & (j >= 1) & (j < w + 1)
        xp[n, i, j, c] = select(inside, x[n, i - 1, j - 1, c], 0.0)
    with b.block(
        "conv",
        spatial("n", 1),
        spatial("h", h),
        spatial("w", w),
        spatial("co", co),
        reduce("r", 3),
        reduce("s", 3),
        reduce("ci", ci),
    ) as (n, i, j, o, r, t, c):
        acc[n, i, j, o] += xp[n, i + r, j + t, c] * f[r, t, c, o]
    with b.block("add", spatial("n", 1), spatial("h", h), spatial("w", w), spatial("co", co)) as (n, i, j, o):
        biased[n, i, j, o] = acc[n, i, j, o] + bias[o]
    with b.block("relu", spatial("n", 1), spatial("h", h), spatial("w", w), spatial("co", co)) as (n, i, j, o):
        y[n, i, j, o] = maximum(biased[n, i, j, o], 0.0)
    return b.finish()


@pytest.mark.parametrize("pad_at", [None, "outer", "w0"])
@pytest.mark.parametrize("domain", [PerfectTile, FreeTile])
def test_the_conv2d_sketch(pad_at, domain):
    p = conv2d(4, 4, 2, 4) if domain is PerfectTile else conv2d(3, 3, 2, 4)
    s = Steps(p)
    relu, conv = BlockRef("relu"), BlockRef("conv")
    s("compute_inline", BlockRef("add"))
    h0, h1 = s.split("th", "relu", "h", 2, "h0 h1", domain)
    w0, w1 = s.split("tw", "relu", "w", 2, "w0 w1", domain)
    c0, c1 = s("split", axis_loop(s.program, relu, "co"), [None, Const(2)], names="c0 c1")
    n = axis_loop(s.program, relu, "n")
    s("reorder", [n, h0, c0, w0, h1, w1, c1])
    outer = s("fuse", [n, h0, c0], names="outer")
    s("parallel", outer)
    s("compute_at", conv, w0)
    ci0, ci1 = s.split("tci", "conv", "ci", 2, "ci0 ci1", domain)
    axis = {a: axis_loop(s.program, conv, a) for a in ("r", "s", "h", "w", "co")}
    s("reorder", [ci0, axis["r"], axis["s"], ci1, axis["h"], axis["w"], axis["co"]])
    s("vectorize", axis["co"])
    s("unroll", axis["w"])
    packed = s("cache_read", conv, BufferRef("f"), "global")
    s("compute_at", packed, outer)
    if pad_at is not None:
        s("compute_at", BlockRef("pad"), {"outer": outer, "w0": w0}[pad_at])
    s("vectorize", c1)
    s("unroll", w1)
    s("decompose_reduction", conv, ci0)
    s.check(p)
