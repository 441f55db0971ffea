"""A first contact: `mslang tune` on a program that nobody has written a schedule for."""

from pathlib import Path

import pytest
from conftest import Run, json_lines

from mslang.tune.database import Database

GEMM = """program gemm[M = 48, N = 64, K = 32](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
"""

SOFTMAX = """program softmax[M = 16, N = 64](X: f32[M, N], out Y: f32[M, N]) {
    alloc largest: f32[M]
    alloc shifted: f32[M, N]
    alloc total: f32[M]
    block row_max[i: M | j: N] { largest[i] = max(largest[i], X[i, j]) }
    block exponent[i: M, j: N] { shifted[i, j] = exp(X[i, j] - largest[i]) }
    block row_sum[i: M | j: N] { total[i] += shifted[i, j] }
    block divide[i: M, j: N] { Y[i, j] = shifted[i, j] / total[i] }
}
"""


@pytest.mark.parametrize(("name", "text"), [("gemm", GEMM), ("softmax", SOFTMAX)])
def test_a_program_without_a_schedule_is_tuned_written_back_and_run(run: Run, tmp_path: Path, name: str, text: str):
    file = tmp_path / "plain.ms"
    file.write_text(text)
    done = run("tune", str(file), "--trials", "2", "--seed", "1", "--write")
    assert done.returncode == 0, done.stderr
    assert f"schedule {name}_best for {name} {{" in file.read_text()
    assert run("check", str(file)).returncode == 0
    with Database(tmp_path / ".mslang" / "records.db", read_only=True) as database:
        tried = {r.candidate for r in database.top(n=10)}
        assert database.runs()[0].space == "automatic"
    again = json_lines(run("run", f"{file}:{name}_best", "--json").stdout)[0]
    assert again["program"] in tried and again["outcome"] == "measured"
    # what tuning wrote is not a space of its own: the next run searches the automatic one again
    assert run("tune", str(file), "--trials", "3", "--resume", "--write").returncode == 0
    assert file.read_text().count(f"schedule {name}_best") == 1
