"""Traces as Python: a function that replays the trace on a `Schedule`."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Binary, Const, DynamicRange, Expr, Symbol, Unary, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.visit import walk_expr
from mslang.schedule.instruction import Argument, Condition, Instruction, Operand
from mslang.transform.registry import OPERATIONS

if TYPE_CHECKING:
    from mslang.schedule.trace import Trace

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def to_python(trace: Trace, name: str) -> str:
    """The text of `def name(s): …`, one call per line."""
    writer = _Writer(trace)
    lines = [writer.statement(i) for i in trace.instructions] or ["pass"]
    head = f'def {name}(s):\n    """Do to a Schedule of `{trace.program}` what the trace did."""\n'
    return head + "".join(f"    {line}\n" for line in lines)


class _Writer:
    def __init__(self, trace: Trace) -> None:
        self._values = trace.decisions
        self._signature = trace.registry.signature
        self._variables: dict[str, str] = {}
        self._samples = {i.address: i.results[0] for i in trace.instructions if i.address is not None}

    def statement(self, instruction: Instruction) -> str:
        match instruction:
            case Instruction(op="require"):
                condition, why = instruction.argument("condition"), instruction.argument("why")
                return f"s.require({self._text(condition)}, {why!r})"
            case Instruction(op="enter_postproc"):
                return "s.enter_postproc()"
            case Instruction(address=str() as address):
                call = self._call(
                    instruction,
                    f"name={instruction.results[0]!r}",
                    f"address={address!r}",
                    f"decision={self._decision(address)}",
                )
                return f"{self._variable(instruction.results[0])} = {call}"
        named = (f"names={list(instruction.results)!r}",) if instruction.results else ()
        call = self._call(instruction, *named)
        targets = [self._variable(n) for n in instruction.results]
        if not targets:
            return call
        one = len(targets) == 1 and instruction.op in OPERATIONS and not OPERATIONS[instruction.op].many
        return f"{', '.join(targets)}{',' if len(targets) == 1 and not one else ''} = {call}"

    def _decision(self, address: str) -> str:
        if address not in self._values:
            raise ScheduleError(problem("MS262", f"the decision `{address}` has no value"))
        value = self._values[address]
        return _literal(list(value) if isinstance(value, tuple) else value)

    def _call(self, instruction: Instruction, *more: str) -> str:
        params = self._signature(instruction.op).params
        parts: list[str] = []
        for p, (_, value) in zip(params, instruction.arguments, strict=True):
            if p.variadic:
                assert isinstance(value, tuple)
                parts += [self._text(x) for x in value]
            elif p is params[0]:
                parts.append(self._text(value))
            elif value != p.default or type(value) is not type(p.default):
                parts.append(f"{p.name}={self._text(value)}")
        if instruction.op not in OPERATIONS:
            # A user's own primitive is not a method.
            return f"s.apply({', '.join((repr(instruction.op), *parts, *more))})"
        return f"s.{instruction.op}({', '.join((*parts, *more))})"

    def _variable(self, name: str) -> str:
        variable = _identifier(name)
        while variable in self._variables.values() and self._variables.get(name) != variable:
            variable += "_"
        self._variables[name] = variable
        return variable

    def _text(self, value: Argument) -> str:
        match value:
            case Operand(base=base, axis=axis, index=index, written=written):
                head = self._variables.get(base, f"s.get({base!r})")
                if axis is not None:
                    return f"s.axis({head}, {axis!r})"
                if written is not None:
                    return f"s.writes({head})[{written}]"
                return head if index is None else f"s.loops({head})[{index}]"
            case Condition(expr=e, loops=loops):
                return self._size(e, {name: self._text(operand) for name, operand in loops})
            case Expr():
                return self._size(value)
            case Intrin(address=address):
                return repr(address if address.startswith("std.") else value.text)
            case IndexMap(params=params, results=results):
                parts = [x for e in results for x in walk_expr(e)]
                # A parameter may hide the schedule where the map does not call it: names are part of a trace.
                hidden = not any(_calls_schedule(x) for x in parts)
                plain = tuple(p if p == "s" and hidden else _identifier(p) for p in params)
                own = IndexMap(plain, value.at([Var(p) for p in plain]))
                own = own.avoiding({self._size(x).split("[")[0] for x in parts if isinstance(x, Symbol)})
                return f"s.index_map(lambda {', '.join(own.params)}: [{', '.join(self._size(e) for e in own.results)}])"
            case tuple():
                return "[" + ", ".join(self._text(x) for x in value) + "]"
        return _literal(value)

    def _size(self, e: Expr, variables: Mapping[str, str] = NO_VARIABLES) -> str:
        def part(x: Expr) -> str:
            return self._size(x, variables)

        match e:
            case Const(value=v):
                return repr(v)
            case Var(name=n):
                return variables.get(n, n)
            case Symbol(name=n, domain=DynamicRange()):
                return f"s.size({n!r})"
            case Symbol(name=n, position=p):
                variable = self._variables[self._samples[n]]
                return variable if p is None else f"{variable}[{p}]"
            case Binary(op="min" | "max" as op, left=a, right=b):
                return f"s.{op}imum({part(a)}, {part(b)})"
            case Binary(op="..", left=a, right=b):
                return f"({part(a)}, {part(b)})"
            case Binary(op=op, left=a, right=b):
                return f"({part(a)} {_OPERATORS.get(op, op)} {part(b)})"
            case Unary(op=op, operand=x):
                return f"({_OPERATORS.get(op, op)}{part(x)})"
        raise TypeError(f"no size: {e!r}")


def _calls_schedule(e: Expr) -> bool:
    match e:
        case Symbol(domain=DynamicRange()) | Binary(op="min" | "max"):
            return True
    return False


def _identifier(name: str) -> str:
    """A name of Python that is neither that of the schedule nor of a function that is called."""
    found = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    taken = keyword.iskeyword(found) or found in _CALLED
    return found if found.isidentifier() and not taken else f"_{found}"


_CALLED = frozenset({"s", "float"})


def _literal(value: object) -> str:
    return f'float("{value}")' if isinstance(value, float) and not isfinite(value) else repr(value)


_OPERATORS = {"and": "&", "or": "|", "not": "~"}
"""Python operators for those of the language that Python cannot overload."""
