"""Random programs under random sequences of all primitives mean what they meant, for every draw of the sizes."""

from __future__ import annotations

import random
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mslang.backend.reference.interpret import run
from mslang.ir.expr import Const, FreeTile, PerfectTile, Symbol
from mslang.ir.program import Program
from mslang.ir.verify import verify
from mslang.ir.visit import map_program_exprs
from mslang.transform.outcome import BlockRef, Gone, Outcome
from mslang.transform.primitives.compute_at import legal_loops
from mslang.transform.primitives.loops import fuse, reorder, split
from mslang.transform.registry import IMPLEMENTATIONS
from tests.property.block_programs import random_program, same_meaning
from tests.property.steps import Steps, apply, blocks, loops
from tests.property.strategies import programs, random_inputs
from tests.unit.transform.programs import block, loop
from tests.unit.transform.programs import loops as loop_refs
from tests.unit.transform.workloads import conv2d, softmax

BLOCK_PRIMITIVES = (
    "cache_read",
    "cache_write",
    "compute_at",
    "reverse_compute_at",
    "compute_inline",
    "reverse_compute_inline",
)
LOOP_PRIMITIVES = ("split", "fuse", "reorder", "parallel", "vectorize", "decompose_reduction")


# ------------------------------------------------------------------ random sequences
def check_outcome(before: Program, outcome: Outcome) -> None:
    """The handles and the forward map speak of what is there, and of what is not."""
    there = {*blocks(outcome.program), *(s.var for s in loops(outcome.program))}
    assert all(h.name in there for h in outcome.handles)
    old = {*blocks(before), *(s.var for s in loops(before))}
    for ref, to in outcome.forward.items():
        if isinstance(to, Gone):
            assert ref.name not in there
            assert all(x.name in there for x in to.into)
        else:
            assert ref.name in old and to.name in there


def try_sequence(before: Program, rng: random.Random, symbolic: bool, applied: Counter[str]) -> None:
    steps = Steps(rng, symbolic, (*LOOP_PRIMITIVES, *BLOCK_PRIMITIVES * 2, "compute_at", "reverse_compute_at"))
    program = before
    for _ in range(rng.randint(4, 30)):
        step = steps.draw(program)
        outcome = None if step is None else apply(program, step)
        if step is None or outcome is None:
            continue
        assert verify(outcome.program) == (), step
        check_outcome(program, outcome)
        applied[step[0]] += 1
        program = outcome.program
    for k in range(3 if steps.symbols else 1):
        same_meaning(before, program, steps.values(rng), k)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), symbolic=st.booleans())
def test_random_sequences_on_chains_of_stages(seed: int, symbolic: bool) -> None:
    rng = random.Random(seed)
    try_sequence(random_program(rng, rng.randint(2, 5)), rng, symbolic, Counter())


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(), seed=st.integers(0, 2**32 - 1), symbolic=st.booleans())
def test_random_sequences_on_random_programs(program: Program, seed: int, symbolic: bool) -> None:
    try_sequence(program, random.Random(seed), symbolic, Counter())


@pytest.mark.campaign
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(max_blocks=6), seed=st.integers(0, 2**32 - 1), symbolic=st.booleans())
def test_a_campaign_on_random_programs(program: Program, seed: int, symbolic: bool) -> None:
    try_sequence(program, random.Random(seed), symbolic, Counter())


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_a_campaign_applies_each_primitive_often() -> None:
    applied: Counter[str] = Counter()
    seed = 0
    while min(applied[n] for n in BLOCK_PRIMITIVES) < 500:
        rng = random.Random(seed)
        try_sequence(random_program(rng, rng.randint(2, 5)), rng, seed % 2 == 0, applied)
        seed += 1
    print(dict(applied), seed, "sequences")


def test_every_step_that_is_drawn_is_a_primitive() -> None:
    assert set(BLOCK_PRIMITIVES) | set(LOOP_PRIMITIVES) <= IMPLEMENTATIONS.keys()


