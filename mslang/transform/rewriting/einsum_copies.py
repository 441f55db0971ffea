"""Padded copies of buffers: the blocks that copy into them and from them, and the statements that use them instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Select, Symbol, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Axis, Block, Buffer, For, Let, Program, Range, Stmt, Store
from mslang.ir.region import infer_regions
from mslang.ir.visit import conjunction, fresh, map_expr
from mslang.transform.analysis.einsum_formula import Access, Fill
from mslang.transform.rewriting.buffer_replacement import work_on
from mslang.transform.rewriting.nest import nest


class Copy(msgspec.Struct, frozen=True):
    """A padded buffer, and the block that copies into it or from it.

    Dimensions that are used at a number have one element in the padded buffer."""

    access: Access
    buffer: Buffer
    block: str
    stmt: Stmt


def padded_copy(
    program: Program, block: Block, access: Access, padded: Mapping[str, Expr], fill: Fill | None, taken: set[str]
) -> Copy:
    """A padded buffer for what a block uses of another, and the copy into it with a fill, or from it without one."""
    old = all_buffers(program)[access.buffer]
    name = fresh(f"{old.name}_pad", taken)
    taken.add(name)
    extent = {a.name: a.extent for a in block.axes}
    real = tuple(
        _within(extent[i.name], n) if isinstance(i, Var) else ONE
        for i, n in zip(access.indices, old.shape, strict=True)
    )
    shape = tuple(padded.get(i.name, n) if isinstance(i, Var) else n for i, n in zip(access.indices, real, strict=True))
    new = Buffer(fresh(name, taken), old.dtype, shape, old.scope)
    taken.add(new.name)
    others = {*all_buffers(program), *(s.name for s in program.dynamic if isinstance(s, Symbol))}
    names = [fresh(f"ax{d}", others) for d in range(len(shape))]
    here: tuple[Expr, ...] = tuple(Var(n) for n in names)
    there = tuple(x if isinstance(i, Var) else i for x, i in zip(here, access.indices, strict=True))
    if fill is None:
        store, over = Store(old.name, there, Load(new.name, here, old.dtype)), real
    else:
        inside = tuple(Binary("<", x, n) for x, n, m in zip(here, real, shape, strict=True) if not arith.equal(n, m))
        value = Select(conjunction(inside), Load(old.name, there, old.dtype), fill.constant(old.dtype))
        store, over = Store(new.name, here, value), shape
    bare = Block(name, tuple(Axis(n, e, "spatial", ZERO) for n, e in zip(names, over, strict=True)), (), (), (store,))
    reads, writes = infer_regions(bare, all_buffers(program) | {new.name: new})
    spans = {n: Range(ZERO, e) for n, e in zip(names, over, strict=True)}
    made = nest(replace(bare, reads=reads, writes=writes), spans, (), {}, taken)
    return Copy(access, new, name, made.stmt)


def _within(extent: Expr, size: Expr) -> Expr:
    """How many values of an axis index elements that a dimension has: a guard may keep the others from it."""
    return extent if arith.proved(Binary("<=", extent, size)) else arith.simplify(arith.minimum(extent, size))


# ------------------------------------------------------------------ what uses them
class Padded(msgspec.Struct, frozen=True):
    """A block that is padded: the extents of its axes and loops that change, and the copies that it works on."""

    block: Block
    axes: Mapping[str, Expr]
    loops: Mapping[str, Expr]
    into: Sequence[Copy]
    out: Sequence[Copy]

    def nest(self, s: Stmt, buffers: Mapping[str, Buffer]) -> Stmt:
        """The loops around the block with it padded; what else they hold uses what it writes where that is now."""
        if s is self.block:
            return self._block(buffers)
        if isinstance(s, For):
            body = tuple(self.nest(x, buffers) for x in s.body)
            return replace(s, extent=self.loops.get(s.var, s.extent), body=body)
        for c in self.out:
            s = work_on(s, c.access.buffer, c.buffer.name)
        return s

    def _block(self, buffers: Mapping[str, Buffer]) -> Block:
        old = self.block
        new = {c.access.buffer: c.buffer.name for c in (*self.into, *self.out)}
        made = replace(
            old,
            axes=tuple(replace(a, extent=self.axes.get(a.name, a.extent)) for a in old.axes),
            init=None if old.init is None else _using(old.init, new),
            body=_using(old.body, new),
        )
        reads, writes = infer_regions(made, buffers)
        return replace(made, reads=reads, writes=writes)


def _using(body: tuple[Stmt, ...], new: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Statements that use padded buffers; of a dimension at a number these have that element alone."""

    def index(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(ZERO if isinstance(i, Const) else i for i in indices)

    def value(e: Expr) -> Expr:
        return map_expr(
            e,
            lambda x: (
                Load(new[x.buffer], index(x.indices), x.dtype) if isinstance(x, Load) and x.buffer in new else None
            ),
        )

    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(name=n, value=v, body=inner):
                out.append(Let(n, value(v), _using(inner, new)))
            case Store(buffer=b, indices=i, value=v):
                out.append(Store(new[b], index(i), value(v)) if b in new else Store(b, i, value(v)))
            case _:
                raise TypeError(f"no formula: {s!r}")
    return tuple(out)


__all__ = ["Copy", "Padded", "padded_copy"]
