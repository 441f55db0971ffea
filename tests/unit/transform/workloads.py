"""Programs of several stages, for the primitives that move blocks."""

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.operators import call, maximum, select
from mslang.ir.program import Program


def blur(n: int = 10, m: int = 6) -> Program:
    """Two stages; the second reads rows i, i + 1 and i + 2 of the first."""
    b = ProgramBuilder("blur")
    a, t, o = b.input("A", (n, m + 2)), b.alloc("T", (n, m)), b.output("B", (n - 2, m))
    with b.block("bx", spatial("y", n), spatial("x", m)) as (y, x):
        t[y, x] = a[y, x] + a[y, x + 1] + a[y, x + 2]
    with b.block("by", spatial("y", n - 2), spatial("x", m)) as (y, x):
        o[y, x] = t[y, x] + t[y + 1, x] + t[y + 2, x]
    return b.finish()


def softmax(n: int = 6, m: int = 8) -> Program:
    """Row maxima, exponentials, sums, quotients."""
    b = ProgramBuilder("softmax")
    a, o = b.input("A", (n, m)), b.output("B", (n, m))
    top, e, total = b.alloc("M", (n,)), b.alloc("E", (n, m)), b.alloc("S", (n,))
    with b.block("top", spatial("i", n), reduce("k", m)) as (i, k):
        top[i] = maximum(top[i], a[i, k])
    with b.block("ex", spatial("i", n), spatial("j", m)) as (i, j):
        e[i, j] = call("exp", a[i, j] - top[i])
    with b.block("total", spatial("i", n), reduce("k", m)) as (i, k):
        total[i] += e[i, k]
    with b.block("norm", spatial("i", n), spatial("j", m)) as (i, j):
        o[i, j] = e[i, j] / total[i]
    return b.finish()


def conv2d(h: int = 6, w: int = 6, ci: int = 2, co: int = 4, stride: int = 1) -> Program:
    """Padding, a 3x3 convolution, bias, ReLU."""
    b = ProgramBuilder("conv2d")
    oh, ow = (h - 1) // stride + 1, (w - 1) // stride + 1
    x, f, bias = b.input("x", (h, w, ci)), b.input("f", (3, 3, ci, co)), b.input("bias", (co,))
    y = b.output("y", (oh, ow, co))
    xp, acc, biased = b.alloc("xp", (h + 2, w + 2, ci)), b.alloc("acc", (oh, ow, co)), b.alloc("biased", (oh, ow, co))
    with b.block("pad", spatial("h", h + 2), spatial("w", w + 2), spatial("c", ci)) as (i, j, c):
        inside = (i >= 1) & (i < h + 1) & (j >= 1) & (j < w + 1)
        xp[i, j, c] = select(inside, x[i - 1, j - 1, c], 0.0)
    with b.block(
        "conv", spatial("h", oh), spatial("w", ow), spatial("co", co), reduce("r", 3), reduce("s", 3), reduce("ci", ci)
    ) as (i, j, c, r, s, k):
        acc[i, j, c] += xp[i * stride + r, j * stride + s, k] * f[r, s, k, c]
    with b.block("add", spatial("h", oh), spatial("w", ow), spatial("co", co)) as (i, j, c):
        biased[i, j, c] = acc[i, j, c] + bias[c]
    with b.block("relu", spatial("h", oh), spatial("w", ow), spatial("co", co)) as (i, j, c):
        y[i, j, c] = maximum(biased[i, j, c], 0.0)
    return b.finish()


def diamond(n: int = 8) -> Program:
    """One producer with two consumers, whose results a fourth block joins."""
    b = ProgramBuilder("diamond")
    a, t, u, v = b.input("A", (n,)), b.alloc("T", (n,)), b.alloc("U", (n,)), b.alloc("V", (n,))
    o = b.output("B", (n,))
    with b.block("first", spatial("x", n)) as (x,):
        t[x] = a[x] + 1.0
    with b.block("left", spatial("x", n)) as (x,):
        u[x] = t[x] * 2.0
    with b.block("right", spatial("x", n)) as (x,):
        v[x] = t[x] * 3.0
    with b.block("join", spatial("x", n)) as (x,):
        o[x] = u[x] + v[x]
    return b.finish()


def two_sums(dead: bool = False) -> Program:
    """Two sums over one input. A last block copies the first; the second is an output, or read by nobody (`dead`)."""
    b = ProgramBuilder("sums")
    a, t, o = b.input("A", (6, 3)), b.alloc("T", (6,)), b.output("B", (6,))
    u = b.alloc("U", (6,)) if dead else b.output("U", (6,))
    with b.block("first", spatial("i", 6), reduce("k", 3)) as (i, k):
        t[i] += a[i, k]
    with b.block("second", spatial("i", 6), reduce("k", 3)) as (i, k):
        u[i] += a[i, k]
    with b.block("last", spatial("i", 6)) as (i,):
        o[i] = t[i]
    return b.finish()
