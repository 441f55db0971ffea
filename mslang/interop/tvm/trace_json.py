"""TVM's JSON traces: `[instructions, decisions]`, as values.

An instruction is `[kind, inputs, attributes, outputs]`. Among the inputs a bare string names a random variable (`b0`,
`l1`, `v2`), a string has additional quotes, an absent input is `"None"`,
and an index map is the JSON of its object graph. A decision is `[position of the instruction, value]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.interop.tvm.index_maps import MapText


class Name(msgspec.Struct, frozen=True):
    """A random variable of a trace, by name."""

    text: str


Input = None | bool | int | float | str | Name | MapText | tuple["Input", ...] | Mapping[str, object]
"""An input of an instruction."""


class Inst(msgspec.Struct, frozen=True):
    """One instruction: its kind, inputs, attributes, and the names of its outputs."""

    kind: str
    inputs: tuple[Input, ...] = ()
    attrs: tuple[Input, ...] = ()
    outputs: tuple[str, ...] = ()


class TvmTrace(msgspec.Struct, frozen=True):
    """Instructions and the decisions by position."""

    insts: tuple[Inst, ...]
    decisions: tuple[tuple[int, object], ...] = ()

    @property
    def by_position(self) -> dict[int, object]:
        """The decisions by the position of their instruction."""
        return dict(self.decisions)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of TVM's module in which blocks are looked up."""
        looked_up = ((i.attrs or i.inputs)[1:2] for i in self.insts if i.kind in ("GetBlock", "GetSBlock"))
        return tuple(dict.fromkeys(name for names in looked_up for name in names if isinstance(name, str)))


def unreadable(why: str) -> MsError:
    """The error of a malformed trace."""
    return MsError(problem("MS740", "this is not a trace of TVM's", why=why))


def parse(text: str | bytes) -> TvmTrace:
    """The trace in a JSON text.

    Raises:
        MsError: MS740, it holds none.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise unreadable(f"no JSON: {failure}") from failure
    return from_data(data)


def from_data(data: object) -> TvmTrace:
    """The trace in decoded JSON.

    Raises:
        MsError: MS740, it holds none.
    """
    match data:
        case [list() as insts, list() as decisions]:
            try:
                read = tuple(_inst(k, i) for k, i in enumerate(insts))
            except RecursionError as failure:
                raise unreadable("lists are nested too deeply") from failure
            return TvmTrace(read, tuple(_decision(d, len(read)) for d in decisions))
    raise unreadable("it is not a list of instructions and a list of decisions")


def _inst(position: int, data: object) -> Inst:
    match data:
        case [str() as kind, list() as inputs, attrs, list() as outputs] if all(isinstance(o, str) for o in outputs):
            given = attrs if isinstance(attrs, list) else [] if attrs is None else [attrs]
            return Inst(kind, tuple(map(_input, inputs)), tuple(map(_attr, given)), tuple(outputs))
    raise unreadable(f"instruction {position} is not `[kind, inputs, attributes, outputs]`")


def _decision(data: object, count: int) -> tuple[int, object]:
    match data:
        case [int() as position, value] if 0 <= position < count:
            return position, tuple(value) if isinstance(value, list) else value
    raise unreadable(f"{data!r} is not a decision of one of the {count} instructions")


def _input(data: object) -> Input:
    match data:
        case None | bool() | int() | float():
            return data
        case "None":
            return None
        case str() if data[:1] == '"' and data[-1:] == '"' and len(data) > 1:
            return data[1:-1]
        case str():
            return _attr(data) if data.startswith("{") else Name(data)
        case list():
            return tuple(map(_input, data))
        case dict():
            return data
    raise unreadable(f"an input is {data!r}")


def _attr(data: object) -> Input:
    match data:
        case str() if data.startswith("{") and data.endswith("}"):
            return MapText(data)
        case None | bool() | int() | float() | str():
            return data
        case list():
            return tuple(map(_attr, data))
        case dict():
            return data
    raise unreadable(f"an attribute is {data!r}")


def to_data(trace: TvmTrace) -> list[object]:
    """The trace as JSON data."""
    insts = [[i.kind, [_out(x) for x in i.inputs], [_plain(x) for x in i.attrs], list(i.outputs)] for i in trace.insts]
    return [insts, [[k, list(v) if isinstance(v, tuple) else v] for k, v in trace.decisions]]


def to_json(trace: TvmTrace) -> str:
    """The trace in TVM's form."""
    return json.dumps(to_data(trace), separators=(",", ":"))


def _out(value: Input) -> object:
    match value:
        case None:
            return "None"
        case Name(text=text) | MapText(text=text):
            return text
        case str():
            return f'"{value}"'
        case bool():
            return int(value)
        case tuple():
            return [_out(x) for x in value]
    return value


def _plain(value: Input) -> object:
    match value:
        case MapText(text=text) | Name(text=text):
            return text
        case bool():
            return int(value)
        case tuple():
            return [_plain(x) for x in value]
    return value
