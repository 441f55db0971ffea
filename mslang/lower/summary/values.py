"""The values of a nest summary. Every number is an expression over the decisions and dynamic sizes of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import fields, replace

from mslang.ir.expr import ONE, ZERO, Expr


class Loop(msgspec.Struct, frozen=True):
    """A loop around a statement. `kind` is that of `ir.program`, `instruction` inside an instruction, or `while`.

    `extent` is its trip count (1 of a `while`, whose trip count is unknown). `copies` are the copies of its body in the
    code: the trip count where it is unrolled, else 1. `ahead` is how many iterations ahead memory is fetched, 0 where
    nothing is.
    """

    var: str
    kind: str
    extent: Expr
    copies: Expr = ONE
    ahead: Expr = ZERO


class Arithmetic(msgspec.Struct, frozen=True):
    """Operations of one iteration of a statement, by type; index arithmetic is not counted.

    A product that is added, in floating point, is one `float_fma` and neither a product nor a sum. `float_math` are
    calls of functions such as `exp`.
    """

    float_add: int = 0
    float_mul: int = 0
    float_fma: int = 0
    float_div: int = 0
    float_math: int = 0
    integer_add: int = 0
    integer_mul: int = 0
    integer_div: int = 0
    bitwise: int = 0
    compare: int = 0
    select: int = 0
    cast: int = 0

    def __add__(self, other: Arithmetic) -> Arithmetic:
        return Arithmetic(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Arithmetic)))

    @property
    def total(self) -> int:
        """All operations; a fused multiply-add is two."""
        counts: list[int] = [getattr(self, f.name) for f in fields(Arithmetic)]
        return sum(counts) + self.float_fma


class Access(msgspec.Struct, frozen=True):
    """Accesses of one buffer by one statement whose indices differ by constant offsets only.

    Entry `k` of `strides` belongs to loop `k` of the statement, outermost first; entry `k` of `elements` and `lines` is
    about one run of the loops from `k` on: the first is about all loops, the last about one iteration of the innermost.

    Source: uniformly generated references, Wolf and Lam, A Data Locality Optimizing Algorithm, PLDI 1991
    """

    buffer: str
    dtype: str
    scope: str
    loads: int
    """Loads of one iteration."""
    stores: int
    """Stores of one iteration."""
    strides: tuple[Expr | None, ...]
    """Elements between what the first two iterations of a loop access; None where it depends on data."""
    invariant: tuple[bool, ...]
    """Whether the accessed element is the same in all iterations of the loop."""
    elements: tuple[Expr, ...]
    """The footprint: distinct elements, or an upper bound where `exact` is false (of digits `x // n`, `x % n` with an
    open `n` it may be larger than what the concrete program's summary says, never smaller)."""
    lines: tuple[Expr, ...]
    """Distinct cache lines, as if each row of the buffer started a line; an upper bound like `elements`."""
    exact: bool
    """Whether `elements` is provably the number of distinct elements, for all decisions."""
    reuse_trips: Expr = ONE
    """How often each element is accessed again: the trip count of the innermost invariant loop of more than one."""
    reuse_iterations: Expr = ZERO
    """Reuse distance: iterations of the statement from one access of an element to the next; 0 without reuse."""
    reuse_bytes: Expr = ZERO
    """Reuse distance: bytes that the statement accesses in between."""


class Statement(msgspec.Struct, frozen=True):
    """A store (or a call for its effect) with the loops around it.

    `iterations`, `bytes` and `lines` have an entry for each loop and one more, as those of `Access` have.
    """

    buffer: str
    """The buffer that is stored to."""
    dtype: str
    nest: int
    """Which of the summary's nests it is in."""
    loops: tuple[Loop, ...]
    guarded: bool
    """Whether it stands under a condition, so that it may run less often than its loops do."""
    instruction: str
    """The instruction that it is part of, or ""."""
    arithmetic: Arithmetic
    accesses: tuple[Access, ...]
    iterations: tuple[Expr, ...]
    bytes: tuple[Expr, ...]
    """The footprints of all accesses."""
    lines: tuple[Expr, ...]
    parallel: Expr
    """Iterations that may run on different cores: of parallel loops."""
    lanes: Expr
    """Iterations of vectorized loops."""
    vectors: Expr
    """Vector registers that one value of `lanes` elements takes."""
    copies: Expr
    """Copies of the statement in the code, a vector instruction each."""
    accumulators: Expr
    """Vector registers that hold partial results of a reduction while its innermost loop runs."""
    operands: Expr
    """Vector registers that hold loaded operands: all but the operand of the most, which streams through one."""
    stream: Expr = ZERO
    """Whether (0: not) what it stores bypasses the caches."""

    @property
    def trips(self) -> Expr:
        """How often it runs, conditions aside."""
        return self.iterations[0]


class Allocated(msgspec.Struct, frozen=True):
    """A buffer that the kernel allocates, compacted. `loops` are those around the allocation, `nest` -1 outside all."""

    name: str
    dtype: str
    scope: str
    shape: tuple[Expr, ...]
    bytes: Expr
    loops: tuple[str, ...]
    nest: int


class Nest(msgspec.Struct, frozen=True):
    """An outermost loop (or a statement in no loop) and all in it; on a GPU it is one launch.

    Of loops of one thread axis the largest counts. All numbers are 1 or 0 where there are no such loops.
    """

    name: str
    grid: tuple[Expr, Expr, Expr]
    """Blocks along x, y and z."""
    block: tuple[Expr, Expr, Expr]
    """Threads of a block along x, y and z."""
    threads: Expr
    """Threads of a block."""
    vthreads: Expr
    """Virtual threads of a thread."""
    shared: Expr
    """Bytes of shared memory of a block."""
    local: Expr
    """Bytes of memory that a thread has to itself: buffers of scope `local`, its share of those of scope `warp`."""
    registers: Expr
    """An estimate of the registers of a thread, of 32 bits, on a GPU; of vector registers on a CPU."""
    vector_bytes: Expr
    """The widest vector access."""
    code: Expr
    """An estimate of the instructions in the code, unrolled and vectorized loops written out."""


class Summary(msgspec.Struct, frozen=True):
    """What a lowered kernel does, in numbers. `line` is the size of a cache line in bytes."""

    name: str
    line: int
    statements: tuple[Statement, ...]
    buffers: tuple[Allocated, ...]
    nests: tuple[Nest, ...]


V = TypeVar("V", bound=msgspec.Struct)


def numbers(value: object, path: str = "") -> Iterator[tuple[str, Expr]]:
    """Every expression in a summary (or part of one) with its path, in a fixed order.

    Example:
        >>> dict(numbers(Loop("i", "serial", Const(8))))
        {'extent': Const(value=8, dtype='i64'), 'copies': Const(value=1, dtype='i64')}
    """
    match value:
        case Expr():
            yield path, value
        case msgspec.Struct():
            for f in fields(value):
                yield from numbers(getattr(value, f.name), f"{path}.{f.name}" if path else f.name)
        case tuple():
            for k, x in enumerate(value):
                yield from numbers(x, f"{path}[{k}]")


def mapped(value: V, f: Callable[[Expr], Expr]) -> V:
    """A summary (or part of one) with every expression in it rebuilt by `f`."""
    return replace(value, **{x.name: _mapped(getattr(value, x.name), f) for x in fields(value)})


def _mapped(value: Any, f: Callable[[Expr], Expr]) -> Any:
    match value:
        case Expr():
            return f(value)
        case msgspec.Struct():
            return mapped(value, f)
        case tuple():
            return tuple(_mapped(x, f) for x in value)
    return value
