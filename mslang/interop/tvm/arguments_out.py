"""Conversion of the arguments of our operation to inputs and attributes of TVM's instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslang.interop.tvm import words
from mslang.interop.tvm.index_maps import write_map
from mslang.interop.tvm.instructions import Mapped, Role, Slot
from mslang.interop.tvm.trace_json import Input
from mslang.interop.tvm.writing import Writing, lacking
from mslang.ir.expr import Binary, Const, Expr, Symbol
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.program import Block
from mslang.ir.visit import walk_expr
from mslang.schedule.handles import Handle
from mslang.schedule.values import Hole, Location


def arguments_of(to: Writing, mapped: Mapped, bound: Mapping[str, object]) -> tuple[list[Input], list[Input]]:
    """The inputs and the attributes, from the arguments by our parameters.

    Raises:
        MsError: MS746, TVM's instruction cannot express one of them.
    """
    return _inputs(to, mapped, mapped.inputs, bound), _inputs(to, mapped, mapped.attrs, bound)


def _inputs(to: Writing, mapped: Mapped, slots: Sequence[Slot], bound: Mapping[str, object]) -> list[Input]:
    found: list[Input] = []
    for slot in slots:
        value = _slot(to, mapped, slot, bound)
        if slot.role in (Role.REST, Role.FACTORS):
            assert isinstance(value, tuple)
            found += value
        else:
            found.append(value)
    return found


def _slot(to: Writing, mapped: Mapped, slot: Slot, bound: Mapping[str, object]) -> Input:
    value = bound.get(slot.param)
    match slot.role, value:
        case Role.UNUSED, _:
            return slot.given
        case ((Role.HANDLE | Role.EITHER), Handle()):
            return to.name(value)
        case Role.HANDLE, Location(name=str() as name) if name in to.sizes:
            return to.sizes[name]
        case Role.HANDLE, Location(loop=Handle() as loop):
            return to.name(loop)
        case ((Role.EITHER | Role.REST), tuple()):
            return tuple(to.name(h) for h in value)
        case Role.HANDLES, (tuple() | None):
            return tuple(to.name(h) for h in value or ())
        case ((Role.FACTORS | Role.VALUE), _):
            return _size(to, value)
        case Role.SCOPE, str():
            return words.scope_out(value)
        case Role.DTYPE, str():
            return words.dtype_out(value)
        case ((Role.INT | Role.FLAG), (bool() | int())):
            return int(value)
        case Role.INTRIN, Intrin(address=address) if words.intrin_out(address) is not None:
            return words.intrin_out(address)
        case ((Role.TEXT | Role.ACCESS_TEXT), str()):
            return value
        case Role.MAP, IndexMap():
            return write_map(value, _numbers(to, value))
        case Role.REGION, IndexMap():
            ends = IndexMap(value.params, tuple(x for e in value.results for x in _ends(e)))
            return write_map(ends, _numbers(to, ends))
        case Role.PAD, None:
            return None
        case Role.PAD, IndexMap() if _dtype(to, bound) == "i32":
            return write_map(value, _numbers(to, value))
        case Role.PAD, (bool() | int() | float()):
            return _pad(to, value, bound)
        case Role.ACCESS, _:
            return int(_access(to, bound) == "write")
        case ((Role.READ | Role.WRITTEN | Role.EITHER_BUFFER), _):
            return _position(to, slot, bound, value)
        case Role.BUFFERS, tuple():
            return tuple(_position(to, slot, bound, b) for b in value)
    raise lacking(f"`{mapped.op}` with this `{slot.param}`")


def _size(to: Writing, value: object) -> Input:
    match value:
        case None | Hole():
            return None
        case Const(value=v):
            return v
        case Symbol(text=text) if text in to.sizes:
            return to.sizes[text]
        case Expr():
            number = to.number(value)
            if not isinstance(value, Symbol):
                to.note(f"a size is written as {number}", "TVM's traces cannot say sizes that are computed")
            return number
        case tuple():
            return tuple(_size(to, x) for x in value)
        case bool() | int() | float() | str():
            return value
    raise lacking("such a value")


def _numbers(to: Writing, map: IndexMap) -> dict[str, int]:
    symbols = {x.text: x for e in map.results for x in _symbols(e)}
    return {text: to.number(x) for text, x in symbols.items()}


def _regions(to: Writing, bound: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """The buffers that the block reads, and those that it writes."""
    block = bound["block"]
    assert isinstance(block, Handle)
    path = path_to_block(to.session.program, to.session.handles.resolve(block).name)
    assert path is not None
    s = path[-1]
    assert isinstance(s, Block)
    return [r.buffer for r in s.reads], [r.buffer for r in s.writes]


def _buffer(to: Writing, handle: object) -> str:
    assert isinstance(handle, Handle)
    return to.session.handles.resolve(handle).name


def _access(to: Writing, bound: Mapping[str, object]) -> str:
    access = bound.get("access")
    if isinstance(access, str):
        return access
    return "write" if _buffer(to, bound["buffer"]) in _regions(to, bound)[1] else "read"


def _position(to: Writing, slot: Slot, bound: Mapping[str, object], handle: object) -> int:
    reads, writes = _regions(to, bound)
    if handle is None:
        return 0
    name = _buffer(to, handle)
    written = slot.role is Role.WRITTEN or (slot.role is not Role.READ and _access(to, bound) == "write")
    where = writes if written else reads
    if name not in where:
        raise lacking(f"a buffer that the block does not {'write' if written else 'read'}, `{name}`,")
    return where.index(name)


def _dtype(to: Writing, bound: Mapping[str, object]) -> str:
    return all_buffers(to.session.program)[_buffer(to, bound["buffer"])].dtype


def _pad(to: Writing, value: float, bound: Mapping[str, object]) -> Input:
    dtype = _dtype(to, bound)
    map = bound["map"]
    assert isinstance(map, IndexMap)
    params = tuple(f"p{k}" for k in range(len(map.results)))
    return write_map(IndexMap(params, (Const(value, dtype),)), {})


def _ends(e: Expr) -> tuple[Expr, Expr]:
    """Begin and end of a range, or of a single index."""
    if isinstance(e, Binary) and e.op == TO:
        return e.left, e.right
    return e, Binary("+", e, Const(1))


def _symbols(e: Expr) -> list[Symbol]:
    return [x for x in walk_expr(e) if isinstance(x, Symbol)]
