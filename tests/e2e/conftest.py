"""The installed command, run as people run it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

GEMM = """use std.cpu.{host}
program gemm[M = 32, N = 48, K = 16](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
schedule tiled for gemm on host {
    let ti ~ perfect_tile(mm.i, n = 2, max_inner = 8)
    let tj ~ perfect_tile(mm.j, n = 2, max_inner = 16)
    let i0, i1 = mm.i.split(ti)
    let j0, j1 = mm.j.split(tj)
    reorder(i0, j0, mm.k, i1, j1)
    fork threads {
        case none {}
        case rows { i0.parallel() }
    }
    j1.vectorize()
}
"""


def command(*words: str) -> list[str]:
    """The `mslang` command of this environment."""
    return [str(Path(sys.executable).with_name("mslang")), *words]


@pytest.fixture
def gemm(tmp_path: Path) -> Path:
    """A small gemm with a sampled schedule."""
    path = tmp_path / "gemm.ms"
    path.write_text(GEMM)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the command in a folder of its own; gives the finished process."""

    def go(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command(*words), cwd=tmp_path, capture_output=True, text=True, timeout=240, **options)  # type: ignore[call-overload]
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        return done

    return go


def json_lines(text: str) -> list[dict]:
    """The JSON lines of an output."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
