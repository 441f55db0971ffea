"""`mslang import` of traces that tensorize with intrinsics of a user's own."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from mslang.cli.main import main

PROGRAM = "program f(A: f32[8], out C: f32[8]) { block b[i: 8] { C[i] = A[i] * 2.0 } }\n"
INTRIN = """intrin twice_4(a: f32[4], out c: f32[4]) {
    desc {
        block d[i: 4] { c[i] = a[i] * 2.0 }
    }
    impl {
        for i in 4 { block d[x: 4 = i] { c[x] = a[x] * 2.0 } }
    }
}
"""
TRACE = [
    [
        ["GetSBlock", [], ["b", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["Split", ["l1", None, 4], [1, 0], ["l2", "l3"]],
        ["Tensorize", ["l3"], ["twice_4", 1], []],
    ],
    [],
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.json").write_text(json.dumps(TRACE))
    return tmp_path


def test_an_intrinsic_beside_the_program(place: Path) -> None:
    (place / "f.ms").write_text(PROGRAM + INTRIN)
    assert main(["import", "t.json", "--for", "f.ms:f", "-o", "out.ms"]) == 0
    assert 'use "./f.ms".{f, twice_4}' in (place / "out.ms").read_text()
    assert main(["check", "out.ms"]) == 0


def test_an_intrinsic_of_another_file(place: Path) -> None:
    (place / "f.ms").write_text(PROGRAM)
    (place / "own.ms").write_text(INTRIN)
    assert main(["import", "t.json", "--for", "f.ms:f", "--use", "own.ms", "-o", "out.ms"]) == 0
    text = (place / "out.ms").read_text()
    assert 'use "./f.ms".{f}' in text and 'use "./own.ms".{twice_4}' in text
    assert main(["check", "out.ms"]) == 0


def test_an_unknown_intrinsic_is_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "f.ms").write_text(PROGRAM)
    assert main(["import", "t.json", "--for", "f.ms:f"]) == 1
    said = capsys.readouterr().err
    assert "error[MS742]" in said and "`intrin twice_4`" in said and "--use" in said


@pytest.mark.parametrize("name", ['a "b".ms', "a\\b.ms", "a\nb.ms", "{a}.ms"])
def test_a_file_of_any_name_is_used(place: Path, name: str) -> None:
    (place / name).write_text(PROGRAM + INTRIN)
    assert main(["import", "t.json", "--for", f"{name}:f", "-o", "out.ms"]) == 0
    assert main(["check", "out.ms"]) == 0


def test_a_name_that_is_no_text_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    name = os.fsdecode(b"caf\xe9.ms")
    (place / name).write_text(PROGRAM + INTRIN)
    assert main(["import", "t.json", "--for", f"{name}:f", "-o", "out.ms"]) == 1
    assert "error[MS702]" in said.getvalue() and not (place / "out.ms").exists()
