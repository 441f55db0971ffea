"""Traces: the executed instructions, and the decisions by address.

A trace is data. Handles have names, decisions are stored separately from the instructions, and the structure of
the source (calls, loops, forks, branches) is resolved, so that a trace can be replayed without its source.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mslang.notebook import page
from mslang.schedule import trace_json, trace_ms, trace_python
from mslang.schedule.instruction import ENTER_POSTPROC, Instruction, Value, uses
from mslang.transform.registries import REGISTRY, Registry


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
        return trace_ms.pinned_call(self, name) if pinned else trace_ms.flat(self, name, unpinned=unpinned)

    def as_json(self) -> str:
        """The trace as JSON text; `from_json` reads it back."""
        return trace_json.to_json(self)

    @staticmethod
    def from_json(text: str | bytes, registry: Registry = REGISTRY) -> Trace:
        """The trace that `as_json` wrote.

        Args:
            text: the JSON text.
            registry: the operations that its instructions may use.

        Raises:
            MsError: MS263, the text is not a trace, or has another format.

        Example:
            >>> Trace.from_json(Trace("gemm").as_json()) == Trace("gemm")
            True
        """
        return Trace(*trace_json.from_json(text), registry)

    def as_python(self, name: str = "apply_trace") -> str:
        """The trace as a Python function over a `Schedule`.

        Raises:
            ScheduleError: MS262, a decision has no value.
        """
        return trace_python.to_python(self, name)