# ------------------------------------------------------------------ tiled workloads at every place
def tile(name: str, extent: int, perfect: bool) -> list[Symbol | None]:
    domain = PerfectTile(Const(extent), 2) if perfect else FreeTile(Const(extent), 2)
    return [Symbol(name, domain, k) if perfect or k else None for k in range(2)]


def draw_tile(rng: random.Random, extent: int, perfect: bool) -> list[int]:
    inner = rng.choice([f for f in range(1, extent + 1) if not perfect or extent % f == 0])
    return [-(-extent // inner), inner]


SIZES = {"h_1": 5, "w_1": 6, "co": 4, "ci": 2}


def tiled_convolution(perfect: bool) -> Program:
    p = conv2d(SIZES["h_1"], SIZES["w_1"], SIZES["ci"], SIZES["co"])
    for name, extent in SIZES.items():
        p = split(p, loop(name), tile(f"t_{name}", extent, perfect)).program
    p = reorder(p, loop_refs("h_1_0 w_1_0 co_0 h_1_1 ci_0 r s w_1_1 ci_1 co_1_1")).program
    return fuse(p, loop_refs("h_1_0 w_1_0")).program if perfect else p


@pytest.mark.parametrize("perfect", [True, False])
def test_padding_and_bias_at_every_loop_of_a_tiled_convolution(perfect: bool) -> None:
    plain = conv2d(SIZES["h_1"], SIZES["w_1"], SIZES["ci"], SIZES["co"])
    p = tiled_convolution(perfect)
    rng = random.Random(0)
    pads = legal_loops(p, block("pad"), "compute_at")
    adds = legal_loops(p, block("add"), "reverse_compute_at")
    assert len(pads) == (9 if perfect else 10)
    assert [x.name for x in adds] == (
        ["h_1_0_w_1_0_fused", "co_0", "h_1_1"] if perfect else ["h_1_0", "w_1_0", "co_0", "h_1_1"]
    )
    for name, primitive, places in (("pad", "compute_at", pads), ("add", "reverse_compute_at", adds)):
        for place in places:
            q = IMPLEMENTATIONS[primitive](p, BlockRef(name), place).program
            assert verify(q) == ()
            for _ in range(2):
                same_meaning(plain, q, {f"t_{n}": draw_tile(rng, e, perfect) for n, e in SIZES.items()}, 1)


def test_softmax_with_three_blocks_at_every_place() -> None:
    plain = softmax(4, 6)
    p = split(plain, loop("i_3"), tile("t", 4, True)).program
    p = split(p, loop("j_1"), tile("u", 6, False)).program
    rng, legal = random.Random(0), 0
    given_arrays = random_inputs(plain, 0)
    want = run(plain, given_arrays)["B"]
    places = [None, *loop_refs("i_3_0 i_3_1 j_1_0 j_1_1")]
    for trio in ((a, b, c) for a in places for b in places for c in places):
        q: Program | None = p
        for name, place in zip(("total", "ex", "top"), trio, strict=True):
            step = ("compute_at", (BlockRef(name), place), {})
            outcome = None if q is None else apply(q, step) if place is not None else Outcome(q)
            q = None if outcome is None else outcome.program
        if q is None:
            continue
        legal += 1
        sizes = {"t": draw_tile(rng, 4, True), "u": draw_tile(rng, 6, False)}
        np.testing.assert_allclose(run(q, given_arrays, sizes=sizes)["B"], want, rtol=1e-5)
    assert legal >= 22


def test_structure_never_depends_on_a_value() -> None:
    p = tiled_convolution(False)
    for primitive, name, place in (("compute_at", "pad", "ci_0"), ("reverse_compute_at", "add", "co_0")):
        q = IMPLEMENTATIONS[primitive](p, BlockRef(name), loop(place)).program
        assert map_program_exprs(q, lambda e: e) == q
        for inner in range(1, 6):
            values = {f"t_{n}": draw_tile(random.Random(inner), e, False) for n, e in SIZES.items()} | {
                "t_h_1": [-(-5 // inner), inner]
            }
            same_meaning(conv2d(SIZES["h_1"], SIZES["w_1"], SIZES["ci"], SIZES["co"]), q, values, 2)
