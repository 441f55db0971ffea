"""The types of parameters of primitives, each with the kind of value that the language has for it.

A plain annotation tells most kinds (`LoopRef` is a loop, `Expr` a size); these tell the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Annotated

from mslang.ir.expr import Expr
from mslang.ir.index_map import IndexMap
from mslang.ops.signature import Kind
from mslang.transform.outcome import BlockRef, LoopRef


class Spread(Enum):
    """How a list is given in the language."""

    ARGUMENTS = "each element as an argument of its own"


LoopArguments = Annotated[Sequence[LoopRef], Kind.LOOP, Spread.ARGUMENTS]
"""Loops, each an argument of its own: `reorder(i, j)`."""
LoopOrBlocks = Annotated[LoopRef | Sequence[BlockRef], Kind.LOOP_OR_BLOCKS]
"""A loop, or a list of blocks."""
Location = Annotated[LoopRef, Kind.LOCATION]
"""A loop, or what `compute_location` drew."""
Scope = Annotated[str, Kind.SCOPE]
"""A memory scope: `global`, `local`, `shared`, …"""
ThreadAxis = Annotated[str, Kind.AXIS]
"""`blockIdx.x`, `threadIdx.y`, …"""
Tail = Annotated[str, Kind.TAIL]
"""How a remainder runs: `guard`, `pad`, `peel` or `shift`."""
Access = Annotated[str, Kind.ACCESS]
"""`read` or `write`."""
ElementType = Annotated[str, Kind.DTYPE]
"""`f32`, `i8`, …"""
Condition = Annotated[Expr, Kind.CONDITION]
"""Something true or false."""
RegionMap = Annotated[IndexMap, Kind.REGION_MAP]
"""An index map whose results may be ranges."""
Values = Annotated[Sequence[int | Expr], Kind.VALUES]
"""A list of numbers."""
PadValue = Annotated[object, Kind.PADDING]
"""A number, or a map from an index to one."""
