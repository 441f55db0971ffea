"""`mslang apply` writes files that check, says what it replaces, and only explains where it is asked to explain."""

from pathlib import Path

import pytest

import mslang as ms
from mslang.apply.dispatch import dispatch
from mslang.apply.passes import Missed
from mslang.cli.main import main
from mslang.sema.program import parse_program
from mslang.target.description import CUDA

PRODUCT = """program g[M = 100, N = 100, K = 100](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.ms").write_text(PRODUCT)
    return tmp_path


def test_a_schedule_of_the_library_names_a_target_that_the_file_has(folder: Path) -> None:
    for _ in range(2):
        assert main(["apply", "a.ms", "--passes", "dispatch", "--write"]) == 0
        assert "schedule g_best for g on std.cpu.host {" in Path("a.ms").read_text()
        assert main(["check", "a.ms"]) == 0
    assert main(["show", "a.ms:g_best"]) == 0


def test_a_target_that_the_file_uses_keeps_its_name(folder: Path) -> None:
    Path("a.ms").write_text("use std.cpu.{host}\n" + PRODUCT)
    assert main(["apply", "a.ms", "--passes", "dispatch", "--write"]) == 0
    assert "schedule g_best for g on host {" in Path("a.ms").read_text() and main(["check", "a.ms"]) == 0


def test_a_target_of_another_file_becomes_the_one_that_is_asked_for(folder: Path) -> None:
    own = "target mine = cpu { cores = 2 }\n" + PRODUCT.replace("program g[", "program p[")
    Path("own.ms").write_text(own + "schedule rows for p on mine { mm.i.parallel() }\n")
    words = ["apply", "a.ms", "--passes", "dispatch", "--patterns", "own.ms", "--target", "avx2", "--write"]
    assert main(words) == 0
    assert "schedule g_best for g on std.cpu.avx2 {" in Path("a.ms").read_text() and main(["check", "a.ms"]) == 0


def test_what_would_not_check_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mslang.cli.apply._target_name", lambda *_: "nowhere")
    assert main(["apply", "a.ms", "--passes", "dispatch", "--write"]) == 1
    said = capsys.readouterr().err
    assert "[MS707]" in said and "`g_best` would have an error" in said and "nowhere" in said
    assert Path("a.ms").read_text() == PRODUCT


OWN_INTRINSIC = """intrin row(a: f32[4], inout c: f32[4]) {
    desc { block r[i: 4] { c[i] += a[i] } }
    impl { block r[i: 4] { c[i] = c[i] + a[i] } }
}
program p[M = 4](A: f32[M, 4], inout C: f32[M, 4]) { block b[i: M, j: 4] { C[i, j] += A[i, j] } }
schedule rows for p { b.j.tensorize(row) }
"""


def test_a_pattern_with_an_intrinsic_of_its_file_needs_a_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "program q(A: f32[8, 4], inout C: f32[8, 4]) { block b[i: 8, j: 4] { C[i, j] += A[i, j] } }\n"
    Path("own.ms").write_text(OWN_INTRINSIC)
    Path("q.ms").write_text(program)
    words = ["apply", "q.ms", "--passes", "dispatch", "--patterns", "own.ms", "--write"]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "[MS707]" in said and "add a `use`" in said and Path("q.ms").read_text() == program
    Path("q.ms").write_text('use "./own.ms".{row}\n' + program)
    assert main(words) == 0 and main(["check", "q.ms"]) == 0


def test_a_schedule_for_cpus_does_not_serve_a_gpu(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = parse_program(PRODUCT)
    assert isinstance(dispatch().serve(program, CUDA), Missed)
    (done,) = ms.apply(program, ["dispatch"], target="cuda")
    assert done.served is None
    assert main(["apply", "a.ms", "--passes", "dispatch,default", "--target", "cuda", "--explain"]) == 0
    assert capsys.readouterr().out.startswith("g: default: the default of the back end cuda, ")


def test_the_default_for_a_gpu_is_written_as_a_schedule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", "a.ms", "--passes", "default", "--target", "sm_80", "--write"]) == 0
    assert capsys.readouterr().err == "a.ms:g_best is written\n"
    assert "bind(threadIdx.x)" in Path("a.ms").read_text() and main(["check", "a.ms"]) == 0


def test_a_schedule_that_is_replaced_is_noted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["apply", "a.ms", "--passes", "default", "--write"]
    assert main(words) == 0
    assert capsys.readouterr().err == "a.ms:g_best is written\n"
    Path("a.ms").write_text(PRODUCT + "\nschedule g_best for g { mm.i.parallel() }\n")
    assert main(words) == 0
    assert capsys.readouterr().err == "a.ms:g_best is replaced\n"


def test_the_comment_names_the_sizes_that_were_set(folder: Path) -> None:
    assert main(["apply", "a.ms", "--passes", "default", "--set", "N=64", "--set", "M=32", "--write"]) == 0
    assert "## By `mslang apply` for host, N = 64, M = 32, from default: " in Path("a.ms").read_text()


@pytest.mark.parametrize("how", ["--explain", "--json"])
def test_a_taken_name_does_not_matter_where_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    Path("a.ms").write_text(PRODUCT + PRODUCT.replace("program g[", "program g_best["))
    assert main(["apply", "a.ms", "--passes", "default", how]) == 0
    said = capsys.readouterr()
    assert said.out.count("fixed choices") == 2 and not said.err
    assert main(["apply", "a.ms:g", "--passes", "default", "--write"]) == 1
    assert "[MS102]" in capsys.readouterr().err
