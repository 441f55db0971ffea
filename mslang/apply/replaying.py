"""The candidate of a record on a program: the very one that it was made for, or one with other names."""

from __future__ import annotations

from mslang.diagnostics import MsError
from mslang.ir.equal import correspondence, structural_hash, workload_hash
from mslang.ir.program import Program
from mslang.schedule.interpret import World
from mslang.schedule.renaming import renamed
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.space import Candidate
from mslang.sema.module import Module
from mslang.sema.program import parse_program
from mslang.tune.origin import stale
from mslang.tune.record import Record, Workload


def program_of(record: Record, text: Workload) -> Program:
    """The program that a record was made for.

    Raises:
        MsError: MS610, its text cannot be read, as one of another version or a damaged one.
    """
    try:
        return parse_program(text.text)
    except MsError as error:
        raise stale(record, f"the text of its program cannot be read: {error.diagnostic.message}") from error


def measured_candidate(record: Record, made_for: Program, world: World, module: Module | None = None) -> Candidate:
    """The candidate of a record on the program that it was made for.

    Raises:
        MsError: MS610, the trace gives another candidate here; or what is wrong with the step that fails.
    """
    candidate = space_of_text(record.trace, made_for, world, module).sample(0, strict=True)
    if structural_hash(candidate.program) != record.candidate:
        raise stale(record, "its trace makes another program than the one that was measured")
    return candidate


def candidate_of(
    record: Record, text: Workload | None, program: Program, world: World, module: Module | None = None
) -> Candidate:
    """The candidate of a record, in the names of a program of the same workload.

    Args:
        record: what was measured.
        text: the program that it was made for, as its store holds it (None: unknown; then `program` must be it).
        program: the program to schedule.
        world: the machine and what traces may call.
        module: where the trace's other names are looked up.

    Raises:
        MsError: MS610, the trace gives another candidate here, or the text cannot be read; or what is wrong with the
            step that fails.
    """
    made_for = program if text is None else program_of(record, text)
    candidate = measured_candidate(record, made_for, world, module)
    names = correspondence(made_for, program)
    if names is None:
        raise stale(record, "it is of another program")
    if made_for == program:
        return candidate
    moved = replay(program, renamed(candidate.trace, names, program), strict=True)
    if workload_hash(moved.program) != workload_hash(candidate.program):
        raise stale(record, f"its trace makes another program of `{program.name}` than of `{made_for.name}`")
    return moved
