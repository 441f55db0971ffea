"""Every call checks its named arguments; caret and fix of a misspelled one cover its name."""

import pytest

from mslang.diagnostics import MsError
from mslang.ide.findings import findings
from mslang.schedule.space import Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load

PROGRAM = """use std.testing.{equiv, implements, fits}
use std.tiling.{multi_level}
use std.tensor.{tensorize_mapping}
program gemm[M = 64, N = 64, K = 64](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
fn halves(l: loop, factor: int) { let a, b = l.split([_, factor]) return a, b }
rule staged(b: block, scope: str = local) when true { }
schedule plain(width: int = 4) for gemm { mm.j.vectorize() }
"""

MISSPELLED = [
    ("schedule s for gemm { let t ~ perfect_tile(mm.i, n = 2, max_iner = 16) }", "max_iner", "max_inner"),
    ("schedule s for gemm { let a, b = mm.j.split([_, 4], tial = guard) }", "tial", "tail"),
    ("schedule s for gemm { let a, b = halves(mm.j, factr = 4) }", "factr", "factor"),
    ("schedule s for gemm { staged(mm, scpoe = local) }", "scpoe", "scope"),
    ("space s for gemm = plain(widht = 4)", "widht", "width"),
    ('space s for gemm = multi_level(structur = "SSR")', "structur", "structure"),
    ('test "t" { check equiv(gemm[8, 8, 8], plain, rtool = 1e-3) }', "rtool", "rtol"),
    ('test "t" { check equiv(gemm[8, 8, 8], plain, rtol = 1e-3, attol = 0.0) }', "attol", "atol"),
]


@pytest.mark.parametrize(("item", "wrong", "right"), MISSPELLED)
def test_a_misspelled_keyword_is_found_and_mended(item: str, wrong: str, right: str) -> None:
    text = PROGRAM + item
    found = [d for d in findings(load("k.ms", text)) if d.code == "MS205"]
    assert len(found) == 1 and found[0].span is not None and f"did you mean `{right}`?" == found[0].help
    assert text[found[0].span.start : found[0].span.end] == wrong
    (fix,) = found[0].fixes
    mended = text[: fix.span.start] + fix.text + text[fix.span.end :]
    assert f"{right} =" in mended and not [d for d in findings(load("k.ms", mended)) if d.code == "MS205"]


@pytest.mark.parametrize(
    "item",
    [
        "schedule s for gemm { let l = min(3, 4, what = 5) }",
        "schedule s for gemm { let l = len([3], list = [4], what = 5) }",
        "schedule s for gemm { let t ~ perfect_tile(mm.i, n = 2, n = 4) }",
        'test "t" { check equiv() }',
        'test "t" { check fits(plain) }',
    ],
)
def test_a_keyword_that_nothing_takes_or_that_comes_twice(item: str) -> None:
    assert "MS205" in {d.code for d in findings(load("k.ms", PROGRAM + item))}


@pytest.mark.parametrize(
    "item",
    [
        "schedule s for gemm { let l = min(3, 4, what = 5) }",
        "schedule s for gemm { halves(mm.i, factor = 2, factor = 4) }",
        'space s for gemm = multi_level(structur = "SSR")',
        "schedule s for gemm { tensorize_mapping(mm, intrn = 3) }",
    ],
)
def test_running_refuses_them_too(item: str) -> None:
    space: Space = space_of(load("k.ms", PROGRAM + item), "s")
    with pytest.raises(MsError) as error:
        space.sample(0)
    assert error.value.diagnostic.code == "MS205"
