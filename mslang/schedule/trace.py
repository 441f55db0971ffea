"""Traces: the executed instructions, and the decisions by address.

A trace is data. Handles have names, decisions are stored separately from the instructions, and the structure of
the source (calls, loops, forks, branches) is resolved, so that a trace can be replayed without its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from mslang.ir.expr import Expr, Symbol
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.visit import walk_expr
from mslang.notebook import page
from mslang.schedule.distribution import Number
from mslang.transform.registries import REGISTRY, Registry

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


class Trace(msgspec.Struct, frozen=True):
    """Instructions in order and the value of each decision by address, in order.

    `program` and `target` are the names of its program and target; `source` is the text of a reference to the schedule
    or space whose decisions these are (None: the trace has no source). `registry` holds its operations.
    """

    program: str
    instructions: tuple[Instruction, ...] = ()
    values: tuple[tuple[str, Value], ...] = ()
    target: str | None = None
    source: str | None = None
    registry: Registry = REGISTRY

    def __repr__(self) -> str:
        return f"<trace of {self.program}: {len(self.instructions)} instructions, {len(self.values)} decisions>"

    def _repr_html_(self) -> str:
        return page(f"trace of {self.program}", text=self.as_ms())

    @property
    def decisions(self) -> dict[str, Value]:
        """The decisions by address."""
        return dict(self.values)

    def with_decision(self, address: str, value: Value) -> Trace:
        """A copy in which one decision has another value.

        Raises:
            KeyError: the trace has no decision at this address.
        """
        if address not in self.decisions:
            raise KeyError(address)
        return replace(self, values=tuple((a, value if a == address else v) for a, v in self.values))

    def with_decisions(self, values: Mapping[str, Value]) -> Trace:
        """A copy in which the given decisions have other values."""
        return replace(self, values=tuple((a, values.get(a, v)) for a, v in self.values))

    def without_postproc(self) -> Trace:
        """The trace up to the mark where postprocessing begins."""
        for k, instruction in enumerate(self.instructions):
            if instruction.op == ENTER_POSTPROC:
                return self._keeping(self.instructions[:k])
        return self

    def simplified(self) -> Trace:
        """The trace without instructions that have no effect: samplers with unused results.

        It then has no source: that would draw them again, and what its guards ask of them is not in the trace.
        """
        kept: list[Instruction] = []
        used: set[str] = set()
        for instruction in reversed(self.instructions):
            if instruction.samples and not used.intersection((*instruction.results, instruction.address)):
                continue
            kept.append(instruction)
            used.update(uses(instruction))
        made = self._keeping(tuple(reversed(kept)))
        return made if len(kept) == len(self.instructions) else replace(made, source=None)

    def _keeping(self, instructions: tuple[Instruction, ...]) -> Trace:
        dropped = {i.address for i in self.instructions} - {i.address for i in instructions}
        return replace(self, instructions=instructions, values=tuple(p for p in self.values if p[0] not in dropped))

    def as_ms(self, name: str = "traced", *, pinned: bool = False, unpinned: bool = False) -> str:
        """The trace as `.ms` text: flat, or `pinned` as a call of its source schedule with all decisions.

        `unpinned` leaves open what has no value, as in the trace of a sketch.
        """
        from mslang.schedule import trace_ms

        return trace_ms.pinned_call(self, name) if pinned else trace_ms.flat(self, name, unpinned=unpinned)

    def as_json(self) -> str:
        """The trace as JSON text; `trace_json.from_json` reads it back."""
        from mslang.schedule import trace_json

        return trace_json.to_json(self)

    def as_python(self, name: str = "apply_trace") -> str:
        """The trace as a Python function over a `Schedule`.

        Raises:
            ScheduleError: MS262, a decision has no value.
        """
        from mslang.schedule import trace_python

        return trace_python.to_python(self, name)


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
