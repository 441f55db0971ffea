"""How a compiled kernel is called: what its parameters are and what it needs."""

from __future__ import annotations

import msgspec

from mslang.ir.expr import Expr, Symbol

FIRST_ARGUMENT = 4
"""Words before the parameters in the array that an entry takes: workspace, launcher, its state, status."""


class Parameter(msgspec.Struct, frozen=True):
    """An array parameter; `direction` is "in", "out" or "inout". Sizes may name dynamic sizes.

    Without `strides` (in elements) the array is row-major and compact.
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    direction: str
    strides: tuple[Expr, ...] | None = None


class Signature(msgspec.Struct, frozen=True):
    """The calling convention of one kernel.

    `workspace` bytes are needed once, `worker_workspace` once a worker. A kernel compiled to check its accesses
    reports a failed one by its place in `checked_buffers`.
    """

    name: str
    parameters: tuple[Parameter, ...]
    dynamic: tuple[Symbol, ...] = ()
    workspace: int = 0
    worker_workspace: int = 0
    parallel: bool = False
    checked_buffers: tuple[str, ...] = ()
