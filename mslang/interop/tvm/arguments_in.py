"""Conversion of the arguments of a TVM instruction to those of our operation."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.diagnostics import MsError, problem
from mslang.interop.tvm import words
from mslang.interop.tvm.index_maps import MapText, read_map
from mslang.interop.tvm.instructions import Mapped, Role, Slot
from mslang.interop.tvm.state import State, misfit
from mslang.interop.tvm.trace_json import Input, Inst, Name
from mslang.ir.expr import Binary, Const, Expr
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.values import HOLE
from mslang.transform.outcome import BufferRef

_LATE = (Role.READ, Role.WRITTEN, Role.EITHER_BUFFER, Role.BUFFERS)
"""Roles that need the block."""


def arguments_of(state: State, mapped: Mapped, inst: Inst) -> dict[str, object]:
    """The arguments by our parameters; those that need the block follow it."""
    slots = (*mapped.inputs, *mapped.attrs)
    cut = len(mapped.inputs)
    given = list(inst.inputs)
    if mapped.inputs and mapped.inputs[-1].role in (Role.REST, Role.FACTORS):
        given = [*given[: cut - 1], tuple(given[cut - 1 :])]
    # An older instruction may lack inputs or attributes, or have an input among the attributes.
    spare = list(inst.attrs)
    while len(given) < cut and len(spare) > len(mapped.attrs):
        given.append(spare.pop(0))
    given += [None] * (cut - len(given))
    missing: list[Input] = [s.given for s in mapped.attrs[len(spare) :]]
    values: list[tuple[Slot, Input]] = list(zip(slots, (*given, *spare, *missing), strict=False))
    access = next((v for s, v in values if s.role in (Role.ACCESS, Role.ACCESS_TEXT)), None)
    found: dict[str, object] = {}
    for slot, value in sorted(values, key=lambda pair: pair[0].role in _LATE):
        if slot.param and slot.role in _LATE:
            found[slot.param] = _buffers(state, slot, value, found["block"], access)
        elif slot.param:
            found[slot.param] = _argument(state, slot, value)
    return {k: v for k, v in found.items() if v is not None or k in ("loops", "target", "block")}


def _argument(state: State, slot: Slot, value: Input) -> object:
    match slot.role, value:
        case Role.HANDLE, Name() if slot.param in ("target", "loop"):
            return state.value(value)
        case Role.HANDLE, _:
            return state.handle(value)
        case Role.EITHER, tuple():
            return tuple(state.handle(x) for x in value)
        case Role.EITHER, _:
            return state.handle(value)
        case Role.HANDLES, (tuple() | None):
            return tuple(state.handle(x) for x in value or ()) or None
        case Role.REST, tuple():
            return tuple(state.handle(x) for x in value)
        case Role.FACTORS, tuple():
            return tuple(HOLE if x is None else _plain(state, x) for x in value)
        case Role.VALUE, _:
            return _plain(state, value)
        case Role.INT, bool() | int():
            return int(value)
        case Role.FLAG, bool() | int():
            return bool(value)
        case Role.SCOPE, str():
            return words.scope_in(value)
        case Role.TEXT, str():
            return value
        case Role.ACCESS_TEXT, ("read" | "write"):
            return value
        case Role.INTRIN, str():
            return _intrin(state, value)
        case Role.DTYPE, str():
            return words.dtype_in(value)
        case Role.ACCESS, bool() | int():
            return "write" if value else "read"
        case Role.MAP, MapText():
            return read_map(value, _sizes(state))
        case Role.REGION, MapText():
            return _ranges(read_map(value, _sizes(state)))
        case Role.PAD, (None | MapText()):
            return None if value is None else _pad(state, value)
    raise misfit(f"{value!r} is not a {slot.role.value} for `{slot.param}`")


def _intrin(state: State, name: str) -> str | Intrin:
    found = state.intrinsics.get(name) or words.intrin_in(name)
    if found is None:
        why = "intrinsics are found by what they are called in TVM; only those that the library has, too, are known"
        help = f"write it as an `intrin {name}` item into the file of `--for`, or into one named by `--use`"
        raise MsError(problem("MS742", f"mslang has no intrinsic `{name}`", why=why, help=help))
    return found


def _ranges(map: IndexMap) -> IndexMap:
    if len(map.results) % 2:
        raise misfit("a region is given by an odd number of begins and ends")
    pairs = zip(map.results[::2], map.results[1::2], strict=True)
    return IndexMap(map.params, tuple(Binary(TO, begin, end) for begin, end in pairs))


def _sizes(state: State) -> Mapping[str, Expr]:
    numbers = {n: Const(v) for n, v in state.values.items() if isinstance(v, int)}
    return {n: v for n, v in state.values.items() if isinstance(v, Expr)} | numbers


def _pad(state: State, value: MapText) -> object:
    found = read_map(value, _sizes(state))
    match found.results:
        case (Const(value=number),):
            return number
        case (_,):
            return found
    raise misfit("a pad value is one number for each index")


def _plain(state: State, value: Input) -> object:
    match value:
        case Name():
            return state.value(value)
        case tuple():
            return tuple(_plain(state, x) for x in value)
        case Mapping():
            return tuple((k, _plain(state, _tuples(v))) for k, v in value.items())
    return value


def _buffers(state: State, slot: Slot, value: Input, block: object, access: Input) -> object:
    assert isinstance(block, Handle)
    s = state.statement(block)
    if not isinstance(s, Block):
        raise misfit(f"a block is needed, not the loop `{s.var}`")
    written = slot.role is Role.WRITTEN or (slot.role is not Role.READ and access in (1, True, "write"))
    regions = s.writes if written else s.reads

    def one(k: Input) -> Handle:
        if not isinstance(k, int) or not 0 <= k < len(regions):
            verb = "writes" if written else "reads"
            raise misfit(f"block `{s.name}` {verb} {len(regions)} buffers, of which none is number {k!r}")
        return state.session.handles.handle(BufferRef(regions[k].buffer))

    return tuple(map(one, value)) if slot.role is Role.BUFFERS and isinstance(value, tuple) else one(value)


def _tuples(value: object) -> Input:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value  # type: ignore[return-value]
