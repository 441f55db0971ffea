"""Our traces as TVM's: replayed step by step, so that each handle can be said in TVM's way.

TVM has no name for a loop but its position: `GetSBlock` and `GetLoops` are put in where a loop or block is used that
no instruction before has given. Sizes that depend on decisions can be said only where they are the decision itself;
elsewhere the number that it has here stands, and a note says so. What TVM has not is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mslang.diagnostics import Diagnostic, MsError, ScheduleError, Severity, problem
from mslang.interop.tvm import words
from mslang.interop.tvm.index_maps import write_map
from mslang.interop.tvm.instructions import BY_OP, ENTER_POSTPROC, Mapped, Role, Slot
from mslang.interop.tvm.names import TvmNames
from mslang.interop.tvm.trace_json import Input, Inst, Name, TvmTrace
from mslang.ir import arith
from mslang.ir.expr import Binary, Const, Expr, Symbol
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.intrin import Intrin
from mslang.ir.program import Block, Program
from mslang.ir.visit import all_buffers, blocks_of, path_to_block, path_to_loop, walk_expr
from mslang.ops.signature import Group
from mslang.ops.table import OPERATIONS
from mslang.schedule import distribution
from mslang.schedule import trace as ours
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.replay import bound_of, step
from mslang.schedule.session import Session
from mslang.schedule.trace import Instruction, Trace
from mslang.schedule.values import Hole, Location
from mslang.transform.outcome import BlockRef, LoopRef

_KEEPS_LOOPS = frozenset(
    {
        "split",
        "fuse",
        "reorder",
        "parallel",
        "vectorize",
        "unroll",
        "bind",
        "annotate",
        "unannotate",
        "decompose_reduction",
    }
)
"""After other primitives TVM's variables of loops may be dead, or mean the loop of another block, where ours do not:
loops are asked for anew."""


class Exported(msgspec.Struct, frozen=True):
    """A trace of TVM's, and what was noted on the way."""

    trace: TvmTrace
    notes: tuple[Diagnostic, ...] = ()


def export_trace(program: Program, trace: Trace, *, function: str = "main") -> Exported:
    """The trace of TVM's that does what a pinned trace of ours does.

    Args:
        program: what the trace is for.
        trace: the trace; a decision without a value is drawn.
        function: what TVM's module calls the program.

    Raises:
        MsError: MS746, it holds what TVM has not; or an instruction does not apply.
    """
    return _Export(program, trace, function).run()


