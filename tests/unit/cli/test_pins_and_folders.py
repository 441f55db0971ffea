"""Pins that do not fit are said where they are written; what a fork chose is a condition; folders are searched."""

from pathlib import Path

import pytest

from mslang.cli.main import main

PROGRAM = """program p[N = 64](X: f32[N], out Z: f32[N]) {
    alloc a: f32[N]
    block one[i: N] { a[i] = X[i] + 1.0 }
    block two[i: N] { Z[i] = a[i] * 2.0 }
}
schedule s for p { let t ~ choose([2, 4]) let i0, i1 = one.i.split([_, t]) }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ("schedule best for p = s with { t = 5 }", "schedule best for p = s with { t = 5 }"),
        ("space best for p = s with { t = 64 }", "space best for p"),
        ("schedule b for p { let t ~ choose([2, 4]) = 3 let i0, i1 = one.i.split([_, t]) }", "choose([2, 4]) = 3"),
    ],
)
def test_check_says_that_a_pin_is_out_of_range(folder: Path, capsys: pytest.CaptureFixture[str], item: str, line: str):
    Path("p.ms").write_text(PROGRAM + item + "\n")
    assert main(["check", "p.ms"]) == 0
    said = capsys.readouterr().out
    assert "warning[MS254]" in said and "is stale" in said and line in said and "p.ms:7:" in said


@pytest.mark.parametrize("pin", ["t=3", "t=100", "t=[2]", "t=two"])
@pytest.mark.parametrize("verb", ["show", "run"])
def test_a_typed_pin_out_of_range_is_wrong_use(
    folder: Path, capsys: pytest.CaptureFixture[str], pin: str, verb: str
) -> None:
    Path("p.ms").write_text(PROGRAM)
    assert main([verb, "p.ms:s", "--pin", pin]) == 2
    assert "--pin" in capsys.readouterr().err
    assert main(["show", "p.ms:s", "--pin", "t=2"]) == 0


FORKED = (
    PROGRAM
    + """schedule f for p {
    fork place { case kept {} case inlined { two.i.unroll() } }
    if place == CASE { one.i.vectorize() } else { one.i.parallel() }
}
"""
)


@pytest.mark.parametrize(("place", "kind"), [("kept", "vectorized"), ("inlined", "parallel")])
def test_what_a_fork_chose_is_a_condition(
    folder: Path, capsys: pytest.CaptureFixture[str], place: str, kind: str
) -> None:
    Path("p.ms").write_text(FORKED.replace("CASE", "kept"))
    assert main(["check", "p.ms"]) == 0
    assert main(["show", "p.ms:f", "--pin", f"place={place}"]) == 0
    assert f"64 @ {kind}" in capsys.readouterr().out


def test_a_case_that_the_fork_has_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.ms").write_text(FORKED.replace("CASE", "kpet"))
    assert main(["check", "p.ms"]) == 1
    said = capsys.readouterr().out
    assert "error[MS210]: unknown case `kpet`" in said and "did you mean `kept`?" in said


@pytest.mark.parametrize("verb", [["check"], ["fmt", "--check"], ["test", "--samples", "0"]])
def test_a_folder_stands_for_its_files(folder: Path, capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    (folder / "deep").mkdir()
    (folder / ".hidden").mkdir()
    (folder / "deep" / "p.ms").write_text("program p(A: f32[8], out B: f32[8]) {}\n")
    (folder / ".hidden" / "bad.ms").write_text("program (\n")
    assert main([*verb, "."]) == 0, capsys.readouterr()
    (folder / "deep" / "p.ms").write_text("program p( A: f32[8], out B: f32[8]) {}\n")
    if verb[0] == "fmt":
        assert main([*verb, "."]) == 1
    (folder / "empty").mkdir()
    assert main([*verb, "empty"]) == 1 and "no `.ms` file" in capsys.readouterr().err


SKETCHED = (
    PROGRAM
    + """schedule f for p {
    let t ~ choose([2, 4])
    let i0, i1 = one.i.split([_, t])
    fork place { case kept {} case inlined { two.i.unroll() } }
}
space both for p = s | f
"""
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pin", "t=4"], "`t` is a number"),
        (["--pin", "t=3"], "`t` is a number"),
        (["--pin", "zz=3"], "no sketch has a decision `zz`"),
        (["--pin", "plcae=kept"], "did you mean `place`?"),
        (["--pin", "place=nowhere"], "no sketch has `place = nowhere`"),
        (["--open"], "--open cannot be used with --space"),
        (["--seed", "1"], "--seed cannot be used with --space"),
        (["--apply", "default"], "--apply cannot be used with --space"),
        (["--db", "r.db", "--strict"], "--strict and --db cannot be used with --space"),
    ],
)
def test_what_sketches_cannot_show_is_wrong_use(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    Path("p.ms").write_text(SKETCHED)
    assert main(["show", "p.ms:f", "--space", *words]) == 2
    found = capsys.readouterr()
    assert said in found.err and not found.out


def test_a_pinned_structure_is_the_only_one_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.ms").write_text(SKETCHED)
    assert main(["show", "p.ms:f", "--space", "--pin", "place=inlined"]) == 0
    assert capsys.readouterr().out.count("schedule ") == 1
    assert main(["show", "p.ms:both", "--space", "--pin", "both=f"]) == 0
    assert capsys.readouterr().out.count("schedule ") == 2
    assert main(["show", "p.ms:both", "--space", "--sketches", "1", "--pin", "place=inlined"]) == 0
    assert "none of the sketches shown has a decision `place`" in capsys.readouterr().err
