"""Our traces as TVM's: replayed step by step, to express each handle in TVM's form.

TVM identifies a loop only by its position: `GetSBlock` and `GetLoops` are inserted before the first use of a loop or
block that no instruction has returned. A size that depends on decisions can be expressed only if it is the decision
itself; otherwise its present value is written, with a note. Features that TVM lacks are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Diagnostic, MsError, ScheduleError
from mslang.interop.tvm.arguments_out import arguments_of
from mslang.interop.tvm.instructions import BY_OP, ENTER_POSTPROC, Mapped
from mslang.interop.tvm.reindexed import units_in_sums
from mslang.interop.tvm.trace_json import Input, TvmTrace
from mslang.interop.tvm.writing import Writing, lacking
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Program
from mslang.ops.signature import Group
from mslang.schedule import instruction as ours
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.instruction import Instruction
from mslang.schedule.replay import bound_of, step
from mslang.schedule.session import Session
from mslang.schedule.trace import Trace
from mslang.schedule.values import Location
from mslang.transform.outcome import LoopRef
from mslang.transform.registry import OPERATIONS

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
loops are asked for again."""


class Exported(msgspec.Struct, frozen=True):
    """A TVM trace, and the notes of the export."""

    trace: TvmTrace
    notes: tuple[Diagnostic, ...] = ()


def export_trace(
    program: Program, trace: Trace, *, function: str = "main", blocks: Mapping[str, str] = MappingProxyType({})
) -> Exported:
    """The TVM trace that is equivalent to a pinned trace of ours.

    Args:
        program: the program of the trace.
        trace: the trace; a decision without a value is drawn.
        function: the program's name in TVM's module.
        blocks: what blocks of the program are called here, by the names that TVM's module has for them, where these
            differ: `Function.blocks` of what `tvmscript.read` gives.

    Raises:
        MsError: MS746, it uses a feature that TVM lacks; or an instruction does not apply.
    """
    return _Export(program, trace, function, blocks).run()


class _Export:
    def __init__(self, program: Program, trace: Trace, function: str, blocks: Mapping[str, str]) -> None:
        self.source = trace
        self.session = Session(program, Drawing(0, pins=trace.decisions))
        self.to = Writing(self.session, function, blocks)

    def run(self) -> Exported:
        for k, instruction in enumerate(self.source.instructions):
            try:
                self._step(instruction)
            except MsError as error:
                first = error.diagnostic
                where = f"instruction {k + 1} of the trace, `{instruction.op}`"
                why = f"{first.why}; {where}" if first.why else where
                raise ScheduleError(msgspec.structs.replace(first, why=why)) from error
        return Exported(self.to.trace, tuple(self.to.notes.values()))

    # ------------------------------------------------------------------ one instruction
    def _step(self, instruction: Instruction) -> None:
        values = self.source.decisions
        if instruction.op == ours.ENTER_POSTPROC:
            self.to.emit(ENTER_POSTPROC, (), ())
        elif instruction.op == ours.REQUIRE:
            self.to.note("`require` is left out", "TVM's traces have no conditions; the decisions here satisfy it")
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
            inputs, attrs = arguments_of(self.to, mapped, bound)
        expected = self.to.names.expected(instruction.op, bound)
        before, program = len(self.session.instructions), self.session.program
        step(self.session, instruction, self.source.decisions)
        assert len(self.session.instructions) == before + 1
        results = [self.session.named(n) for n in self.session.instructions[-1].results]
        handles = [h for h in results if isinstance(h, Handle)]
        self.to.names.learn(instruction.op, where, handles, expected, program)
        if instruction.op not in _KEEPS_LOOPS:
            self.to.loops.clear()
        if mapped is not None:
            made = self.to.emit(mapped.kind, inputs, attrs, "".join(h.kind[0] for h in handles))
            for handle, name in zip(handles, made, strict=True):
                self.to.variables(handle)[handle.number] = name

    def _mapped(self, op: str, bound: Mapping[str, object]) -> Mapped | None:
        """TVM's instruction for an operation; None if no instruction is needed."""
        location = bound.get("loop")
        if isinstance(location, Location) and location.name is None and location.loop is None:
            if location.label == "root":
                return None
            op = "compute_inline" if op == "compute_at" else "reverse_compute_inline"
        if op == "split" and bound["tail"] != "guard":
            raise lacking(f"`split` with `tail = {bound['tail']}`")
        if op in ("prefetch", "stream"):
            self.to.note(f"`{op}` is left out", "TVM's schedules have none; it changes no result")
            return None
        if op == "unroll" and bound["max_steps"] is not None:
            return self._limited_unroll(bound)
        if op == "reindex" and not bound["fold_units"] and units_in_sums(self.session, bound):
            raise lacking("`reindex` that keeps axes of extent 1 in sums; with `fold_units = true` it")
        if op not in BY_OP:
            raise lacking(f"`{op}`")
        return BY_OP[op]

    def _limited_unroll(self, bound: Mapping[str, object]) -> Mapped | None:
        loop, limit = bound["loop"], bound["max_steps"]
        assert isinstance(loop, Handle)
        extent = self.session.call("extent", (loop,), {})
        size = extent if isinstance(extent, Expr) else Const(int(str(extent)))
        runs = self.to.number(size) <= self.to.number(limit if isinstance(limit, Expr) else Const(int(str(limit))))
        self.to.note(
            f"`unroll` of `{loop.name}` up to a limit is {'unrolled' if runs else 'left out'}",
            "TVM's `unroll` has no limit",
        )
        return BY_OP["unroll"] if runs else None

    # ------------------------------------------------------------------ sampling
    def _sample(self, instruction: Instruction) -> None:
        address = instruction.address
        assert address is not None
        bound = bound_of(self.session, instruction)
        loop = bound.get("loop")
        block = bound.get("block")
        of = (
            self.to.name(loop)
            if isinstance(loop, Handle)
            else self.to.name(block)
            if isinstance(block, Handle)
            else None
        )
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
                name = self.to.emit("SampleComputeLocation", (of,), (), "l")[0]
                self.to.decide(places[value])
                self.to.sizes[instruction.results[0]] = name
            case (("tile" | "uniform"), _):
                self.to.note(f"the decision `{address}` is written as {value}", f"TVM has no `{instruction.op}`")

    def _drawn(
        self, kind: str, inputs: tuple[Input, ...], attrs: tuple[Input, ...], address: str, value: object
    ) -> None:
        if isinstance(value, tuple):
            names = self.to.emit(kind, inputs, attrs, "v" * len(value))
            self.to.sizes.update({f"{address}[{k}]": n for k, n in enumerate(names)})
            decision: object = value
        else:
            self.to.sizes[address] = self.to.emit(kind, inputs, attrs, "v")[0]
            candidates = attrs[0]
            assert isinstance(candidates, tuple)
            decision = candidates.index(value)
        self.to.decide(decision)

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


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _integers(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(x, int) and not isinstance(x, bool) for x in values)
