"""The campaign: random programs under random sequences of primitives mean what they meant, on every path.

Two generators, written apart, draw the pairs. Pair `k` of a generator and a seed is the same program and the same
schedule everywhere. Each is scheduled through `Schedule`, so that traces are recorded and decisions stay symbols until
the end.

    python -m tests.property.campaign --generator instances --seed 0 --first 0 --count 200
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import msgspec

from mslang.ir.print import print_program
from mslang.schedule.instruction import ENTER_POSTPROC
from mslang.schedule.schedule import Schedule
from tests.property import stages
from tests.property.crossed_names import crossed
from tests.property.instances import pairs as instances
from tests.property.judge import FAULTS, Case, Judged, judge, judged, sparse_inputs
from tests.property.sampled_steps import SAMPLERS
from tests.property.stages import WEIGHTS
from tests.property.tally import Fault, Tally

CROSSED = 0.15
"""How many programs of the first generator have axes called like loops that they do not follow."""

Weights = Mapping[str, float]
NO_WEIGHTS: Weights = MappingProxyType({})


class Generator(msgspec.Struct, frozen=True):
    """A source of pairs: draws a program with its results, then schedules it; gives the primitives applied."""

    name: str
    weights: Weights
    draw: Callable[[int, int], tuple[Judged, random.Random]]
    schedule: Callable[[Schedule, int, random.Random, Tally, Weights], list[str]]


def _stages(seed: int, number: int) -> tuple[Judged, random.Random]:
    drawn, rng = stages.drawn_pair(seed, number)
    program = stages.with_strides(drawn, random.Random(f"strides/{seed}/{number}"))
    names = random.Random(f"names/{seed}/{number}")
    if names.random() < CROSSED:
        program = crossed(program, names)
    return judged(program, [Case(sparse_inputs(program, number))]), rng


def _schedule_stages(schedule: Schedule, number: int, rng: random.Random, tally: Tally, weights: Weights) -> list[str]:
    return stages.schedule_pair(schedule, rng, tally, weights, stages.about(number))


GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {
        "stages": Generator("stages", WEIGHTS, _stages, _schedule_stages),
        "instances": Generator("instances", instances.WEIGHTS, instances.drawn_pair, instances.schedule_pair),
    }
)


def check_pair(generator: Generator, seed: int, number: int, tally: Tally, weights: Weights) -> None:
    """Draw a pair and check it; a fault goes to the tally."""
    tally.pairs += 1
    try:
        # Programs come of primitives, too.
        before, rng = generator.draw(seed, number)
    except FAULTS as error:
        tally.faults.append(Fault(number, f"{type(error).__name__}: {error}", (), "", generator.name))
        return
    schedule = Schedule(before.program, seed=number)
    done: list[str] = []
    try:
        done = generator.schedule(schedule, number, rng, tally, weights)
        judge(before, schedule, number, tally.checks, tally.anew)
    except FAULTS as error:
        what = f"{type(error).__name__}: {error}"
        tally.faults.append(Fault(number, what, tuple(done), _steps_text(schedule), generator.name))


def _steps_text(schedule: Schedule) -> str:
    return f"{print_program(schedule.session.origin)}\n{schedule.trace.as_ms('fault')}"


def campaign(
    seed: int,
    numbers: Iterable[int],
    stop: Callable[[Tally], bool] = lambda tally: False,
    weights: Weights = NO_WEIGHTS,
    generator: str = "stages",
) -> Tally:
    """Check the pairs of these numbers, until `stop` says so.

    Args:
        seed: of the pairs.
        numbers: which pairs of the generator.
        stop: asked after each.
        weights: how often each primitive is tried, where that is not as the generator has it.
        generator: `stages` or `instances`.
    """
    tally, chosen = Tally(), GENERATORS[generator]
    for number in numbers:
        check_pair(chosen, seed, number, tally, {**chosen.weights, **weights})
        if stop(tally):
            break
    return tally


def main() -> int:
    """Check a range of pairs; the exit status says whether all were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--generator", choices=list(GENERATORS), default="stages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[], help="primitives of which half of the tries are to be")
    options = parser.parse_args()
    weights = GENERATORS[options.generator].weights
    often = sum(weights.values()) // max(1, len(options.only))
    numbers = range(options.first, options.first + options.count)
    only = dict.fromkeys(options.only, often)
    tally = campaign(options.seed, numbers, lambda t: bool(t.faults), only, options.generator)
    for fault in tally.faults:
        print(f"pair {fault.pair} of {fault.generator}: {fault.what}\n{fault.program}")
    for sampler in (*SAMPLERS, ENTER_POSTPROC):
        print(f"{sampler}: {tally.drawn[sampler]} drawn, {tally.used[sampler]} used, {tally.anew[sampler]} drawn anew")
    for op in options.only:
        print(f"{op}: tried {tally.tried[op]}, applied {tally.applied[op]}, after three others {tally.late[op]}")
    print(f"{tally.pairs} pairs, {tally.applied.total()} primitives applied, {len(tally.faults)} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
