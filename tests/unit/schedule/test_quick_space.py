"""The quick space: few open decisions for every program, the default's choices for the rest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import mslang
from mslang.ir.find import blocks_of
from mslang.ir.program import Program
from mslang.kernel.print import print_module
from mslang.lower.passes import lower
from mslang.resources import stdlib_folder
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.rules.few_decisions import MOST
from mslang.schedule.rules.loop_blocks import LoopBlocks
from mslang.schedule.rules.nests import loops_around
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Candidate
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import AVX512, Target
from mslang.tune.reference import small_program
from mslang.tune.verification import tolerance
from tests.unit.equivalence import changed

AMX = replace(AVX512, name="amx", features=(*AVX512.features, "avx512vnni", "amx-tile", "amx-int8", "amx-bf16"))
LIBRARY = [
    pytest.param(str(path), name, id=f"{path.stem}.{name}")
    for path in sorted(stdlib_folder().rglob("*.ms"))
    for name in load(str(path)).programs
]
FEWER = {"row_sum": 0, "row_max": 0, "cumulative_sum": 0, "matrix_norm": 1, "spmv": 1}
"""Programs for which the automatic space has fewer than two decisions, too."""


def quick(program: Program, machine: Target = AVX512) -> Sketch:
    """The one sketch of a quick space."""
    (sketch,) = space_named(program, machine, "quick").structures()
    assert isinstance(sketch, Sketch)
    return sketch


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("path", "name"), LIBRARY)
def test_two_or_three_decisions_are_open_for_every_program(path: str, name: str) -> None:
    program = mslang.load(path).program(name)
    for machine in (AVX512, AMX) if "gemm" in name else (AVX512,):
        found = len(quick(program, machine).open)
        assert found == FEWER[name] if name in FEWER else 2 <= found <= MOST
    if name in FEWER:
        assert max(len(s.open) for s in automatic_space(program, AVX512).sketches()) == FEWER[name]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("path", "name"), LIBRARY)
def test_candidates_compute_the_same(path: str, name: str) -> None:
    program = small_program(load(path), name, {})
    assert program is not None
    compute_the_same(program, draws=1)


def compute_the_same(program: Program, draws: int) -> None:
    space = space_named(program, AVX512, "quick")
    for seed in range(draws):
        candidate = space.sample(seed)
        assert changed(program, candidate.program, tolerance(program), seed) is None
        assert space_of_text(candidate.trace.as_ms("again"), program).sample(0).program == candidate.program


@pytest.mark.parametrize(
    ("file", "name", "sizes"),
    [
        ("transpose", "transpose", {"M": 70, "N": 45}),
        ("blur", "blur", {"H": 21, "W": 70}),
        ("pool", "max_pool", {"H": 13, "W": 11, "C": 40}),
        ("pool", "average_pool", {"H": 6, "W": 8, "C": 33}),
        ("batch_norm", "batch_norm_train", {"N": 2, "H": 3, "W": 5, "C": 48}),
    ],
)
def test_tails_of_blocks_compute_the_same(file: str, name: str, sizes: dict[str, int]) -> None:
    program = mslang.load(stdlib_folder() / "workloads" / f"{file}.ms").program(name, **sizes)
    assert any("_blocks:" in a or "transpose:" in a for a in quick(program).open)
    compute_the_same(program, draws=2)


def test_the_default_schedule_is_one_of_them() -> None:
    program = mslang.load(stdlib_folder() / "workloads" / "gemm.ms").program()
    decided = {"default_tiling:mm/registers": 64, "default_tiling:mm/unroll": 1, "stream:C_local/streamed": 0}
    candidate = space_named(program, AVX512, "quick").sample(0, decided)
    again, default = (print_module(lower(c.program, AVX512)) for c in (candidate, default_schedule(program, AVX512)))
    assert again.replace("k_0", "k") == default


CHAIN = """program p(A: f32[32, 32], B: f32[32, 32], C: f32[32, 32], D: f32[32, 32], out E: f32[32, 32]) {
    alloc X: f32[32, 32]
    alloc Y: f32[32, 32]
    block first[i: 32, j: 32 | k: 32] { X[i, j] += A[i, k] * B[k, j] }
    block second[i: 32, j: 32 | k: 32] { Y[i, j] += X[i, k] * C[k, j] }
    block third[i: 32, j: 32 | k: 32] { E[i, j] += Y[i, k] * D[k, j] }
}"""


def test_no_more_are_open_where_there_are_many_products() -> None:
    sketch = quick(parse_program(CHAIN))
    pinned = {d.address: d.given for d in sketch.decisions if d.given is not None}
    assert sketch.open == (
        "default_tiling:third/registers",
        "default_tiling:third/unroll",
        "default_tiling:second/registers",
    )
    assert pinned == {
        "default_tiling:second/unroll": 4,
        "default_tiling:first/registers": 82,
        "default_tiling:first/unroll": 4,
    }
    again = space_of_text(sketch.as_ms(), parse_program(CHAIN))
    assert next(again.sketches()).open == sketch.open


def test_what_is_pinned_may_be_pinned_to_another_value() -> None:
    space = space_named(parse_program(CHAIN), AVX512, "quick")
    found = space.attempt(0, 0, {"default_tiling:first/unroll": 2})
    assert isinstance(found, Candidate) and found.decisions["default_tiling:first/unroll"] == 2


# ------------------------------------------------------------------ blocks of loops
def blocked(text: str) -> Sketch:
    return next(automatic_space(parse_program(text), AVX512, (LoopBlocks(),)).sketches())


STAGES = """program p(X: f32[66, 128], out Y: f32[64, 128]) {
    alloc T: f32[66, 128]
    block before[y: 66, x: 128] { T[y, x] = X[y, x] * 2.0 }
    block after[y: 64, x: 128] { Y[y, x] = T[y, x] + T[y + 2, x] }
}"""


def test_a_stage_is_computed_in_the_blocks_of_what_reads_it() -> None:
    sketch = blocked(STAGES)
    assert sketch.open == ("loop_blocks:after/columns", "loop_blocks:after/rows")
    before, after = (loops_around(sketch.program, b) for b in blocks_of(sketch.program.body))
    assert before[:2] == after[:2] and len(before) == len(after) == 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("+ T[y + 2, x]", "+ T[0, x]"), "one row is read by all blocks"),
        (("out Y", "out T: f32[66, 128], out Y"), "the stage is a result, too"),
        (("* 2.0", "+ exp(X[y, x])"), None),
    ],
)
def test_other_stages_are_left_where_they_are(change: tuple[str, str], why: str | None) -> None:
    text = STAGES.replace(*change)
    if "out T" in text:
        text = text.replace("    alloc T: f32[66, 128]\n", "")
    sketch = blocked(text)
    before, after = (loops_around(sketch.program, b) for b in blocks_of(sketch.program.body))
    assert (before[:1] == after[:1]) is (why is None)


@pytest.mark.parametrize(
    "text",
    [
        "program p(A: f32[4096], out B: f32[4096]) { block b[i: 4096] { B[i] = A[i] } }",
        "program p(A: f32[64, 8], out B: f32[64, 8]) { block b[i: 64, j: 8] { B[i, j] = A[i, j] } }",
        "program p(A: f32[64, 64], out B: f32[64]) { block b[i: 64 | j: 64] { B[i] += A[i, j] } }",
        "program p(X: f32[32, 64], out Y: f32[32, 64]) { block b[i: 32, j: 64 @ scan] {"
        " Y[i, j] = select(j == 0, X[i, j], Y[i, j - 1] + X[i, j]) } }",
    ],
    ids=["one loop", "less than a vector", "elements apart", "a scan"],
)
def test_these_nests_have_no_blocks(text: str) -> None:
    assert blocked(text).addresses == ()


def test_a_reduction_runs_within_a_block() -> None:
    text = "program p(A: f32[9, 64], out B: f32[64]) { block b[i: 64 | k: 9] { B[i] += A[k, i] } }"
    sketch = blocked(text)
    assert sketch.addresses == ("loop_blocks:b/columns",)
    (block,) = blocks_of(sketch.program.body)
    assert [s.var for s in loops_around(sketch.program, block)][::2] == ["i0", "i1"]
    assert automatic_space(parse_program(STAGES), AVX512, (LoopBlocks(only_reductions=True),)).sample(0).decisions == {}
