"""How a compiled kernel is called: what its parameters are and what it needs."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.ir.dtype import size_of
from mslang.ir.expr import Expr, Symbol
from mslang.ir.program import Packing, Param, Program, Within
from mslang.runtime.c_library import EXPORTED

FIRST_ARGUMENT = 4
"""Words before the parameters in the array that an entry takes: workspace, launcher, its state, status."""


def symbol(name: str) -> str:
    """The linker's name for the entry of a program: a C identifier that no library function has."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    if not plain or plain[0].isdigit():
        plain = "_" + plain
    return plain + "_" if plain in EXPORTED else plain


class Parameter(msgspec.Struct, frozen=True):
    """An array parameter; `direction` is "in", "out" or "inout". Sizes may name dynamic sizes.

    Without `strides` (in elements) the array is row-major and compact. `within` is declared of its elements; a kernel
    that checks its accesses checks that, too. A `constant` one is packed once, before calls. Its address is a multiple
    of `align` bytes, and of the size of an element.
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    direction: str
    strides: tuple[Expr, ...] | None = None
    packing: Packing | None = None
    within: Within | None = None
    constant: bool = False
    align: int = 1

    @classmethod
    def of(cls, param: Param) -> Parameter:
        """The parameter of a program or kernel as its callers pass it."""
        b = param.buffer
        return cls(
            b.name,
            b.dtype,
            b.shape,
            param.direction,
            b.strides,
            param.packing,
            param.within,
            param.constant,
            b.align or 1,
        )

    @property
    def given(self) -> tuple[Expr, ...]:
        """The shape that the caller's array has: another one than `shape` if it is packed."""
        return self.shape if self.packing is None else self.packing.shape


class CheckedAccess(msgspec.Struct, frozen=True):
    """An access that is checked: its buffer, and the block and axes that a report names."""

    buffer: str
    block: str | None = None
    axes: tuple[str, ...] = ()


class Signature(msgspec.Struct, frozen=True):
    """The calling convention of one kernel.

    `workspace` bytes are needed once, `worker_workspace` once a worker. A kernel compiled to check its accesses
    reports a failed one by its place in `checked`, with the index and the values of the axes.
    One with `tiles` works on matrix tiles (AMX), for which the system is asked.
    """

    name: str
    parameters: tuple[Parameter, ...]
    dynamic: tuple[Symbol, ...] = ()
    workspace: int = 0
    worker_workspace: int = 0
    parallel: bool = False
    checked: tuple[CheckedAccess, ...] = ()
    tiles: bool = False

    @classmethod
    def of_program(cls, program: Program) -> Signature:
        """What the callers of a program pass: arrays as the unscheduled program has them."""
        given = tuple(replace(p, buffer=p.given, packing=None) for p in program.params)
        dynamic = tuple(s for s in program.dynamic if isinstance(s, Symbol))
        return cls(program.name, tuple(map(Parameter.of, given)), dynamic)

    @property
    def asks_alignment(self) -> bool:
        """Whether a parameter is declared to be aligned to more than its elements."""
        return any(p.align > size_of(p.dtype) for p in self.parameters)

    @property
    def status_words(self) -> int:
        """Words of status: access, dimension, index, extent, the axes; and as many that are not read."""
        return 4 + 2 * max((len(a.axes) for a in self.checked), default=0)

    @property
    def entry(self) -> str:
        """The symbol that runs the kernel once."""
        return symbol(self.name)

    @property
    def bench_entry(self) -> str:
        """The symbol that runs it many times."""
        return f"{symbol(self.name)}.bench"
