"""`mslang tune` of several programs from the outside: one budget, equal programs once, results written to all."""

import json
from pathlib import Path

import pytest
from conftest import Run, json_lines

MANY = """
program a[M = 16, N = 16, K = 16](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
program b[M = 16, N = 16, K = 16](X: f32[M, K], Y: f32[K, N], out Z: f32[M, N]) {
    block prod[p: M, q: N | r: K] { Z[p, q] += X[p, r] * Y[r, q] }
}
program c[N = 256](X: f32[N], out Y: f32[N]) {
    block twice[i: N] { Y[i] = X[i] * 2.0 }
}
"""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "many.ms"
    path.write_text(MANY)
    return path


def test_equal_programs_are_tuned_once_and_all_get_the_result(run: Run, many: Path) -> None:
    done = run("tune", "many.ms", "--trials", "4", "--write", "--weight", "a=3", "--json")
    assert done.returncode == 0, done.stderr
    lines = json_lines(done.stdout)
    [planned] = [x for x in lines if x["kind"] == "planned"]
    assert [(t["name"], t["weight"], t["duplicates"]) for t in planned["tasks"]] == [
        ("a", 4.0, ["many.ms:b"]),
        ("c", 1.0, []),
    ]
    assert sum(x["kind"] == "trial" for x in lines) == 4
    assert {x["task"] for x in lines if x["kind"] == "finished"} == {"a", "c"} and lines[-1]["kind"] == "ended"
    text = many.read_text()
    assert "schedule a_best for a" in text and "schedule b_best for b" in text
    assert run("check", "many.ms").returncode == 0
    again = json_lines(run("run", "many.ms:b_best", "--json").stdout)[0]
    assert again["outcome"] == "measured"


def test_the_summary_is_a_table_and_the_profile_says_where_time_went(run: Run, many: Path) -> None:
    done = run("tune", "many.ms", "--trials", "3", "--quiet", "--profile", "--task-scheduler", "round-robin")
    assert done.returncode == 0 and done.stderr == ""
    head = done.stdout.splitlines()[0].split()
    assert head == ["task", "best", "GFLOP/s", "of", "peak", "trials", "rejected", "failed", "record"]
    for word in ("records   .mslang/records.db", "measure", "compile", "workers"):
        assert word in done.stdout


def test_a_log_of_each_search_is_kept_beside_the_store(run: Run, many: Path) -> None:
    done = run("tune", "many.ms:c", "--trials", "2", "--json")
    started = next(x for x in json_lines(done.stdout) if x["kind"] == "started")
    folder = many.parent / ".mslang" / "logs" / started["run"]
    assert json.loads((folder / "task.json").read_text())["program"] == "c"
    assert run("tune", "many.ms:c", "--trials", "2", "--no-log", "--db", "other/r.db").returncode == 0
    assert not (many.parent / "other" / "logs").exists()


def test_messages_of_logging_on_request(run: Run, many: Path) -> None:
    done = run("tune", "many.ms:c", "--trials", "1", "--quiet", "--log-level", "info")
    assert "INFO mslang.tune: c: generation 0, 1 trials" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--weight", "d=2"), "MS703"),
        (("--weight", "a=0"), "MS701"),
        (("--task-scheduler", "fair"), "MS546"),
        (("--log-level", "loud"), "MS701"),
    ],
)
def test_wrong_use_is_one_diagnostic(run: Run, many: Path, words: tuple[str, ...], code: str) -> None:
    done = run("tune", "many.ms", "--trials", "1", *words)
    assert done.returncode in (1, 2) and done.stderr.count("error[") == 1 and code in done.stderr


def test_one_task_that_fails_does_not_harm_the_others(run: Run, many: Path) -> None:
    bad = "program rows[N = 16](ptr: i32[N + 1], val: f32[16], out y: f32[N]) {\n    for i in N {\n"
    bad += "        block zero[ii: N = i] { y[ii] = 0.0 }\n        for p in ptr[i]..ptr[i + 1] "
    bad += "{ block acc[ii: N = i | pp: 16 = p] { init {} y[ii] += val[pp] } }\n    }\n}\n"
    (many.parent / "bad.ms").write_text(bad)
    done = run("tune", "bad.ms", "many.ms:c", "--trials", "2")
    assert done.returncode == 1 and done.stderr.count("error[") == 1
    assert "best" in done.stdout