class _Export:
    def __init__(self, program: Program, trace: Trace, function: str) -> None:
        self.source = trace
        self.function = function
        self.session = Session(program, Drawing(0, pins=trace.decisions))
        self.names = TvmNames(self.session)
        self.insts: list[Inst] = []
        self.decisions: list[tuple[int, object]] = []
        self.blocks: dict[int, Name] = {}
        self.loops: dict[int, Name] = {}
        """By the number of a handle."""
        self.sizes: dict[str, Name] = {}
        """By a symbol's text, or the name of a location."""
        self.count = 0
        self.notes: dict[str, Diagnostic] = {}

    def run(self) -> Exported:
        for k, instruction in enumerate(self.source.instructions):
            try:
                self._step(instruction)
            except MsError as error:
                first = error.diagnostic
                where = f"instruction {k + 1} of the trace, `{instruction.op}`"
                why = f"{first.why}; {where}" if first.why else where
                raise ScheduleError(msgspec.structs.replace(first, why=why)) from error
        return Exported(TvmTrace(tuple(self.insts), tuple(self.decisions)), tuple(self.notes.values()))

    def _note(self, message: str, why: str) -> None:
        self.notes[message] = Diagnostic("MS744", message, severity=Severity.WARNING, why=why)

    # ------------------------------------------------------------------ writing
    def _emit(self, kind: str, inputs: Sequence[Input], attrs: Sequence[Input], given: str = "") -> tuple[Name, ...]:
        """An instruction that gives one variable for each letter of `given`."""
        names = tuple(Name(f"{letter}{self.count + k}") for k, letter in enumerate(given))
        self.count += len(names)
        self.insts.append(Inst(kind, tuple(inputs), tuple(attrs), tuple(n.text for n in names)))
        return names

    def _name(self, handle: Handle) -> Name:
        """The random variable of a handle, asked for if it has none yet."""
        known = (self.loops if handle.kind == "loop" else self.blocks).get(handle.number)
        if known is not None:
            return known
        ref = self.session.handles.resolve(handle)
        if isinstance(ref, BlockRef):
            (known,) = self._emit("GetSBlock", (), (self.names.of_block(ref.name), self.function), "b")
            self.blocks[handle.number] = known
            return known
        path = path_to_loop(self.session.program, ref.name)
        assert path is not None
        block = blocks_of((path[-1],), into_blocks=False)[0]
        of = self.session.handles.handle(BlockRef(block.name))
        loops = self.session.call("loops", (of,), {})
        assert isinstance(loops, tuple)
        made = self._emit("GetLoops", (self._name(of),), (), "l" * len(loops))
        for loop, name in zip(loops, made, strict=True):
            self.loops.setdefault(loop.number, name)
        return self.loops[handle.number]

    # ------------------------------------------------------------------ one instruction
    def _step(self, instruction: Instruction) -> None:
        values = self.source.decisions
        if instruction.op == ours.ENTER_POSTPROC:
            self._emit(ENTER_POSTPROC, (), ())
        elif instruction.op == ours.REQUIRE:
            self._note("`require` is left out", "TVM's traces have no conditions; the decisions here satisfy it")
        elif OPERATIONS[instruction.op].group is Group.SAMPLER:
            self._sample(instruction)
            return
        else:
            self._apply(instruction)
            return
        step(self.session, instruction, values)

    def _apply(self, instruction: Instruction) -> None:
        bound = bound_of(self.session, instruction)
        mapped = self._mapped(instruction.op, bound)
        where = bound.get("block")
        if mapped is not None:
            inputs, attrs = self._slots(mapped, mapped.inputs, bound), self._slots(mapped, mapped.attrs, bound)
        expected = self.names.expected(instruction.op, bound)
        before = len(self.session.instructions)
        step(self.session, instruction, self.source.decisions)
        assert len(self.session.instructions) == before + 1
        results = [self.session.named(n) for n in self.session.instructions[-1].results]
        handles = [h for h in results if isinstance(h, Handle)]
        self.names.learn(instruction.op, where, handles, expected)
        if instruction.op not in _KEEPS_LOOPS:
            self.loops.clear()
        if mapped is not None:
            made = self._emit(mapped.kind, inputs, attrs, "".join(h.kind[0] for h in handles))
            for handle, name in zip(handles, made, strict=True):
                (self.loops if handle.kind == "loop" else self.blocks)[handle.number] = name

    def _mapped(self, op: str, bound: Mapping[str, object]) -> Mapped | None:
        """TVM's instruction for an operation; None if nothing is to be said."""
        location = bound.get("loop")
        if isinstance(location, Location) and location.name is None and location.loop is None:
            if location.label == "root":
                return None
            op = "compute_inline" if op == "compute_at" else "reverse_compute_inline"
        if op == "split" and bound["tail"] != "guard":
            raise _lacking(f"`split` with `tail = {bound['tail']}`")
        if op == "unroll" and bound["max_steps"] is not None:
            return self._limited_unroll(bound)
        if op not in BY_OP:
            raise _lacking(f"`{op}`")
        return BY_OP[op]

    def _limited_unroll(self, bound: Mapping[str, object]) -> Mapped | None:
        loop, limit = bound["loop"], bound["max_steps"]
        assert isinstance(loop, Handle)
        extent = self.session.call("extent", (loop,), {})
        size = extent if isinstance(extent, Expr) else Const(int(str(extent)))
        runs = self._number(size) <= self._number(limit if isinstance(limit, Expr) else Const(int(str(limit))))
        self._note(
            f"`unroll` of `{loop.name}` up to a limit is {'unrolled' if runs else 'left out'}",
            "TVM's `unroll` has no limit",
        )
        return BY_OP["unroll"] if runs else None

    # ------------------------------------------------------------------ arguments
    def _slots(self, mapped: Mapped, slots: Sequence[Slot], bound: Mapping[str, object]) -> list[Input]:
        found: list[Input] = []
        for slot in slots:
            value = self._slot(mapped, slot, bound)
            if slot.role in (Role.REST, Role.FACTORS):
                assert isinstance(value, tuple)
                found += value
            else:
                found.append(value)
        return found

    def _slot(self, mapped: Mapped, slot: Slot, bound: Mapping[str, object]) -> Input:
        value = bound.get(slot.param)
        match slot.role, value:
            case Role.UNUSED, _:
                return slot.given
            case ((Role.HANDLE | Role.EITHER), Handle()):
                return self._name(value)
            case Role.HANDLE, Location(name=str() as name) if name in self.sizes:
                return self.sizes[name]
            case Role.HANDLE, Location(loop=Handle() as loop):
                return self._name(loop)
            case ((Role.EITHER | Role.REST), tuple()):
                return tuple(self._name(h) for h in value)
            case Role.HANDLES, (tuple() | None):
                return tuple(self._name(h) for h in value or ())
            case ((Role.FACTORS | Role.VALUE), _):
                return self._size(value)
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
                return write_map(value, self._numbers(value))
            case Role.REGION, IndexMap():
                ends = IndexMap(value.params, tuple(x for e in value.results for x in _ends(e)))
                return write_map(ends, self._numbers(ends))
            case Role.PAD, None:
                return None
            case Role.PAD, IndexMap() if self._dtype(bound) == "i32":
                return write_map(value, self._numbers(value))
            case Role.PAD, (bool() | int() | float()):
                return self._pad(value, bound)
            case Role.ACCESS, _:
                return int(self._access(bound) == "write")
            case ((Role.READ | Role.WRITTEN | Role.EITHER_BUFFER), _):
                return self._position(slot, bound, value)
            case Role.BUFFERS, tuple():
                return tuple(self._position(slot, bound, b) for b in value)
        raise _lacking(f"`{mapped.op}` with this `{slot.param}`")

    def _size(self, value: object) -> Input:
        match value:
            case None | Hole():
                return None
            case Const(value=v):
                return v
            case Symbol(text=text) if text in self.sizes:
                return self.sizes[text]
            case Expr():
                number = self._number(value)
                if not isinstance(value, Symbol):
                    self._note(f"a size is written as {number}", "TVM's traces cannot say sizes that are computed")
                return number
            case tuple():
                return tuple(self._size(x) for x in value)
            case bool() | int() | float() | str():
                return value
        raise _lacking("such a value")

    def _number(self, e: Expr) -> int:
        known = arith.simplify(arith.substitute_symbols(e, distribution.plain(self.session.draws.numbers)))
        if not isinstance(known, Const) or not isinstance(known.value, int):
            raise _lacking("a size that is known only at the call")
        return known.value

    def _numbers(self, map: IndexMap) -> dict[str, int]:
        symbols = {x.text: x for e in map.results for x in _symbols(e)}
        return {text: self._number(x) for text, x in symbols.items()}

    # ------------------------------------------------------------------ buffers
    def _regions(self, bound: Mapping[str, object]) -> tuple[list[str], list[str]]:
        """The buffers that the block reads, and those that it writes."""
        block = bound["block"]
        assert isinstance(block, Handle)
        path = path_to_block(self.session.program, self.session.handles.resolve(block).name)
        assert path is not None
        s = path[-1]
        assert isinstance(s, Block)
        return [r.buffer for r in s.reads], [r.buffer for r in s.writes]

    def _buffer(self, handle: object) -> str:
        assert isinstance(handle, Handle)
        return self.session.handles.resolve(handle).name

    def _access(self, bound: Mapping[str, object]) -> str:
        access = bound.get("access")
        if isinstance(access, str):
            return access
        return "write" if self._buffer(bound["buffer"]) in self._regions(bound)[1] else "read"

    def _position(self, slot: Slot, bound: Mapping[str, object], handle: object) -> int:
        reads, writes = self._regions(bound)
        if handle is None:
            return 0
        name = self._buffer(handle)
        written = slot.role is Role.WRITTEN or (slot.role is not Role.READ and self._access(bound) == "write")
        where = writes if written else reads
        if name not in where:
            raise _lacking(f"a buffer that the block does not {'write' if written else 'read'}, `{name}`,")
        return where.index(name)

    def _dtype(self, bound: Mapping[str, object]) -> str:
        return all_buffers(self.session.program)[self._buffer(bound["buffer"])].dtype

    def _pad(self, value: float, bound: Mapping[str, object]) -> Input:
        dtype = self._dtype(bound)
        map = bound["map"]
        assert isinstance(map, IndexMap)
        params = tuple(f"p{k}" for k in range(len(map.results)))
        return write_map(IndexMap(params, (Const(value, dtype),)), {})

    # ------------------------------------------------------------------ sampling
    def _sample(self, instruction: Instruction) -> None:
        address = instruction.address
        assert address is not None
        bound = bound_of(self.session, instruction)
        loop = bound.get("loop")
        block = bound.get("block")
        of = self._name(loop) if isinstance(loop, Handle) else self._name(block) if isinstance(block, Handle) else None
        places = self._places(block) if instruction.op == "compute_location" else {}
        step(self.session, instruction, self.source.decisions)
        value = self.session.draws.values[address]
        n = bound.get("n")
        match instruction.op, value:
            case "perfect_tile", tuple():
                cap = bound["max_inner"]
                attrs: tuple[Input, ...] = (_int(n), -1 if cap is None else _int(cap))
                self._drawn("SamplePerfectTile", (of,), attrs, address, value)
            case "partitioned_tile", tuple():
                attrs = (_int(n), _int(bound["at"]), _int(bound["factor"]))
                self._drawn("SamplePartitionedTile", (of,), attrs, address, value)
            case "choose", int() if not isinstance(value, bool) and _integers(bound["values"]):
                values = bound["values"]
                assert isinstance(values, tuple)
                weights = bound["weights"] or (1 / len(values),) * len(values)
                assert isinstance(weights, tuple)
                self._drawn("SampleCategorical", (), (values, tuple(map(float, weights))), address, value)
            case "compute_location", str() if value in places:
                name = self._emit("SampleComputeLocation", (of,), (), "l")[0]
                self.decisions.append((len(self.insts) - 1, places[value]))
                self.sizes[instruction.results[0]] = name
            case (("tile" | "uniform"), _):
                self._note(f"the decision `{address}` is written as {value}", f"TVM has no `{instruction.op}`")

    def _drawn(
        self, kind: str, inputs: tuple[Input, ...], attrs: tuple[Input, ...], address: str, value: object
    ) -> None:
        if isinstance(value, tuple):
            names = self._emit(kind, inputs, attrs, "v" * len(value))
            self.sizes.update({f"{address}[{k}]": n for k, n in enumerate(names)})
            decision: object = value
        else:
            self.sizes[address] = self._emit(kind, inputs, attrs, "v")[0]
            candidates = attrs[0]
            assert isinstance(candidates, tuple)
            decision = candidates.index(value)
        self.decisions.append((len(self.insts) - 1, decision))

    def _places(self, block: object) -> dict[str, int]:
        """TVM's numbers of the places of a block: the loops of its first consumer from the outside, or a mark."""
        assert isinstance(block, Handle)
        users = self.session.call("consumers", (block,), {})
        assert isinstance(users, tuple)
        loops = self.session.call("loops", (users[0],), {}) if users else ()
        assert isinstance(loops, tuple)
        names = [self.session.handles.resolve(h) for h in loops]
        there = {f"at({r.name})": k for k, r in enumerate(names) if isinstance(r, LoopRef)}
        return {"inline": -2, "root": -1, **there}


def _ends(e: Expr) -> tuple[Expr, Expr]:
    """Begin and end of a range, or of a single index."""
    if isinstance(e, Binary) and e.op == TO:
        return e.left, e.right
    return e, Binary("+", e, Const(1))


def _lacking(what: str) -> MsError:
    return MsError(problem("MS746", f"TVM has no equal of {what}".rstrip(",")))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _integers(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(x, int) and not isinstance(x, bool) for x in values)


def _symbols(e: Expr) -> list[Symbol]:
    return [x for x in walk_expr(e) if isinstance(x, Symbol)]
