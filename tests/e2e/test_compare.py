"""`mslang compare`: what it times beside each other, and what it says of what it cannot."""

import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mslang.cli.compare import MOST_SECONDS, verdict
from mslang.cli.main import main
from mslang.tune.comparison import Gap

TEXT = """
program add(A: f32[64, 64], B: f32[64, 64], out C: f32[64, 64]) {
    block b[i: 64, j: 64] { C[i, j] = A[i, j] + B[i, j] }
}
schedule vector for add { b.j.vectorize() }
schedule tiled for add {
    let t ~ perfect_tile(b.j, n = 2)
    let outer, inner = b.j.split(t)
    inner.vectorize()
}
program twice(A: f32[64, 64], out C: f32[64, 64]) { block b[i: 64, j: 64] { C[i, j] = A[i, j] * 2.0 } }
schedule other for twice { b.j.vectorize() }
"""
PEERS = """
import numpy as np
def add(A, B, C):
    np.add(A, B, out=C)
def returned(A, B):
    return A + B
def prepared(A, B, C):
    return lambda: np.add(A, B, out=C) is None or None
def wrong(A, B, C):
    return A - B
def fatal(A, B, C):
    import os
    os.abort()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.ms").write_text(TEXT)
    (tmp_path / "peers.py").write_text(PEERS)
    return tmp_path


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mslang", "compare", *words, "--seconds", "1"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_schedules_the_program_as_it_is_and_functions(folder: Path):
    names = ["add.ms:vector", "add.ms:tiled", "add.ms:add"]
    peers = ["peers.py:add", "peers.py:returned", "peers.py:prepared"]
    done = compare(folder, *names, *(x for p in peers for x in ("--with", p)), "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(x) for x in done.stdout.splitlines()]
    assert [r["name"] for r in rows] == [*names, *peers]
    assert all(r["outcome"] == "measured" and r["seconds"] > 0 and r["against"] == "add.ms:vector" for r in rows)
    assert len({r["rounds"] for r in rows}) == 1
    # The times say what the verdicts say, whatever disturbed the rounds of one.
    assert all(rows[0]["seconds"] / r["seconds"] == pytest.approx(r["faster"]) for r in rows)


def test_what_is_wrong_or_crashes_is_left_out_and_said(folder: Path):
    done = compare(folder, "add.ms:vector", "add.ms:tiled", "--with", "peers.py:wrong", "--with", "peers.py:fatal")
    assert done.returncode == 1
    assert "peers.py:wrong: wrong result" in done.stderr and "peers.py:fatal: crash" in done.stderr
    assert "add.ms:tiled" in done.stdout and "against add.ms:vector" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add.ms:vector", "add.ms:other"), 1, "MS708"),
        (("add.ms:vector",), 2, "a single item cannot be compared"),
        (("add.ms:vector", "--with", "peers.py"), 2, "names no function"),
        (("add.ms:vector", "--with", "none.py:f"), 2, "there is no file"),
        (("add.ms:vector", "--with", "peers.py:none"), 1, "has no function none"),
        (("add.ms:vector", "--record", "7"), 1, "MS603"),
    ],
)
def test_what_cannot_be_compared(folder: Path, words: tuple[str, ...], code: int, said: str):
    done = compare(folder, *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_record_is_compared_with_a_schedule_that_it_was_not_found_in(folder: Path):
    tune = [sys.executable, "-m", "mslang", "tune", "add.ms:tiled", "--trials", "2"]
    subprocess.run(tune, cwd=folder, check=True, capture_output=True, timeout=120)
    done = compare(folder, "add.ms:vector", "--record", "1")
    assert done.returncode == 0, done.stderr
    assert "record 1" in done.stdout


def test_verdicts():
    assert verdict(Gap(1.0, 0.02)) == "within noise (0.98 to 1.02)"
    assert verdict(Gap(1.13, 0.02)) == "faster by 1.11 to 1.15"
    assert verdict(Gap(0.5, 0.1)) == "slower by 1.67 to 2.5"
    assert verdict(Gap(0.25, math.inf)).startswith("0.25 times as fast in one round")
    assert verdict(Gap(0.4, 0.5)) == "slower by at least 1.11"


def test_libraries_are_called_for_sums_of_products(folder: Path):
    (folder / "product.ms").write_text(
        "program product(A: f32[2, 32, 16], B: f32[2, 16, 8], out C: f32[2, 32, 8]) {\n"
        "    block b[n: 2, i: 32, j: 8 | k: 16] { C[n, i, j] += A[n, i, k] * B[n, k, j] }\n}\n"
    )
    done = compare(folder, "product.ms:product", "--with", "numpy", "--json")
    assert done.returncode == 0, done.stderr
    ours, numpy = map(json.loads, done.stdout.splitlines())
    assert (ours["name"], numpy["name"], numpy["outcome"]) == ("product.ms:product", "numpy", "measured")
    if find_spec("torch") is None:
        done = compare(folder, "product.ms:product", "--with", "torch")
        assert done.returncode == 3 and "MS514" in done.stderr and "pip install torch" in done.stderr


STAGES = """
program stages(A: f32[8, 8], out C: f32[8]) {
    alloc squares: f32[8, 8]
    block square[i: 8, j: 8] { squares[i, j] = A[i, j] * A[i, j] }
    block largest[i: 8 | j: 8] { C[i] = max(C[i], squares[i, j]) }
}
program shifted(A: f32[9], out C: f32[8]) { block shift[i: 8] { C[i] = A[i + 1] } }
"""


def test_libraries_are_called_for_operations_on_whole_arrays(folder: Path):
    (folder / "stages.ms").write_text(STAGES)
    done = compare(folder, "stages.ms:stages", "--with", "numpy")
    assert done.returncode == 0, done.stderr
    assert "numpy (2 operations)" in done.stdout
    done = compare(folder, "stages.ms:shifted", "--with", "numpy")
    assert done.returncode == 2
    assert "`shifted` cannot be translated to operations on whole arrays: block `shift`: " in done.stderr
    assert "`A` is not indexed by a different axis in each dimension" in done.stderr
    assert "--with peers.py:shifted" in done.stderr


@pytest.mark.parametrize("seconds", [MOST_SECONDS + 1, 2**63 - 1])
def test_more_seconds_than_a_day_are_a_usage_error(
    folder: Path, seconds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "add.ms"
    status = main(["compare", f"{file}:vector", f"{file}:add", "--seconds", str(seconds)])
    out, errors = capsys.readouterr()
    assert status == 2 and not out
    assert "too long" in errors and str(MOST_SECONDS) in errors
