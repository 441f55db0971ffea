"""benchmarks/tuning_curve.py: its figures from made-up times, and the table of workloads that it shares."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def modules() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        names = ("tuning_curve", "tuning_runs", "tvm_tuning", "by_hand", "workloads", "curves")
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def curves(modules: SimpleNamespace) -> tuple[object, object]:
    runs: ModuleType = modules.tuning_runs
    ours = runs.Curve((runs.Point(2.0, 0, 3e-3), runs.Point(5.0, 7, 1e-3)), 16, 9.0)
    theirs = runs.Curve((runs.Point(4.0, 1, 1.0), runs.Point(50.0, 40, 2e-3)), 64, 80.0)
    return ours, theirs


def test_only_an_interval_above_one_passes(modules: SimpleNamespace) -> None:
    """The first point is level with TVM's best but for noise, the second is twice as fast; a noisy round undoes it."""
    ours, theirs = curves(modules)
    level = [2e-3 * (1.04 if k % 2 else 0.97) for k in range(21)]
    times = {"point 0": level, "ours": [1e-3] * 21, "tvm 1": [2e-3] * 21}
    cells = modules.tuning_curve.tvm_cells(ours, ["point 0", "ours"], theirs, times)
    assert cells["passed_after"] == 5.0 and cells["near_after"] == 2.0
    assert cells["tvm"]["ratio"][0] == pytest.approx(2.0) and cells["tvm_after"] == 50.0
    assert [p["seconds"] for p in cells["tvm_points"]] == [1.0, 2e-3], "the slow one as its tuning measured it"
    noisy = times | {"ours": [1e-3 if k % 2 else 3e-3 for k in range(21)]}
    cells = modules.tuning_curve.tvm_cells(ours, ["point 0", "ours"], theirs, noisy)
    assert cells["passed_after"] is None


def test_slow_kernels_are_not_measured_again(modules: SimpleNamespace) -> None:
    _, theirs = curves(modules)
    found = modules.tvm_tuning.Tuned(theirs, (Path("1.so"), Path("40.so")))
    assert found.kernels(10.0) == {1: Path("40.so")} and set(found.kernels(1000.0)) == {0, 1}
    assert modules.tvm_tuning.Tuned(modules.tuning_runs.Curve((), 0, 5.0), ()).kernels(10.0) == {}


def test_tuning_that_fails_is_a_row_with_the_reason(
    modules: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Traceback\n    for i in range(8):\nError message: The producers are not there. \n"
    failing = SimpleNamespace(returncode=1, stdout="", stderr=said)
    monkeypatch.setattr(modules.tvm_tuning.subprocess, "run", lambda *_, **__: failing)
    program = modules.workloads.TABLE["gemm_128"].bare()
    found = modules.tvm_tuning.tuned(tmp_path, "gemm_128", program, 0, 4, None)
    assert found.curve.failed == "The producers are not there." and found.kernels(10.0) == {}
    cells = modules.tuning_curve.tvm_cells(curves(modules)[0], [], found.curve, {})
    row = {"workload": "gemm_128", "seed": 0, "ours": 1e-3, "after": 5.0, "how": "db", **cells}
    assert modules.tuning_curve.told(row).endswith("TVM failed: The producers are not there.")


def test_what_a_side_has_not_reached_is_infinite(modules: SimpleNamespace) -> None:
    row = {"passed_after": None, "near_after": 5.0, "tvm_after": 50.0}
    assert modules.tuning_curve.middle([modules.tuning_curve.share(row, "passed_after")]) == "–"
    assert modules.tuning_curve.middle([modules.tuning_curve.share(row, "near_after")]) == "0.10"


def test_the_picture_has_a_panel_for_each_workload_and_a_line_for_each_side_and_seed(modules: SimpleNamespace) -> None:
    def row(workload: str, seed: int) -> dict[str, object]:
        points = [{"after": 2.0 + seed, "trial": 0, "seconds": 3e-3}, {"after": 5.0, "trial": 7, "seconds": 1e-3}]
        ours = {"points": points, "took": 9.0}
        return {"workload": workload, "seed": seed, **ours, "tvm_points": points, "tvm_took": 30.0}

    alone = {k: v for k, v in row("c", 0).items() if not k.startswith("tvm")}
    page = ElementTree.fromstring(modules.curves.drawing([row("a", 0), row("a", 1), row("b", 0), alone]))
    panels = page.findall("{*}svg")
    drawn = [[path.get("class") for path in panel.findall("{*}path")] for panel in panels]
    lines = [[styles.count(side) for side in ("ours", "tvm")] for styles in drawn]
    assert lines == [[2, 2], [1, 1], [1, 0]]
    assert [t.text for t in page.findall("{*}text") if t.get("class") == "title"] == ["a", "b", "c"]
    # All are within the page and none lies on another.
    places = [(float(p.get("x") or 0), float(p.get("y") or 0)) for p in panels]
    assert len(set(places)) == 3 and max(y for _, y in places) < float((page.get("viewBox") or "").split()[3])


def test_a_curve_holds_to_the_end_of_tuning(modules: SimpleNamespace) -> None:
    points = [{"after": 2.0, "seconds": 3e-3}, {"after": 5.0, "seconds": 1e-3}]
    assert modules.curves.staircase(points, 9.0) == [(2.0, 3e-3), (5.0, 1e-3), (9.0, 1e-3)]


def test_workloads(modules: SimpleNamespace) -> None:
    table = modules.workloads.TABLE
    assert set(modules.tuning_curve.NAMES) <= set(table)
    for name, workload in table.items():
        assert workload.bare().name == workload.program, name
    assert modules.by_hand.schedules_for(table["gemm_512"]) == ["packed", "tiled"]
