"""A typed builder of programs in Python.

    b = ProgramBuilder("matmul")
    A, B = b.input("A", (64, 32)), b.input("B", (32, 48))
    C = b.output("C", (64, 48))
    with b.block("mm", spatial("i", 64), spatial("j", 48), reduce("k", 32)) as (i, j, k):
        C[i, j] += A[i, k] * B[k, j]
    program = b.finish()

A block whose axes have no binding stands for its own loops. Init and regions are inferred as in `.ms` text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from mslang.ir.expr import TRUE, DynamicRange, Expr, Load, Symbol, Var
from mslang.ir.initial import inferred_init
from mslang.ir.operators import Operand, Value, expression
from mslang.ir.program import (
    Annotations,
    Axis,
    Block,
    Buffer,
    For,
    If,
    Let,
    Param,
    Program,
    Range,
    Region,
    Stmt,
    Store,
    View,
)
from mslang.ir.region import infer_regions
from mslang.ir.visit import fresh, walk

Size = int | Value


class Tensor:
    """A buffer that is indexed like an array: `C[i, j] += A[i, k]` inside a block stores."""

    def __init__(self, buffer: Buffer, builder: ProgramBuilder) -> None:
        self.buffer = buffer
        self._builder = builder

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Value:
        return Value(Load(self.buffer.name, _indices(indices), self.buffer.dtype))

    def __setitem__(self, indices: Operand | tuple[Operand, ...], value: Operand) -> None:
        self._builder.emit(Store(self.buffer.name, _indices(indices), expression(value, self.buffer.dtype)))


def _indices(indices: Operand | tuple[Operand, ...]) -> tuple[Expr, ...]:
    return tuple(expression(x) for x in (indices if isinstance(indices, tuple) else (indices,)))


class AxisSpec(msgspec.Struct, frozen=True):
    """An axis that a block is to have; without a binding it gets a loop of its own."""

    name: str
    extent: Size
    kind: str
    binding: Value | None = None


def spatial(name: str, extent: Size, at: Value | None = None) -> AxisSpec:
    """A data-parallel axis, bound to `at`."""
    return AxisSpec(name, extent, "spatial", at)


def reduce(name: str, extent: Size, at: Value | None = None) -> AxisSpec:
    """A reduction axis, bound to `at`."""
    return AxisSpec(name, extent, "reduce", at)


class ProgramBuilder:
    """Makes one program, statement by statement."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._params: list[Param] = []
        self._dynamic: list[Expr] = []
        self._buffers: dict[str, Buffer] = {}
        self._started: set[str] = set()
        self._names: set[str] = set()
        self._bodies: list[list[Stmt]] = [[]]
        self._allocs: list[list[Buffer]] = [[]]
        self._views: list[list[View]] = [[]]

    # -------------------------------------------------------------- buffers and sizes
    def input(self, name: str, shape: Sequence[Size], dtype: str = "f32", constant: bool = False) -> Tensor:
        """A parameter that is read; `constant`: it holds the same at each call, so that it is packed once."""
        return self._param(name, shape, dtype, "in", constant)

    def output(self, name: str, shape: Sequence[Size], dtype: str = "f32") -> Tensor:
        """A parameter that is written; it holds nothing before."""
        return self._param(name, shape, dtype, "out")

    def inout(self, name: str, shape: Sequence[Size], dtype: str = "f32") -> Tensor:
        """A parameter that is read and written."""
        return self._param(name, shape, dtype, "inout")

    def alloc(self, name: str, shape: Sequence[Size], dtype: str = "f32", scope: str = "global") -> Tensor:
        """A buffer of the block that is open, or of the program."""
        buffer = self._buffer(name, shape, dtype, scope)
        self._allocs[-1].append(buffer)
        return Tensor(buffer, self)

    def view(self, name: str, source: Tensor, box: Sequence[tuple[Size, Size]], keep: int | None = None) -> Tensor:
        """A name for the box of (start, extent) pairs of `source`; the last `keep` dimensions stay (all of them)."""
        ranges = tuple(Range(expression(a), expression(n)) for a, n in box)
        shape = tuple(r.extent for r in ranges)[len(ranges) - (len(ranges) if keep is None else keep) :]
        buffer = self._buffer(name, tuple(Value(n) for n in shape), source.buffer.dtype, source.buffer.scope)
        self._views[-1].append(View(buffer, Region(source.buffer.name, ranges)))
        return Tensor(buffer, self)

    def dynamic(self, name: str, lo: int, hi: int, multiple: int = 1) -> Value:
        """A size known only when the kernel is called."""
        symbol = Symbol(name, DynamicRange(lo, hi, multiple))
        self._names.add(name)
        self._dynamic.append(symbol)
        return Value(symbol)

    def _buffer(self, name: str, shape: Sequence[Size], dtype: str, scope: str) -> Buffer:
        buffer = Buffer(name, dtype, tuple(expression(n) for n in shape), scope)
        self._buffers[name] = buffer
        self._names.add(name)
        return buffer

    def _param(self, name: str, shape: Sequence[Size], dtype: str, direction: str, constant: bool = False) -> Tensor:
        buffer = self._buffer(name, shape, dtype, "global")
        self._params.append(Param(buffer, direction, constant=constant))
        if direction != "out":
            self._started.add(name)
        return Tensor(buffer, self)

    # -------------------------------------------------------------- statements
    def emit(self, s: Stmt) -> None:
        """Append a statement where the builder stands."""
        self._bodies[-1].append(s)

    @contextmanager
    def loop(
        self, name: str, extent: Size, *, start: Size = 0, kind: str = "serial", annotations: Annotations = ()
    ) -> Iterator[Value]:
        """An explicit loop; its variable is handed to the `with` body. A taken name gets a number."""
        var = self._fresh(name)
        body = self._open()
        yield Value(Var(var))
        self._bodies.pop()
        self.emit(For(var, expression(extent), tuple(body), kind, expression(start), annotations))

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """`if condition { … }`."""
        body = self._open()
        yield
        self._bodies.pop()
        self.emit(If(condition.expr, tuple(body)))

    @contextmanager
    def let(self, name: str, value: Value) -> Iterator[Value]:
        """`let name = value`, in scope inside the `with`; nothing may follow it in its list."""
        body = self._open()
        yield Value(Var(name, value.dtype))
        self._bodies.pop()
        self.emit(Let(name, value.expr, tuple(body)))

    @contextmanager
    def block(
        self,
        name: str,
        *axes: AxisSpec,
        where: Value | None = None,
        init: Sequence[Stmt] | None = None,
        reads: Sequence[Region] | None = None,
        writes: Sequence[Region] | None = None,
        annotations: Annotations = (),
    ) -> Iterator[tuple[Value, ...]]:
        """A block; its axes are handed to the `with` body.

        Args:
            name: the block's name; a taken one gets a number.
            axes: made by `spatial` and `reduce`; those without a binding get loops of their own, in order.
            where: the predicate.
            init: statements run first in a reduction; () for none, None to infer them.
            reads: the regions read; None to infer them.
            writes: the regions written; None to infer them.
            annotations: pairs of key and value.
        """
        name = self._fresh(name)
        loops = [(self._fresh(a.name), a.extent) for a in axes if a.binding is None]
        own = iter(loops)
        made = tuple(
            Axis(a.name, expression(a.extent), a.kind, Var(next(own)[0]) if a.binding is None else a.binding.expr)
            for a in axes
        )
        body = self._open()
        self._allocs.append([])
        self._views.append([])
        yield tuple(Value(Var(a.name)) for a in axes)
        self._bodies.pop()
        allocs, views = tuple(self._allocs.pop()), tuple(self._views.pop())
        start = inferred_init(tuple(body), made, frozenset(self._started)) if init is None else tuple(init) or None
        self._started |= {s.buffer for s in walk(tuple(body)) if isinstance(s, Store)}
        block = Block(
            name, made, (), (), tuple(body), start, TRUE if where is None else where.expr, allocs, views, annotations
        )
        read, written = infer_regions(block, self._buffers)
        result: Stmt = replace(
            block, reads=read if reads is None else tuple(reads), writes=written if writes is None else tuple(writes)
        )
        for var, extent in reversed(loops):
            result = For(var, expression(extent), (result,))
        self.emit(result)

    def _open(self) -> list[Stmt]:
        self._bodies.append([])
        return self._bodies[-1]

    def _fresh(self, name: str) -> str:
        found = fresh(name, self._names)
        self._names.add(found)
        return found

    # -------------------------------------------------------------- the end
    def finish(self, annotations: Annotations = ()) -> Program:
        """The program made so far."""
        return Program(
            self._name,
            tuple(self._params),
            tuple(self._bodies[0]),
            tuple(self._allocs[0]),
            tuple(self._dynamic),
            annotations,
        )
