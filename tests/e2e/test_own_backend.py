"""The example of a user's own back end: from Python, and once its package is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from tests.e2e.test_own_primitive import install

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_backend"
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def test_from_python_it_is_a_value(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from own_backend.plain_c import PLAIN_C

    source = ms.load(EXAMPLE / "scale.ms")
    a = np.arange(-500, 500, dtype=np.float32)
    b = np.ones(1000, np.float32)
    for seed in range(3):
        candidate = source.space("rows").sample(seed)
        assert (ms.build(candidate, backend=PLAIN_C)(a, b) == ms.build(candidate, backend="reference")(a, b)).all()


def test_a_packed_parameter_a_buffer_and_a_dynamic_size(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from own_backend.plain_c import PLAIN_C

    text = """program f[N: dyn(1..32)](A: f32[N, 6], W: f32[6, 5], out C: f32[N, 5]) {
        block mm[i: N, j: 5 | k: 6] { C[i, j] += A[i, k] * W[k, j] }
    }
    schedule s for f {
        mm.transform_layout(W, fn (k, j) -> [j, k])
        let c = mm.cache_write(C, scope = local)
        c.reverse_compute_at(mm.i)
    }"""
    candidate = ms.parse(text).space("s").sample(0)
    generator = np.random.default_rng(0)
    a, w = (generator.integers(-4, 5, s).astype(np.float32) for s in ((7, 6), (6, 5)))
    assert (ms.build(candidate, backend=PLAIN_C)(a, w) == a @ w).all()


INSTRUCTION = '''
intrin twice(x: f32[4], out y: f32[4]) on cpu {
    desc { block t[i: 4] { y[i] = x[i] * 2.0 } }
    impl NAME """TEXT"""
}
program p(A: f32[8], out B: f32[8]) { block b[i: 8] { B[i] = A[i] * 2.0 } }
schedule s for p {
    let o, l = b.i.split([_, 4])
    l.tensorize(twice)
}
'''


def test_an_instruction_has_the_text_of_the_back_end(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from own_backend.plain_c import PLAIN_C

    # The text computes something else than the description, so that it shows which of them runs.
    loop = "for (int l = 0; l < 4; l++) {y}[l] = {x}[l] * 3;"
    candidate = ms.parse(INSTRUCTION.replace("NAME", "c").replace("TEXT", loop)).space("s").sample(0)
    a = np.arange(8, dtype=np.float32)
    assert (ms.build(candidate, backend=PLAIN_C, allow_native=True)(a) == a * 3).all()
    with pytest.raises(ms.MsError, match="may do anything"):
        ms.build(candidate, backend=PLAIN_C)
    with pytest.raises(ms.MsError, match="back end `llvm`"):
        ms.build(candidate)


def test_an_instruction_without_a_text_is_what_it_means(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from own_backend.plain_c import PLAIN_C

    candidate = ms.parse(INSTRUCTION.replace("NAME", "llvm").replace("TEXT", "; nothing")).space("s").sample(0)
    a = np.arange(8, dtype=np.float32)
    assert (ms.build(candidate, backend=PLAIN_C)(a) == a * 2).all()


def test_every_verb_knows_it_once_installed(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    install(EXAMPLE, site)
    shutil.copy(EXAMPLE / "scale.ms", tmp_path)

    def mslang(*words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(p for p in (str(site), os.environ.get("PYTHONPATH")) if p)
        command = [sys.executable, "-m", "mslang", *words]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    assert "c          any, if named  available" in mslang("env").stdout
    shown = mslang("show", "scale.ms:rows", "--stage", "c", "--backend", "c")
    assert "void kernel(float *restrict v_A" in shown.stdout, shown.stderr
    ran = mslang("run", "scale.ms:rows", "--backend", "c")
    assert ran.returncode == 0 and "verified  sparse integers" in ran.stdout, ran.stderr
    tuned = mslang("tune", "scale.ms:rows", "--backend", "c", "--trials", "2")
    assert tuned.returncode == 0, tuned.stderr
    with ms.Database(tmp_path / ".mslang" / "records.db", read_only=True) as database:
        assert {r.compiler for r in database.records()} == {"plain C 1"}
    refused = mslang("build", "scale.ms:rows", "--seed", "0", "-o", "scale.h", "--backend", "c")
    assert refused.returncode == 3 and "MS454" in refused.stderr
