"""What the verbs say of a GPU's target on a machine without a GPU, a compiler of CUDA C or a disassembler."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mslang.backend.cuda import compilers, device, executable, toolkit
from mslang.backend.cuda.compiled import Compiled
from mslang.cli.main import main

TEXT = """use std.cuda.{sm_80}
program twice(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] * 2.0 } }
schedule bound for twice on sm_80 { b.i.bind(threadIdx.x) }
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No part of a toolkit, and no pycuda."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.ms").write_text(TEXT)
    monkeypatch.setattr(toolkit, "program", lambda name: None)
    monkeypatch.setattr(toolkit, "libraries", lambda stem: iter(()))
    monkeypatch.setitem(sys.modules, "pycuda", None)
    for cached in (compilers.installed_compiler, device.device):
        cached.cache_clear()
    yield
    for cached in (compilers.installed_compiler, device.device):
        cached.cache_clear()


@pytest.mark.parametrize("stage", ["ptx", "sass", "resources"])
def test_what_a_compiler_makes_is_not_shown_without_one(stage: str, capsys: Captured) -> None:
    assert main(["show", "twice.ms:bound", "--stage", stage]) == 3
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("error[") == 1
    assert "error[MS444]: no compiler of CUDA C is installed" in shown.err and "pip install '.[nvrtc]'" in shown.err


def test_machine_code_is_not_shown_without_a_disassembler(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def compiles(source: str, arch: str, form: str) -> Compiled:
        return Compiled(f"{form} for {arch}".encode(), "")

    for name in ("compiler", "installed_compiler"):
        monkeypatch.setattr(executable, name, lambda: compiles)
    assert main(["show", "twice.ms:bound", "--stage", "sass"]) == 3
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("error[") == 1
    assert "error[MS448]: no disassembler of GPU code is installed" in shown.err and "`--stage ptx`" in shown.err
    assert main(["show", "twice.ms:bound", "--stage", "ptx"]) == 0
    assert capsys.readouterr().out == "ptx for sm_80\n"


@pytest.mark.parametrize("words", [("run", "twice.ms:bound"), ("run", "twice.ms:twice", "--target", "sm_80")], ids=str)
def test_kernels_are_not_run_without_a_gpu(words: tuple[str, ...], capsys: Captured) -> None:
    assert main(list(words)) == 3
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("error[") == 1
    assert "error[MS403]: this machine cannot run code for sm_80" in said.err
    assert "pycuda cannot be imported" in said.err and "pip install '.[cuda]'" in said.err


def test_that_is_json_where_json_is_asked_for(capsys: Captured) -> None:
    assert main(["run", "twice.ms:bound", "--json"]) == 3
    (line,) = (capsys.readouterr().out).splitlines()
    assert json.loads(line)["code"] == "MS403"


def test_the_source_and_the_passes_need_nothing(capsys: Captured) -> None:
    assert main(["show", "twice.ms:bound", "--stage", "cuda"]) == 0
    assert "__global__ void" in capsys.readouterr().out
    assert main(["show", "twice.ms:bound", "--stage", "barriers"]) == 0
