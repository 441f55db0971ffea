"""The first generator: chains of stages whose blocks are affine, scheduled by steps that look legal at first sight."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from mslang.diagnostics import ScheduleError
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.schedule.instruction import ENTER_POSTPROC
from mslang.schedule.schedule import Schedule
from mslang.schedule.values import Location
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.registry import OPERATIONS
from tests.property import families
from tests.property.arrays import strided
from tests.property.block_programs import random_program
from tests.property.drawn_programs import drawn_program
from tests.property.refilled import refilled
from tests.property.sampled_steps import SampledSteps
from tests.property.steps import Step
from tests.property.steps_caching import stencils
from tests.property.steps_reductions import products_and_updates, relative_sums
from tests.property.tally import Tally

WEIGHTS = {
    "split": 5,
    "fuse": 2,
    "reorder": 3,
    "add_unit_loop": 1,
    "parallel": 2,
    "vectorize": 3,
    "unroll": 1,
    "annotate": 3,
    "unannotate": 6,
    "cache_read": 3,
    "cache_write": 3,
    "compute_at": 4,
    "reverse_compute_at": 4,
    "compute_inline": 2,
    "reverse_compute_inline": 5,
    "decompose_reduction": 3,
    "set_scope": 2,
    **families.WEIGHTS,
}
"""How often each primitive is tried; those that are seldom legal more often."""

SPECIAL = 0.4
"""How many of the programs are drawn for what one family of primitives needs."""

SELDOM = ("change_signedness", "atomic")
"""Primitives that hardly any other program has a place for."""

SELDOM_PAIRS = 0.18
"""How many pairs draw a program for these primitives, and try each of them at some time."""

ROLLING = ("rolling_buffer",)
"""A primitive that only windows have a place for, once they are computed where they are needed."""

ROLLING_PAIRS = 0.06
"""How many pairs draw a program for this one."""

RELATIVE = ("rolling_update",)
"""The primitive that takes a maximum and sums relative to it."""

RELATIVE_PAIRS = 0.22
"""How many of the other pairs draw a program for that one, and try it."""

ATTEMPTS = {
    "change_signedness": 3,
    "compute_at": 4,
    "reverse_compute_at": 4,
    "compute_inline": 3,
    "reverse_compute_inline": 4,
    "decompose_reduction": 2,
    "vectorize": 2,
    "fuse_reduction_epilogue": 4,
    "decompose_padding": 4,
    "rfactor": 2,
    "pad_einsum": 2,
    "cache_inplace": 4,
    "reindex": 2,
    "read_at": 2,
    "fission": 2,
    "rolling_buffer": 2,
    "rolling_update": 6,
}
"""How often arguments are drawn for those that need particular ones, until they are accepted; else once."""

CONSTANT = 0.3
"""How often an input is constant."""

STRIDED = 0.15
"""How many programs have parameters with strides and offsets."""

REFILLED = 0.03
"""How often a loop overwrites what was finished before; from a source of its own: other pairs stay what they were."""

POSTPROC = 0.03
"""How often, after a primitive, a schedule enters its postprocessing."""


def drawn_pair(seed: int, number: int) -> tuple[Program, random.Random]:
    """The program of a pair, and what its schedule is to be drawn from."""
    rng, own = random.Random(f"{seed}/{number}"), random.Random(f"refilled/{seed}/{number}")
    special = own.random() < REFILLED and not about(number)
    program = refilled(own) if special else _program(rng, number)
    return _with_constants(program, random.Random(f"constants/{seed}/{number}")), rng


def about(number: int) -> Sequence[str]:
    """The primitives that a pair is about, if it is about any."""
    drawn = random.Random(f"seldom/{number}").random()
    if drawn < SELDOM_PAIRS + ROLLING_PAIRS:
        return SELDOM if drawn < SELDOM_PAIRS else ROLLING
    return RELATIVE if random.Random(f"rolling/{number}").random() < RELATIVE_PAIRS else ()


def _program(rng: random.Random, number: int) -> Program:
    match about(number):
        case ("rolling_buffer",):
            return stencils(rng)
        case ("rolling_update",):
            return relative_sums(rng)
        case (_, *_):
            return products_and_updates(rng)
    if families.PROGRAMS and rng.random() < SPECIAL:
        return rng.choice(families.PROGRAMS)(rng)
    chains = rng.random() < 0.35
    return random_program(rng, 2) if chains else drawn_program(rng, rng.randint(2, 3), rng.choice([4, 6, 8]))


def _with_constants(program: Program, rng: random.Random) -> Program:
    """Some inputs are constant."""
    params = (replace(q, constant=q.direction == "in" and rng.random() < CONSTANT) for q in program.params)
    return replace(program, params=tuple(params))


def with_strides(program: Program, rng: random.Random) -> Program:
    """Half of the parameters with strides and offsets, in some programs."""
    if rng.random() >= STRIDED:
        return program
    params = (replace(q, buffer=strided(q.buffer, rng)) if rng.random() < 0.5 else q for q in program.params)
    return replace(program, params=tuple(params))


def schedule_pair(
    schedule: Schedule,
    rng: random.Random,
    tally: Tally,
    weights: Mapping[str, float] = MappingProxyType(WEIGHTS),
    about: Sequence[str] = (),
) -> list[str]:
    """Apply 1 to 8 random primitives, rather more than fewer, and those that the pair is about; gives those that were
    not refused."""
    steps = SampledSteps(rng, schedule)
    done: list[str] = []
    wanted = max(rng.randint(1, 8), rng.randint(1, 8))
    turns = [(rng.randrange(min(wanted, 5)), op) for op in about]
    wanted += len(turns)
    for drawn in islice(_operations(rng, weights), 8 * wanted):
        if len(done) == wanted:
            break
        turn = next((t for t in turns if t[0] <= len(done)), None)
        op = drawn if turn is None else turn[1]
        if turn is not None:
            turns.remove(turn)
        made = _accepted(schedule, steps, op, rng, tally)
        if made is None:
            continue
        tally.applied[made] += 1
        tally.late[made] += len(set(done) - {made}) >= 3
        done.append(made)
        assert not verify(schedule.parametric), (done, verify(schedule.parametric))
        if rng.random() < POSTPROC and ENTER_POSTPROC not in samplers_of(schedule):
            schedule.enter_postproc()
    tally.drawn.update(samplers_of(schedule))
    return done


def samplers_of(schedule: Schedule) -> Counter[str]:
    """The samplers that a schedule has asked, and its mark."""
    return Counter(i.op for i in schedule.trace.instructions if i.address is not None or i.op == ENTER_POSTPROC)


def _accepted(schedule: Schedule, steps: SampledSteps, op: str, rng: random.Random, tally: Tally) -> str | None:
    """The primitive that was applied, with arguments drawn once or a few times; None if it was refused."""
    for _ in range(ATTEMPTS.get(op, 1)):
        try:
            step = steps.step(schedule.parametric, op)
            if step is None:
                return None
            tally.tried[op] += 1
            _apply(schedule, step, rng)
        except ScheduleError:
            continue
        tally.used.update(steps.given)
        return _done(step)
    return None


def _done(step: Step) -> str | None:
    """What a step did: to compute a block in the place that was drawn may be to inline it, or to leave it."""
    match step:
        case _, (_, Location(label="inline")), _:
            return "compute_inline"
        case _, (_, Location(label="root")), _:
            return None
    return step[0]


def _operations(rng: random.Random, weights: Mapping[str, float]) -> Iterable[str]:
    while True:
        yield from rng.choices(list(weights), list(weights.values()), k=8)


def _apply(schedule: Schedule, step: Step, rng: random.Random) -> None:
    op, args, named = step
    if op in ("fuse", "reorder", "merge"):
        args = tuple(args[0])
    signature = OPERATIONS[op]
    names = rng.choice([(), (), ("p", "q"), ("t",)])[: None if signature.many else len(signature.results)]
    schedule.apply(
        op, *(_given(schedule, a) for a in args), names=names, **{k: _given(schedule, v) for k, v in named.items()}
    )


def _given(schedule: Schedule, value: Any) -> Any:
    match value:
        case LoopRef() | BlockRef() | BufferRef():
            return schedule.session.handles.handle(value)
        case Const(value=v):
            return v
        case list():
            return [_given(schedule, x) for x in value]
    return value
