"""Small kernels for GPUs, built by hand, so that what is printed depends on the last passes alone."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mslang.backend.cuda.source import Source, never
from mslang.backend.cuda.source import cuda_source as printed
from mslang.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    DynamicRange,
    Expr,
    Load,
    Ramp,
    Select,
    Symbol,
    Unary,
    Var,
    dtype_of,
)
from mslang.ir.program import Buffer, Param
from mslang.kernel.nodes import Allocate, Atomic, Barrier, Body, For, Function, If, Invoke, Launch, Let, Module, Store
from mslang.kernel.visit import walk
from mslang.lower.gpu import PASSES
from mslang.lower.gpu.memory import DYNAMIC
from mslang.target.description import Target

TX, BX, BY = Var("threadIdx.x"), Var("blockIdx.x"), Var("blockIdx.y")


def finished(module: Module, target: Target) -> Module:
    """A module after the passes that decide how it is printed; static shared memory stays where it stands."""
    dynamic = any(isinstance(s, Allocate) and s.buffer.scope == DYNAMIC for f in module.functions for s in walk(f.body))
    last = {"unroll", "widths", *(("shared",) if dynamic else ())}
    for p in PASSES:
        if p.name in last:
            module = p.run(module, target)
    return module


def cuda_source(module: Module, target: Target, emulated: Callable[[Invoke], bool] = never) -> Source:
    """The source of a module to which only the last passes are applied."""
    return printed(finished(module, target), target, emulated)


def n(value: int) -> Const:
    return Const(value)


def plus(*xs: Expr | int) -> Expr:
    total, *rest = (Const(x) if isinstance(x, int) else x for x in xs)
    for x in rest:
        total = Binary("+", total, x)
    return total


def times(a: Expr, b: Expr | int) -> Expr:
    return Binary("*", a, Const(b) if isinstance(b, int) else b)


def over(a: Expr, b: int) -> Expr:
    return Binary("//", a, Const(b))


def modulo(a: Expr, b: int) -> Expr:
    return Binary("%", a, Const(b))


def buffer(name: str, dtype: str, *shape: Expr | int, scope: str = "global", strides: tuple[int, ...] = ()) -> Buffer:
    sizes = tuple(Const(x) if isinstance(x, int) else x for x in shape)
    return Buffer(name, dtype, sizes, scope, strides=tuple(map(Const, strides)) or None)


def launch(grid: tuple[Expr | int, ...], block: tuple[int, ...]) -> Launch:
    def three(xs: tuple[Expr | int, ...]) -> tuple[Expr, Expr, Expr]:
        x, y, z = (Const(e) if isinstance(e, int) else e for e in (*xs, 1, 1, 1)[:3])
        return x, y, z

    return Launch(three(grid), three(block))


def module(
    name: str, body: Body, buffers: tuple[Buffer, ...], where: Launch, dynamic: tuple[Symbol, ...] = ()
) -> Module:
    params = tuple(Param(b, "out" if b.name.startswith("out") else "in") for b in buffers)
    return Module(name, params, (Function(name, buffers, body, where),), dynamic)


def of_expression(e: Expr, *inputs: Buffer) -> Module:
    """`out[i] = e` for the threads `i` of one block of 64."""
    out = buffer("out", dtype_of(e), 64)
    return module("expression", (Store("out", (TX,), e),), (*inputs, out), launch((1,), (64,)))


def gemm() -> Module:
    """A product of 1024² matrices by tiles of 64² in shared memory, padded against bank conflicts."""
    a, b, c = (buffer(x, "f32", 1024, 1024) for x in ("A", "B", "out"))
    a_tile = buffer("A_shared", "f32", 64, 16, scope="shared", strides=(20, 1))
    b_tile = buffer("B_shared", "f32", 16, 64, scope="shared")
    sums = buffer("out_local", "f32", 8, 8, scope="local")
    row, column = times(over(TX, 8), 8), times(modulo(TX, 8), 8)
    i, j, k0, k1, r = map(Var, ("i", "j", "k0", "k1", "r"))
    lanes = plus(times(r, 256), times(TX, 4), Ramp(n(0), 1, 4))
    fetch_a = Store(
        "A_shared",
        (over(lanes, 16), modulo(lanes, 16)),
        Load("A", (plus(times(BY, 64), over(lanes, 16)), plus(times(k0, 16), modulo(lanes, 16))), "f32"),
    )
    fetch_b = Store(
        "B_shared",
        (over(lanes, 64), modulo(lanes, 64)),
        Load("B", (plus(times(k0, 16), over(lanes, 64)), plus(times(BX, 64), modulo(lanes, 64))), "f32"),
    )
    product = times(Load("A_shared", (plus(row, i), k1), "f32"), Load("B_shared", (k1, plus(column, j)), "f32"))
    update = Store("out_local", (i, j), plus(Load("out_local", (i, j), "f32"), product))
    zero = Store("out_local", (i, j), Const(0.0, "f32"))
    four = Ramp(times(j, 4), 1, 4)
    back = Store(
        "out", (plus(times(BY, 64), row, i), plus(times(BX, 64), column, four)), Load("out_local", (i, four), "f32")
    )
    step: Body = (
        Barrier(),
        For("r", n(4), (fetch_a,)),
        For("r", n(4), (fetch_b,)),
        Barrier(),
        For("k1", n(16), (For("i", n(8), (For("j", n(8), (update,)),)),)),
    )
    body: Body = (
        For("i", n(8), (For("j", n(8), (zero,)),)),
        Allocate(a_tile, (Allocate(b_tile, (For("k0", n(64), step),)),)),
        For("i", n(8), (For("j", n(2), (back,)),)),
    )
    return module("gemm", (Allocate(sums, body),), (a, b, c), launch((16, 16), (64,)))


def row_sums() -> Module:
    """Sums of rows by one warp each: shuffles, then one thread stores; the number of rows is known at the call."""
    rows = Symbol("M", DynamicRange(1, 4096, 8))
    x, out = buffer("X", "f16", rows, 256), buffer("out", "f32", rows)
    total = buffer("total", "f32", scope="local")
    at = plus(times(Var("step"), 32), TX)
    add = Store("total", (), plus(Load("total", (), "f32"), Cast("f32", Load("X", (BX, at), "f16"))))
    exchanged = tuple(
        Store("total", (), plus(Load("total", (), "f32"), Call("shuffle_xor", (Load("total", (), "f32"), n(d)), "f32")))
        for d in (16, 8, 4, 2, 1)
    )
    body: Body = (
        Store("total", (), Const(0.0, "f32")),
        For("step", n(8), (add,)),
        *exchanged,
        If(Binary("==", TX, n(0)), (Store("out", (BX,), Load("total", (), "f32")),)),
    )
    return module("row_sums", (Allocate(total, body),), (x, out), launch((rows,), (32,)), (rows,))


def histogram() -> Module:
    """Counts by atomic sums, in shared memory that only a launch can reserve, and bounds that need branches."""
    x, out = buffer("X", "u8", 100000), buffer("out", "i32", 256)
    counts = buffer("counts", "i32", 256, scope="shared.dyn")
    at = plus(times(BX, 256), TX)
    count = Let(
        "value", Cast("i64", Load("X", (at,), "u8")), (Atomic("+", "counts", (Var("value"),), Const(1, "i32")),)
    )
    body: Body = (
        Store("counts", (TX,), Const(0, "i32")),
        Barrier(),
        If(Binary("<", at, n(100000)), (count,)),
        Barrier(),
        Atomic("+", "out", (TX,), Load("counts", (TX,), "i32")),
    )
    return module("histogram", (Allocate(counts, body),), (x, out), launch((391,), (256,)))


def halves() -> Module:
    """Eight halves a thread: 16 bytes an access; the far end of a large array has 64-bit indices."""
    x, y, out = (buffer(name, "f16", 1 << 17, 1 << 16) for name in ("X", "Y", "out"))
    eight = Ramp(times(TX, 8), 1, 8)
    row = plus(times(BY, 1 << 16), BX)
    either = Select(
        Binary("<", Load("X", (row, eight), "f16"), Const(0.5, "f16")),
        Binary("max", Load("X", (row, eight), "f16"), Load("Y", (row, eight), "f16")),
        Unary("-", Load("X", (row, eight), "f16")),
    )
    return module("halves", (Store("out", (row, eight), either),), (x, y, out), launch((1 << 16, 2), (256,)))


KERNELS: Mapping[str, Callable[[], Module]] = MappingProxyType(
    {"gemm": gemm, "row_sums": row_sums, "histogram": histogram, "halves": halves}
)
"""Kernels of which the source is kept in `tests/expect/cuda`."""
