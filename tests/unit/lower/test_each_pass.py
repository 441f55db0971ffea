"""Every pass by itself: the kernel before and after it means what the program means, and is well-formed.

Random programs under random schedules are evaluated after each pass; the printed kernels of a few programs are goldens
in `tests/expect/kernel`, written again by `python -m tests.unit.lower.test_each_pass`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.expr import Const
from mslang.ir.find import all_buffers
from mslang.ir.program import Program
from mslang.kernel.nodes import Body, Store
from mslang.kernel.print import print_module
from mslang.kernel.verify import verify
from mslang.kernel.visit import bodies, walk, with_bodies
from mslang.lower.gpu.lower import PASSES as GPU_PASSES
from mslang.lower.passes import FLATTEN, PASSES, stages
from mslang.lower.trim import iterations
from mslang.schedule.schedule import Schedule
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, GENERIC, Target
from tests.property.arrays import difference, outputs_equal
from tests.property.campaign import GENERATORS
from tests.property.judge import sparse_inputs
from tests.property.tally import Tally
from tests.unit.lower import evaluator
from tests.unit.lower.programs import packed_gemm

EXPECT = Path(__file__).parents[2] / "expect" / "kernel"

MASKS = """program masks(A: f32[20], inout B: f32[20]) {
    for j in 20 @ vectorized {
        block b[v: 20 = j] {
            where A[v] > 0.0
            B[v] = select(v > 2, A[v - 3], 0.5) + A[19 - v]
        }
    }
}"""
DYNAMIC = """program dynamic[N: dyn(1..40)](A: f32[N], out B: f32[N]) {
    for j in N @ vectorized { block b[v: N = j] { B[v] = A[v] * 2.0 } }
}"""
ROWS = """program rows(A: f32[3, 9], out B: f32[3]) {
    alloc T: f32[3, 9] @ local
    for i in 3 {
        for j in 9 @ vectorized { block t[a: 3 = i, b: 9 = j] { T[a, b] = A[a, b] + 1.0 } }
        for k in 9 { block s[a: 3 = i | b: 9 = k] { init { B[a] = 0.0 } B[a] += T[a, b] } }
    }
}"""
EDGE = """program edge(A: f32[29], out B: f32[READ]) {
    alloc T: f32[32] @ local
    for i in 32 @ vectorized { block t[a: 32 = i] { T[a] = 5.0 } }
    for h in 2 @ unrolled, i in 16 @ vectorized { block u[a: 32 = h * 16 + i] { where a < 29 T[a] = T[a] + A[a] } }
    for h in 2 @ unrolled, i in 16 @ vectorized { block b[a: 32 = h * 16 + i] { where a < READ B[a] = T[a] } }
}"""
GOLDENS = {"masks": (MASKS, AVX512), "dynamic": (DYNAMIC, AVX2), "rows": (ROWS, AVX512)}
SHOWN = (FLATTEN, "predicates", "vectorize", "unroll", "registers")
SLOW = 4000
"""Programs of so many iterations are left out."""

TARGETS = (AVX512, AVX2, GENERIC)


def printed(name: str) -> str:
    text, target = GOLDENS[name]
    made = {stage: print_module(m) for stage, m in stages(parse_program(text), target)}
    return "\n".join(f"// {stage}\n{made[stage]}" for stage in SHOWN)


def check(program: Program, target: Target, seed: int, sizes: dict[str, int] | None = None) -> None:
    """After every pass the kernel gives what the program gives."""
    given = sparse_inputs(program, seed) if not sizes else arrays_of(program, sizes)
    want = interpret.run(program, given, sizes=sizes or {})
    for stage, module in stages(program, target):
        verify(module)
        found = evaluator.run(module, given, sizes)
        assert outputs_equal(want, found), f"after {stage}: {difference(want, found)}\n{print_module(module)}"


def arrays_of(program: Program, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    (n,) = sizes.values()
    return {p.buffer.name: np.arange(n, dtype=np.float32) for p in program.params if p.direction != "out"}


def drawn() -> Iterator[tuple[int, Program]]:
    """Programs of the campaign under their schedules, of types that the evaluator knows; it packs no parameters."""
    generator = GENERATORS["stages"]
    weights = {**generator.weights, "vectorize": 40, "unroll": 30, "split": 30, "cache_write": 20}
    for number in range(30):
        before, rng = generator.draw(7, number)
        schedule = Schedule(before.program, seed=number)
        generator.schedule(schedule, number, rng, Tally(), weights)
        program = schedule.program
        known = all(b.dtype in evaluator.NUMPY for b in all_buffers(program).values()) and not program.dynamic
        known = known and all(p.given.shape == p.buffer.shape for p in program.params)
        if known and (iterations(program) or SLOW) < SLOW:
            yield number, program


@pytest.mark.parametrize("name", GOLDENS)
def test_a_kernel_after_each_pass_is_as_expected(name: str) -> None:
    assert printed(name) == (EXPECT / f"{name}.txt").read_text()


def test_the_page_of_passes_lists_them() -> None:
    page = (EXPECT.parents[2] / "docs" / "passes.md").read_text()
    listed = [FLATTEN, *(p.name for p in PASSES), FLATTEN, *(p.name for p in GPU_PASSES)]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == listed


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("text", [MASKS, ROWS], ids=["masks", "rows"])
def test_masks_and_rows_mean_what_they_say(text: str, target: Target) -> None:
    program = parse_program(text)
    for seed in range(4):
        check(program, target, seed)


@pytest.mark.parametrize(("read", "first", "masked"), [(29, 29, 0), (29, 30, 1), (30, 30, 1), (32, 32, 1)])
def test_what_is_not_read_of_a_row_may_be_overwritten(read: int, first: int, masked: int) -> None:
    text = EDGE.replace("READ", str(read)).replace("T[a] = 5.0", f"where a < {first} T[a] = 5.0")
    program = parse_program(text)
    check(program, AVX512, 0)
    last = dict(stages(program, AVX512))[PASSES[-1].name]
    stores = [s for s in walk(last.body) if isinstance(s, Store) and s.buffer == "T" and s.mask is not None]
    assert sum(s.value != Const(5.0) for s in stores) == masked


@pytest.mark.parametrize("n", [1, 7, 8, 16, 17, 40])
def test_a_length_known_at_the_call(n: int) -> None:
    check(parse_program(DYNAMIC), AVX512, 0, {"N": n})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_a_gemm_with_tails(target: Target) -> None:
    check(packed_gemm(7, 70, 3, rows=3, columns=24, parallel=True), target, 1)


def test_random_programs_mean_the_same_after_each_pass() -> None:
    checked = 0
    for number, program in drawn():
        try:
            check(program, TARGETS[number % 3], number)
        except MsError as error:
            assert error.diagnostic.code not in ("MS424", "MS401"), number
            continue
        checked += 1
    assert checked >= 25


def test_an_evaluator_that_sees_faults() -> None:
    """A mask that is lost is an access out of bounds or another result: the evaluator would not miss it."""

    def bare(body: Body) -> Body:
        return tuple(
            replace(s, mask=None) if isinstance(s, Store) else with_bodies(s, tuple(bare(b) for b in bodies(s)))
            for s in body
        )

    program = parse_program(MASKS)
    module = dict(stages(program, AVX512))[PASSES[-1].name]
    function = module.functions[0]
    broken = replace(module, functions=(replace(function, body=bare(function.body)),))
    given = sparse_inputs(program, 0)
    try:
        found = evaluator.run(broken, given)
    except evaluator.OutOfBounds:
        return
    assert not outputs_equal(interpret.run(program, given), found)


if __name__ == "__main__":
    EXPECT.mkdir(exist_ok=True)
    for key in GOLDENS:
        (EXPECT / f"{key}.txt").write_text(printed(key))
