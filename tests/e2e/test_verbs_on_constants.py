"""Constant parameters through the verbs: tuned, written back, run, compared, tested and applied."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import mslang as ms
from tests.e2e.conftest import Run

DENSE = """program dense[M = 9, N = 40, K = 24](A: f32[M, K], const W: f32[N, K], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * W[j, k] }
}
"""


def test_the_verbs_pack_constants_before_they_time(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "dense.ms"
    file.write_text(DENSE)
    tuned = run("tune", "dense.ms", "--trials", "4", "--workers", "1", "--write")
    assert tuned.returncode == 0, tuned.stderr
    # Its vectors would be gathered where it lies, so every candidate packs it, and none does so in a call.
    assert "const W: f32[N, K]" in file.read_text() and "transform_layout(W," in file.read_text()
    shown = run("show", "dense.ms:dense_best").stdout
    assert "= packed([40, 24]" in shown and "W_global" not in shown
    for words in (("run", "dense.ms:dense_best"), ("compare", "dense.ms:dense", "dense.ms:dense_best"), ("test",)):
        done = run(*words)
        assert done.returncode == 0, done.stderr
    (applied,) = ms.apply(ms.load(file).program(), ["db"], database=tmp_path / ".mslang" / "records.db")
    kernel = ms.build(applied)
    generator = np.random.default_rng(0)
    a, w = (generator.integers(-3, 4, s).astype(np.float32) for s in ((9, 24), (40, 24)))
    packed = kernel.pack("W", w)
    assert packed.packing is not None and (kernel(a, packed) == a @ w.T).all()
