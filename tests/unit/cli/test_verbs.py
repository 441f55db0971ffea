"""The verbs, called in this process: what they say, and their exit statuses."""

import errno
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from mslang.cli.main import VERBS, main
from mslang.lower.gpu.lower import PASSES as GPU_PASSES
from mslang.lower.passes import PASSES

GOOD = """program p[N = 8](A: f32[N], out B: f32[N]) {
    block b[i: N] {
        B[i] = A[i] * 2.0
    }
}

schedule s for p {
    let t ~ perfect_tile(b.i, n = 2)
    let i0, i1 = b.i.split(t)
}
"""
WIDE = """program mm(A: f32[32, 64], B: f32[64, 64], out C: f32[32, 64]) {
    block mm[i: 32, j: 64 | k: 64] { C[i, j] += A[i, k] * B[k, j] }
}
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.ms").write_text(GOOD)
    (tmp_path / "bad.ms").write_text(GOOD.replace("A[i]", "A[x]"))
    return tmp_path / "good.ms"


def status(*words: str) -> int:
    """The exit status; argparse leaves by SystemExit."""
    try:
        return main(list(words))
    except SystemExit as leaving:
        assert isinstance(leaving.code, int)
        return leaving.code


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: Captured) -> None:
    assert status(verb, "--help") == 0
    assert f"usage: mslang {verb}" in capsys.readouterr().out


def test_a_program_is_run_and_shown_as_it_is(good: Path, capsys: Captured) -> None:
    assert status("show", "good.ms:p") == 0
    assert "for i in 8 {" in capsys.readouterr().out
    assert status("show", "good.ms:p", "--set", "N=4", "--stage", "tvmscript") == 0
    assert "with T.sblock" in capsys.readouterr().out
    assert status("run", "good.ms:p", "--json") == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "measured"
    assert status("show", "good.ms:q") == 1
    assert "no schedule, space or program `q`" in capsys.readouterr().err
    good.write_text(GOOD.partition("schedule")[0])
    assert status("show", "good.ms") == 0


def test_a_mistake_in_one_item_hinders_no_other(good: Path, capsys: Captured) -> None:
    good.write_text(GOOD + "\nschedule wrong for p {\n    b.x.parallel()\n}\n\nschedule u for p = wrong with {}\n")
    assert status("show", "good.ms:s") == 0
    assert "passing over 1 error in other items" in capsys.readouterr().err
    assert status("expand", "good.ms:p") == 0
    capsys.readouterr()
    for words in (("show", "good.ms:wrong"), ("show", "good.ms:u"), ("tune", "good.ms", "--trials", "1")):
        assert status(*words) == 1
        assert "unknown axis `x`" in capsys.readouterr().err


def test_a_record_is_replayed_for_its_program_and_doubted_for_another_schedule(good: Path, capsys: Captured) -> None:
    assert status("tune", "good.ms", "--trials", "1", "--db", "r.db") == 0
    assert status("run", "good.ms:s", "--record", "1", "--db", "r.db") == 0
    assert "MS604" not in capsys.readouterr().err
    good.write_text(GOOD.replace("b.i.split(t)", "b.i.split(t)\n    i0.parallel()"))
    assert status("run", "good.ms:s", "--record", "1", "--db", "r.db") == 0
    assert "warning[MS604]" in capsys.readouterr().err
    assert status("run", "good.ms:p", "--record", "1", "--db", "r.db", "--json") == 0
    told = capsys.readouterr()
    assert "MS604" not in told.err
    assert status("db", "show", "1", "--db", "r.db", "--json") == 0
    assert json.loads(told.out)["program"] == json.loads(capsys.readouterr().out)["candidate"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("show", "good.ms:s", "--stage", "trace", "--diff"), 2),
        (("show", "good.ms:s", "--pin", "t=[1,8]", "--pin", "t=[2,4]"), 2),
        (("show", "good.ms:s", "--pin", "t=["), 2),
        (("show", "good.ms:p", "--steps"), 2),
        (("show", "good.ms:p", "--apply", "default", "--steps"), 2),
        (("show", "good.ms:s", "--db", "r.db"), 2),
        (("run", "good.ms:s", "--db", "r.db"), 2),
        (("compare", "good.ms:s", "good.ms:p", "--db", "r.db"), 2),
        (("show", "good.ms:s", "--sketches", "1"), 2),
        (("show", "good.ms:p", "--space", "--backend", "llvm"), 2),
        (("expand", "good.ms", "--set", "N=16", "--set", "N=32"), 2),
        (("show", "good.ms:s", "--seed", "-1"), 2),
        (("show", "good.ms:s", "--pin", "t=[3,3]", "--strict"), 2),
        (("show", "good.ms:s", "--pin", "t=[3,3]"), 2),
        (("run", "good.ms:s", "--record", "1", "--pin", "t=[1,8]"), 2),
        (("tune", "good.ms", "--seed", "-4"), 2),
        (("test", "good.ms", "--samples", "-1"), 2),
        (("test", "good.ms", "-k", "no such title"), 1),
        (("db", "top", "5"), 2),
        (("db", "show"), 2),
        (("db", "show", "1"), 1),
        (("db", "prune"), 2),
        (("expand", "good.ms", "--set", "N=²"), 2),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_what_is_not_possible_is_one_diagnostic(
    good: Path, capsys: Captured, words: tuple[str, ...], wanted: int
) -> None:
    assert status(*words) == wanted
    errors = capsys.readouterr().err
    assert errors.count("error[") == (wanted != 0) and "Traceback" not in errors


def test_a_size_may_be_said_again_and_is_not_endless(good: Path, capsys: Captured) -> None:
    assert status("expand", "good.ms", "--set", "N=16", "--set", "N=16") == 0
    assert "f32[16]" in capsys.readouterr().out
    assert status("expand", "good.ms", "--set", f"N={'9' * 5000}") == 2
    said = capsys.readouterr().err
    assert "is too large" in said and len(said) < 500


def test_check_runs_schedules_and_says_what_is_refused_where_it_is(good: Path, capsys: Captured) -> None:
    text = GOOD + "\nschedule r for p {\n    b.i.vectorize()\n    b.i.split([_, 2])\n}\n"
    good.write_text(text.replace("= 2)\n", '= 2)\n    require t[1] > 1\n    b.i.unannotate("k")\n', 1))
    assert status("check", "good.ms") == 1
    told = capsys.readouterr()
    assert "error[MS305]: split" in told.out and "good.ms:16:5" in told.out and "2 errors" in told.err, told
    assert told.out.index("MS312") < told.out.index("MS305")
    good.write_text(text)
    assert status("check", "good.ms", "--draws", "0") == 0


def test_one_file_that_cannot_be_read_hides_no_other(good: Path, capsys: Captured) -> None:
    assert status("check", "none.ms", "bad.ms", "good.ms", "good.ms") == 1
    told = capsys.readouterr()
    assert "MS702" in told.out and "MS101" in told.out and "2 files, 2 errors, 0 warnings" in told.err
    assert status("test", "none.ms", "bad.ms", "good.ms", "--samples", "1") == 1
    assert "1 passed, 0 failed, 2 faulty files" in capsys.readouterr().out
    assert status("fmt", "none.ms", "bad.ms") == 1
    assert "MS702" in capsys.readouterr().err


def test_line_ends_are_kept_and_a_byte_order_mark_is_no_fault(good: Path, capsys: Captured) -> None:
    windows = good.with_name("windows.ms")
    windows.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert status("check", "windows.ms") == 0
    assert status("fmt", "--check", "windows.ms") == 0
    windows.write_bytes(GOOD.replace("    ", "  ").replace("\n", "\r\n").encode())
    assert status("fmt", "--check", "windows.ms") == 1
    assert status("fmt", "windows.ms") == 0
    assert windows.read_bytes() == GOOD.replace("\n", "\r\n").encode()


def test_a_write_protected_file_stays_as_it_is(good: Path, capsys: Captured) -> None:
    good.write_text(GOOD.replace("    ", "  "))
    good.chmod(0o444)
    assert status("fmt", "good.ms") == 1 and status("tune", "good.ms", "--write") == 1
    assert capsys.readouterr().err.count("write-protected") == 2
    assert good.read_text() == GOOD.replace("    ", "  ")


def test_snapshots_are_rewritten_and_then_hold(good: Path, capsys: Captured) -> None:
    good.write_text(GOOD + 'test "order" { snapshot sample(s, p, seed = 0).loops(b) """old""" }\n')
    assert status("test", "good.ms", "--samples", "0") == 1
    assert status("test", "good.ms", "--samples", "0", "--update") == 0
    assert "i0, i1" in good.read_text()
    assert status("test", "good.ms", "--samples", "0") == 0


DEEP = {"brackets": "(" * 3000 + "A[i]" + ")" * 3000, "sum": " + ".join(["A[i]"] * 4000)}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_nested_too_deeply_is_refused(good: Path, capsys: Captured, text: str) -> None:
    good.write_text(GOOD.replace("A[i]", text))
    both = "good.ms", "bad.ms"
    for words in (("check", *both), ("expand", "good.ms"), ("fmt", "good.ms"), ("test", *both)):
        if status(*words) != 0:
            told = capsys.readouterr()
            shown = told.out + told.err
            assert "MS999" not in shown and "MS705" in shown, words
            # The other file is looked at all the same.
            assert "MS101" in shown or "bad.ms" not in words


def test_json_is_one_value_a_line(good: Path, capsys: Captured) -> None:
    for words, kind in (
        (("check", "bad.ms"), "diagnostic"),
        (("expand", "good.ms"), "program"),
        (("explain",), "page"),
        (("show", "good.ms:s"), "show"),
        (("fmt", "--check", "bad.ms"), "format"),
        (("expand", "none.ms"), "diagnostic"),
        (("env",), "environment"),
    ):
        status(*words, "--json")
        lines = capsys.readouterr().out.splitlines()
        assert lines and all(json.loads(line)["kind"] == kind for line in lines)


def test_one_format_is_asked_for(good: Path, capsys: Captured) -> None:
    assert status("check", "good.ms", "--json", "--format", "sarif") == 2
    assert json.loads(capsys.readouterr().out)["code"] == "MS701"
    assert status("check", "good.ms", "--json", "--format", "json") == 0


def test_without_standard_error_it_still_works(good: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert status("check", "good.ms") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("log", ["a folder", "a full disk"])
def test_an_internal_error_is_explained(
    good: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path, log: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError("not so")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mslang.ide.findings.findings", fails)
    monkeypatch.setattr(sys, "argv", ["mslang", "check", os.fsdecode(b"g\xff.ms")])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if log == "a full disk":
        monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    assert status("check", "good.ms") == 4
    said = capsys.readouterr().err
    assert "internal error[MS999]: AssertionError: not so" in said
    details = said if log == "a full disk" else next(tmp_path.glob("mslang-*.log")).read_text(encoding="utf-8")
    assert "in fails" in details
    assert "g\\udcff.ms" in details or log == "a full disk"


def test_everything_has_an_explanation(capsys: Captured) -> None:
    assert status("explain", "--json") == 0
    names = [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    assert {"MS001", "MS705", "MS999", "split", "choose"} <= {*names}
    for name in names:
        assert status("explain", name) == 0
        page = capsys.readouterr().out
        assert page.startswith(f"# {name}") and len(page.strip().splitlines()) >= 3, name
    assert status("explain", "equiv") == status("explain", "std.cpu.auto_parallel") == 0
    assert status("explain", "spilt") == 1
    assert "did you mean `split`?" in capsys.readouterr().err


def test_without_its_packages_the_server_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    import mslang.cli.lsp as verb

    monkeypatch.setattr(verb, "entry_points", lambda **_: ())
    assert status("lsp") == 3
    assert "MS499" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["run", "--allow-nativ"], ["tune", "--trial", "1"], ["db", "top", "--mach", "x"]])
def test_no_option_is_meant_by_a_part_of_its_name(words: list[str], good: Path, capsys: Captured) -> None:
    file = [] if words[0] == "db" else [f"{good}:s"]
    assert main([*words, *file]) == 2
    assert "MS701" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "good.ms:s", "--thread", "1"],
        ["db", "no_such_verb"],
        ["no_such_verb"],
        ["tune", "--trials", "x"],
    ],
)
def test_wrong_use_is_json_where_that_is_asked_for(words: list[str], good: Path, capsys: Captured) -> None:
    assert status(*words, "--json") == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["code"] == "MS701" and not said.err
    assert status(*words) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error[MS701]: ") and not said.out


def test_where_the_time_goes(good: Path, capsys: Captured) -> None:
    assert status("run", "good.ms:s", "--profile") == 0
    table = capsys.readouterr().out
    assert "good.ms:2" in table and "of peak" in table
    # The clock takes longer than the eight products: no rate is made up of what is left.
    assert "GFLOP/s" in table and not any("%" in line.partition("100 %")[2] for line in table.splitlines())
    assert status("run", "good.ms:s", "--profile", "--part", "i0", "--json") == 0
    run, profile = map(json.loads, capsys.readouterr().out.splitlines())
    assert run["kind"] == "run" and profile["kind"] == "profile"
    assert [r["name"] for r in profile["rows"]] == ["p", "i0"]
    assert status("run", "good.ms:s", "--profile", "--part", "nowhere") == 1
    assert "MS710" in capsys.readouterr().err


def test_the_kernel_after_each_pass_for_a_gpu_is_shown(good: Path, capsys: Captured) -> None:
    shown = {}
    for stage in ("flatten", *(p.name for p in GPU_PASSES)):
        assert status("show", "good.ms:p", "--set", "N=64", "--target", "sm_80", "--stage", stage) == 0
        shown[stage] = capsys.readouterr().out
    assert "threadIdx.x" in shown["vectorize"] and shown["flatten"] != shown["launches"]


def test_machine_code_is_that_of_the_target_that_is_asked_for(good: Path, capsys: Captured) -> None:
    """Vectors of 512 and of 256 bits, whatever this machine has; AVX2's panels are not gathered."""
    good.with_name("wide.ms").write_text(WIDE)
    shown = {}
    for target in ("avx512", "avx2"):
        assert status("show", "wide.ms:mm", "--apply", "default", "--target", target, "--stage", "asm") == 0
        shown[target] = capsys.readouterr().out
        assert status("show", "wide.ms:mm", "--apply", "default", "--target", target, "--stage", "llvm") == 0
        assert f"<{16 if target == 'avx512' else 8} x float>" in capsys.readouterr().out
    assert "zmm" in shown["avx512"] and "zmm" not in shown["avx2"] and "ymm" in shown["avx2"]
    assert not any("gather" in text for text in shown.values())


