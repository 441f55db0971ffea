"""A record of one program for another that computes more around the same thing: a matrix product's for product + bias.

A program's *anchor* is the reduction block of most operations. Two programs have the same anchor if it, with the blocks
that make what it reads, is one workload. The trace recorded for one is then transplanted to the other: its steps on the
anchor and on what precedes it are taken; steps on blocks that the other program lacks are left out; the other program's
own blocks after the anchor are computed on its tile where that is legal, else scheduled by the back end, which must be
able to lower the result for the target, within its limits.

The result is not as good as tuning the program itself, so it is the last resort of the pass `db`, and reported as such.

Source: the idea of TVM's `ms-anchor-block` module equality; there steps that fail end the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import lru_cache, partial

from msgspec.structs import replace

from mslang.apply.replaying import measured_candidate, program_of
from mslang.backend.backend import BackEnd
from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.ir.equal import correspondence, workload_hash
from mslang.ir.expr import Const, Expr
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import Block, Param, Program, Stmt
from mslang.schedule.arguments import Bound
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.instruction import Instruction, uses
from mslang.schedule.interpret import World
from mslang.schedule.renaming import renamed
from mslang.schedule.replay import bound_of, step
from mslang.schedule.rules.cpu.streamed import bypass, large_results
from mslang.schedule.rules.nests import attempt, block_handle, block_of, do
from mslang.schedule.session import Session
from mslang.schedule.sketch import sketch_of
from mslang.schedule.space import Candidate
from mslang.schedule.trace import Trace
from mslang.sema.module import Module
from mslang.sema.program import parse_program
from mslang.target.description import Target
from mslang.transform.getters import consumers
from mslang.transform.outcome import BlockRef
from mslang.tune.record import Record
from mslang.tune.stores import Store, text_of

CONSIDERED = 3
"""Records of this compiler, and of all, of each program with the same anchor that are tried, fastest first."""


def anchored(
    store: Store,
    program: Program,
    target: Target,
    machine: str,
    back_end: BackEnd[object],
    module: Module | None = None,
    refused: Callable[[Record], str | None] = lambda _: None,
) -> tuple[Record, Candidate, str] | str | None:
    """The fastest record that another program's same anchor has, on this program.

    Args:
        store: where records are.
        program: the program to schedule.
        target: what will run it.
        machine: the key of the machine that counts.
        back_end: what compiles for the target, and schedules what a trace leaves.
        module: where names of traces are looked up.
        refused: why a record serves no program; None if it does.

    Returns the record, the candidate, and how it came about; or why records of the same anchor do not apply; None if
    there are none.
    """
    own = anchor_program(program)
    if own is None:
        return None
    world = World(machine=target)
    hash, whole = workload_hash(own), workload_hash(program)
    others = [w for w in store.texts() if w.hash != whole and _anchor_hash(w.text) == hash]
    own_compiler = back_end.version()
    found: list[Record] = []
    for h in {w.hash for w in others}:
        top = partial(store.top, h, CONSIDERED, target=target.name, machine=machine)
        found += (*top(compiler=own_compiler), *(r for r in top() if r.compiler != own_compiler))
    failure: str | None = None
    # Times by other compilers are not compared with those by this one, nor times with cold caches with warm ones: they
    # come last.
    for record in sorted(found, key=lambda r: (r.compiler != own_compiler, bool(r.cold), r.cost or 0.0)):
        text = text_of(store, record)
        if text is None:
            continue
        try:
            made_for = program_of(record, text)
            worse = refused(record)
            if worse is not None:
                failure = f"record {record.id} of `{record.program}` has the same anchor: it {worse}"
                continue
            trace = measured_candidate(record, made_for, world, module).trace
            candidate, left_out = transplanted(trace, made_for, program, back_end, target)
        except MsError as error:
            d = error.diagnostic
            why = f"{d.message} ({d.why})" if d.why else d.message
            failure = f"record {record.id} of `{record.program}` has the same anchor: {why}"
            continue
        without = f", without {left_out} of its steps" if left_out else ""
        return record, candidate, f"by its anchor `{_anchor_name(program)}`{without}"
    return failure


def anchor_program(program: Program) -> Program | None:
    """The anchor of a program with what it depends on, as a program; None if there is no reduction.

    >>> p = parse_program('''program p(A: f32[4, 4], out B: f32[4]) {
    ...     alloc t: f32[4]
    ...     block sum[i: 4 | k: 4] { t[i] += A[i, k] }
    ...     block relu[i: 4] { B[i] = max(t[i], 0.0) }
    ... }''')
    >>> found = anchor_program(p)
    >>> [b.name for b in blocks_of(found.body)], [q.buffer.name for q in found.params]
    (['sum'], ['A', 't'])
    """
    anchor = _anchor(program)
    if anchor is None:
        return None
    place = next(k for k, s in enumerate(program.body) if anchor in blocks_of((s,)))
    kept: list[Stmt] = [program.body[place]]
    needed = set(_buffers(program.body[place], writes=False))
    for s in reversed(program.body[:place]):
        if needed.intersection(_buffers(s, writes=True)):
            kept.insert(0, s)
            needed.update(_buffers(s, writes=False))
    written = {b for s in kept for b in _buffers(s, writes=True)}
    result = anchor.writes[0].buffer
    given = {q.buffer.name: q for q in program.params}
    buffers = all_buffers(program)
    outside = [b for b in dict.fromkeys(b for s in kept for b in _buffers(s, writes=False)) if b not in written]
    params = tuple(replace(given[b], direction="in") if b in given else Param(buffers[b]) for b in outside)
    inner = tuple(buffers[b] for b in dict.fromkeys(b for s in kept for b in _buffers(s, writes=True)) if b != result)
    return Program(program.name, (*params, Param(buffers[result], "out")), tuple(kept), inner, program.dynamic)


def _anchor(program: Program) -> Block | None:
    reductions = [b for s in program.body for b in blocks_of((s,)) if b.init is not None and len(b.writes) == 1]
    return max(reductions, key=_operations, default=None)


def _anchor_name(program: Program) -> str:
    anchor = _anchor(program)
    return "" if anchor is None else anchor.name


def _operations(block: Block) -> int:
    total = 1
    for axis in block.axes:
        total *= int(axis.extent.value) if isinstance(axis.extent, Const) else 1
    return total


def _buffers(s: Stmt, *, writes: bool) -> Iterator[str]:
    """The buffers that a statement's blocks write, or read."""
    for b in blocks_of((s,)):
        yield from (r.buffer for r in (b.writes if writes else b.reads))


