"""benchmarks/tvm_rules.py: what it reads of TVM's tests and how it counts, on a checkout that is made up here."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[4]
STAGES = """
@T.prim_func(s_tir=True)
def stages(a: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32")):
    b = T.sblock_alloc_buffer((64,), "float32")
    for i in range(64):
        with T.sblock("first"):
            v = T.axis.spatial(64, i)
            b[v] = a[v] * T.float32(2)
    for i in range(64):
        with T.sblock("second"):
            v = T.axis.spatial(64, i)
            c[v] = b[v] + T.float32(1)


@T.prim_func(s_tir=True)
def inlined(a: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock("second"):
            v = T.axis.spatial(64, i)
            c[v] = a[v] * T.float32(2) + T.float32(1)


def test_inlines():
    mod = stages
    tvm.ir.assert_structural_equal(lhs=space.mod, rhs=inlined)


def test_keeps():
    mod = stages
    tvm.ir.assert_structural_equal(lhs=space.mod, rhs=stages)


def test_of_something_else():
    assert stages is not inlined


def test_stays():
    mod = inlined
    (sch,) = generate_design_space(mod=mod)
    assert not sch.trace.simplified(remove_postproc=True).insts
"""
SUMS = """
def product(a: T.Buffer((4, 512), "float32"), b: T.Buffer((512, 4), "float32"), c: T.Buffer((4, 4), "float32")):
    pass


def test_cpu_matmul():
    @T.prim_func(s_tir=True)
    def whole(a: T.Buffer((4, 512), "float32"), b: T.Buffer((512, 4), "float32"), c: T.Buffer((4, 4), "float32")):
        for i, j, k in T.grid(4, 4, 512):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    c[vi, vj] = T.float32(0)
                c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]

    @T.prim_func(s_tir=True)
    def shared(a: T.Buffer((4, 512), "float32"), b: T.Buffer((512, 4), "float32"), c: T.Buffer((4, 4), "float32")):
        d = T.sblock_alloc_buffer((4, 512), "float32", scope=f"shared{suffix}")
        for i, j in T.grid(4, 512):
            with T.sblock("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                d[vi, vj] = a[vi, vj]
        for i, j, k in T.grid(4, 4, 512):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    c[vi, vj] = T.float32(0)
                c[vi, vj] = c[vi, vj] + d[vi, vk] * b[vk, vj]

    mod = te_workload.matmul(n=4, m=4, k=512)
    check_sketches(mod, sketches=actual, expected_mods=[whole, shared], expected_decisions=[[], []])


def pipelined(stage: int):
    if stage == 0:
        @T.prim_func(s_tir=True)
        def copied(a: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32")):
            c[0] = a[0]
    else:
        @T.prim_func(s_tir=True)
        def copied(a: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32")):
            for i in T.serial(64, annotations={"software_pipeline_stage": [0, stage - 2]}):
                with T.sblock("copy"):
                    v = T.axis.spatial(64, i)
                    c[v] = a[v]
    return copied


def test_is_tiled_alone():
    mod = pipelined(stage=3)
    check_sketches(mod, sketches=actual, expected_mods=[pipelined(stage=4), pipelined(stage=5)])


def test_made_by_tvm():
    mod = te_workload.something()
    check_sketches(mod, sketches=actual, expected_mods=[product])
"""


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("benchmark_tvm_rules", ROOT / "benchmarks" / "tvm_rules.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark_tvm_rules", made)
    spec.loader.exec_module(made)
    return made


def printed(
    benchmark: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    checkout: Path,
    *options: str,
) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["tvm_rules.py", str(checkout), *options])
    benchmark.main()
    return capsys.readouterr().out.splitlines()


@pytest.fixture(params=["tests/python/s_tir/meta_schedule", "tests/python/unittest"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / request.param
    folder.mkdir(parents=True)
    for stem, text in (("auto_inline", STAGES), ("add_rfactor", SUMS)):
        (folder / f"test_meta_schedule_schedule_rule_{stem}.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_cases_are_counted_by_what_is_found(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    lines = printed(benchmark, monkeypatch, capsys, checkout)
    cases = {row[2]: row[3] for row in ([x.strip() for x in line.split("|")] for line in lines[2 : lines.index("")])}
    assert cases["inlines"] == "all: 1 of 1 (ours: 1)" and cases["keeps"] == "none: 0 of 1 (ours: 1)"
    assert cases["cpu_matmul"].startswith("some: 1 of 2 (ours: ")
    assert cases["made_by_tvm"].startswith("not read: ('schedule_rule_add_rfactor', ")
    assert cases["of_something_else"] == "not read: it states no programs"
    assert cases["stays"] == "all: 1 of 1 (ours: 1)"
    assert cases["is_tiled_alone"].startswith("none: 0 of 2 ") and len(cases) == 7
    rows = [[x.strip() for x in line.split("|")][1:-1] for line in lines[lines.index("") + 3 : -2]]
    assert rows == [
        ["add_rfactor", "3", "", "1", "1", "1"],
        ["auto_inline", "4", "2", "", "1", "1"],
        ["all", "7", "2", "1", "2", "2"],
    ]
    assert lines[-1] == "All expected sketches are ours in 2 of 7 cases (29 %)."


def test_one_case_alone_and_what_it_lacks(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checkout: Path
) -> None:
    lines = printed(benchmark, monkeypatch, capsys, checkout, "--only", "inline:test_keeps", "--verbose")
    assert lines[0] == "--- test_keeps: expected" and lines[2].strip() == "ours"
    assert lines[-1] == "All expected sketches are ours in 0 of 1 cases (0 %)."


def test_without_tests_of_schedule_rules_nothing_is_counted(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (line,) = printed(benchmark, monkeypatch, capsys, tmp_path)
    assert line.startswith("skipped: there are no tests of MetaSchedule in ")


def test_scopes_that_tests_put_in_are_left_out(benchmark: ModuleType) -> None:
    test = next(s for s in ast.parse(SUMS).body if isinstance(s, ast.FunctionDef) and s.name == "test_cpu_matmul")
    shared = next(s for s in test.body if isinstance(s, ast.FunctionDef) and s.name == "shared")
    text = benchmark.text_of(shared, {})
    assert text.startswith("@T.prim_func(s_tir=True)\ndef shared(") and "scope='shared')" in text


def test_programs_that_a_function_returns_are_those_of_its_arguments(benchmark: ModuleType) -> None:
    maker = next(s for s in ast.parse(SUMS).body if isinstance(s, ast.FunctionDef) and s.name == "pipelined")
    for stage, depth in ((4, 3), (5, 4)):
        text = benchmark.returned(maker, {"stage": ast.Constant(stage)})
        (program,) = benchmark.parse(benchmark.HEADER + text)
        assert benchmark.skeleton(program, False) == (("pipeline", depth, False, ("block", ("global",), ("global",))),)
    assert "c[0] = a[0]" in benchmark.returned(maker, {"stage": ast.Constant(0)})


def test_only_structure_counts(benchmark: ModuleType) -> None:
    (stages, inlined), (again,) = (
        benchmark.parse(benchmark.HEADER + text)
        for text in (
            STAGES[: STAGES.index("def test")],
            STAGES[STAGES.index("@T.prim_func", 10) : STAGES.index("def test")],
        )
    )
    assert (
        benchmark.skeleton(inlined, True) == benchmark.skeleton(again, True) == (("block", ("global",), ("global",)),)
    )
    assert benchmark.skeleton(stages, True) == benchmark.skeleton(inlined, True) * 2
