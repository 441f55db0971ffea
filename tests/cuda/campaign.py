"""The campaign on GPUs: random programs under random GPU schedules, their CUDA C run on the CPU, mean what they meant.

Pair `k` of a seed is the same program and schedule everywhere. The kernels of a batch of pairs are compiled together.

    python -m tests.cuda.campaign --seed 0 --first 0 --count 100
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from mslang.diagnostics import MsError
from mslang.ir.print import print_program
from mslang.ir.verify import verify
from mslang.schedule.schedule import Schedule
from tests.cuda.drawn_schedules import draw
from tests.cuda.emulator import CompileError, Emulated
from tests.cuda.modules import Made, as_numbers, made, run
from tests.cuda.on_gpu import Emulation, OnCases, verdict
from tests.property.arrays import difference, outputs_equal
from tests.property.campaign import GENERATORS
from tests.property.judge import FAULTS, Arrays, Judged
from tests.property.tally import Fault, Tally

BATCH = 25
"""How many pairs are compiled together."""

ATTEMPTS = 6
"""How often a schedule is drawn for a program until lowering takes one."""


REFUSALS = frozenset(f"MS{n}" for n in (*range(430, 440), 440, 442))
"""What a schedule may be refused with: no GPU could run it, or CUDA C has no words for it."""


class Pair(msgspec.Struct, frozen=True):
    """A program with its results, and a schedule of it as kernels."""

    number: int
    before: Judged
    schedule: Schedule
    steps: tuple[str, ...]
    made: Made


def generator_of(number: int) -> str:
    """The generators take turns."""
    return tuple(GENERATORS)[number % len(GENERATORS)]


def check_batch(seed: int, numbers: Iterable[int], on_gpu: OnCases | None = None) -> Tally:
    """Draw, compile and judge pairs; on a GPU, too, if there is one."""
    tally = Tally()
    pairs = [p for n in numbers if (p := _drawn(seed, n, tally)) is not None]
    for group, compiled in _compiled(pairs, tally):
        with compiled as file:
            for k, p in enumerate(group):
                _judge(p, file, k, tally, on_gpu)
    return tally


def _drawn(seed: int, number: int, tally: Tally) -> Pair | None:
    """A pair whose schedule a GPU can run; None if there is none after a few attempts, or a fault."""
    tally.pairs += 1
    generator = GENERATORS[generator_of(number)]
    before, _ = generator.draw(seed, number)
    for attempt in range(ATTEMPTS):
        schedule = Schedule(before.program, seed=number)
        steps: list[str] = []
        try:
            steps = draw(schedule, random.Random(f"cuda/{seed}/{number}/{attempt}"), tally)
            assert not verify(schedule.program), verify(schedule.program)
            return Pair(number, before, schedule, tuple(steps), made(schedule.program))
        except MsError as error:
            if error.diagnostic.code not in REFUSALS:
                _fault(tally, number, schedule, tuple(steps), str(error))
                return None
            tally.checks[f"schedules refused with {error.diagnostic.code}"] += 1
        except FAULTS as error:
            _fault(tally, number, schedule, tuple(steps), f"{type(error).__name__}: {error}")
            return None
    tally.checks["without a schedule that a GPU can run"] += 1
    return None


def _compiled(pairs: Sequence[Pair], tally: Tally) -> Iterator[tuple[Sequence[Pair], Emulated]]:
    """The pairs compiled together: all, or, each alone, those of which g++ takes the source."""
    if not pairs:
        return
    try:
        together = Emulated(*(p.made.source.text for p in pairs), optimize=0)
    except CompileError:
        for p in pairs:
            try:
                alone = Emulated(p.made.source.text, optimize=0)
            except CompileError as error:
                _fault(tally, p.number, p.schedule, p.steps, f"g++ refuses the source: {error}")
            else:
                yield [p], alone
    else:
        yield pairs, together


def _judge(p: Pair, file: Emulated, k: int, tally: Tally, on_gpu: OnCases | None) -> None:
    """Every case gives bit for bit what the interpreter gives, without a fault; a GPU is of the same opinion."""
    tally.checks["run"] += 1
    tally.checks["kernels"] += len(p.made.source.launches)
    tally.checks["barriers"] += p.made.source.text.count("__syncthreads()")
    tally.checks["shuffles"] += p.made.source.text.count("__shfl_")
    emulation = _emulated(p, file, k, tally)
    wrong = emulation.wrong
    if on_gpu is not None:
        wrong = verdict(p.made, p.before.cases, p.before.wanted, emulation, on_gpu, _differs, tally.checks)
    if wrong:
        _fault(tally, p.number, p.schedule, p.steps, wrong)


def _emulated(p: Pair, file: Emulated, k: int, tally: Tally) -> Emulation:
    """The results of the cases, in each order of threads, up to the first that is wrong."""
    results: list[Arrays] = []
    for case, wanted in zip(p.before.cases, p.before.wanted, strict=True):
        try:
            ran = run(p.made, case.arrays, file, k, sizes=case.sizes, seed=p.number)
            found = {n: as_numbers(p.made, n, a) for n, a in ran.results.items()}
        except FAULTS as error:
            return Emulation(results, f"{type(error).__name__}: {error}")
        results.append(found)
        said = [f.text for f in ran.faults[:4]]
        if differs := _differs(wanted, found):
            said.append(differs)
        if said:
            return Emulation(results, "; ".join(said) + f" {dict(case.sizes)}")
        tally.checks["with writes of one value by several threads"] += bool(ran.harmless)
    return Emulation(results, "")


def _differs(wanted: Arrays, found: Arrays) -> str:
    return "" if outputs_equal(wanted, found) else difference(wanted, found)


def _fault(tally: Tally, number: int, schedule: Schedule, steps: tuple[str, ...], what: str) -> None:
    text = f"{print_program(schedule.session.origin)}\n{schedule.trace.as_ms('fault')}"
    tally.faults.append(Fault(number, what, steps, text, generator_of(number)))


def campaign(seed: int, first: int, count: int) -> Tally:
    """Judge `count` pairs from the number `first`."""
    total = Tally()
    numbers = iter(range(first, first + count))
    while batch := list(islice(numbers, BATCH)):
        total.add(check_batch(seed, batch))
    return total


def main() -> int:
    """Check a range of pairs; the exit status says whether all were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    tally = campaign(options.seed, options.first, options.count)
    for fault in tally.faults:
        print(f"pair {fault.pair} of {fault.generator}: {fault.what}\n{fault.program}\n")
    for what, count in sorted(tally.checks.items()):
        print(f"{what}: {count}")
    for op, tried in tally.tried.items():
        print(f"{op}: tried {tried}, applied {tally.applied[op]}")
    print(f"{tally.pairs} pairs, {len(tally.faults)} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