@lru_cache(maxsize=4096)
def _anchor_hash(text: str) -> str | None:
    try:
        found = anchor_program(parse_program(text))
    except MsError:
        return None
    return None if found is None else workload_hash(found)


# ------------------------------------------------------------------ transplanting
def transplanted(
    trace: Trace, made_for: Program, program: Program, back_end: BackEnd[object], target: Target
) -> tuple[Candidate, int]:
    """The trace of one program on another with the same anchor, and how many steps were left out.

    What follows the anchor is computed where a copy takes its results, or else, if a later step or the back end refuses
    that, by itself.

    Raises:
        MsError: a step on what both programs have is refused, or the back end refuses the result.
    """
    first, second = anchor_program(made_for), anchor_program(program)
    names = None if first is None or second is None else correspondence(first, second)
    assert names is not None and second is not None
    own = {b.name for b in blocks_of(program.body)} - {b.name for b in blocks_of(second.body)}
    kept = _kept(trace, {*names.blocks, *names.buffers})
    moved = renamed(replace(trace, instructions=kept), names, program)
    left_out = len(trace.instructions) - len(kept)
    try:
        return _replayed(moved, program, own, back_end, target), left_out
    except MsError:
        if not own:
            raise
        return _replayed(moved, program, set(), back_end, target), left_out


def _replayed(
    trace: Trace, program: Program, taken_up: Set[str], back_end: BackEnd[object], target: Target
) -> Candidate:
    """The candidate of a trace that schedules a part of a program, with the rest scheduled by the back end.

    Args:
        trace: in the names of the program.
        program: the program.
        taken_up: blocks that are computed in copies of the results that they read, where that is legal.
        back_end: schedules the rest.
        target: what will run the program.
    """
    values = trace.decisions
    pins = {a: v for a, v in values.items() if a in {i.address for i in trace.instructions}}
    session = Session(program, Drawing(0, pins=pins, strict=True), trace.registry)
    for instruction in trace.instructions:
        if instruction.op == "stream":
            _stream(session, bound_of(session, _without_buffer(instruction)), target)
            continue
        step(session, instruction, values)
        if instruction.op == "cache_write":
            _take_up(session, instruction.results[0], taken_up)
    if back_end.finish is not None:
        back_end.finish(session, target)
    sketch = sketch_of(session)
    numbers = session.draws.numbers
    violated = sketch.violation(numbers)
    if violated is not None:
        raise ScheduleError(problem("MS260", f"the decisions of this trace are rejected: {violated}"))
    made = {**session.draws.values}
    done = replace(sketch.trace, values=tuple(made.items()))
    candidate = Candidate(sketch.instantiate(numbers), done, made, sketch)
    back_end.lowered(candidate.program, target)
    return candidate


def _without_buffer(instruction: Instruction) -> Instruction:
    return replace(instruction, arguments=tuple((n, None if n == "buffer" else v) for n, v in instruction.arguments))


def _stream(session: Session, bound: Bound, target: Target) -> None:
    """Have the results that a block stores now bypass the caches, as those of the record's program did: what follows
    may have been taken up there, or reads what was a result."""
    block, on = bound["block"], bound["on"]
    if isinstance(block, Handle) and isinstance(on, Expr | int | None):
        now = block_of(session, block)
        bypass(session, now, large_results(session.program, now, target, least_bytes=0), on)


def _kept(trace: Trace, known: set[str]) -> tuple[Instruction, ...]:
    """The instructions that need nothing but what is known, and what these make."""
    there = set(known)
    kept = []
    for i in trace.instructions:
        if there.issuperset(uses(i)):
            kept.append(i)
            there.update(i.results)
            there.update([i.address] if i.address is not None else ())
        else:
            there.difference_update(i.results)
    return tuple(kept)


def _take_up(session: Session, name: str, taken_up: Set[str]) -> None:
    """Compute those of some blocks that follow the anchor in the block that copies its results."""
    copy = session.named(name)
    assert isinstance(copy, Handle)
    block = block_of(session, copy)
    for _ in range(len(blocks_of(session.program.body))):
        after = consumers(session.program, BlockRef(block.name))
        if len(after) != 1 or after[0].name not in taken_up:
            return
        if attempt(session.program, "reverse_compute_inline", after[0]) is None:
            return
        do(session, "reverse_compute_inline", block_handle(session, after[0].name))
        block = block_of(session, copy)
