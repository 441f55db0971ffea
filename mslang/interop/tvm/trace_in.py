"""TVM's traces as ours: each instruction is executed on a session, which maps its random variables to handles.

TVM knows blocks by name, loops by position and buffers by position; all three are looked up in the program
at that instruction. Differences between the two:

- loops of one iteration: TVM's `compute_at` omits them by default, ours never does.
  Those that TVM omits are recorded, and skipped when loops are counted;
- names: a block that TVM calls `C_local` may be `C_local_1` here, since names are unique; TVM's names are recorded;
- annotations of TVM's root block, which is not a block here, are for its postprocessors; they are kept separately, and
  those that remain at the end are reported in a note;
- an annotation with an existing key has no effect in TVM, and is omitted; so is the removal of one that only
  TVM copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from mslang.diagnostics import Diagnostic, MsError, ScheduleError, Severity, problem
from mslang.interop.tvm import scopes
from mslang.interop.tvm.arguments_in import arguments_of
from mslang.interop.tvm.instructions import (
    BY_KIND,
    ENTER_POSTPROC,
    GETTERS,
    LOST,
    SAMPLERS,
    Mapped,
    kind_of,
)
from mslang.interop.tvm.reindexed import units_in_sums
from mslang.interop.tvm.state import ROOT, State, misfit
from mslang.interop.tvm.trace_json import Input, Inst, Name, TvmTrace
from mslang.ir.arith import simplify
from mslang.ir.find import blocks_of
from mslang.ir.intrin import Intrin
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import walk
from mslang.ops.signature import Required
from mslang.schedule import sampling
from mslang.schedule.arguments import bind
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session
from mslang.schedule.sketch import sketch_of
from mslang.schedule.trace import Trace
from mslang.schedule.values import Location
from mslang.transform.outcome import BlockRef, LoopRef
from mslang.transform.registry import OPERATIONS


class Imported(msgspec.Struct, frozen=True):
    """The equivalent trace of ours, the program after it, and the notes of the import."""

    trace: Trace
    program: Program
    notes: tuple[Diagnostic, ...] = ()


def import_trace(
    program: Program,
    trace: TvmTrace,
    *,
    target: str | None = None,
    seed: int = 0,
    intrinsics: Mapping[str, Intrin] = MappingProxyType({}),
) -> Imported:
    """The pinned trace of ours that is equivalent to a TVM trace on a program.

    Where the outcome is the same as in TVM, sampled sizes stay decisions, pinned to the values of TVM's trace. TVM
    uses these values for legality and for the extents of a moved block's loops, and ours never does: where the
    outcome would differ, they are written as plain numbers.

    Args:
        program: the program of TVM's trace.
        trace: TVM's trace.
        target: the target of the resulting trace.
        seed: the seed for decisions that the trace lacks.
        intrinsics: the user's own intrinsics, by the names that the trace has for them.

    Raises:
        MsError: MS742, an instruction is unknown to mslang; MS743, it does not fit the program; or the refusal of a
            primitive, with the instruction named.
    """
    if len(trace.functions) > 1:
        raise misfit(
            f"the trace schedules several functions, {', '.join(trace.functions)}", "a schedule has one program"
        )
    plain = _attempt(program, trace, seed, target, intrinsics, literal=True)
    open_ = _attempt(program, trace, seed, target, intrinsics, literal=False)
    match open_, plain:
        case Imported(), Imported() if _extents(open_.program) != _extents(plain.program):
            return _closed(plain, "its loops would run further")
        case Imported(), _:
            return open_
        case MsError(), Imported():
            return _closed(plain, open_.diagnostic.message)
    assert isinstance(open_, MsError)
    raise plain if isinstance(plain, MsError) else open_


def _attempt(
    program: Program,
    trace: TvmTrace,
    seed: int,
    target: str | None,
    intrinsics: Mapping[str, Intrin],
    *,
    literal: bool,
) -> Imported | MsError:
    try:
        return _Import(program, trace, seed, literal, intrinsics).run(target)
    except MsError as error:
        return error


def _closed(found: Imported, why: str) -> Imported:
    note = Diagnostic("MS744", "the sizes sampled are written as numbers", severity=Severity.WARNING, why=why)
    return msgspec.structs.replace(found, notes=(*found.notes, note))


def _extents(program: Program) -> tuple[object, ...]:
    """The trip count of every loop, and the location of every block."""
    return tuple(
        simplify(s.extent) if isinstance(s, For) else s.name for s in walk(program.body) if isinstance(s, For | Block)
    )


class _Import:
    def __init__(
        self, program: Program, trace: TvmTrace, seed: int, literal: bool, intrinsics: Mapping[str, Intrin]
    ) -> None:
        self.source = trace
        self.literal = literal
        self.drawing = Drawing(seed)
        self.session = Session(program, self.drawing)
        self.state = State(self.session, intrinsics)
        self.root_notes: dict[str, object] = {}
        self.notes: dict[str, Diagnostic] = {}
        self.addresses: set[str] = set()

    def run(self, target: str | None) -> Imported:
        decisions = self.source.by_position
        for k, inst in enumerate(self.source.insts):
            try:
                self._step(inst, decisions.get(k))
            except MsError as error:
                first = error.diagnostic
                where = f"instruction {k} of TVM's trace, `{inst.kind}`"
                why = f"{first.why}; {where}" if first.why else where
                raise ScheduleError(msgspec.structs.replace(first, why=why)) from error
        for key in self.root_notes:
            self._note("MS744", f"the remark {key!r} on the root block is left out", "only TVM's own passes read it")
        sketch = sketch_of(self.session, target=target)
        numbers = self.session.draws.numbers
        done = msgspec.structs.replace(sketch.trace, values=tuple(self.session.draws.values.items()))
        return Imported(done, sketch.instantiate(numbers), (*self.notes.values(), *self.drawing.warnings.values()))

    def _note(self, code: str, message: str, why: str | None = None) -> None:
        self.notes[message] = Diagnostic(code, message, severity=Severity.WARNING, why=why)

    # ------------------------------------------------------------------ one instruction
    def _step(self, inst: Inst, decision: object) -> None:
        kind = kind_of(inst.kind)
        if kind == "GetSBlock":
            name = inst.attrs[0] if inst.attrs else inst.inputs[0] if inst.inputs else None
            self._give(inst, (self._block_named(name),))
        elif kind in GETTERS:
            self._give(inst, self._get(kind, inst))
        elif kind in SAMPLERS:
            self._give(inst, self._sample(kind, inst, decision))
        elif kind == ENTER_POSTPROC:
            self.session.enter_postproc()
        elif kind in LOST:
            self._note("MS744", f"`{inst.kind}` is left out", "it says how TVM flattens a buffer, which ours never is")
        elif kind in BY_KIND:
            self._apply(BY_KIND[kind], inst)
        else:
            raise MsError(problem("MS742", f"mslang has no instruction `{inst.kind}`"))

    def _give(self, inst: Inst, found: Sequence[object]) -> None:
        if len(found) != len(inst.outputs):
            raise misfit(f"`{inst.kind}` gives {len(found)} things here, and gave TVM {len(inst.outputs)}")
        self.state.values.update(zip(inst.outputs, found, strict=True))

    # ------------------------------------------------------------------ getters
    def _block_named(self, name: object) -> object:
        if not isinstance(name, str):
            raise misfit("a block's name is needed")
        found = self.state.names.block(name)
        if found is not None:
            return found
        if name == "root":
            return ROOT
        known = ", ".join(f"`{self.state.names.of_block(b.name)}`" for b in blocks_of(self.session.program.body))
        raise misfit(f"there is no block `{name}`", why=f"the blocks at this point are {known}")

    def _get(self, kind: str, inst: Inst) -> tuple[object, ...]:
        of = inst.inputs[0] if inst.inputs else None
        if isinstance(of, Name) and self.state.value(of) is ROOT:
            return self._get_of_root(kind)
        handle = self.state.handle(of)
        if kind in _RELATED:
            related = _RELATED[kind](self.session.program, self._block(handle).name)
            return tuple(self.session.handles.handle(BlockRef(n)) for n in related)
        found = self.state.ask(GETTERS[kind], handle)
        if kind != "GetLoops":
            return found
        there = tuple(h for h in found if h.number not in self.state.absent)
        wanted = len(inst.outputs)
        while len(there) > wanted:
            spare = next((h for h in reversed(there) if self.state.extent(h) == 1), None)
            if spare is None:
                break
            self.state.absent.add(spare.number)
            there = tuple(h for h in there if h is not spare)
        return there

    def _block(self, handle: Handle) -> BlockRef:
        ref = self.session.handles.resolve(handle)
        if not isinstance(ref, BlockRef):
            raise misfit(f"a block is needed, not the loop `{handle.name}`")
        return ref

    def _get_of_root(self, kind: str) -> tuple[object, ...]:
        blocks = [
            self.session.handles.handle(BlockRef(b.name))
            for b in blocks_of(self.session.program.body, into_blocks=False)
        ]
        match kind:
            case "GetChildBlocks":
                return tuple(blocks)
            case "GetOutputBlocks" if blocks:
                return self.state.ask("output_blocks", blocks[0])
        return ()

    # ------------------------------------------------------------------ sampling
    def _sample(self, kind: str, inst: Inst, decision: object) -> tuple[object, ...]:
        match kind, inst.inputs, inst.attrs:
            case "SamplePerfectTile", (Name() as rv,), (int() as n, int() as cap):
                return self._perfect_tile(self.state.handle(rv), n, cap, decision)
            case "SamplePartitionedTile", (Name() as rv,), (int() as n, int() as at, int() as factor):
                loop = self.state.handle(rv)
                given = self._tile(decision, n)
                return self._drawn("partitioned_tile", f"{loop.name}_tile", given, loop, n, at, factor)
            case "SampleCategorical", _, (tuple() as values, tuple() as weights):
                return self._categorical(values, weights, decision)
            case "SampleComputeLocation", (Name() as rv,), _:
                return (self._location(self.state.handle(rv, "a block"), decision),)
        raise misfit(f"`{inst.kind}` is not given what it takes")

    def _drawn(self, op: str, name: str, given: object, *args: object) -> tuple[object, ...]:
        if self.literal and given is not None and op != "compute_location":
            return given if isinstance(given, tuple) else (given,)
        address, k = name, 0
        while address in self.addresses or self.session.named(address) is not None:
            k += 1
            address = f"{name}_{k}"
        self.addresses.add(address)
        bound = bind(OPERATIONS[op], args, {})
        found = self.session.sample(op, bound, address=address, name=address, given=given)  # type: ignore[arg-type]
        return found if isinstance(found, tuple) else (found,)

    def _tile(self, decision: object, n: int) -> tuple[int, ...] | None:
        if decision is None:
            return None
        if not isinstance(decision, tuple) or len(decision) != n or not all(isinstance(x, int) for x in decision):
            raise misfit(f"{decision!r} is not a decision for a tile of {n}")
        return decision

    def _perfect_tile(self, loop: Handle, n: int, cap: int, decision: object) -> tuple[object, ...]:
        given = self._tile(decision, n)
        most = None if cap < 0 else cap
        extent = self.state.extent(loop)
        if given is not None and extent is not None:
            mended = _mended(given, extent)
            if mended != given:
                self._note(
                    "MS744", f"the tile {list(given)} is {list(mended)} here", f"the loop has {extent} iterations"
                )
            given = mended
            if most is not None and given[-1] > most:
                # TVM does not check given values against the limit of its draws.
                most = given[-1]
        return self._drawn("perfect_tile", f"{loop.name}_tile", given, loop, n, most)

    def _categorical(
        self, values: tuple[Input, ...], weights: tuple[Input, ...], decision: object
    ) -> tuple[object, ...]:
        if decision is not None and not (isinstance(decision, int) and 0 <= decision < len(values)):
            raise misfit(f"{decision!r} is not a position among {len(values)} candidates")
        if not all(isinstance(x, int | float) for x in (*values, *weights)):
            raise misfit("candidates and their weights are numbers")
        same = len(set(weights)) == 1
        given = None if decision is None else values[decision]
        return self._drawn("choose", "choice", given, values, None if same else weights)

    def _location(self, block: Handle, decision: object) -> object:
        ref = self._block(block)
        legal = sampling.locations(self.session.program, ref)
        name = f"{block.name}_at"
        if decision is None:
            return self._drawn("compute_location", name, None, block)[0]
        label = self._location_label(block, decision)
        if label in legal:
            return self._drawn("compute_location", name, label, block)[0]
        if not label.startswith("at("):
            return Location(label)
        # Not among our locations: it is kept as it is, and the primitive checks it.
        return self.session.handles.handle(LoopRef(label[3:-1]))

    def _location_label(self, block: Handle, decision: object) -> str:
        match decision:
            case -2:
                return "inline"
            case -1:
                return "root"
            case int() if decision >= 0:
                ref = self.session.handles.resolve(block)
                names = scopes.consumers(self.session.program, ref.name)[:1]
                users = [self.session.handles.handle(BlockRef(n)) for n in names]
                above = [h for u in users for h in self.state.ask("loops", u) if h.number not in self.state.absent]
                if decision < len(above):
                    return f"at({self.session.handles.resolve(above[decision]).name})"
        raise misfit(f"{decision!r} is not a place for block `{block.name}`")

    # ------------------------------------------------------------------ primitives
    def _apply(self, mapped: Mapped, inst: Inst) -> None:
        arguments = arguments_of(self.state, mapped, inst)
        if arguments.get("target") is ROOT:
            self._remark_on_root(mapped.op, arguments)
            return
        if mapped.op in ("annotate", "unannotate") and self._there(arguments) is (mapped.op == "annotate"):
            why = "the key is there already" if mapped.op == "annotate" else "the key is not there"
            self._note("MS744", f"`{inst.kind}` of {arguments['key']!r} is left out", why)
            return
        if mapped.op == "reindex" and units_in_sums(self.session, arguments):
            arguments["fold_units"] = True
        if mapped.op == "fuse":
            arguments["loops"] = self.state.with_absent(arguments["loops"])
        where = arguments.get("block")
        before = self.state.loops_elsewhere(where) if mapped.op in _MOVES else frozenset()
        expected = self.state.names.expected(mapped.op, arguments)
        signature = OPERATIONS[mapped.op]
        needed = next(
            (p for p in signature.params if isinstance(p.default, Required) and p.name not in arguments), None
        )
        if needed is not None and not needed.variadic:
            raise misfit(f"`{inst.kind}` is not given its {needed.name}")
        arguments = {p.name: p.default for p in signature.params if not p.variadic} | arguments
        args = [arguments.pop(p.name) for p in signature.params if not p.keyword and not p.variadic]
        args += [x for p in signature.params if p.variadic for x in arguments.pop(p.name)]  # type: ignore[attr-defined]
        unchanged = self.session.program
        results = self.session.apply(mapped.op, bind(signature, args, arguments))
        self.state.names.learn(mapped.op, where, results, expected, unchanged)
        if mapped.op in _MOVES and not (inst.attrs and inst.attrs[0]):
            new = [h for h in self.state.loops_above(where) if h.number not in before]
            self.state.absent |= {h.number for h in new if self.state.extent(h) == 1}
        if inst.outputs:
            self._give(inst, results)

    # ------------------------------------------------------------------ differences from TVM
    def _remark_on_root(self, op: str, arguments: Mapping[str, object]) -> None:
        key = arguments.get("key")
        if not isinstance(key, str) or (op == "annotate" and "value" not in arguments):
            raise misfit(f"{key!r} is not a key, or has no value")
        if op == "annotate":
            self.root_notes.setdefault(key, arguments["value"])
        else:
            self.root_notes.pop(key, None)

    def _there(self, arguments: Mapping[str, object]) -> bool:
        target = arguments["target"]
        if not isinstance(target, Handle):
            raise misfit(f"{target!r} is neither a block nor a loop")
        return arguments["key"] in dict(self.state.statement(target).annotations)


_RELATED = {"GetProducers": scopes.producers, "GetConsumers": scopes.consumers}
_MOVES = frozenset({"compute_at", "reverse_compute_at"})


def _mended(tile: tuple[int, ...], extent: int) -> tuple[int, ...]:
    """A tile as repaired by TVM: from innermost outwards, a factor that does not divide takes the whole remainder."""
    left = extent
    made: list[int] = []
    for factor in reversed(tile[1:]):
        used = factor if factor > 0 and left % factor == 0 else left
        made.append(used)
        left //= used
    return (left, *reversed(made))
