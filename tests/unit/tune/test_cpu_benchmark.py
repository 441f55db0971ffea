"""benchmarks/cpu.py: its figures from made-up times, and a whole run of its smallest workload."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[3] / "benchmarks" / "cpu.py"


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("benchmark_cpu", FILE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FILE.parent))
        yield made


def test_ratios_are_those_of_rounds(benchmark: ModuleType) -> None:
    """The machine gets slower from round to round, which the ratios do not show."""
    ours = [1e-3 * k for k in range(1, 12)]
    found = benchmark.beside({"mslang": ours, "peer": [1.5 * t for t in ours]}, "peer")
    assert found["ratio"] == pytest.approx({"median": 1.5, "low": 1.5, "high": 1.5})
    assert found["interval"] == pytest.approx((1.5, 1.5)) and found["least"] == pytest.approx(1.5)
    one_late = benchmark.beside({"mslang": ours, "peer": [*ours[:-1], 1.0]}, "peer")
    assert one_late["ratio"]["median"] == 1.0 and one_late["interval"][0] == 1.0


def test_the_smallest_workload(tmp_path: Path) -> None:
    words = ["gemm_128", "--json", "--trials", "2", "--rounds", "3", "--cold", "2", "--db", str(tmp_path / "r.db")]
    done = subprocess.run([sys.executable, str(FILE), *words], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (row,) = map(json.loads, done.stdout.splitlines())
    assert row["workload"] == "gemm_128" and row["ours"]["how"].startswith("tuned: ")
    assert {"mslang", "numpy"} <= row["warm"].keys() == row["cold"].keys()
    assert row["warm"]["mslang"]["ratio"]["median"] == 1.0 and row["warm"]["numpy"]["seconds"]["median"] > 0
    assert 0 < row["roofline"]["share"] < 1.5 and row["roofline"]["by"] == "arithmetic"
    again = subprocess.run([sys.executable, str(FILE), *words], capture_output=True, text=True, timeout=240)
    assert "record" in json.loads(again.stdout)["ours"]["how"], again.stderr
    wrong = subprocess.run([sys.executable, str(FILE), "gemm_9"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 1 and "there is no workload gemm_9" in wrong.stderr
