"""The rule for transpositions: what it tiles, how, and that all it does means the same, tails included."""

from __future__ import annotations

import pytest

import mslang as ms
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.program import Block, Program
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.rules.cpu.transposition import REGISTERS, VECTORS, Transposition, turned
from mslang.schedule.rules.nests import leaf_blocks, loops_around
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Space
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, GENERIC, Target
from mslang.tune.equivalence import difference
from tests.choice import Chosen

MATRIX = """program p(A: {a}[35, 50], X: f32[50, 35], out B: {b}[50, 35]) {{
    block t[j: 50, i: 35] {{ B[j, i] = {e} }}
}}"""
PERMUTED = """program p(A: f32[{read}], s: f32[33], out B: f32[{written}]) {{
    block t[{axes}] {{ B[{to}] = A[{of}] * s[{scale}] }}
}}"""
PLAIN = MATRIX.format(a="f32", b="f32", e="A[i, j]")
FIRST, LAST, AXES = "n, c, h, w", "n, h, w, c", "n: 2, h: 3, w: 20, c: 33"
TURNED = {
    "plain": PLAIN,
    "loops by columns": PLAIN.replace("j: 50, i: 35", "i: 35, j: 50"),
    "elementwise": MATRIX.format(a="f32", b="f32", e="max(A[i, j] * 2.0 + X[j, i], 0.0)"),
    "converted": MATRIX.format(a="f32", b="bf16", e="bf16(A[i, j])"),
    "part": PLAIN.replace("A: f32[35, 50]", "A: f32[37, 53]").replace("A[i, j]", "A[i + 2, j + 3]"),
    "whole tiles": PLAIN.replace("35", "32").replace("50", "64"),
    "one tile": PLAIN.replace("35", "16").replace("50", "16"),
    "channels last": PERMUTED.format(
        read="2, 33, 3, 20", written="2, 3, 20, 33", axes=AXES, to=LAST, of=FIRST, scale="c"
    ),
    "channels first": PERMUTED.format(
        read="2, 3, 20, 33", written="2, 33, 3, 20", axes=AXES, to=FIRST, of=LAST, scale="c"
    ),
    "reversed": PERMUTED.format(
        read="17, 3, 33", written="33, 3, 17", axes="k: 33, j: 3, i: 17", to="k, j, i", of="i, j, k", scale="k"
    ),
}
"""Transpositions that an instruction computes in registers."""
BYTES = MATRIX.format(a="i8", b="i8", e="A[i, j]")
SHORT = PLAIN.replace("50", "7").replace("A: f32[35, 7]", "A: f32[35, 60]")
NARROW = PLAIN.replace("35", "9")
OPEN = "program p[N: dyn(1..64)](A: f32[33, N], out B: f32[N, 33]) { block t[j: N, i: 33] { B[j, i] = A[i, j] } }"


def space(text: str, target: Target = AVX512) -> Space:
    return automatic_space(parse_program(text), target)


def block(program: Program, name: str = "t") -> Block:
    return next(b for b in blocks_of(program.body) if b.name == name)


def labelled(text: str, target: Target = AVX512) -> dict[object, Sketch]:
    """The sketches of a space by the alternative of the rule; `vectors` if it is the only one."""
    return {dict(s.structure).get("transpose:t", VECTORS): s for s in space(text, target).sketches()}


def instructions(program: Program) -> list[object]:
    return [found for b in blocks_of(program.body) if (found := dict(b.annotations).get("intrin")) is not None]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        *((text, AVX512) for text in (*TURNED.values(), BYTES, NARROW)),
        *((TURNED[name], target) for name in ("plain", "channels last") for target in (GENERIC, AVX2)),
    ],
    ids=[*TURNED, "bytes", "narrow", "plain, generic", "plain, avx2", "channels last, generic", "channels last, avx2"],
)
@pytest.mark.one_in(2)
def test_every_alternative_is_legal_and_means_the_same(text: str, target: Target, chosen: Chosen):
    made = space(text, target)
    for k, sketch in enumerate(made.structures()):
        assert isinstance(sketch, Sketch), sketch.diagnostic.message
        batch = sketch.batch()
        drawn = batch.draw(20, seed=k)
        assert batch.valid(drawn).all()
        for row in range(2):
            assert sketch.violation(drawn.row(row)) is None
            if chosen(2 * k + row, 2):
                assert difference(made.program, sketch.instantiate(drawn.row(row)), 1e-5, 1e-5, row) is None


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize(("target", "n"), [(AVX512, 16), (AVX2, 8)], ids=lambda x: getattr(x, "name", x))
def test_tiles_of_f32_are_transposed_in_registers(name: str, target: Target, n: int):
    found = labelled(TURNED[name], target)
    assert set(found) == {REGISTERS, VECTORS}
    assert instructions(found[REGISTERS].program) == [f"transpose_{n}x{n}"]
    loops = loops_around(found[REGISTERS].program, block(found[REGISTERS].program))
    assert [s.kind for s in (loops[0], *loops[-2:])] == ["parallel", "unrolled", "vectorized"]
    assert all(b.scope == "local" for name, b in all_buffers(found[REGISTERS].program).items() if "local" in name)
    assert not instructions(found[VECTORS].program)


