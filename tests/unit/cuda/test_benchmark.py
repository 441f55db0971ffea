"""benchmarks/cuda.py: its tables from a clock that is not a GPU's, and what it says where there is none."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mslang.backend.cuda import device as devices
from mslang.diagnostics import TargetError, problem
from mslang.sema.modules import load

FILE = Path(__file__).parents[3] / "benchmarks" / "cuda.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_cuda", FILE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["benchmark_cuda"] = made
    before = list(sys.path)
    try:
        spec.loader.exec_module(made)
    finally:
        sys.path[:] = before
    return made


class Ticks:
    """A device whose events are the sum of what runs have cost: `order` is who ran, a flush among them."""

    name, l2, sm = "NVIDIA H100 80GB HBM3", 1000, 90

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []
        self.freed: list[int] = []

    def run(self, who: str, *costs: float) -> Callable[[], None]:
        left = iter(costs)

        def start() -> None:
            self.order.append(who)
            self.now += next(left)

        return start

    def allocate(self, size: int) -> int:
        assert size >= 2 * self.l2
        return 7

    def free(self, address: int) -> None:
        self.freed.append(address)

    def fill(self, address: int, size: int) -> None:
        self.order.append("flush")
        self.now += 100.0  # outside of the events

    def mark(self) -> float:
        return self.now

    def seconds(self, before: float, after: float) -> float:
        return after - before


def test_contenders_take_turns_and_find_the_cache_cold(benchmark: ModuleType) -> None:
    gpu = Ticks()
    clock, free = benchmark.device_clock(gpu)
    runs = {"mslang": gpu.run("mslang", 9, 1, 2, 3), "torch": gpu.run("torch", 9, 4, 4, 4)}
    times = benchmark.interleaved(runs, clock, 3)
    free()
    assert times == {"mslang": [1, 2, 3], "torch": [4, 4, 4]}
    assert gpu.order == ["flush", "mslang", "flush", "torch"] * 4 and gpu.freed == [7]


def test_figures_of_a_case(benchmark: ModuleType) -> None:
    case = benchmark.CASES[0]._replace(bound="f16", amount=989e12)
    mine, theirs = benchmark.rows_of(
        case, {"mslang": [2.0, 2.0, 4.0], "torch": [4.0, 4.0, 4.0]}, benchmark.PEAKS["H100"]
    )
    assert mine.quartiles[1] == 2.0 and mine.share == 0.5 and mine.faster[0] == 1.0
    assert theirs.share == 0.25 and theirs.faster[0] == 2.0
    text = benchmark.as_table([mine, theirs], {case.name: "f16"})
    assert "| gemm_f16 | mslang | 2 s [2 s, 4 s] | 494.5 TOP/s | 50% | 1.00" in text
    line = json.loads(benchmark.as_json(mine, "f16", Ticks.name))
    assert line["median"] == 2.0 and line["share"] == 0.5 and line["device"] == Ticks.name


def test_an_unknown_card_has_no_share(benchmark: ModuleType) -> None:
    assert benchmark.peaks_of(Ticks.name) is benchmark.PEAKS["H100"] and benchmark.peaks_of("Unheard-of") is None
    case = benchmark.CASES[0]
    (row,) = benchmark.rows_of(case, {"mslang": [1.0, 1.0]}, None)
    assert row.share is None and "–" in benchmark.as_table([row], {case.name: "bandwidth"})


def test_each_case_names_a_schedule_of_the_library_and_an_amount(benchmark: ModuleType) -> None:
    assert len({c.name for c in benchmark.CASES}) == len(benchmark.CASES)
    for case in benchmark.CASES:
        home, _, name = case.program.rpartition(".")
        module = load("test.ms", f"use {case.module}.{{{case.schedule}}}\nuse {home}.{{{name}}}\n")
        assert not module.diagnostics
        assert all(case.bound in peaks for peaks in benchmark.PEAKS.values())


def test_a_case_is_scheduled_and_has_inputs(benchmark: ModuleType) -> None:
    case = next(c for c in benchmark.CASES if c.name == "softmax")
    assert case.amount == 2 * 4 * case.sizes["M"] * case.sizes["N"]
    arrays = benchmark.arrays_of(benchmark.scheduled(case._replace(sizes={"M": 4, "N": 512})))
    assert {n: (a.shape, str(a.dtype)) for n, a in arrays.items()} == {"X": ((4, 512), "float32")}


def test_without_a_gpu_it_says_so_once(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> None:
        raise TargetError(problem("MS446", "there is no GPU of NVIDIA here"))

    monkeypatch.setattr(devices, "device", none)
    assert benchmark.main(["gemm_f16"]) == 3
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1 and "needs a GPU" in told.err and "MS446" in told.err


def test_an_unknown_case_is_wrong_use(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["gemm_f12"]) == 2
    assert "gemm_f12" in capsys.readouterr().err
