"""Instructions: one executed operation each, with handles by name and decisions by address; traces are made of them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mslang.ir.expr import Expr, Symbol
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.visit import walk_expr
from mslang.schedule.distribution import Number

Label = str | bool | int | float | tuple[int, ...]
"""The outcome of a structural decision: a case, a location, a literal, the order of a permutation."""

Value = Number | Label
"""The value of any decision."""

REQUIRE = "require"
ENTER_POSTPROC = "enter_postproc"


class Operand(msgspec.Struct, frozen=True):
    """A handle by name: the block, buffer or result `base`; the loop `base.axis`; the loop `base.loops()[index]`; the
    buffer `base.writes()[written]`."""

    base: str
    axis: str | None = None
    index: int | None = None
    written: int | None = None


class Condition(msgspec.Struct, frozen=True):
    """A condition about loops: an expression, and for each of its variables the loop whose value it is."""

    expr: Expr
    loops: tuple[tuple[str, Operand], ...]


Argument = None | bool | int | float | str | Expr | Operand | Condition | IndexMap | Intrin | tuple["Argument", ...]


class Instruction(msgspec.Struct, frozen=True):
    """One operation: its arguments by parameter, the names of its results, and its address if it samples."""

    op: str
    arguments: tuple[tuple[str, Argument], ...]
    results: tuple[str, ...] = ()
    address: str | None = None

    def argument(self, name: str) -> Argument:
        """The argument of a parameter; None if it is absent."""
        return next((v for n, v in self.arguments if n == name), None)

    @property
    def samples(self) -> bool:
        """Whether it draws a decision."""
        return self.address is not None


def uses(instruction: Instruction) -> Iterator[str]:
    """The names of results, and the addresses of decisions, that an instruction reads."""
    for _, argument in instruction.arguments:
        yield from _names(argument)


def _names(argument: Argument) -> Iterator[str]:
    match argument:
        case Operand(base=base):
            yield base
        case Condition(expr=e, loops=loops):
            yield from _names(e)
            yield from (operand.base for _, operand in loops)
        case Expr():
            yield from (x.name for x in walk_expr(argument) if isinstance(x, Symbol))
        case IndexMap(results=results):
            for e in results:
                yield from _names(e)
        case tuple():
            for x in argument:
                yield from _names(x)
