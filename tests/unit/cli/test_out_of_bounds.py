"""Programs that access memory that is not theirs: a diagnostic and an exit status, never the end of the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.cli.main import main

GATHER = """
program g[N = 64](idx: i32[N], t: f32[N], out y: f32[N]) {
    block b[i: N] { y[i] = t[idx[i] * 1000000] }
}
schedule s for g { b.i.vectorize() }
"""

ROWS = """
program rows[N = 16, NNZ = 64](ptr: i32[N + 1], val: f32[NNZ], out y: f32[N]) {
    for i in N {
        block zero[ii: N = i] { y[ii] = 0.0 }
        for p in ptr[i]..ptr[i + 1] {
            block acc[ii: N = i | pp: NNZ = p] { init {} y[ii] += val[pp] }
        }
    }
}
schedule s for rows { zero.loops()[0].unroll() }
"""

STATIC = """
program p[N = 8](A: f32[N], out C: f32[N]) { block b[i: N] { C[i] = A[i + 100000000] } }
schedule s for p { b.i.vectorize() }
"""


@pytest.mark.parametrize("verb", [["run", "FILE:s"], ["test", "FILE"], ["tune", "FILE", "--trials", "1"]])
@pytest.mark.parametrize("text", [GATHER, ROWS])
def test_data_out_of_bounds_end_in_a_diagnostic(
    verb: list[str], text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    path = tmp_path / "p.ms"
    path.write_text(text, encoding="utf-8")
    assert main([v.replace("FILE", str(path)) for v in verb]) == 1
    said = "".join(capfd.readouterr())
    assert any(code in said for code in ("MS415", "MS480", "MS484")), said
    assert "in block `" in said


@pytest.mark.parametrize("verb", [["check", "FILE"], ["run", "FILE:s"], ["test", "FILE"], ["tune", "FILE"]])
def test_what_is_provable_is_refused_by_every_verb(verb: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    path = tmp_path / "p.ms"
    path.write_text(STATIC, encoding="utf-8")
    assert main([v.replace("FILE", str(path)) for v in verb]) == 1
    assert "MS118" in "".join(capfd.readouterr())
