"""Calls of a candidate on private copies of the reference inputs: verified, timed alone, or in turn with others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from mslang.backend.backend import BackEnd
from mslang.ir.buckets import at_sizes, stated_sizes
from mslang.ir.program import Program
from mslang.runtime.timing import Limits, Timing, measure, median_error
from mslang.tune.comparison import Sample, ratios
from mslang.tune.expected import changed_input, private_copies, read_expected, same_bits
from mslang.tune.instances import read_instances
from mslang.tune.record import Outcome, Result, Verification
from mslang.tune.sampling import Sampler
from mslang.tune.verification import Difference, compare, make_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mslang.backend.backend import Bound, Loaded
    from mslang.runtime.caches import CacheFlush
    from mslang.runtime.core_speed import CoreSpeed
    from mslang.runtime.sharing import Sharing
    from mslang.tune.verification import Arrays

LEAST_ROUNDS = 7
"""Rounds that candidates are compared by at least, if the time allows."""


FEWEST_ROUNDS = 2
"""And by which they are compared however long it takes: one round has no interval."""


class Call:
    """A kernel bound to private copies of the inputs of a kind, and what it should compute from them."""

    def __init__(
        self, program: Program, kind: str, inputs: Arrays, expected: Arrays, arrays: Arrays, bound: Bound
    ) -> None:
        self.program, self.kind, self.bound = program, kind, bound
        self._inputs, self._expected, self._arrays = inputs, expected, arrays
        self._right: tuple[Verification, Arrays] | None = None
        self.calls = 1

    def check(self) -> Verification | Result:
        """Compare the outputs with the expected ones, and the inputs with what they were."""
        found = self._verified()
        if isinstance(found, Difference):
            return Result(Outcome.WRONG_RESULT, f"on {self.kind} inputs {found.text}")
        changed = changed_input(self.program, self._inputs, self._arrays)
        if changed is not None:
            return Result(Outcome.WRONG_RESULT, f"it writes to its input {changed}")
        return found

    def _verified(self) -> Verification | Difference:
        outputs = {p.buffer.name: self._arrays[p.buffer.name] for p in self.program.params if p.direction != "in"}
        # Bits that were right once are right again.
        if self._right is not None and all(same_bits(x, self._right[1][name]) for name, x in outputs.items()):
            return self._right[0]
        found = compare(self.program, self._expected, self._arrays, self.kind)
        if isinstance(found, Verification):
            self._right = found, {name: x.copy() for name, x in outputs.items()}
        return found

    @property
    def in_place(self) -> bool:
        """Whether a run works on the result of the run before."""
        return any(p.direction == "inout" for p in self.program.params)

    def restore(self) -> None:
        """Give parameters that are read and written their first contents back."""
        for p in self.program.params:
            if p.direction == "inout":
                self._arrays[p.buffer.name][...] = self._inputs[p.buffer.name]

    def run_once(self) -> None:
        """Leave the outputs of one run on the inputs."""
        self.restore()
        self.bound.run()


class Calls:
    """A kernel bound at several sizes, called as one: a run makes as many calls at each size as its weight says."""

    def __init__(self, calls: Sequence[tuple[Call, int]]) -> None:
        self._calls = tuple(calls)
        self.bound = _BoundCalls([(call.bound, weight) for call, weight in calls])
        self.calls = sum(weight for _, weight in calls)

    def check(self) -> Verification | Result:
        """Compare the outputs at every size with the expected ones; of several right ones the largest error counts."""
        found = [(call.check(), call.program) for call, _ in self._calls]
        wrong = next((r for r, _ in found if isinstance(r, Result)), None)
        if wrong is not None:
            return wrong
        return max((r for r, _ in found if isinstance(r, Verification)), key=lambda r: r.max_error)

    @property
    def in_place(self) -> bool:
        """Whether a run works on the result of the run before."""
        return any(call.in_place for call, _ in self._calls)

    def restore(self) -> None:
        """Give parameters that are read and written their first contents back."""
        for call, _ in self._calls:
            call.restore()

    def run_once(self) -> None:
        """Leave at each size the outputs of one call on the inputs, whatever its weight."""
        for call, _ in self._calls:
            call.run_once()


class _BoundCalls:
    """Bound kernels that are run as one."""

    def __init__(self, parts: Sequence[tuple[Bound, int]]) -> None:
        self.parts = tuple(parts)

    def run(self, times: int = 1) -> None:
        with self.prepared() as (enter, _):
            enter(times)

    @contextmanager
    def prepared(self) -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
        with ExitStack() as held:
            ready = [(*held.enter_context(bound.prepared()), weight) for bound, weight in self.parts]

            def enter(times: int) -> None:
                for run, _, weight in ready:
                    run(times * weight)

            def pack() -> None:
                for _, put, _ in ready:
                    put()

            yield enter, pack

    def time(self, limits: Limits | None = None) -> Timing:
        with self.prepared() as (enter, _):
            return measure(enter, limits or Limits())


Timer = Callable[["Call | Calls", Limits, BackEnd[Any] | None], Timing]
"""Times a call within limits; the back end, if any, may have a way of its own."""


def bind(program: Program, kernel: Loaded, reference: str, kind: str) -> Call | Calls:
    """A call of a loaded candidate on the inputs of a kind in the folder of references, at all sizes that it holds."""
    instances = read_instances(Path(reference))
    if not instances:
        return _bind(program, kernel, reference, kind)
    calls = [
        (_bind(program, kernel, str(Path(reference) / str(number)), kind, each.sizes), each.weight)
        for number, each in enumerate(instances)
    ]
    return calls[0][0] if len(calls) == 1 else Calls(calls)


def _bind(program: Program, kernel: Loaded, reference: str, kind: str, sizes: Mapping[str, int] | None = None) -> Call:
    stated: dict[str, int] = {}
    if sizes is not None:
        program, stated = at_sizes(program, sizes), stated_sizes(program, sizes)
    inputs, expected = read_expected(Path(reference), kind)
    arrays = make_arguments(program, private_copies(inputs))
    return Call(program, kind, inputs, expected, arrays, kernel.bind(**arrays, **stated))


def time_call(call: Call | Calls, limits: Limits, backend: BackEnd[Any] | None) -> Timing:
    """Time a kernel; afterwards its outputs are those of one run on the inputs."""
    if backend is not None and backend.time is not None:
        timing = backend.time(call.bound, limits, call.restore if call.in_place else None)
        if call.in_place:
            call.run_once()
        return timing
    with _sampler(call, limits) as sampler:
        return sampler.take()


class Rounds(NamedTuple):
    """One of several candidates: its time, and its sample of each round as a cost at the nominal speed."""

    timing: Timing
    samples: tuple[Sample, ...]


def in_turns(
    calls: Sequence[tuple[Call | Calls, BackEnd[Any] | None]], limits: Limits, seconds: float
) -> tuple[Rounds, ...]:
    """Time kernels in rounds, A B C A B C …, so that drift of the machine affects all equally.

    Rounds end when the ratio of each to the first is known to within `limits.spread`, or the time is spent.
    """
    end = time.monotonic() + seconds
    with ExitStack() as open_calls:
        turns = [
            open_calls.enter_context(_turn(call, limits.for_calls(call.calls), backend)) for call, backend in calls
        ]
        while not _known(turns, limits) and (time.monotonic() < end or len(turns[0].samples) < FEWEST_ROUNDS):
            for turn in turns:
                turn.samples.append(turn.take())
        return tuple(
            Rounds(turn.timing().of_one(call.calls), tuple(turn.samples))
            for (call, _), turn in zip(calls, turns, strict=True)
        )


def _known(turns: Sequence[_Turn], limits: Limits) -> bool:
    taken = len(turns[0].samples)
    if taken >= limits.max_repeats or taken < LEAST_ROUNDS or len(turns) == 1:
        return taken >= limits.max_repeats
    return all(median_error(ratios(t.samples, turns[0].samples)) <= limits.spread for t in turns[1:])


class _Turn:
    """One kernel among several: how it takes a sample, and how its samples become a time."""

    def __init__(self, take: Callable[[], Sample], timing: Callable[[], Timing]) -> None:
        self.take, self.timing = take, timing
        self.samples: list[Sample] = []


@contextmanager
def _turn(call: Call | Calls, limits: Limits, backend: BackEnd[Any] | None) -> Iterator[_Turn]:
    from mslang.target.yardstick import NOMINAL_RATE

    if backend is not None and backend.time is not None:
        timed: list[Timing] = []

        def measured() -> Sample:
            assert backend is not None and backend.time is not None
            few = replace(limits, repeats=1, max_repeats=LEAST_ROUNDS, cutoff=None)
            timed.append(backend.time(call.bound, few, call.restore if call.in_place else None))
            return Sample(timed[-1].median)

        def timing() -> Timing:
            return Timing(tuple(x for t in timed for x in t.samples), timed[0].runs, cold=timed[0].cold)

        yield _Turn(measured, timing)
        if call.in_place:
            call.run_once()
        return
    with _sampler(call, limits) as sampler:
        runs = sampler.length()

        def sampled() -> Sample:
            pair = sampler.sample(runs)
            return Sample(pair.seconds * pair.rate / NOMINAL_RATE, sampler.is_clean(pair))

        yield _Turn(sampled, lambda: sampler.timing(runs))


@contextmanager
def _sampler(call: Call | Calls, limits: Limits) -> Iterator[Sampler]:
    """A sampler of a call that watches the core; afterwards the outputs are those of one run on the inputs."""
    from mslang.target.yardstick import NOMINAL_RATE

    with call.bound.prepared() as (enter, pack):

        def restore() -> None:
            call.restore()
            pack()

        yield Sampler(
            enter,
            limits,
            speed=_core_speed().now,
            nominal=NOMINAL_RATE,
            restore=restore if call.in_place else None,
            flush=_flush() if limits.cache == "cold" else None,
            share=_share,
        )
    if call.in_place:
        call.run_once()


@lru_cache(maxsize=1)
def _core_speed() -> CoreSpeed:
    from mslang.runtime.core_speed import process_core_speed

    return process_core_speed()


def _share(rate: float, patience: float) -> float:
    return _sharing().share(rate, patience)


@lru_cache(maxsize=1)
def _sharing() -> Sharing:
    from mslang.runtime.sharing import process_sharing
    from mslang.target.yardstick import Yardstick

    return process_sharing(Yardstick())


@lru_cache(maxsize=1)
def _flush() -> CacheFlush:
    from mslang.runtime.caches import CacheFlush

    return CacheFlush()
