"""What counts in the structural hash and what does not; the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mslang.ir.equal import alpha_equal, structural_hash
from mslang.sema.program import parse_program

ROOT = Path(__file__).parents[3]

BASE = """program p[M: dyn(1..64)](A: f32[M, 8], out C: f32[M]) {
    alloc t: f32[M, 8]
    for i in M @ parallel, k in 8 {
        block scale[x: M = i, y: 8 = k] { let v = A[x, y]
            t[x, y] = v * 2.0 }
    }
    for i_1 in M, k_1 in 8 {
        block sum[i: M = i_1 | k: 8 = k_1] { init { C[i] = 0.0 } attr "key" = 1
            C[i] += t[i, k] }
    }
}"""

SAME = {
    "loops": [
        ("i_1", "outer"),
        ("for i in M @ parallel, k in 8", "for a in M @ parallel, b in 8"),
        ("x: M = i, y: 8 = k", "x: M = a, y: 8 = b"),
    ],
    "axes": [("x: M = i, y: 8 = k", "p: M = i, q: 8 = k"), ("A[x, y]", "A[p, q]"), ("t[x, y] =", "t[p, q] =")],
    "lets": [("let v =", "let w ="), ("= v *", "= w *")],
    "program": [("program p", "program another")],
    "layout": [
        ("\n            ", " "),
        ("M @ parallel, k in 8 {\n", "M @ parallel { for k in 8 {\n"),
        ("= v * 2.0 }\n    }", "= v * 2.0 }\n    } }"),
    ],
}
DIFFERENT = {
    "constant": [("2.0", "2.5")],
    "kind of loop": [("@ parallel", "")],
    "axis kind": [("[i: M = i_1 | k: 8 = k_1]", "[i: M = i_1, k: 8 @ opaque = k_1]")],
    "buffer": [("t[", "u["), ("alloc t", "alloc u")],
    "block": [("block scale", "block scaling")],
    "init": [("init { C[i] = 0.0 }", "init {}")],
    "annotation": [('"key" = 1', '"key" = 2')],
    "type of an annotation": [('"key" = 1', '"key" = true')],
    "scope": [("alloc t: f32[M, 8]", "alloc t: f32[M, 8] @ local")],
    "domain": [("dyn(1..64)", "dyn(1..32)")],
    "order of loops": [("for i in M @ parallel, k in 8", "for k in 8, i in M @ parallel")],
    "which variable": [("A[x, y]", "A[x, (y + 1) % 8]")],
    "negative zero": [("C[i] = 0.0", "C[i] = -0.0")],
    "type of a constant": [("v * 2.0", "f32(f64(v) * 2.0)")],
}


def changed(edits: list[tuple[str, str]]) -> str:
    text = BASE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("what", SAME)
def test_what_does_not_count(what: str):
    p, q = parse_program(BASE), parse_program(changed(SAME[what]))
    assert alpha_equal(p, q) and structural_hash(p) == structural_hash(q)


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_counts(what: str):
    p, q = parse_program(BASE), parse_program(changed(DIFFERENT[what]))
    assert not alpha_equal(p, q) and structural_hash(p) != structural_hash(q)


def test_names_that_change_places_count():
    text = (
        "program p(x: f32[4, 4], out y: f32[4, 4]) {{ for i in 4, j in 4 {{ block b[a: 4 = {}, c: 4 = {}] {{"
        " y[a, c] = x[a, c] }} }} }}"
    )
    p, q = parse_program(text.format("i", "j")), parse_program(text.format("j", "i"))
    assert not alpha_equal(p, q)


def test_the_hash_is_the_same_in_every_process():
    code = (
        "import sys; from mslang.sema.program import parse_program; from mslang.ir.equal import structural_hash;"
        "print(structural_hash(parse_program(sys.stdin.read())))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=BASE,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {structural_hash(parse_program(BASE))}
    assert len(found.pop()) == 64
