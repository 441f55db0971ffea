"""`test` items: checks, snapshots, sampling, and what a failure says."""

import pytest

from mslang.ir.program import Program
from mslang.schedule.testing import TestResult, run_test, updated
from tests.unit.schedule.samples import module


def same_blocks(p: Program, q: Program, rtol: float, atol: float, seed: int) -> str | None:
    """Stands in for running both: the interpreter and the back end are layers above."""
    return None if p.params == q.params else f"parameters differ at rtol {rtol}"


def run(body: str, text: str = "") -> TestResult:
    loaded = module(f'use std.testing.{{equiv}}\n{text}\ntest "t" {{\n{body}\n}}\n')
    (placed,) = loaded.tests
    return run_test(loaded, placed, same_blocks)


def test_checks_that_hold():
    result = run("""
        let p = matmul[16, 16, 16]
        for seed in 0..3 { check equiv(p, sample(tiled, p, seed), rtol = 1e-4) }
        check p.blocks() == ["mm"]
        check equiv(p, tiled)
        check 1 + 1 == 2, "arithmetic"
    """)
    assert result.passed and result.checks == 6 and result.title == "t"


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("check 1 == 2", "MS268", "the left side is 1, the right side 2"),
        ('check matmul.blocks() == ["mn"], "the block\'s name"', "MS268", "the block's name"),
        ("check equiv(matmul[16, 16, 16], matmul[8, 16, 16], rtol = 0.5)", "MS268", "parameters differ at rtol 0.5"),
        ('check sample(tiled, matmul).loops(nn) == ""', "MS201", "the blocks are: zero, mm_update"),
        ("check sample(tiled, matmul, tii = 3).blocks() == []", "MS251", "tii"),
        ("check matmul", "MS203", "condition"),
        ("check sample(tiled)", "MS205", "a program"),
        ("let x = nothing", "MS201", "nothing"),
    ],
)
def test_checks_that_fail(body: str, code: str, words: str):
    result = run(body)
    (d,) = result.diagnostics
    assert not result.passed and d.code == code
    assert words in f"{d.message} {d.why} {d.help}"
    assert d.span is not None and d.path == "samples.ms"


def test_a_candidate_tells_its_loops():
    body = """
        let s = sample(tiled, matmul[16, 16, 16], seed = 0, order = "straight", ti = [1, 1, 1, 16])
        snapshot s.loops(mm) \"\"\"
            i0_j0_fused parallel, i1, j1, k0, i2, j2, k1, i3 unrolled, j3
        \"\"\"
        check s.shared_bytes() == 0
    """
    result = run(body)
    assert [s.found for s in result.snapshots] == ["i0_j0_fused parallel, i1, j1, k0, i2, j2, k1, i3 unrolled, j3"]
    assert result.passed


def test_snapshots_are_rewritten_in_place():
    body = (
        '    let s = sample(tiled, matmul[16, 16, 16])\n    snapshot s.blocks() """old"""\n'
        '    snapshot matmul.blocks() """ [mm] """'
    )
    loaded = module(f'test "t" {{\n{body}\n}}\n')
    result = run_test(loaded, loaded.tests[0], same_blocks)
    assert [d.code for d in result.diagnostics] == ["MS268"]
    text = updated(loaded.file.text, [result])
    assert '    snapshot s.blocks() """\n        [zero, mm_update]\n    """\n' in text
    assert '    snapshot matmul.blocks() """ [mm] """' in text


def test_a_rule_applied_in_a_test():
    result = run('let p = apply(mark, chain)\ncheck p.blocks() == ["first", "second", "third"]')
    assert result.passed and result.checks == 1


def test_a_program_with_sizes_says_those_that_no_shape_gives():
    text = """program thin[N = 8, S = 2](A: f32[N * S], out B: f32[N]) { block b[i: N] { B[i] = A[i * S] } }
        schedule by for thin { b.annotate("s", S) }"""
    body = 'for m in [2, 3] { snapshot sample(by, thin[8, m]).trace() "" } snapshot sample(by, thin).trace() ""'
    found = [s.found for s in run(body, text).snapshots]
    assert [f'"s", {n})' in trace for n, trace in zip((2, 3, 2), found, strict=True)] == [True] * 3


@pytest.mark.parametrize("numbers", ["[2, 8]", "[true, 1]"])
def test_the_arguments_of_a_call_are_told_apart_by_value(numbers: str):
    """`n = m` is the same text for each `m`."""
    text = 'schedule by(n: any) for matmul { mm.annotate("n", n) }'
    body = f'for m in {numbers} {{ snapshot sample(by(n = m), matmul).trace() "" }}'
    found = [s.found for s in run(body, text).snapshots]
    assert len(found) == len(set(found)) == 2
