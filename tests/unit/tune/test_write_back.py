"""The best schedule takes the place of that of its program, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.tune.write_back import with_schedule

PROGRAMS = """program g(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }
program h(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }
"""
NEW = "schedule g_best for g { b.i.vectorize() }"
TAKEN = {
    "a schedule of another program": "schedule g_best for h { b.i.parallel() }",
    "a constant": "const g_best = 4",
    "a function": "fn g_best(b: block) { b.i.parallel() }",
    "a program": "program g_best(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }",
    "a name used": "use std.cpu.{g_best}",
    "another name of a module": "use std.cpu as g_best",
}


@pytest.mark.parametrize(
    "standing", ["", "schedule g_best for g { b.i.parallel() }", "schedule g_best = other with {}"]
)
def test_a_schedule_of_the_program_is_replaced(standing: str):
    after = with_schedule("f.ms", PROGRAMS + standing, "g_best", "g", NEW, "Found.")
    assert after.startswith(PROGRAMS.rstrip()) and after.count("g_best") == 1
    assert "## Found.\nschedule g_best for g {" in after


@pytest.mark.parametrize("what", TAKEN)
def test_a_name_that_something_else_has_is_not_taken(what: str):
    with pytest.raises(MsError) as caught:
        with_schedule("f.ms", f"{TAKEN[what]}\n{PROGRAMS}", "g_best", "g", NEW, "Found.")
    assert caught.value.diagnostic.code == "MS102" and "rename" in (caught.value.diagnostic.help or "")


@pytest.mark.parametrize("what", ["a schedule of another program", "a constant"])
@pytest.mark.parametrize("command", [["tune", "--trials", "1", "--no-log"], ["apply", "--passes", "default"]])
def test_such_a_file_stays_as_it_is(
    what: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.ms"
    file.write_text(PROGRAMS + TAKEN[what])
    verb, *options = command
    assert main([verb, f"{file}:g", "--write", *options]) == 1
    assert file.read_text() == PROGRAMS + TAKEN[what]
    assert "error[MS102]: `g_best` would be declared twice" in capsys.readouterr().err
    assert not (tmp_path / ".mslang").exists(), "nothing is measured first"
