"""Traces as JSON: handles by name, decisions by address, sizes as small trees."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir.expr import (
    Binary,
    Choice,
    Const,
    Domain,
    DynamicRange,
    Expr,
    FreeTile,
    PartitionedTile,
    PerfectTile,
    Symbol,
    Unary,
    Uniform,
    Var,
)
from mslang.ir.index_map import IndexMap
from mslang.ir.intrin import Intrin
from mslang.schedule.instruction import Argument, Condition, Instruction, Operand, Value
from mslang.sema.intrin import parse_intrin
from mslang.sema.named_intrin import library_intrin

if TYPE_CHECKING:
    from mslang.schedule.trace import Trace

FORMAT = 1
_DOMAINS: Mapping[str, type[Domain]] = {
    c.__name__: c for c in (DynamicRange, PerfectTile, PartitionedTile, FreeTile, Choice, Uniform)
}


def to_json(trace: Trace) -> str:
    """The trace as one line of JSON."""
    return msgspec.json.encode(
        {
            "format": FORMAT,
            "program": trace.program,
            "target": trace.target,
            "source": trace.source,
            "instructions": [
                {
                    "op": i.op,
                    "arguments": {n: _out(v) for n, v in i.arguments},
                    "results": i.results,
                    "address": i.address,
                }
                for i in trace.instructions
            ],
            "decisions": {a: _out(v) for a, v in trace.values},
        }
    ).decode()


class Fields(NamedTuple):
    """What a trace's text says, in the order of the fields of `Trace`."""

    program: str
    instructions: tuple[Instruction, ...]
    values: tuple[tuple[str, Value], ...]
    target: str | None
    source: str | None


def from_json(text: str | bytes) -> Fields:
    """The fields of the trace that `to_json` wrote.

    Raises:
        MsError: MS263, the text is not a trace, or has another format.
    """
    try:
        data = msgspec.json.decode(text)
        if data.get("format") != FORMAT:
            raise _unreadable(f"its format is {data.get('format')!r}; this version reads {FORMAT}")
        return Fields(
            _text(data["program"]),
            tuple(_instruction(i) for i in data["instructions"]),
            tuple((a, _value(v)) for a, v in data["decisions"].items()),
            _text_or_none(data["target"]),
            _text_or_none(data["source"]),
        )
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError) as failure:
        raise _unreadable(f"{type(failure).__name__}: {failure}") from failure


def _instruction(data: dict[str, Any]) -> Instruction:
    arguments = tuple((name, _in(v)) for name, v in data["arguments"].items())
    results = tuple(_text(r) for r in data["results"])
    return Instruction(_text(data["op"]), arguments, results, _text_or_none(data["address"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text is needed, not {value!r}")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _unreadable(why: str) -> MsError:
    return MsError(problem("MS263", "the trace cannot be read", why=why))


def _value(value: object) -> Value:
    match value:
        case list() if all(x is None or type(x) is int for x in value):
            return tuple(value)
        case {"number": "inf" | "-inf" | "nan" as number}:
            return float(number)
        case bool() | int() | float() | str():
            return value
    raise ValueError(f"no decision: {value!r}")


def _out(value: Argument) -> object:
    match value:
        case Operand(base=base, axis=axis, index=index, written=written):
            place = {"handle": base, "axis": axis, "loop": index, "written": written}
            return {k: v for k, v in place.items() if v is not None}
        case IndexMap(params=params, results=results):
            return {"map": params, "to": [_expr(e) for e in results]}
        case Intrin(address=address):
            return {"intrin": address} if address.startswith("std.") else {"intrin": address, "text": value.text}
        case Expr():
            return {"size": _expr(value)}
        case Condition(expr=e, loops=loops):
            return {"condition": _expr(e), "loops": {name: _out(operand) for name, operand in loops}}
        case tuple():
            return [_out(x) for x in value]
        case float() if not isfinite(value):
            return {"number": repr(value)}
    return value


def _in(value: object) -> Argument:
    match value:
        case {"number": "inf" | "-inf" | "nan" as number}:
            return float(number)
        case {"handle": str() as base, "axis": str() as axis}:
            return Operand(base, axis=axis)
        case {"handle": str() as base, "loop": int() as index}:
            return Operand(base, index=index)
        case {"handle": str() as base, "written": int() as index}:
            return Operand(base, written=index)
        case {"handle": str() as base}:
            return Operand(base)
        case {"map": list() as params, "to": list() as results}:
            return IndexMap(tuple(params), tuple(_unexpr(e) for e in results))
        case {"intrin": str() as address, "text": str() as text}:
            return replace(parse_intrin(text), address=address)
        case {"intrin": str() as address}:
            return library_intrin(address)
        case {"size": size}:
            return _unexpr(size)
        case {"condition": condition, "loops": dict() as loops}:
            return Condition(_unexpr(condition), tuple((str(n), _operand(x)) for n, x in loops.items()))
        case list():
            return tuple(_in(x) for x in value)
        case None | bool() | int() | float() | str():
            return value
    raise ValueError(f"no argument: {value!r}")


def _operand(value: object) -> Operand:
    found = _in(value)
    if not isinstance(found, Operand):
        raise ValueError(f"no handle: {value!r}")
    return found


def _expr(e: Expr) -> object:
    match e:
        case Const(value=v):
            return v
        case Var(name=n):
            return {"var": n}
        case Symbol(name=n, domain=d, position=p):
            return {"symbol": n, "domain": _domain(d), "position": p}
        case Binary(op=op, left=a, right=b):
            return [op, _expr(a), _expr(b)]
        case Unary(op=op, operand=x):
            return [op, _expr(x)]
    raise TypeError(f"no size: {e!r}")


def _unexpr(data: object) -> Expr:
    match data:
        case bool():
            return Const(data, "bool")
        case int():
            return Const(data)
        case {"var": str() as name}:
            return Var(name)
        case {"symbol": str() as name, "domain": dict() as domain, "position": position}:
            return Symbol(name, _undomain(domain), position)
        case [str() as op, a, b]:
            return Binary(op, _unexpr(a), _unexpr(b))
        case [str() as op, x]:
            return Unary(op, _unexpr(x))
    raise ValueError(f"no size: {data!r}")


def _domain(domain: Domain) -> dict[str, object]:
    fields = {f: getattr(domain, f) for f in domain.__struct_fields__}
    return {"kind": type(domain).__name__} | {
        f: {"size": _expr(v)} if isinstance(v, Expr) else v for f, v in fields.items()
    }


def _undomain(data: dict[str, object]) -> Domain:
    kind = _DOMAINS[str(data["kind"])]
    fields: dict[str, object] = {}
    for name, value in data.items():
        match value:
            case {"size": size}:
                fields[name] = _unexpr(size)
            case list():
                fields[name] = tuple(value)
            case _:
                fields[name] = value
    del fields["kind"]
    return kind(**fields)