def test_a_program_runs_on_a_target_that_this_machine_contains(good: Path, capsys: Captured) -> None:
    good.with_name("wide.ms").write_text(WIDE)
    assert status("run", "wide.ms:mm", "--apply", "default", "--target", "generic") == 0
    assert "verified" in capsys.readouterr().out


def test_the_kernel_after_each_pass_is_shown(good: Path, capsys: Captured) -> None:
    shown = {}
    for stage in ("flatten", *(p.name for p in PASSES), "loops"):
        assert status("show", "good.ms:s", "--set", "N=4", "--stage", stage) == 0
        shown[stage] = capsys.readouterr().out
    assert all(text.startswith("kernel p(") for text in shown.values())
    assert shown["flatten"] != shown["predicates"] == shown["loops"]
    assert status("show", "good.ms:s", "--stage", "no_pass") == 2
    capsys.readouterr()
    assert status("show", "good.ms:s", "--set", "N=4", "--stage", "asm") == 0
    assert "# good.ms:2: B[" in capsys.readouterr().out


def test_the_summary_is_shown_with_decisions_drawn_or_open(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "tiled.ms"
    path.write_text(
        "program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] * 2.0 } }\n"
        "schedule s for p {\n    let t ~ perfect_tile(b.i, 2)\n    let o, v = b.i.split(t)\n    v.vectorize()\n}\n"
    )
    assert status("show", f"{path}:s", "--stage", "summary", "--pin", "t=[4, 16]") == 0
    drawn = capsys.readouterr().out
    assert "B: runs 64 times" in drawn
    assert "1 float mul" in drawn
    assert "stride 16: 64" in drawn
    assert status("show", f"{path}:s", "--stage", "summary", "--open") == 0
    text = capsys.readouterr().out
    assert "stride t[1]: 64" in text
    assert "lanes t[1]" in text
    assert status("show", f"{path}:s", "--open") == 2
    assert "--open goes with --stage summary" in capsys.readouterr().err
