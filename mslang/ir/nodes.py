"""The nodes of programs: statements, blocks, buffers and parameters, TensorIR's semantics as immutable values.

Names are identities, kept unique in a program: no two loops, no two blocks, no two buffers share a name
(`verify` says so), so a handle is a name and a primitive's forward map is a map of names. Axis names and
`let` names are local to their block. A block's body sees its own axes (and lets) only, never the loops
around it; bindings and the predicate see the loops and the axes of enclosing blocks. The predicate may
also name the block's own axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from mslang.ir.expr import TRUE, ZERO, Binary, Const, Expr

LOOP_KINDS = frozenset(
    {"serial", "parallel", "vectorized", "unrolled", "vthread"}
    | {f"{a}.{d}" for a in ("blockIdx", "threadIdx", "vthread") for d in "xyz"}
)
AXIS_KINDS = frozenset({"spatial", "reduce", "scan", "opaque"})
SCOPES = frozenset(
    {
        "global",
        "shared",
        "shared.dyn",
        "local",
        "warp",
        "wmma.a",
        "wmma.b",
        "wmma.acc",
        "mma.a",
        "mma.b",
        "mma.acc",
        "wgmma.acc",
    }
)
HOLDERS: Mapping[str, int] = MappingProxyType(
    {**{f"{kind}.{use}": 32 for kind in ("wmma", "mma") for use in ("a", "b", "acc")}, "wgmma.acc": 128}
)
"""How many threads, in order of their numbers, hold a fragment of a scope in their registers together.

The elements of fragments have no addresses: only instructions, which these threads run together, access them.
"""

AttrValue = bool | int | float | str | Expr | tuple["AttrValue", ...]
"""What an annotation may hold; an `Expr` may mention symbols only."""

Annotations = tuple[tuple[str, AttrValue], ...]
"""Annotations in the order they were made; a key stands once."""


class Buffer(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """An n-dimensional array. Without `strides` it is row-major and compact; they and `offset` count elements,
    `align` counts bytes."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    scope: str = "global"
    strides: tuple[Expr, ...] | None = None
    offset: Expr | None = None
    align: int | None = None


class Range(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """`extent` integers from `start`."""

    start: Expr
    extent: Expr

    @property
    def stop(self) -> Expr:
        """The end as it is written: `start..stop`. `region.range_between` takes it apart again."""
        match self.start, self.extent:
            case Const(value=0), Binary(op="+", left=Const(value=0)):
                return Binary("+", self.start, self.extent)
            case Const(value=0), extent:
                return extent
            case Const(value=a), Const(value=n):
                return Const(a + n)
        return Binary("+", self.start, self.extent)


class Region(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A box of a buffer, one range a dimension."""

    buffer: str
    ranges: tuple[Range, ...]


class View(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """`buffer` stands for the region `source` (TVM's match_buffer); dimensions of extent 1 in front may be dropped."""

    buffer: Buffer
    source: Region


class Axis(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A block axis: `0 <= name < extent`, its kind, and its value in terms of the enclosing loops."""

    name: str
    extent: Expr
    kind: str
    binding: Expr


class Stmt(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Any statement."""


class Store(Stmt, frozen=True, cache_hash=True):
    """`buffer[indices] = value`."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr


class Let(Stmt, frozen=True, cache_hash=True):
    """`let name = value`, in scope in `body`."""

    name: str
    value: Expr
    body: tuple[Stmt, ...]


class If(Stmt, frozen=True, cache_hash=True):
    """`if condition { then } else { otherwise }`."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


class While(Stmt, frozen=True, cache_hash=True):
    """`while condition { body }`."""

    condition: Expr
    body: tuple[Stmt, ...]


class Evaluate(Stmt, frozen=True, cache_hash=True):
    """A call for its effect."""

    value: Expr


class For(Stmt, frozen=True, cache_hash=True):
    """`extent` iterations of `body`, `var` from `start`."""

    var: str
    extent: Expr
    body: tuple[Stmt, ...]
    kind: str = "serial"
    start: Expr = ZERO
    annotations: Annotations = ()


class Block(Stmt, frozen=True, cache_hash=True):
    """The unit of scheduling: an isolated computation over its axes.

    `init` (None: there is none) runs before the body for the iterations in which every reduction axis is 0.
    `allocs` live as long as one iteration of the block. Nothing runs where `predicate` is false.
    """

    name: str
    axes: tuple[Axis, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    body: tuple[Stmt, ...]
    init: tuple[Stmt, ...] | None = None
    predicate: Expr = TRUE
    allocs: tuple[Buffer, ...] = ()
    views: tuple[View, ...] = ()
    annotations: Annotations = ()


class Packing(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """How the elements of a parameter lie in its buffer, where its caller has them in another shape.

    Element `params` of the caller's array of shape `shape` is element `results` of the buffer; all others are padding,
    which holds `pad` when the program starts (None: anything).
    """

    shape: tuple[Expr, ...]
    params: tuple[str, ...]
    results: tuple[Expr, ...]
    pad: Expr | None = None


class Within(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What the elements of an array are declared to be: from `low` up to, not including, `high`.

    `sorted`: none is less than the one before it, along the last dimension; `unique`: no two of the array are equal.
    """

    low: Expr
    high: Expr
    sorted: bool = False
    unique: bool = False


class Param(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A parameter; `direction` is "in", "out" or "inout". `within` is declared of what the caller gives.

    `constant`: an input whose elements are the same at each call (weights), so that it is packed once, ahead of time.
    """

    buffer: Buffer
    direction: str = "in"
    packing: Packing | None = None
    within: Within | None = None
    constant: bool = False

    @property
    def given(self) -> Buffer:
        """The array that the caller has: the buffer itself, unless it is packed."""
        return self.buffer if self.packing is None else replace(self.buffer, shape=self.packing.shape)
