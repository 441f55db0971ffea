"""The meanings of TVM's instructions on fragments: programs on tiles, each with TVM's call."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mslang.interop.tvmscript.patterns import TVM
from mslang.interop.tvmscript.spelling import expression
from mslang.ir.expr import Binary, Cast, Const, Expr, Load, Var
from mslang.ir.intrin import Intrin
from mslang.ir.program import Axis, Block, Buffer, For, Param, Program, Region, Stmt, Store
from mslang.ir.region import point

_I, _J, _K = Var("i"), Var("j"), Var("k")


def fill(dtype: str, tile: tuple[int, int], value: Expr, sizes: Sequence[ast.expr]) -> Intrin:
    """`C[i, j] = value` on a tile."""
    body = _nest("fill", (("i", tile[0]), ("j", tile[1])), (), (), (("C", (_I, _J)),), Store("C", (_I, _J), value))
    desc = Program("tvm_fill_fragment", (_param("C", dtype, tile, "out"),), body)
    text = f"T.tvm_fill_fragment({_fragment('C', tile, sizes)}, {expression(value, {})})"
    return _made(desc, text)


def copy(what: str, source: str, target: str, tile: tuple[int, int], sizes: Sequence[ast.expr], order: str) -> Intrin:
    """`C[i, j] = A[i, j]` on a tile; the fragment is `C` of a load and `A` of a store."""
    value: Expr = Load("A", (_I, _J), source)
    value = value if source == target else Cast(target, value)
    store = Store("C", (_I, _J), value)
    body = _nest(what, (("i", tile[0]), ("j", tile[1])), (), (("A", (_I, _J)),), (("C", (_I, _J)),), store)
    params = (_param("C", target, tile, "out"), _param("A", source, tile, "in"))
    fragment, memory, access = ("C", "A", "r") if what == "load" else ("A", "C", "w")
    pointer = f"{{{memory}}}.access_ptr({access!r}), {{{memory}.stride}}"
    text = f"T.tvm_{what}_matrix_sync({_fragment(fragment, tile, sizes)}, {pointer}, {order!r})"
    return _made(Program(f"tvm_{what}_matrix_sync", params, body), text)


def multiply(types: tuple[str, str, str], sizes: tuple[int, int, int], transposed: bool) -> Intrin:
    """`C[i, j] += A[i, k] * B[k, j]` on tiles, or `B[j, k]`."""
    m, n, k = sizes
    second = (_J, _K) if transposed else (_K, _J)
    a, b, c = types
    product = Binary("*", _cast(Load("A", (_I, _K), a), c), _cast(Load("B", second, b), c))
    store = Store("C", (_I, _J), Binary("+", Load("C", (_I, _J), c), product))
    reads = (("C", (_I, _J)), ("A", (_I, _K)), ("B", second))
    body = _nest("mma", (("i", m), ("j", n)), (("k", k),), reads, (("C", (_I, _J)),), store)
    params = (
        _param("C", c, (m, n), "inout"),
        _param("A", a, (m, k), "in"),
        _param("B", b, (n, k) if transposed else (k, n), "in"),
    )
    tiles = {"C": (m, n), "A": (m, k), "B": (n, k) if transposed else (k, n)}
    given = ", ".join(f"{{{x}}}.data, {_number(x, tiles[x])}" for x in ("C", "A", "B", "C"))
    return _made(Program("tvm_mma_sync", params, body), f"T.tvm_mma_sync({given})")


def _cast(e: Load, dtype: str) -> Expr:
    return e if e.dtype == dtype else Cast(dtype, e)


def _made(desc: Program, text: str) -> Intrin:
    return Intrin(desc.name, desc, program=desc, texts=((TVM, text),))


def _param(name: str, dtype: str, tile: tuple[int, int], direction: str) -> Param:
    return Param(Buffer(name, dtype, tuple(Const(n) for n in tile)), direction)


def _number(name: str, tile: tuple[int, int]) -> str:
    """The row-major number of the tile in its buffer, from its offset."""
    height, width = tile
    begin, row = f"{{{name}}}.elem_offset", f"{{{name}.stride}}"
    return f"{begin} // ({row} * {height}) * ({row} // {width}) + {begin} % {row} // {width}"


def _fragment(name: str, tile: tuple[int, int], sizes: Sequence[ast.expr]) -> str:
    """A fragment as operands of an instruction: a pointer, the sizes of the instruction, the fragment's number."""
    return ", ".join((f"{{{name}}}.data", *map(ast.unparse, sizes), _number(name, tile)))


def _nest(
    name: str,
    spatial: Sequence[tuple[str, int]],
    reduced: Sequence[tuple[str, int]],
    reads: Sequence[tuple[str, tuple[Expr, ...]]],
    writes: Sequence[tuple[str, tuple[Expr, ...]]],
    store: Stmt,
) -> tuple[Stmt, ...]:
    """One block under loops of its own."""
    axes = tuple(
        Axis(a, Const(n), kind, Var(f"{a}0"))
        for kind, given in (("spatial", spatial), ("reduce", reduced))
        for a, n in given
    )
    regions = [tuple(Region(b, tuple(point(x) for x in xs)) for b, xs in side) for side in (reads, writes)]
    body: tuple[Stmt, ...] = (Block(f"{name}_tile", axes, regions[0], regions[1], (store,)),)
    for a in reversed(axes):
        body = (For(f"{a.name}0", a.extent, body),)
    return body
