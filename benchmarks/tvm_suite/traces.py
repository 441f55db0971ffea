"""TVM's traces as its tests build them: lists of instructions, applied as this project imports them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.tvm_suite.reading import NotPortable
from mslang.interop import tvm
from mslang.schedule.schedule import Schedule

if TYPE_CHECKING:
    from benchmarks.tvm_suite.schedule import TvmSchedule


class Variable:
    """What stands for a block or a loop in a trace that is not applied yet."""

    letter = "v"


class SBlockRV(Variable):
    """A block."""

    letter = "b"


class LoopRV(Variable):
    """A loop."""

    letter = "l"


class InstructionKind:
    """The kinds of instructions, which are their names here."""

    @staticmethod
    def get(name: str) -> str:
        """A kind by its name."""
        return name


class Instruction:
    """One instruction."""

    def __init__(self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], outputs: Sequence[Variable]) -> None:
        self.kind, self.inputs, self.attrs, self.outputs = kind, inputs, attrs, outputs


class Trace:
    """A list of instructions and the decisions of those that sample."""

    def __init__(self, insts: Sequence[Instruction], decisions: dict[Any, Any]) -> None:
        self.insts = list(insts)
        if decisions:
            raise NotPortable("decisions of a trace that is built by hand")

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """The trace as TVM writes it."""
        names: dict[int, str] = {}
        made: list[list[Any]] = []
        for inst in self.insts:
            if remove_postproc and inst.kind == "EnterPostproc":
                break
            inputs = [_plain(x, names) for x in inst.inputs]
            for x in inst.outputs:
                names[id(x)] = f"{x.letter}{len(names)}"
            made.append([inst.kind, inputs, [_plain(x, {}) for x in inst.attrs], [names[id(x)] for x in inst.outputs]])
        return [made, []]

    def apply_to_schedule(self, sch: TvmSchedule, remove_postproc: bool, decision_provider: object = None) -> None:
        """Do what it says."""
        if decision_provider is not None:
            raise NotPortable("a provider of decisions")
        self.apply_json_to_schedule(self.as_json(remove_postproc), sch)

    @staticmethod
    def apply_json_to_schedule(json_obj: list[Any], sch: TvmSchedule) -> None:
        """Do what a written trace says."""
        done = tvm.import_trace(sch.own.program, tvm.parse(json.dumps(json_obj)))
        sch.own = Schedule(done.program)


def _plain(x: object, names: dict[int, str]) -> object:
    if id(x) in names:
        return names[id(x)]
    if x is None or isinstance(x, str | int | float):
        return x
    raise NotPortable("a value of TVM in a trace")
