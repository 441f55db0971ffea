"""benchmarks/tvm_kernels.py: what it counts, with a TVM, an nvcc and an emulation that are made up here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from mslang.backend.cuda.compiled import Compiled, refused
from mslang.interop.tvm.records import RECORDS, WORKLOADS
from tests.cuda.emulator import CompileError
from tests.cuda.modules import Ran

ROOT = Path(__file__).parents[4]
DATA = ROOT / "tests" / "data" / "tvm"
RIGHT, WRONG = ({"C": np.full((2, 2), x, np.float32)} for x in (1.0, 2.0))


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("benchmark_tvm_kernels", ROOT / "benchmarks" / "tvm_kernels.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark_tvm_kernels", made)
    spec.loader.exec_module(made)
    source = SimpleNamespace(source=SimpleNamespace(text="kernel"))
    monkeypatch.setattr(made, "made", lambda program, target: source)
    return made


class Tvm:
    """TVM's part: a database of three records, of which `damage` changes the last, and results."""

    def __init__(self, damage: bytes | None = None, results: object = RIGHT) -> None:
        self.damage, self.found = damage, results

    def commit(self, *arguments: object) -> tuple[str, int, tuple[str, ...]]:
        folder = Path(str(arguments[-1]))
        lines = (DATA / RECORDS).read_bytes().splitlines()[:3]
        lines[-1:] = [] if self.damage is None else [self.damage]
        (folder / RECORDS).write_bytes(b"\n".join(lines))
        (folder / WORKLOADS).write_bytes((DATA / WORKLOADS).read_bytes().splitlines()[0])
        return "a module", 3, ("its postprocessors take none",)

    def results(self, *_: object) -> object:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def nvcc(source: str, arch: str, form: str) -> Compiled:
    if arch == "sm_80":
        raise refused("nvcc", source, "error: made up")
    return Compiled(b"", "")


def settings(benchmark: ModuleType, *archs: str):
    return benchmark.Settings(1, 1, (benchmark.IMPORTED, *archs, benchmark.EMULATED))


def test_each_step_is_counted_by_itself(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = iter([Ran(RIGHT, (), ()), Ran(WRONG, (), ())])
    monkeypatch.setattr(benchmark, "emulate", lambda *_: next(runs))
    given = settings(benchmark, "nvcc sm_80", "nvcc sm_90")
    t = benchmark.tried("matmul", "cuda", given, nvcc, Tvm(b"[0, damaged"))
    # Of three that were committed one is not read: its diagnostic is no record.
    assert (t.committed, t.unread, len(t.records), len(t.diagnostics)) == (3, 1, 2, 1)
    # A source that nvcc refuses for one architecture is compiled for the other and run all the same.
    assert [t.passed(step) for step in given.steps] == [2, 0, 2, 1]
    assert t.records[1][benchmark.EMULATED] == "wrong C"
    text = benchmark.summary([t])
    for line in (
        "| rules | workloads with records | not drawn by TVM | records | read | imported | nvcc sm_80 | nvcc sm_90 |",
        "| cuda | 1 | 1 | 3 | 2 | 2 | 0 | 2 | 1 |",
        "| nvcc sm_N: MSN nvcc rejects",
        "| not drawn by TVM: its postprocessors take none | 1 |",
        "| MSN line N of",
        "| a record is not read | 1 |",
    ):
        assert line in text
    assert benchmark.status([t]) == 1
    benchmark.keep(tmp_path / "state", t)
    assert benchmark.kept(tmp_path / "state") == [t]


def test_what_fails_is_one_outcome_and_never_the_end(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def emulate(*_: object) -> Ran:
        raise CompileError("all.cpp: no")

    given = settings(benchmark)
    monkeypatch.setattr(benchmark, "emulate", emulate)
    for side in (Tvm(), Tvm(results=RuntimeError("no LLVM"))):
        t = benchmark.tried("matmul", "cuda", given, None, side)
        assert [r[benchmark.EMULATED] for r in t.records] == ["g++ refuses the source: all.cpp: no"] * 2
    monkeypatch.setattr(benchmark, "emulate", lambda *_: Ran(RIGHT, (), ()))
    t = benchmark.tried("matmul", "cuda", given, None, Tvm(results=RuntimeError("no LLVM")))
    assert [r[benchmark.EMULATED] for r in t.records] == ["TVM's own: RuntimeError no LLVM"] * 2
    # A record lost without a diagnostic, and TVM failing as a whole.
    t = benchmark.tried("matmul", "cuda", given, None, Tvm())
    assert t.passed(benchmark.EMULATED) == 2 and t.failures == ("a record is not read",)
    assert benchmark.status([t]) == 1
    side = Tvm()
    monkeypatch.setattr(side, "commit", nvcc)
    t = benchmark.tried("matmul", "cuda", given, None, side)
    assert t.committed == 0 and "TypeError" in t.undrawn[0] and benchmark.status([t]) == 1


def test_the_exit_status_needs_records_that_pass_every_step(benchmark: ModuleType) -> None:
    given = settings(benchmark, "nvcc sm_80")
    whole = dict.fromkeys(given.steps, "")

    def tried(committed: int, *records: dict[str, str]) -> int:
        return int(benchmark.status([benchmark.Tried("matmul", "cuda", given, committed, ("why",), (), records)]))

    assert tried(2, whole, whole) == 0
    assert tried(0) == tried(3, whole, whole) == tried(1, whole | {benchmark.EMULATED: "wrong C"}) == 1
    assert tried(1, {benchmark.IMPORTED: ""}) == 1


def test_without_tvm_or_a_compiler_it_says_so_once(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for reason, part in (("no g++ here", "no g++ here"), (None, "needs apache-tvm")):
        monkeypatch.setattr(benchmark, "why_not", lambda reason=reason: reason)
        monkeypatch.setitem(sys.modules, "tvm_kernel_records", None)
        assert benchmark.main(["matmul"]) == 3
        found = capsys.readouterr()
        assert found.out == "" and len(found.err.splitlines()) == 1 and part in found.err
