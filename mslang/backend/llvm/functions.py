"""What the functions of one kernel share: declarations, checks, debug information, and the list of functions itself."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from mslang.backend.llvm.aliases import Aliases
from mslang.backend.llvm.function import Declarations, FunctionWriter
from mslang.backend.llvm.guard import BoundsGuard
from mslang.backend.llvm.source_lines import SourceLines
from mslang.backend.llvm.triple import processor_of, triple_of
from mslang.diagnostics import MsError, problem
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.dtype import size_of
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Buffer
from mslang.kernel.nodes import Module
from mslang.sema.evaluation_limits import BYTES
from mslang.target.description import Target


class Task(NamedTuple):
    """A parallel loop's function and what it is given, apart from its range."""

    number: int
    captured: tuple[str, ...]


class Functions:
    """The functions of a kernel that are written so far. `tasks` are those of parallel loops; `worker_workspace` counts
    the bytes that the largest of these needs. With `lines`, instructions know the statement that they come from."""

    def __init__(self, kernel: Module, target: Target, lines: SourceLines | None = None) -> None:
        self.kernel = kernel
        self.target = target
        self.lines = lines
        self.guard = BoundsGuard() if kernel.checked else None
        self.declarations = Declarations()
        self.aliases = Aliases()
        self.texts: list[str] = []
        self.tasks: list[Task] = []
        self.worker_workspace = 0

    def begin(self, name: str, params: tuple[str, ...]) -> FunctionWriter:
        """A further function."""
        debug = None if self.lines is None else self.lines.function(name)
        return FunctionWriter(
            name,
            params,
            self.declarations,
            nan_free=self.target.nan_free,
            scales=self.target.has("avx512f"),
            fused=self.kernel.auto_vectorize,
            processor=processor_of(triple_of(self.target)),
            debug=debug,
        )


def allocated_bytes(buffer: Buffer) -> int:
    """The most bytes that a buffer takes over all dynamic sizes.

    Raises:
        MsError: MS408, there is no most; MS141, it is more than any machine has.
    """
    shape = tuple(_largest(e) for e in buffer.shape)
    elements = prod(shape)
    if buffer.strides is not None:
        strides = [_largest(e) for e in buffer.strides]
        elements = 1 + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
    if elements * size_of(buffer.dtype) > BYTES:
        raise MsError(
            problem(
                "MS141",
                f"`{buffer.name}` may have more than {BYTES} bytes (1 TiB)",
                why="its workspace is allocated for the largest sizes that a call may have",
                help="make the ranges of the dynamic sizes smaller",
            )
        )
    return elements * size_of(buffer.dtype)


def _largest(e: Expr) -> int:
    top = int(e.value) if isinstance(e, Const) else limits(read_size(e))[1]
    if top is None:
        raise MsError(
            problem(
                "MS408",
                "the size of a buffer has no upper bound",
                why="its workspace is allocated before the kernel runs",
                help="make the buffer's shape depend on the program's sizes only",
            )
        )
    return top
