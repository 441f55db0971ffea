"""Traces under other names: what was recorded on one program, for a program that differs from it in names alone."""

from __future__ import annotations

from msgspec.structs import replace

from mslang.ir.equal import Correspondence
from mslang.ir.expr import DynamicRange, Expr, Symbol
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Program
from mslang.ir.visit import fresh, map_expr
from mslang.schedule.instruction import Argument, Condition, Instruction, Operand, Value
from mslang.schedule.trace import Trace
from mslang.transform.analysis.position import taken_names

AT = "at("
"""How the label of a compute location begins that names a loop."""


def renamed(trace: Trace, names: Correspondence, program: Program) -> Trace:
    """The trace in the names of another program of the same workload.

    Blocks, buffers, axes, loops and sizes of the program that the trace was recorded on get the names of their
    counterparts.
    Names that the trace gives itself stay, unless `program` has them already. Addresses of decisions stay: they are
    labels.

    Args:
        trace: a trace of the program that `names` maps from.
        names: `mslang.ir.equal.correspondence(recorded, program)`.
        program: the program to schedule.

    The result is checked by replaying it: it gives the same workload as the original where the names that primitives
    derive do not matter, which is everywhere but in annotations that hold names as text.
    """
    if names.trivial:
        return replace(trace, program=program.name)
    return _Renaming(names, program).trace(trace)


class _Renaming:
    """Follows which names a trace gives, and which block of the program each of them came from."""

    def __init__(self, names: Correspondence, program: Program) -> None:
        self._names = names
        self._program = program
        self._taken = set(taken_names(program))
        self._bases = {**names.blocks, **names.buffers}
        self._origins = {b: b for b in names.blocks}
        self._loops = dict(names.loops)
        self._given: dict[str, str] = {}

    def trace(self, trace: Trace) -> Trace:
        instructions = tuple(self._instruction(i) for i in trace.instructions)
        values = tuple((address, self._value(value)) for address, value in trace.values)
        return replace(trace, program=self._program.name, source=None, instructions=instructions, values=values)

    def _instruction(self, i: Instruction) -> Instruction:
        arguments = tuple((name, self._argument(value)) for name, value in i.arguments)
        blocks = (self._origins.get(v.base) for _, v in i.arguments if isinstance(v, Operand))
        origin = next((b for b in blocks if b is not None), None)
        return replace(i, arguments=arguments, results=tuple(self._bound(r, origin) for r in i.results))

    def _bound(self, result: str, origin: str | None) -> str:
        """The name of a result: its own, unless the program has that."""
        if result not in self._given:
            self._given[result] = fresh(result, self._taken)
            self._taken.add(self._given[result])
        given = self._given[result]
        self._bases[result] = self._loops[result] = given
        self._origins.pop(result, None)
        if origin is not None:
            self._origins[result] = origin
        return given

    def _argument(self, value: Argument) -> Argument:
        match value:
            case Operand(base=base, axis=axis):
                block = self._origins.get(base)
                new = axis if axis is None or block is None else self._names.axes.get((block, axis), axis)
                return replace(value, base=self._bases.get(base, base), axis=new)
            case Condition(expr=e, loops=loops):
                return Condition(self._expr(e), tuple((n, self._operand(x)) for n, x in loops))
            case IndexMap(results=results):
                return replace(value, results=tuple(self._expr(e) for e in results))
            case Expr():
                return self._expr(value)
            case tuple():
                return tuple(self._argument(x) for x in value)
            case str() if value.startswith(AT):
                return self._label(value)
        return value

    def _expr(self, e: Expr) -> Expr:
        def counterpart(x: Expr) -> Expr | None:
            if isinstance(x, Symbol) and isinstance(x.domain, DynamicRange):
                return replace(x, name=self._names.sizes.get(x.name, x.name))
            return None

        return map_expr(e, counterpart)

    def _operand(self, operand: Operand) -> Operand:
        new = self._argument(operand)
        assert isinstance(new, Operand)
        return new

    def _value(self, value: Value) -> Value:
        return self._label(value) if isinstance(value, str) and value.startswith(AT) else value

    def _label(self, label: str) -> str:
        loop = label[len(AT) : -1]
        return f"{AT}{self._loops.get(loop, loop)})"
