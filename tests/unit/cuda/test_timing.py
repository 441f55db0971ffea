"""Timing on a device that notes what it is asked for."""

from typing import Any

import numpy as np
import pytest

from mslang.backend.cuda.backend import CUDA as BACK_END
from mslang.backend.cuda.timing import Run, measured
from mslang.ir.expr import Const, Load
from mslang.ir.program import Param
from mslang.kernel.nodes import Function, Module, Store
from mslang.runtime.timing import Limits
from tests.unit.cuda.kernels import TX, buffer, launch, times
from tests.unit.cuda.test_running import FakeDevice, loaded, plus_one, twice, two_kernels


def test_each_sample_is_one_run_with_a_cold_cache() -> None:
    fake = FakeDevice(first=twice, second=plus_one)
    timing = loaded(fake, two_kernels()).time(np.zeros(64, np.float32), limits=Limits(repeats=5, max_repeats=20))
    assert timing.runs == 1
    assert timing.median == pytest.approx(2e-3)
    fills = [entry for entry in fake.log if entry[0] == "fill"]
    assert len(fills) == len(fake.launches()) // 2 == len(timing.samples) + 1
    assert fills[0] == ("fill", 32 << 20)
    assert timing.cold and not measured(fake, [Run(lambda: None)], Limits(cache="warm", max_repeats=1)).cold


def doubled_in_place(length: int) -> Module:
    """`X = 2 * X` in place, and a constant beside it."""
    x, out = buffer("X", "f32", length), buffer("out", "f32", length)
    body = (
        Store("X", (TX,), times(Load("X", (TX,), "f32"), Const(2.0, "f32"))),
        Store("out", (TX,), Const(1.0, "f32")),
    )
    functions = (Function("doubled", (x, out), body, launch((1,), (length,))),)
    return Module("doubled", (Param(x, "inout"), Param(out, "out")), functions)


def double(x: np.ndarray, out: np.ndarray) -> None:
    x.view(np.float32)[...] *= 2
    out.view(np.float32)[...] = 1


@pytest.mark.parametrize("cache", ["warm", "cold", None])
def test_what_runs_in_place_begins_each_sample_with_its_inputs(cache: Any) -> None:
    seen: list[list[float]] = []

    def noted(x: np.ndarray, out: np.ndarray) -> None:
        seen.append(x.view(np.float32).tolist())
        double(x, out)

    fake = FakeDevice(doubled=noted)
    kernel = loaded(fake, doubled_in_place(4))
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    bound = kernel.bind(x, out)
    begun = len(fake.log)
    timing = bound.time(Limits(repeats=3, max_repeats=20, cache=cache))
    assert timing.samples == pytest.approx([1e-3] * len(timing.samples)), "copies on the device are in no sample"
    runs = len(timing.samples) + 1
    assert seen == [[0, 1, 2, 3]] * runs
    assert x.tolist() == [0, 2, 4, 6] and out.tolist() == [1] * 4, "outputs are those of one run"
    log = [entry[0] for entry in fake.log[begun:]]
    one = ["copy", *(["fill"] if cache != "warm" else []), "mark", "launch", "mark"]
    # The copy is kept, and the memory that empties the cache; then come runs alone.
    assert log == ["allocate", "copy", "allocate", *one * runs]
    assert len(fake.memory) == 2, "the copy is freed"


def test_what_changes_no_input_is_not_copied() -> None:
    fake = FakeDevice(first=twice, second=plus_one)
    loaded(fake, two_kernels()).time(np.zeros(64, np.float32), limits=Limits(max_repeats=3))
    assert not [entry for entry in fake.log if entry[0] == "copy"]


def test_the_back_end_begins_with_the_restored_arrays() -> None:
    """Verification has run the kernel before: the caller's array holds a result."""
    fake = FakeDevice(doubled=double)
    x = np.arange(4, dtype=np.float32)
    bound = loaded(fake, doubled_in_place(4)).bind(x, np.zeros(4, np.float32))
    bound.run()
    assert x.tolist() == [0, 2, 4, 6] and BACK_END.time is not None

    def restore() -> None:
        x[...] = np.arange(4)

    timing = BACK_END.time(bound, Limits(max_repeats=4), restore)
    assert timing.median == pytest.approx(1e-3) and x.tolist() == [0, 2, 4, 6]


class Together:
    """Bound kernels that are run as one."""

    def __init__(self, *parts: tuple[Any, int]) -> None:
        self.parts = parts


def test_sizes_that_are_run_as_one_are_timed_one_by_one() -> None:
    """Each by events, begun with its inputs; its time counts as often as it is called."""
    fake = FakeDevice(doubled=double)
    arrays = [np.arange(n, dtype=np.float32) for n in (4, 8)]
    few, many = (loaded(fake, doubled_in_place(x.size)).bind(x, np.zeros(x.size, np.float32)) for x in arrays)
    assert BACK_END.time is not None
    begun = len(fake.log)
    timing = BACK_END.time(Together((few, 1), (many, 3)), Limits(max_repeats=5), None)  # type: ignore[arg-type]
    assert timing.median == pytest.approx(4e-3)
    assert [x.tolist() for x in arrays] == [[0, 2, 4, 6], [2 * i for i in range(8)]]
    one = ["copy", "fill", "mark", "launch", "mark"]
    assert [e[0] for e in fake.log[begun:]] == [
        *["allocate", "copy"] * 2,
        "allocate",
        *one * 2 * (len(timing.samples) + 1),
    ]
    assert len(fake.memory) == 4


def test_a_failure_frees_the_copy_and_is_passed_on() -> None:
    fake = FakeDevice(doubled=double)
    bound = loaded(fake, doubled_in_place(4)).bind(np.zeros(4, np.float32), np.zeros(4, np.float32))

    def failing(*_: Any) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    fake.kernels["doubled"] = failing
    with pytest.raises(RuntimeError, match="illegal memory access"):
        bound.time(Limits())
    assert len(fake.memory) == 2


def test_slow_kernels_are_cut_off() -> None:
    fake = FakeDevice()

    def start() -> None:
        fake.clock += 1.0

    timing = measured(fake, [Run(start)], Limits(cutoff=0.5))
    assert timing.censored and timing.cold
    assert timing.samples == (1.0,)
    assert not fake.memory


def test_time_is_bounded() -> None:
    fake = FakeDevice()

    def start() -> None:
        fake.clock += 0.3 + 0.1 * (len(fake.log) % 3)

    timing = measured(fake, [Run(start)], Limits(max_total=1.0, max_repeats=1000))
    assert 1 <= len(timing.samples) <= 4
