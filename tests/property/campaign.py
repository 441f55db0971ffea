"""The campaign: random programs under random sequences of primitives mean what they meant, on every path.

Pair number `k` of a seed is the same program and the same schedule everywhere. Each is scheduled through `Schedule`,
so that traces are recorded and decisions stay symbols until the end.

    python -m tests.property.campaign --seed 0 --first 0 --count 200
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from mslang.backend.llvm.compile import compile
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.expr import Const
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.lower.lower import lower
from mslang.ops.table import OPERATIONS
from mslang.runtime.arrays import sparse_integers
from mslang.runtime.kernel import load
from mslang.runtime.linker import Linker
from mslang.schedule.distribution import Number, draw
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.schedule import Schedule
from mslang.schedule.trace import ENTER_POSTPROC
from mslang.schedule.trace_json import from_json
from mslang.schedule.values import Location
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, Target
from mslang.target.detect import host
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.tune.verification import make_arguments
from tests.property import families
from tests.property.arrays import concrete_shape, difference, outputs_equal
from tests.property.block_programs import random_program
from tests.property.drawn_programs import drawn_program
from tests.property.sampled_steps import SAMPLERS, SampledSteps
from tests.property.steps import Step

Arrays = dict[str, np.ndarray]

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

ATTEMPTS = {
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
}
"""How often arguments are drawn for those that need particular ones, until they are accepted; else once."""

TRACES_EVERY, CHECKED_EVERY, NARROW_EVERY, ANEW_EVERY = 10, 8, 4, 3

POSTPROC = 0.03
"""How often, after a primitive, a schedule enters its postprocessing."""

FAULTS = (MsError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RuntimeError)
"""What a fault of mslang may raise here; a refusal is a ScheduleError where a primitive is tried."""


class Fault(msgspec.Struct, frozen=True):
    """A pair that went wrong: its number, what it did, and how it showed."""

    pair: int
    what: str
    steps: tuple[str, ...]
    program: str


class Tally(msgspec.Struct):
    """What a campaign did: by primitive how often it was tried, applied, and applied after at least three others; by
    sampler how often it was asked, used by a primitive that was applied, and drawn anew for the same structure."""

    pairs: int = 0
    tried: Counter[str] = msgspec.field(default_factory=Counter)
    applied: Counter[str] = msgspec.field(default_factory=Counter)
    late: Counter[str] = msgspec.field(default_factory=Counter)
    drawn: Counter[str] = msgspec.field(default_factory=Counter)
    used: Counter[str] = msgspec.field(default_factory=Counter)
    anew: Counter[str] = msgspec.field(default_factory=Counter)
    checks: Counter[str] = msgspec.field(default_factory=Counter)
    faults: list[Fault] = msgspec.field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Join the other's counts to these."""
        self.pairs += other.pairs
        for mine, its in (
            (self.tried, other.tried),
            (self.applied, other.applied),
            (self.late, other.late),
            (self.drawn, other.drawn),
            (self.used, other.used),
            (self.anew, other.anew),
            (self.checks, other.checks),
        ):
            mine.update(its)
        self.faults += other.faults


# ------------------------------------------------------------------ one pair
def drawn_pair(seed: int, number: int) -> tuple[Program, random.Random]:
    """The program of a pair, and what its schedule is to be drawn from."""
    rng = random.Random(f"{seed}/{number}")
    if families.PROGRAMS and rng.random() < SPECIAL:
        return rng.choice(families.PROGRAMS)(rng), rng
    chains = rng.random() < 0.35
    return random_program(rng, 2) if chains else drawn_program(rng, rng.randint(2, 3), rng.choice([4, 6, 8])), rng


def schedule_pair(
    schedule: Schedule, rng: random.Random, tally: Tally, weights: Mapping[str, int] = MappingProxyType(WEIGHTS)
) -> list[str]:
    """Apply 1 to 8 random primitives, rather more than fewer; gives those that were not refused."""
    steps = SampledSteps(rng, schedule)
    done: list[str] = []
    wanted = max(rng.randint(1, 8), rng.randint(1, 8))
    for op in islice(_operations(rng, weights), 8 * wanted):
        if len(done) == wanted:
            break
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


def _operations(rng: random.Random, weights: Mapping[str, int]) -> Iterable[str]:
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


# ------------------------------------------------------------------ judging
def sparse_inputs(program: Program, seed: int) -> Arrays:
    """Mostly zeros, the rest small integers, for every `in` and `inout` parameter."""
    return {
        p.buffer.name: sparse_integers(concrete_shape(p.given.shape, {}), p.buffer.dtype, seed + k, density=0.5)
        for k, p in enumerate(program.params)
        if p.direction != "out"
    }


@lru_cache(maxsize=1)
def _linker() -> Linker:
    return Linker(workers=2)


def narrow_host() -> Target:
    """A target without masked vectors that this machine can run."""
    return Target("narrow", cpu=AVX2.cpu, features=AVX2.features, vector_bits=256) if host().has("avx2") else host()


def compiled(program: Program, arrays: Arrays, target: Target, checked: bool) -> Arrays:
    """What the compiled program gives; results and temporaries are poisoned before."""
    made = compile(lower(program, target), target, checked)
    kernel = load(made.object, made.signature, _linker())
    kernel.workspace.fill(0xFF)
    given = make_arguments(program, {n: a.copy() for n, a in arrays.items()})
    kernel.bind(**given).run()
    return {p.buffer.name: given[p.buffer.name] for p in program.params if p.direction != "in"}


