"""What is visible where code is emitted: variables and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mslang.backend.llvm.types import Value
from mslang.ir.arith.linear import Linear
from mslang.ir.expr import Expr
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Within


class Memory(NamedTuple):
    """A buffer as a function sees it. `tag` is put to each access: it distinguishes the buffers of a workspace."""

    buffer: Buffer
    pointer: str
    strides: tuple[Expr, ...]
    tag: str = ""


class Scope(NamedTuple):
    """The surroundings of a statement. A variable is a value, or a form over i64 scalars of the function; `key_of`
    gives its key."""

    variables: Mapping[str, Linear | Value]
    memory: Mapping[str, Memory]
    within: Within | None = None
    """The block whose body this is, where accesses are checked."""

    def bind(self, name: str, value: Linear | Value) -> Scope:
        """With one more variable."""
        return self._replace(variables={**self.variables, name: value})
