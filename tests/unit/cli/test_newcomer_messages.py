"""What newcomers write, and what `mslang check` says of it: each message says what to write instead.

`python -m tests.unit.cli.test_newcomer_messages` writes the expected texts again.
"""

import contextlib
import io
import os
from pathlib import Path

import pytest

import mslang as ms
from mslang.cli.main import main

ROOT = Path(__file__).parents[2]
CASES = ROOT / "fixtures" / "newcomer"
EXPECTED = ROOT / "expect" / "newcomer"


def said(name: str) -> str:
    out = io.StringIO()
    before = Path.cwd()
    os.chdir(CASES)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main(["check", f"{name}.ms"])
    finally:
        os.chdir(before)
    return out.getvalue()


NAMES = sorted(p.stem for p in CASES.glob("*.ms"))


@pytest.mark.parametrize("name", NAMES)
def test_the_message_says_what_to_write(name: str) -> None:
    assert said(name) == (EXPECTED / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("undeclared_size", "declare the size: `program p[N = …](…)`"),
        ("missing_out", "declare it `out C`"),
        ("c_ternary", "use `select("),
        ("python_ternary", "use `select("),
        ("and_sign", "write `and`"),
        ("semicolon", "leave it out"),
        ("power", "write `x * x`"),
        ("python_for", "write `for i in 8 { … }`"),
        ("no_let", "write `let x = …`"),
        ("round_index", "`C[i]`"),
        ("axis_in_quotes", "write `mm.i`"),
        ("misspelled_item", "did you mean `program`?"),
        ("missing_use", "use std.cpu.{host}"),
        ("vectorized_reduction", "`rfactor`"),
        ("unfinished", "never closed"),
        ("unnamed_samplers", "write `let x = …`"),
        ("misspelled_keyword", "change to `max_inner`"),
        ("axis_without_block", "write `mm.i`"),
        ("none_of_python", "write `_`"),
        ("factor_not_a_list", "`[_, 4]`"),
        ("indices_missing", "`A[…, …]`"),
        ("type_of_numpy", "write `f32`"),
        ("axis_missing", "`k: extent`"),
        ("unknown_buffer", "the buffers `A`, `B` and `C`"),
        ("size_with_colon", "write `N = 8`"),
        ("no_program_named", "`schedule … for PROGRAM { … }`"),
        ("loops_in_a_list", "without brackets"),
        ("python_def", "`program name[N = 64]("),
        ("function_of_torch", "write `max(x, 0.0)`"),
        ("misspelled_buckets", "change to `buckets`"),
        ("names_without_let", "insert `let`"),
        ("unknown_scope", "the scopes are global, local"),
        ("program_after_of", "write `for`"),
        ("no_program_here", "declare it in this file"),
    ],
)
def test_the_help_can_be_typed(name: str, part: str) -> None:
    assert part in said(name)


@pytest.mark.parametrize(
    "name", ["unknown_program", "c_ternary", "undeclared_size", "missing_out", "halide_tile", "names_without_let"]
)
def test_one_mistake_is_one_error(name: str) -> None:
    assert said(name).count("error[") == 1


def test_nothing_far_is_suggested() -> None:
    assert "did you mean" not in said("far_name")


def test_an_unknown_verb_suggests_one(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(["tunee", "x.ms"])
    assert capsys.readouterr().err == "error[MS701]: unknown verb `tunee`\n  = help: did you mean `tune`?\n"


def test_unknown_items_are_answered_with_those_that_there_are() -> None:
    source = ms.parse(
        "program add[N = 8](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] } }\nschedule s for add {}"
    )
    with pytest.raises(ms.MsError, match="the programs are add"):
        source.program("nothing")
    with pytest.raises(ms.MsError, match="there are s"):
        source.space("nothing")
    schedule = ms.Schedule(source.program())
    with pytest.raises(ms.MsError, match=r"\[None, 4\]"):
        schedule.split(schedule.axis("b", "i"), 4)  # type: ignore[arg-type]


if __name__ == "__main__":
    for each in NAMES:
        (EXPECTED / f"{each}.txt").write_text(said(each))