def check_meaning(before: Program, after: Program, number: int, tally: Tally) -> None:
    """Interpreted with all checks and compiled, `after` gives bit for bit what `before` gives."""
    arrays = sparse_inputs(before, number)
    want = interpret.run(before, arrays, check=False)
    got = interpret.run(after, arrays)
    assert outputs_equal(want, got), f"interpreted: {difference(want, got)}"
    narrow, checked = number % NARROW_EVERY == 1, number % CHECKED_EVERY == 2
    got = compiled(after, arrays, narrow_host() if narrow else host(), checked)
    assert outputs_equal(want, got), f"compiled (narrow={narrow}, checked={checked}): {difference(want, got)}"
    tally.checks.update({"compiled without masked vectors": narrow, "compiled with every access checked": checked})


def check_other_decisions(before: Program, schedule: Schedule, number: int, tally: Tally) -> None:
    """The same structure with decisions drawn anew gives what `before` gives, too."""
    sketch, rng = schedule.sketch, random.Random(number)
    samplers = {i.address: i.op for i in schedule.trace.instructions}
    for _ in range(4):
        values: dict[str, Number] = {}
        for decision in sketch.decisions:
            drawn = draw(decision.domain, rng, values)
            if drawn is None:
                break
            values[decision.address] = drawn
        else:
            other = {a for a, v in values.items() if v != schedule.session.draws.numbers[a]}
            if other and sketch.violation(values) is None:
                after = sketch.instantiate(values)
                assert not verify(after), (values, verify(after))
                check_meaning(before, after, number, tally)
                tally.checks["decisions drawn anew"] += 1
                tally.anew.update(samplers[a] for a in other)
                return


def check_traces(before: Program, schedule: Schedule) -> None:
    """The trace survives each printed form, and replays from each to the identical program."""
    trace, after = schedule.trace, schedule.program
    read = from_json(trace.as_json())
    assert read == trace, "the JSON form reads back as another trace"
    again = replay(before, read, strict=True)
    assert (again.program, again.sketch.program) == (after, schedule.parametric), "the JSON form replays differently"
    flat = space_of_text(trace.as_ms("again"), before).sample(0)
    assert flat.program == after, f"the flat form replays differently:\n{trace.as_ms('again')}"
    assert flat.trace.instructions == trace.instructions, "the flat form gives another trace"
    names: dict[str, Any] = {}
    exec(trace.as_python("again"), names)
    fresh = Schedule(before)
    names["again"](fresh)
    assert fresh.program == after, f"the Python form replays differently:\n{trace.as_python('again')}"
    assert fresh.trace.instructions == trace.instructions, "the Python form gives another trace"


def check_pair(seed: int, number: int, tally: Tally, weights: Mapping[str, int] = MappingProxyType(WEIGHTS)) -> None:
    """Draw a pair and check it; a fault goes to the tally."""
    before, rng = drawn_pair(seed, number)
    schedule = Schedule(before, seed=number)
    tally.pairs += 1
    done: list[str] = []
    try:
        done = schedule_pair(schedule, rng, tally, weights)
        after = schedule.program
        assert not verify(after), verify(after)
        check_meaning(before, after, number, tally)
        assert parse_program(print_program(after)) == after, "the printed program parses to another"
        if number % ANEW_EVERY == 2:
            check_other_decisions(before, schedule, number, tally)
        if number % TRACES_EVERY == 0:
            check_traces(before, schedule)
            tally.checks["traces in all forms"] += 1
    except FAULTS as error:
        tally.faults.append(Fault(number, f"{type(error).__name__}: {error}", tuple(done), _steps_text(schedule)))


def _steps_text(schedule: Schedule) -> str:
    return f"{print_program(schedule.session.origin)}\n{schedule.trace.as_ms('fault')}"


def campaign(
    seed: int,
    numbers: Iterable[int],
    stop: Callable[[Tally], bool] = lambda tally: False,
    weights: Mapping[str, int] = MappingProxyType(WEIGHTS),
) -> Tally:
    """Check the pairs of these numbers, until `stop` says so; `weights` say how often each primitive is tried."""
    tally = Tally()
    for number in numbers:
        check_pair(seed, number, tally, weights)
        if stop(tally):
            break
    return tally


def main() -> int:
    """Check a range of pairs; the exit status says whether all were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[], help="primitives of which half of the tries are to be")
    options = parser.parse_args()
    often = sum(WEIGHTS.values()) // max(1, len(options.only))
    weights = WEIGHTS | dict.fromkeys(options.only, often)
    numbers = range(options.first, options.first + options.count)
    tally = campaign(options.seed, numbers, lambda t: bool(t.faults), weights)
    for fault in tally.faults:
        print(f"pair {fault.pair}: {fault.what}\n{fault.program}")
    for sampler in (*SAMPLERS, ENTER_POSTPROC):
        print(f"{sampler}: {tally.drawn[sampler]} drawn, {tally.used[sampler]} used, {tally.anew[sampler]} drawn anew")
    for op in options.only:
        print(f"{op}: tried {tally.tried[op]}, applied {tally.applied[op]}, after three others {tally.late[op]}")
    print(f"{tally.pairs} pairs, {tally.applied.total()} primitives applied, {len(tally.faults)} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
