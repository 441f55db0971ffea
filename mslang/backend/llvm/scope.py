"""What is visible where code is emitted: variables, buffers, the lanes and the mask in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mslang.backend.llvm.affine import Affine
from mslang.backend.llvm.types import Value
from mslang.ir.expr import Expr
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Within


class Memory(NamedTuple):
    """A buffer as a function sees it.

    `row` is not 0 for stack that the function alone sees: so many elements of the last dimension may be
    overwritten without touching the next row. `tag` is put to each access: it distinguishes the buffers of a workspace.
    """

    buffer: Buffer
    pointer: str
    strides: tuple[Expr, ...]
    row: int = 0
    tag: str = ""


class Mask(NamedTuple):
    """The lanes that act, a vector of bool; `active` is not 0 if they are so many from the first, always."""

    value: Value
    active: int = 0

    @property
    def tail(self) -> bool:
        """Whether the lanes that act are known while compiling."""
        return self.active > 0


class Scope(NamedTuple):
    """The surroundings of a statement."""

    variables: Mapping[str, Affine | Value]
    memory: Mapping[str, Memory]
    lanes: int = 1
    mask: Mask | None = None
    within: Within | None = None
    """The block whose body this is, where accesses are checked."""

    def bind(self, name: str, value: Affine | Value) -> Scope:
        """With one more variable."""
        return self._replace(variables={**self.variables, name: value})
