"""Modules, functions and statements of the kernel IR.

A kernel has loops, branches and stores over buffers, no blocks. Its expressions are those of programs, and the vector
expressions at the end of `ir/expr.py`. What is inside each statement stands in one table, `kernel/visit.py`.
"""

from __future__ import annotations

import msgspec

from mslang.ir.expr import ZERO, Expr, Symbol
from mslang.ir.intrin import Formal
from mslang.ir.program import Annotations, Buffer, Param

AUTO_VECTORIZE = "llvm.auto_vectorize"
"""The attribute of a program whose serial loops LLVM may unroll and vectorize, as it does for TVM."""


class Stmt(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Any statement of a kernel."""


Body = tuple[Stmt, ...]


class Store(Stmt, frozen=True, cache_hash=True):
    """`buffer[indices] = value`.

    With vector indices each lane is stored, the last one last. `mask`, a vector of bool, names the lanes that are.
    `stream` says whether (None or 0: not) it bypasses the caches.
    """

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    mask: Expr | None = None
    stream: Expr | None = None


class Let(Stmt, frozen=True, cache_hash=True):
    """`let name = value`, in scope in `body`."""

    name: str
    value: Expr
    body: Body


class If(Stmt, frozen=True, cache_hash=True):
    """`if condition { then } else { otherwise }`."""

    condition: Expr
    then: Body
    otherwise: Body = ()


class While(Stmt, frozen=True, cache_hash=True):
    """`while condition { body }`."""

    condition: Expr
    body: Body


class Evaluate(Stmt, frozen=True, cache_hash=True):
    """A call for its effect."""

    value: Expr


class For(Stmt, frozen=True, cache_hash=True):
    """`extent` iterations of `body`, `var` from `start`."""

    var: str
    extent: Expr
    body: Body
    kind: str = "serial"
    start: Expr = ZERO
    annotations: Annotations = ()


class Alignment(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The stride of dimension `axis`, in elements, is `offset` modulo `factor`."""

    axis: int
    factor: int
    offset: int


class Allocate(Stmt, frozen=True, cache_hash=True):
    """`buffer` exists while `body` runs; what it holds at the start is not defined.

    `carried` are loops in `body` from one iteration of which to the next it carries values: it must stay outside of
    them. `alignment` is what its strides shall be.
    """

    buffer: Buffer
    body: Body
    carried: frozenset[str] = frozenset()
    alignment: tuple[Alignment, ...] = ()


class Invoke(Stmt, frozen=True, cache_hash=True):
    """An instruction: the text of a back end, over operands, each the first element of a view.

    `params` are the operands as the text names them and relies on them, `ranks` how many of the last dimensions each
    has. `meaning` is what the instruction does: it determines what is accessed, and runs where every access is checked.
    """

    name: str
    text: str
    params: tuple[Formal, ...]
    ranks: tuple[int, ...]
    operands: tuple[Expr, ...]
    meaning: Body


class Within(Stmt, frozen=True, cache_hash=True):
    """`body` is that of the block `block`, whose `axes` have `values`. For reports: it changes nothing."""

    block: str
    axes: tuple[str, ...]
    values: tuple[Expr, ...]
    body: Body


class Barrier(Stmt, frozen=True, cache_hash=True):
    """All threads of the scope, "block" or "warp", wait here for one another and see what the others stored."""

    scope: str = "block"


class Atomic(Stmt, frozen=True, cache_hash=True):
    """`buffer[indices] = buffer[indices] op value`, indivisibly; op is `+`, `min`, `max`, `&`, `|` or `^`."""

    op: str
    buffer: str
    indices: tuple[Expr, ...]
    value: Expr


class Prefetch(Stmt, frozen=True, cache_hash=True):
    """Have the cache line of `buffer[indices]` brought into the caches. The element need not exist: nothing is read."""

    buffer: str
    indices: tuple[Expr, ...]


class Launch(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """How many threads run a function: blocks and threads a block, each along x, y and z.

    In the body, blocks and threads are the variables `blockIdx.x` to `threadIdx.z`. `dynamic_shared` are the bytes of
    shared memory that the launch reserves.
    """

    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    dynamic_shared: Expr = ZERO


class Function(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What runs at once: the whole of a kernel on a CPU (`launch` is None), one launch on a GPU.

    `params` are the buffers of the module, parameters or workspaces, that it accesses.
    """

    name: str
    params: tuple[Buffer, ...]
    body: Body
    launch: Launch | None = None


class Module(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A lowered program: functions that run one after another.

    Loops are serial, parallel, vectorized, unrolled, or of a kind of thread; conditions are predicates that are not
    proved. Buffers keep their dimensions, so that accesses can be checked, and have explicit strides where they are not
    compact. `workspaces` are global memory that functions share.
    """

    name: str
    params: tuple[Param, ...]
    functions: tuple[Function, ...]
    dynamic: tuple[Symbol, ...] = ()
    workspaces: tuple[Buffer, ...] = ()
    auto_vectorize: bool = False
    """Whether the code generator may unroll and vectorize loops of which the schedule says nothing."""
    checked: bool = False
    """Whether every access is compared with its buffer's shape while it runs."""

    @property
    def body(self) -> Body:
        """The statements of the only function."""
        (function,) = self.functions
        return function.body
