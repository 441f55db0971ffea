"""The tests that items get without being asked."""

from pathlib import Path

from mslang.schedule.testing import TestResult
from mslang.sema.modules import load
from mslang.tune.generated import generated_tests

PROGRAM = """program p[N = 60](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] * 2.0 } }
"""


def results(path: Path, text: str) -> dict[str, TestResult]:
    path.write_text(text)
    return {r.title.split()[1]: r for r in generated_tests(load(str(path)), samples=2)}


def test_a_schedule_for_a_program_of_another_file_is_tested_too(tmp_path: Path) -> None:
    (tmp_path / "p.ms").write_text(PROGRAM)
    text = 'use "./p.ms".{p}\nschedule s for p { b.i.parallel() }\nschedule l for std.workloads.reduce.row_sum {}\n'
    found = results(tmp_path / "s.ms", text)
    assert [(n, r.checks, r.diagnostics) for n, r in found.items()] == [("s", 2, ()), ("l", 2, ())]


def test_what_is_legal_at_the_real_sizes_alone_is_run_there(tmp_path: Path) -> None:
    body = "let a, b = b.i.loop_partition([{}, _])"
    text = f"{PROGRAM}schedule s for p {{ {body.format(50)} }}\nschedule t for p {{ {body.format(60)} }}\n"
    found = results(tmp_path / "s.ms", text)
    assert (found["s"].checks, found["s"].diagnostics) == (1, ())
    assert [d.why for d in found["t"].diagnostics] == [
        "their sum, 60, must be below the extent, 60: the rest is a part of its own"
    ]
