"""Programs, and the nodes that they consist of (`ir.nodes`)."""

from __future__ import annotations

import msgspec

from mslang.ir.expr import Expr
from mslang.ir.nodes import (
    AXIS_KINDS,
    HOLDERS,
    LOOP_KINDS,
    SCOPES,
    Annotations,
    AttrValue,
    Axis,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Packing,
    Param,
    Range,
    Region,
    Stmt,
    Store,
    View,
    While,
    Within,
)
from mslang.ir.print import print_program
from mslang.notebook import page


class Program(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A program: parameters, buffers it allocates, and its statements (loops and blocks).

    `dynamic` are the sizes known only at the call, as `Symbol`s in the order they were declared.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    allocs: tuple[Buffer, ...] = ()
    dynamic: tuple[Expr, ...] = ()
    annotations: Annotations = ()

    def __repr__(self) -> str:
        return f"<program {self.name}({', '.join(p.buffer.name for p in self.params)})>"

    def _repr_html_(self) -> str:
        return page(f"program {self.name}", text=print_program(self))


__all__ = [
    "AXIS_KINDS",
    "HOLDERS",
    "LOOP_KINDS",
    "SCOPES",
    "Annotations",
    "AttrValue",
    "Axis",
    "Block",
    "Buffer",
    "Evaluate",
    "For",
    "If",
    "Let",
    "Packing",
    "Param",
    "Program",
    "Range",
    "Region",
    "Stmt",
    "Store",
    "View",
    "While",
    "Within",
]
