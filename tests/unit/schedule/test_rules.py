"""Rules written in Python: multi_level, auto_parallel, and the automatic space made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.diagnostics import MsError
from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.space import Candidate, Illegal, Space
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.target.description import GENERIC
from mslang.tune.equivalence import difference

ROOT = Path(__file__).parents[3]

GEMM = """use std.cpu.{auto_parallel}
program gemm[M = 24, N = 32, K = 16](A: f32[M, K], B: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * B[k, j] }
}
program row[M = 8, N = 12](A: f32[M, N], out S: f32[M]) { block s[i: M | j: N] { S[i] += A[i, j] } }
space auto for gemm = std.tiling.multi_level("SSRSRS") >> auto_parallel
space short for gemm = std.tiling.multi_level("SRS") >> auto_parallel
space rows for row = std.tiling.multi_level("SSRSRS") >> auto_parallel
space bad for gemm = std.tiling.multi_level("SXR")
schedule one for gemm { std.cpu.auto_parallel(mm) }
"""


def space(name: str) -> Space:
    return space_of(load("text.ms", GEMM), name)


def kinds(program: Program) -> list[str]:
    return [s.kind for s in walk(program.body) if isinstance(s, For)]


def draws(made: Space, n: int) -> list[Candidate]:
    found = [made.attempt(seed) for seed in range(n)]
    return [c for c in found if isinstance(c, Candidate)]


@pytest.mark.parametrize("name", ["auto", "short", "rows", "one"])
def test_every_structure_is_legal_and_means_the_same(name: str):
    made = space(name)
    assert not [x for x in made.structures() if isinstance(x, Illegal)]
    for c in draws(made, 4):
        assert difference(made.program, c.program, 1e-4, 1e-5, 0) is None


def test_a_product_is_tiled_and_runs_on_cores_and_vectors():
    c = space("auto").sample(3)
    assert list(c.decisions) == [
        "multi_level:mm",
        "multi_level:mm/i",
        "multi_level:mm/j",
        "multi_level:mm/k",
        "auto_parallel:mm/unroll",
    ]
    assert len(c.decisions["multi_level:mm/i"]) == 4  # type: ignore[arg-type]
    assert kinds(c.program)[0] == "parallel"
    assert {"vectorized", "unrolled"} <= set(kinds(c.program))
    assert "mm_init" in c.trace.as_ms()


def test_a_reduction_without_reuse_is_not_tiled():
    assert list(space("rows").sample(0).decisions) == ["auto_parallel:s/unroll"]


def test_a_rule_of_one_block():
    c = space("one").sample(0)
    assert "auto_parallel:mm/unroll" in c.decisions and kinds(c.program)[0] == "parallel"


def test_a_structure_is_a_word_of_s_and_r():
    with pytest.raises(MsError) as found:
        space("bad").sample(0)
    assert found.value.diagnostic.code == "MS203"


WORKLOADS = sorted((ROOT / "stdlib" / "workloads").glob("*.ms"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", WORKLOADS, ids=lambda p: p.stem)
def test_the_automatic_space_of_the_library(path: Path):
    module = load(str(path))
    for name in module.programs:
        program = instantiate(module, name, {})
        made = automatic_space(program, GENERIC)
        c = made.sample(0)
        assert c.trace.source is None
        assert replay(program, c.trace, strict=True).program == c.program
        assert space_of_text(c.trace.as_ms("best"), program).sample(0).program == c.program
        assert "parallel" in kinds(c.program)


def test_the_convolution_of_the_language_page_has_no_illegal_structure():
    module = load(str(ROOT / "tests" / "fixtures" / "samples" / "conv2d.ms"))
    made = space_of(module, "cpu_conv", sizes={"H": 8, "W": 8, "CI": 16, "CO": 32})
    found = list(made.structures())
    assert not [x for x in found if isinstance(x, Illegal)]
    labels = {dict(x.structure)["cpu_conv"] for x in found}
    assert labels == {
        "fused",
        "fused(vec = 8)",
        'inline_all_elementwise >> std.tiling.multi_level("SSRSRS") >> auto_parallel',
    }