@pytest.mark.parametrize(("text", "target"), [(BYTES, AVX512), (PLAIN, GENERIC), (OPEN, AVX512), (SHORT, AVX2)])
def test_without_an_instruction_vectors_are_gathered_from_tiles(text: str, target: Target):
    (sketch,) = space(text, target).sketches()
    assert not instructions(sketch.program)
    assert any(d.startswith("transpose:t/") for d in sketch.addresses)
    kinds = [s.kind for s in loops_around(sketch.program, block(sketch.program))]
    assert (kinds[0], kinds[-1]) == ("parallel", "vectorized")


def test_short_sides_take_the_smaller_instruction():
    assert instructions(labelled(NARROW)[REGISTERS].program) == ["transpose_8x8"]


def test_tails_have_loops_of_their_own():
    program = labelled(PLAIN)[REGISTERS].program
    assert {b.name for b in leaf_blocks(program)} >= {"t", "t_1", "t_1_1"}
    whole = labelled(TURNED["whole tiles"])[REGISTERS].program
    assert not any(b.name.startswith("t_") for b in leaf_blocks(whole))


def test_several_operands_are_each_transposed():
    text = MATRIX.format(a="f32", b="f32", e="A[i, j] + Y[i, j]").replace("X: f32[50, 35]", "Y: f32[35, 50]")
    assert instructions(labelled(text)[REGISTERS].program) == ["transpose_16x16"] * 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MATRIX.format(a="f32", b="f32", e="X[j, i]"), id="contiguous on both sides"),
        pytest.param(MATRIX.format(a="f32", b="f32", e="A[i, 0]"), id="adjacent along no axis"),
        pytest.param(PLAIN.replace("50", "3"), id="neighbours share a cache line"),
        pytest.param(PLAIN.replace("j: 50, i: 35", "j: 50 | i: 35").replace("B[j, i] =", "B[j, 0] +="), id="reduction"),
        pytest.param(
            """program p(A: f32[35, 50], out B: f32[50, 35], out C: f32[50, 35]) { for x in 50, y in 35 {
                block t[j: 50 = x, i: 35 = y] { B[j, i] = A[i, j] }
                block u[j: 50 = x, i: 35 = y] { C[j, i] = 1.0 }
            } }""",
            id="not alone",
        ),
    ],
)
def test_what_is_no_transposition_is_left_alone(text: str):
    program = parse_program(text)
    assert turned(program, block(program)) is None
    assert not any("transpose" in d for s in space(text).sketches() for d in s.addresses)


def test_a_block_that_other_rules_have_scheduled_is_left_alone():
    for sketch in space(PLAIN).sketches():
        assert turned(sketch.program, block(sketch.program)) is None


def test_the_trace_replays_as_text():
    found = space(PLAIN)
    for seed in range(4):
        drawn = found.sample(seed)
        assert space_of_text(drawn.trace.as_ms("again"), found.program).sample(0).program == drawn.program


def test_the_quick_space_has_tiles():
    made = space_named(parse_program(PLAIN), AVX512, "quick")
    assert [sorted(s.open) for s in made.sketches()] == [["transpose:t/i", "transpose:t/j"]]


def test_the_rule_has_a_name_in_files():
    made = ms.parse(PLAIN + "\nspace tiles for p = std.rules.transpose").space("tiles", target=AVX512)
    by_rule = automatic_space(parse_program(PLAIN), AVX512, (Transposition(),))
    assert {d for s in made.sketches() for d in s.addresses} == {d for s in by_rule.sketches() for d in s.addresses}
