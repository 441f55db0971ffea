"""A running schedule: the program so far, its handles, and the trace.

Decisions are always symbols here; the numbers drawn for them (`Draws`) do not affect the program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.ir.expr import Const, Expr, Symbol
from mslang.ir.find import all_buffers, blocks_of, contents_of, loops_of, path_to_block, path_to_loop, used_names
from mslang.ir.program import For, Program
from mslang.ir.visit import free_vars, fresh, walk
from mslang.ops.signature import Group, Signature
from mslang.ops.words import WORDS
from mslang.schedule import memo, sampling
from mslang.schedule.arguments import Bound, bind, lowered, resolved, written
from mslang.schedule.decisions import Alternatives, Decider
from mslang.schedule.draws import Draws
from mslang.schedule.handles import Handle, HandleTable, Site, composed, moved
from mslang.schedule.instruction import ENTER_POSTPROC, REQUIRE, Instruction, Label, Operand, Value
from mslang.schedule.trace import Trace
from mslang.schedule.values import Location, describe, loops_in
from mslang.sema.evaluation_limits import LOOPS, UNROLLED, excess, flat, too_much
from mslang.transform.advice import advised
from mslang.transform.analysis.axes import axis_loop, axis_loops
from mslang.transform.analysis.position import taken_names
from mslang.transform.analysis.threads import require_one_index
from mslang.transform.getters import GETTERS
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef, Outcome
from mslang.transform.outcome import Handle as Ref
from mslang.transform.registries import REGISTRY, Registry
from mslang.transform.rename import rename

SAID = frozenset({"none", "inf", "nan", "min", "max", "root", "inline", "at", "machine"}).union(
    w.partition(".")[0] for w in WORDS
)
"""Words that the text of a trace says: no result has such a name, which would hide them."""

Names = Sequence[str | None] | Callable[[int], Sequence[str | None]]
"""Names of results: their binders, or a function from the number of results to their names."""


class Session:
    """The state of a running schedule. Every method either succeeds or leaves the state unchanged."""

    def __init__(self, program: Program, decider: Decider, registry: Registry = REGISTRY) -> None:
        self.registry = registry
        self.origin = program
        self.program = program
        self.draws = Draws(decider)
        self.handles = HandleTable()
        self.instructions: list[Instruction] = []
        self._names: dict[str, object] = {}
        self._sizes = frozenset(s.name for s in program.dynamic if isinstance(s, Symbol))
        for block in blocks_of(program.body):
            self._bind(self.handles.handle(BlockRef(block.name)), block.name)
        for buffer in all_buffers(program):
            self._bind(self.handles.handle(BufferRef(buffer)), buffer)
        self._things = {n: h for n, h in self._names.items() if isinstance(h, Handle)}

    # ------------------------------------------------------------------ names
    def _bind(self, handle: Handle, name: str) -> None:
        self._names[name] = handle
        self.handles.bind(handle, name)

    def named(self, name: str) -> object | None:
        """The value of a name of the trace: a bound result, otherwise a block or buffer of the current program."""
        return self._names[name] if name in self._names else self.thing(name)

    @property
    def steps(self) -> int:
        """How many instructions and decisions there are."""
        return len(self.instructions) + len(self.draws.events)

    def thing(self, name: str) -> Handle | None:
        """The block or buffer with a name: an original one of the program, or a current one."""
        first = self._things.get(name)
        if first is not None:
            return first
        if path_to_block(self.program, name) is not None:
            return self.handles.handle(BlockRef(name))
        return self.handles.handle(BufferRef(name)) if name in all_buffers(self.program) else None

    def blocks(self) -> tuple[tuple[str, str], ...]:
        """The original blocks that still exist: original and current name of each."""
        return tuple(
            (n, self.handles.resolve(h).name)
            for n, h in self._things.items()
            if h.kind == "block" and self.handles.alive(h)
        )

    def axis(self, block: Handle, axis: str) -> Handle:
        """The loop `block.axis`."""
        ref = self.handles.resolve(block)
        if not isinstance(ref, BlockRef):
            raise ScheduleError(problem("MS203", f"`{block.name}.{axis}`: {block.name} is not a block"))
        if not isinstance(axis, str):
            raise ScheduleError(problem("MS203", f"{describe(axis)} is not the name of an axis"))
        return self.handles.handle(axis_loop(self.program, ref, axis))

    def operand(self, handle: Handle) -> Operand:
        """The form in which a trace refers to a live handle."""
        ref = self.handles.resolve(handle)
        bound = self.handles.bound(handle)
        if bound is not None and ((named := self._names.get(bound)) is handle or named == handle):
            return Operand(bound)
        match ref:
            case LoopRef():
                return self._loop_operand(ref)
            case BufferRef() if ref.name not in self._things:
                return self._buffer_operand(ref)
        return Operand(ref.name)

    def _buffer_operand(self, buffer: BufferRef) -> Operand:
        """A buffer created by the schedule: text can name it only through a block that writes it."""
        for block in (BlockRef(b.name) for b in blocks_of(self.program.body)):
            base = self.operand(self.handles.handle(block)).base
            written = GETTERS["writes"](self.program, block)
            if isinstance(written, tuple) and buffer in written and (base in self._names or base in self._things):
                return Operand(base, written=written.index(buffer))
        return Operand(buffer.name)

    def _loop_operand(self, loop: LoopRef) -> Operand:
        path = path_to_loop(self.program, loop.name)
        assert path is not None
        block = next(iter(blocks_of((path[-1],), into_blocks=False)), None)
        if block is None:
            raise ScheduleError(
                problem(
                    "MS203",
                    f"no block is in loop `{loop.name}`",
                    why="a trace names a loop by a block in it",
                )
            )
        down = path_to_block(self.program, block.name)
        assert down is not None
        base = self.operand(self.handles.handle(BlockRef(block.name))).base
        for axis in block.axes:
            if loop.name in free_vars(axis.binding) and [s.var for s in axis_loops(down, axis.name)] == [loop.name]:
                return Operand(base, axis=axis.name)
        return Operand(base, index=[s.var for s in loops_of(down)].index(loop.name))

    def operand_value(self, operand: Operand) -> object:
        """The current value of an operand of a trace.

        Raises:
            ScheduleError: MS201, the name is unknown.
        """
        base = self.named(operand.base)
        if base is None:
            raise ScheduleError(problem("MS201", f"nothing is called `{operand.base}` at this point of the trace"))
        if operand == Operand(operand.base):
            return base
        if not isinstance(base, Handle) or base.kind != "block":
            raise ScheduleError(problem("MS203", f"`{operand.base}` is not a block and has no loops"))
        if operand.axis is not None:
            return self.axis(base, operand.axis)
        getter, index = ("loops", operand.index) if operand.written is None else ("writes", operand.written)
        listed = self.get(getter, {"block": base})
        assert isinstance(listed, tuple) and index is not None
        if not 0 <= index < len(listed):
            raise ScheduleError(problem("MS201", f"`{operand.base}.{getter}()[{index}]`: there are only {len(listed)}"))
        found: object = listed[index]
        return found

    # ------------------------------------------------------------------ primitives and getters
    def call(
        self,
        op: str,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        *,
        names: Names = (),
        site: Site | None = None,
    ) -> object:
        """Apply a primitive or evaluate a getter by name, with arguments as written."""
        signature = self.registry.signature(op)
        bound = bind(signature, args, kwargs)
        if signature.group is Group.GETTER:
            return self.get(op, bound)
        return self.apply(op, bound, names=names, site=site)

    def get(self, op: str, bound: Bound) -> object:
        """The result of a getter, with references converted to handles."""
        signature = self.registry.signature(op)
        receiver = lowered(op, signature.params[0], bound[signature.params[0].name], self.handles.resolve)
        assert isinstance(receiver, LoopRef | BlockRef | BufferRef)
        answer = GETTERS[op](self.program, receiver)
        match answer:
            case tuple():
                return tuple(self.handles.handle(r) for r in answer)
            case Const(value=v):
                return v
        return answer

    def apply(
        self,
        op: str,
        bound: Bound,
        *,
        names: Names = (),
        site: Site | None = None,
    ) -> tuple[Handle, ...]:
        """Apply a primitive and update the program, the handles and the trace.

        Args:
            op: the primitive's name.
            bound: arguments by parameter (`arguments.bind`).
            names: names for the results, or a function from their number to names; the loops or blocks in the program
                get these names, too, made unique.
            site: the statement, for messages about handles that it consumes.

        Raises:
            ScheduleError: the primitive refuses, or an argument is invalid; MS140, the program or an argument would be
                over the limits.
        """
        signature = self.registry.signature(op)
        self._admit(op, bound)
        bound = resolved(signature, bound)
        args = self._lowered(signature, bound)
        recorded = tuple((p.name, written(bound[p.name], self.operand)) for p in signature.params)
        outcome = self._run(op, args, bound)
        if contents_of(outcome.program.body).nesting > LOOPS:
            raise ScheduleError(too_much(f"more than {LOOPS} loops around one statement"))
        if not callable(names) and len(names) > len(outcome.handles):
            raise ScheduleError(problem("MS206", f"{len(names)} names are given, `{op}` gives {len(outcome.handles)}"))
        outcome = self._renamed(outcome, names)
        self.handles.follow(outcome.forward, site or Site(f"{op}(…)"), outcome.program)
        self.program = outcome.program
        results = tuple(self.handles.handle(r) for r in outcome.handles)
        for handle, ref in zip(results, outcome.handles, strict=True):
            self._bind(handle, ref.name)
        self.instructions.append(Instruction(op, recorded, tuple(r.name for r in outcome.handles)))
        return results

    def allows(self, op: str, bound: Bound) -> bool:
        """Whether a primitive would accept these arguments now; nothing changes, and `apply` then repeats no work.

        Args:
            op: the primitive's name.
            bound: arguments by parameter (`arguments.bind`).
        """
        signature = self.registry.signature(op)
        try:
            self._admit(op, bound)
            args = self._lowered(signature, resolved(signature, bound))
            made = memo.outcome(self.registry.implementation(op), self.program, args)
            require_one_index(made.program, op)
        except MsError:
            return False
        return contents_of(made.program.body).nesting <= LOOPS

    def _lowered(self, signature: Signature, bound: Bound) -> dict[str, object]:
        """Arguments as a primitive takes them, without locations that were drawn."""
        return {
            p.name: lowered(signature.name, p, bound[p.name], self.handles.resolve)
            for p in signature.params
            if not (p.kind.value == "location" and isinstance(bound[p.name], Location))
        }

    def _admit(self, op: str, bound: Bound) -> None:
        """Reject arguments over the limits, which hold for text and Python alike."""
        given = [v for v in bound.values() if not isinstance(v, Handle)]
        what = _excess(given)
        if what is None and any(isinstance(v, tuple) and len(v) > LOOPS for v in given):
            what = f"`{op}` of more than {LOOPS} loops"
        if what is None and op == "unroll":
            loop = next((self.handles.resolve(v) for v in bound.values() if isinstance(v, Handle)), None)
            extent = GETTERS["extent"](self.program, loop) if isinstance(loop, LoopRef) else None
            if isinstance(extent, Const) and extent.value > UNROLLED:
                what = f"`unroll` of more than {UNROLLED} iterations"
        if what is not None:
            raise ScheduleError(too_much(what))

    def _run(self, op: str, args: dict[str, object], bound: Bound) -> Outcome:
        where = next((v for v in bound.values() if isinstance(v, Location)), None)
        if where is not None and where.loop is not None:
            args = {**args, "loop": self.handles.resolve(where.loop)}
        elif where is not None and where.label == "root":
            return Outcome(self.program)
        elif where is not None:
            op = "compute_inline" if op == "compute_at" else "reverse_compute_inline"
            args = {"block": args["block"]}
        apply = self.registry.implementation(op)
        try:
            outcome = memo.outcome(apply, self.program, args)
            require_one_index(outcome.program, op)
        except ScheduleError as error:
            raise advised(op, apply, self.program, args, error) from error
        except MsError as error:
            # For example, a footprint is unbounded: the analysis does not know which primitive called it.
            found = error.diagnostic
            raise ScheduleError(msgspec.structs.replace(found, message=f"{op}: {found.message}")) from error
        return outcome

    def _renamed(self, outcome: Outcome, names: Names) -> Outcome:
        """Give results the names of their binders, and never a name that the trace has already used."""
        if callable(names):
            names = names(len(outcome.handles))
        drawn, used = self.draws.numbers.keys(), used_names(outcome.program)
        wanted = [(names[k] if k < len(names) else None) or r.name for k, r in enumerate(outcome.handles)]
        new = used - used_names(self.program)
        kept = [
            n == r.name and n not in self._names and n not in SAID and n not in self._sizes
            for n, r in zip(wanted, outcome.handles, strict=True)
        ]
        if all(kept) and used.isdisjoint(drawn) and new.isdisjoint(self._names):
            return outcome
        taken = set(used)
        taken.update(self._names, SAID, self._sizes, drawn)
        renaming: dict[Ref, str] = {r: fresh(r.name, taken) for r in _called(outcome.program, used & drawn)}
        # A trace refers to a block or buffer that no result stands for by its own name.
        new = (new & self._names.keys()) - {r.name for r in (*outcome.handles, *renaming)}
        renaming |= {r: fresh(r.name, taken) for r in _called(outcome.program, new) if not isinstance(r, LoopRef)}
        taken.update(renaming.values())
        for name, ref, stays in zip(wanted, outcome.handles, kept, strict=True):
            if stays and ref not in renaming:
                continue
            renaming[ref] = fresh(name, taken)
            taken.add(renaming[ref])
        if not renaming:
            return outcome
        after = memo.outcome(rename, outcome.program, {"names": renaming})
        results = tuple(moved(after.forward, r) for r in outcome.handles)
        return Outcome(after.program, results, composed(outcome.forward, after.forward))

    # ------------------------------------------------------------------ sampling
    def sample(self, op: str, bound: Bound, *, address: str, name: str, given: Value | None = None) -> object:
        """Draw a decision and return its value: symbols for a number, the outcome itself for structure.

        Args:
            op: the sampler.
            bound: its arguments by parameter.
            address: the decision's address.
            name: the result's name in the trace; made unique.
            given: the value that the text pins it to, if any.

        Raises:
            ScheduleError: MS140, an argument is over the limits; MS203, it is invalid; MS209, another decision has the
                address.
        """
        signature = self.registry.signature(op)
        over = _excess([v for v in bound.values() if not isinstance(v, Handle)])
        if over is not None:
            raise ScheduleError(too_much(over))
        args = {
            p.name: bound[p.name]
            if op in ("choose", "permute") and p.name == "values"
            else lowered(op, p, bound[p.name], self.handles.resolve)
            for p in signature.params
        }
        recorded = tuple((p.name, written(bound[p.name], self.operand)) for p in signature.params)
        domain = sampling.domain_of(op, args, self.program)
        if domain is not None:
            self._require_own_name(address)
        self.draws.claim(address)
        inside = contents_of(self.program.body)
        result = fresh(name, self._names.keys() | SAID | self._sizes | inside.blocks | {*all_buffers(self.program)})
        try:
            value = (
                self._structural(op, args, address, result, given)
                if domain is None
                else self.draws.number(address, domain, given)
            )
        except MsError:
            self.draws.release(address)
            raise
        self._names[result] = value
        self.draws.record(address, value)
        self.instructions.append(Instruction(op, recorded, (result,), address))
        return value

    def _require_own_name(self, address: str) -> None:
        """A number's symbol is named by its address in the program, so the address must be no other name there."""
        if address not in taken_names(self.program):
            return
        raise ScheduleError(
            problem(
                "MS209",
                f"the decision `{address}` has the name of something in the program",
                why=f"in the scheduled program `{address}` would stand for both",
                help=f"call it `{fresh('t' + address, taken_names(self.program))}`",
            )
        )

    def _structural(self, op: str, args: dict[str, object], address: str, name: str, given: Value | None) -> object:
        match op:
            case "compute_location":
                block = args["block"]
                assert isinstance(block, BlockRef)
                label = self.draws.choose(address, Alternatives(sampling.locations(self.program, block)), given)
                assert isinstance(label, str)
                return self._location(label, name)
            case "permute":
                things = sampling.listed(args["values"], op)
                order = self.draws.choose(address, Alternatives(orders=len(things)), given)
                assert isinstance(order, tuple)
                return tuple(things[k] for k in order)
        things = sampling.listed(args["values"], op)
        weights = sampling.weights_of(args["weights"], len(things))
        # By what a trace says, so that it draws from the same; handles, which it says otherwise, by their numbers.
        said = [written(x, self.operand) for x in things]
        plain = all(isinstance(x, bool | int | float | str) for x in said)
        labels: tuple[Label, ...] = tuple(said) if plain else tuple(range(len(things)))  # type: ignore[arg-type]
        drawn = memo.exact(self.draws.choose(address, Alternatives(labels, weights), given))
        return next(x for x, label in zip(things, labels, strict=True) if memo.exact(label) == drawn)

    def _location(self, label: str, name: str) -> Location:
        loop = self.handles.handle(LoopRef(label[3:-1])) if label.startswith("at(") else None
        return Location(label, loop, name)

    # ------------------------------------------------------------------ the trace
    def require(self, condition: object, why: str | None) -> None:
        """Reject decisions that violate a condition.

        Raises:
            RequireFailed: MS260, the condition holds for no value of the decisions.
        """
        if not isinstance(condition, bool | Expr) or (isinstance(condition, Expr) and loops_in(condition)):
            raise ScheduleError(problem("MS203", "`require` takes a condition on decisions"))
        self.draws.require(condition, why)
        if isinstance(condition, Expr):
            self.instructions.append(Instruction(REQUIRE, (("condition", condition), ("why", why))))

    def enter_postproc(self) -> None:
        """Mark in the trace where postprocessing begins."""
        self.instructions.append(Instruction(ENTER_POSTPROC, ()))

    def trace(self, *, target: str | None = None, source: str | None = None) -> Trace:
        """The trace so far."""
        return Trace(
            self.origin.name, tuple(self.instructions), tuple(self.draws.values.items()), target, source, self.registry
        )


def _excess(given: Sequence[object]) -> str | None:
    """What about some values is over the limits."""
    return next((x for v in given for e in flat(v) if (x := excess(e)) is not None), None)


def _called(program: Program, names: Collection[str]) -> list[Ref]:
    """The loops, blocks and buffers of the program that have one of these names."""
    if not names:
        return []
    found: list[Ref] = [BlockRef(b.name) for b in blocks_of(program.body) if b.name in names]
    found += [LoopRef(s.var) for s in walk(program.body) if isinstance(s, For) and s.var in names]
    return found + [BufferRef(n) for n in all_buffers(program) if n in names]
