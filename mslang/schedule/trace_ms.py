"""Traces as `.ms` text: flat, with one operation per line and every `~` pinned; or the source with pinned decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.expr import Expr, Symbol, Unary
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.visit import walk_expr
from mslang.ops.signature import Kind, Param
from mslang.schedule.instruction import ENTER_POSTPROC, REQUIRE, Argument, Condition, Instruction, Operand, Value
from mslang.schedule.sampling import symbols
from mslang.schedule.text import address_text, name_text, number_text, size_text, value_text
from mslang.syntax.format import format_text
from mslang.syntax.literals import quote

if TYPE_CHECKING:
    from mslang.schedule.sketch import Sketch
    from mslang.schedule.trace import Trace

_BARE = frozenset({Kind.SCOPE, Kind.TAIL, Kind.ACCESS, Kind.DTYPE, Kind.AXIS, Kind.LOCATION})
"""Parameters whose strings are words of the language."""


def header(trace: Trace, name: str) -> str:
    """`schedule name for program on target`."""
    place = f" on {trace.target}" if trace.target else ""
    return f"schedule {name_text(name)} for {name_text(trace.program)}{place}"


def pinned_call(trace: Trace, name: str) -> str:
    """`schedule name for program on target = source with { decisions }`.

    Raises:
        ScheduleError: MS262, the trace does not come from a schedule.
    """
    if trace.source is None:
        raise ScheduleError(problem("MS262", "this trace has no source schedule to pin", help="print it flat"))
    literal = {i.address for i in trace.instructions if i.op == "choose"}
    pins = [f"{address_text(a)} = {value_text(v, quoted=a in literal)}" for a, v in trace.values]
    start = f"{header(trace, name)} = {trace.source}"
    if not pins:
        return f"{start} with {{}}\n"
    return format_text(f"{start} with {{ {', '.join(pins)} }}\n")


def flat(trace: Trace, name: str, *, unpinned: bool = False) -> str:
    """The trace as a self-contained schedule, which replays to the same program.

    Args:
        trace: what was recorded.
        name: the name of the schedule.
        unpinned: leave decisions open that have no value, as those of a sketch.

    Raises:
        ScheduleError: MS262, a decision has no value.
    """
    writer = _Writer(trace, unpinned)
    lines = "".join(f"    {writer.statement(i)}\n" for i in trace.instructions)
    return format_text(f"{header(trace, name)} {{\n{lines}}}\n")


def sketch_text(sketch: Sketch, name: str) -> str:
    """A sketch as a schedule: structure is settled, every number that is open is a sampling statement.

    Its space has this one sketch again. Structure that no statement shows, such as the alternatives that rules took, is
    stated in front.
    """
    given = {d.address: d.given for d in sketch.decisions if d.given is not None}
    trace = replace(sketch.trace, values=tuple({**dict(sketch.structure), **given}.items()), source=None)
    writer = _Writer(trace, unpinned=True)
    shown = {i.address for i in trace.instructions}
    taken = [f"## `{a}` = {value_text(v, quoted=False)}\n" for a, v in sketch.structure if a not in shown]
    lines = [writer.statement(i) for i in trace.instructions]
    for guard in sketch.guards:
        asked = guard.question.condition
        condition = asked if guard.answer else Unary("not", asked)
        lines.append(writer.statement(Instruction(REQUIRE, (("condition", condition), ("why", "another sketch")))))
    body = "".join(f"    {line}\n" for line in lines)
    return format_text(f"{''.join(taken)}{header(trace, name)} {{\n{body}}}\n")


class _Writer:
    def __init__(self, trace: Trace, unpinned: bool) -> None:
        self._unpinned = unpinned
        self._values = trace.decisions
        self._signature = trace.registry.signature
        self._names = {i.address: i.results[0] for i in trace.instructions if i.address is not None}
        self._lists = {
            i.results[0]
            for i in trace.instructions
            if len(i.results) == 1 and i.address is None and self._signature(i.op).many
        }

    def statement(self, instruction: Instruction) -> str:
        match instruction:
            case Instruction(op="require"):
                return self._require(instruction)
            case Instruction(op="enter_postproc"):
                return f"{ENTER_POSTPROC}()"
            case Instruction(address=str() as address, results=(name,)):
                return self._sample(instruction, address, name)
        call = self._call(instruction)
        names = ", ".join(name_text(n) for n in instruction.results)
        return f"let {names} = {call}" if names else call

    def _require(self, instruction: Instruction) -> str:
        condition, why = instruction.argument("condition"), instruction.argument("why")
        reason = f", {quote(why)}" if isinstance(why, str) else ""
        return f"{REQUIRE} {self._value(condition, Kind.BOOL)}{reason}"

    def _sample(self, instruction: Instruction, address: str, name: str) -> str:
        placed = "" if name == address else f" as {quote(address)}"
        if self._unpinned and address not in self._values:
            return f"let {name_text(name)}{placed} ~ {self._call(instruction)}"
        pin = value_text(self._value_of(address), quoted=instruction.op == "choose")
        return f"let {name_text(name)}{placed} ~ {self._call(instruction)} = {pin}"

    def _value_of(self, address: str) -> Value:
        if address not in self._values:
            raise ScheduleError(problem("MS262", f"the decision `{address}` has no value"))
        return self._values[address]

    def _call(self, instruction: Instruction) -> str:
        params = self._signature(instruction.op).params
        given = {p.name: (p, v) for p, (_, v) in zip(params, instruction.arguments, strict=True)}
        first = given[params[0].name][1]
        receiver = ""
        if isinstance(first, Operand) and not params[0].variadic and not instruction.samples:
            receiver = f"{self._value(first, params[0].kind)}."
            params = params[1:]
        parts: list[str] = []
        skipped = False
        for p in params:
            value = given[p.name][1]
            if p.variadic:
                assert isinstance(value, tuple)
                parts += [self._value(x, p.kind) for x in value]
            elif value == p.default and type(value) is type(p.default):
                skipped = True
            elif p.keyword or skipped or (p.kind is Kind.INT and isinstance(first, Operand)):
                parts.append(f"{p.name} = {self._argument(p, value)}")
                skipped = True
            else:
                parts.append(self._argument(p, value))
        return f"{receiver}{instruction.op}({', '.join(parts)})"

    def _argument(self, param: Param, value: Argument) -> str:
        return self._value(value, param.kind)

    def _value(self, value: Argument, kind: Kind) -> str:
        match value:
            case Operand(base=base, axis=axis, index=index, written=written):
                # A list bound to one name stays a list, even with one element.
                head = name_text(base) + ("[0]" if base in self._lists else "")
                if axis is not None:
                    return f"{head}.{name_text(axis)}"
                if written is not None:
                    return f"{head}.writes()[{written}]"
                return head if index is None else f"{head}.loops()[{index}]"
            case None:
                return "_" if kind is Kind.FACTORS else "none"
            case bool():
                return "true" if value else "false"
            case int() | float():
                return number_text(value)
            case str():
                return value if kind in _BARE else quote(value)
            case Expr():
                return size_text(value, self._symbol)
            case Condition(expr=e, loops=loops):
                texts = {name: self._value(operand, Kind.LOOP) for name, operand in loops}
                return size_text(e, self._symbol, variable=lambda name: texts[name])
            case Intrin(address=address):
                return address or quote(value.text)
            case IndexMap(results=results):
                drawn = {x.name for e in results for x in walk_expr(e) if isinstance(x, Symbol)}
                own = value.avoiding({self._names.get(n, n) for n in drawn})
                body = ", ".join(size_text(e, self._symbol) for e in own.results)
                return f"fn ({', '.join(name_text(p) for p in own.params)}) -> [{body}]"
            case tuple():
                return self._tile(value) or "[" + ", ".join(self._value(x, kind) for x in value) + "]"

    def _tile(self, value: tuple[Argument, ...]) -> str | None:
        """The name of the tile whose factors these are."""
        last = value[-1] if value else None
        if not isinstance(last, Symbol) or value != symbols(last.name, last.domain):
            return None
        return name_text(self._names[last.name])

    def _symbol(self, symbol: Symbol) -> str:
        name = name_text(self._names.get(symbol.name, symbol.name))
        return name if symbol.position is None else f"{name}[{symbol.position}]"
