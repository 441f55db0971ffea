"""What names of a kernel stand for at a point of its text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from mslang.backend.cuda.types import Value
from mslang.ir.arith import Ranges
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Buffer, Range


class Place(NamedTuple):
    """Where a buffer is: `pointer` is the text of its address, `strides` count elements, `align` bytes."""

    buffer: Buffer
    pointer: str
    strides: tuple[Expr, ...]
    align: int


class Fragments(NamedTuple):
    """Tiles that the registers of a group of threads hold together: `array[k]` is the `k`-th, row by row."""

    buffer: Buffer
    array: str
    tile: tuple[int, ...]


class Scope(NamedTuple):
    """The variables, buffers and fragments that are visible, and what indices run over."""

    variables: Mapping[str, Value]
    memory: Mapping[str, Place]
    fragments: Mapping[str, Fragments] = MappingProxyType({})
    ranges: Ranges = MappingProxyType({})

    def bind(self, name: str, value: Value) -> Scope:
        """The scope in which a variable has a value."""
        ranges = self.ranges
        if value.bounds is not None:
            low, high = value.bounds
            ranges = {**ranges, name: Range(Const(low), Const(high - low + 1))}
        return self._replace(variables={**self.variables, name: value}, ranges=ranges)
