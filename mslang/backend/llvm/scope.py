"""What is visible where code is emitted: variables and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mslang.backend.llvm.types import Value
from mslang.ir.arith.linear import Linear
from mslang.ir.expr import Expr
from mslang.ir.program import Buffer
from mslang.ir.visit import free_vars
from mslang.kernel.nodes import Within
from mslang.lower.substitute import reads


class Memory(NamedTuple):
    """A buffer as a function sees it. `tag` is put to each access: it distinguishes the buffers of a workspace."""

    buffer: Buffer
    pointer: str
    strides: tuple[Expr, ...]
    tag: str = ""


class Scope(NamedTuple):
    """The surroundings of a statement. A variable is a value, or a form over i64 scalars of the function."""

    variables: Mapping[str, Linear | Value]
    memory: Mapping[str, Memory]
    within: Within | None = None
    """The block whose body this is, where accesses are checked."""

    data: frozenset[str] = frozenset()
    """The variables that are computed from data: sums with them wrap."""

    def bind(self, name: str, value: Linear | Value, *, data: bool = False) -> Scope:
        """With one more variable; `data`: it is computed from data."""
        known = self.data | {name} if data else self.data
        return self._replace(variables={**self.variables, name: value}, data=known)

    def from_data(self, e: Expr) -> bool:
        """Whether a value is computed from data, so that sums in it wrap: no index arithmetic, which is exact."""
        return reads(e) or (bool(self.data) and not self.data.isdisjoint(free_vars(e)))
