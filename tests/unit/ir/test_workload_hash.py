"""The workload's hash: no name counts, everything else does; traces move between programs that differ in names."""

from __future__ import annotations

import pytest

from mslang.ir.equal import correspondence, structural_hash, workload_hash
from mslang.ir.program import Program
from mslang.ir.symbols import symbols_of
from mslang.schedule.renaming import renamed
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.space import Candidate
from mslang.sema.program import parse_program
from mslang.target.description import AVX2

BASE = """program p[M: dyn(1..64)](A: f32[M, 8], W: f32[8], out C: f32[M]) {
    alloc t: f32[M, 8]
    block scale[x: M, y: 8] { attr "note" = 1
        let v = A[x, y]
        t[x, y] = v * W[y] + 2.0 }
    block sum[i: M | k: 8] { C[i] += t[i, k] }
}"""

RENAMED = """program other[N: dyn(1..64)](t: f32[N, 8], C: f32[8], out A: f32[N]) {
    alloc W: f32[N, 8]
    block sum[k: N, i: 8] { attr "note" = 1
        let x = t[k, i]
        W[k, i] = x * C[i] + 2.0 }
    block scale[v: N | y: 8] { A[v] += W[v, y] }
}"""

CHANGES = {
    "element type": [("A: f32[M, 8]", "A: f16[M, 8]"), ("= A[x, y]", "= f32(A[x, y])")],
    "extent": [("8", "16")],
    "order of parameters": [("A: f32[M, 8], W: f32[8]", "W: f32[8], A: f32[M, 8]")],
    "direction": [("A: f32[M, 8]", "inout A: f32[M, 8]")],
    "constant parameter": [("W: f32[8]", "const W: f32[8]")],
    "operator": [("v * W[y]", "v / W[y]")],
    "constant": [("2.0", "2.5")],
    "annotation": [('"note" = 1', '"note" = 2')],
    "key of an annotation": [('"note"', '"remark"')],
    "scope": [("alloc t: f32[M, 8]", "alloc t: f32[M, 8] @ local")],
    "which element": [("W[y]", "W[7 - y]")],
    "which buffer": [("t[i, k]", "A[i, k]")],
    "domain of a size": [("dyn(1..64)", "dyn(1..32)")],
    "kind of axis": [("x: M, y: 8]", "x: M, y: 8 @ opaque]")],
    "order of blocks' axes": [("x: M, y: 8]", "y: 8, x: M]")],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_counts(change: str) -> None:
    text = BASE
    for old, new in CHANGES[change]:
        assert old in text
        text = text.replace(old, new)
    p, q = parse_program(BASE), parse_program(text)
    assert workload_hash(p) != workload_hash(q)
    assert correspondence(p, q) is None


def test_no_name_counts() -> None:
    p, q = parse_program(BASE), parse_program(RENAMED)
    assert workload_hash(p) == workload_hash(q)
    names = correspondence(p, q)
    assert names is not None and not names.trivial
    assert names.buffers == {"A": "t", "W": "C", "C": "A", "t": "W"}
    assert names.blocks == {"scale": "sum", "sum": "scale"}
    assert names.axes["scale", "x"] == "k" and names.sizes == {"M": "N"}
    same = correspondence(p, p)
    assert same is not None and same.trivial


def test_names_that_change_places_count() -> None:
    text = "program p(a: f32[4], b: f32[4], out c: f32[4]) {{ block k[i: 4] {{ c[i] = {} }} }}"
    assert workload_hash(parse_program(text.format("a[i] - b[i]"))) != workload_hash(
        parse_program(text.format("b[i] - a[i]"))
    )


def test_hidden_accesses_follow_their_buffers() -> None:
    text = (
        "program p(a: f32[4], b: f32[4], out c: f32[4]) {{"
        ' block k[i: 4] {{ attr "hidden_reads" = ["{}"] c[i] = a[i] + b[i] }} }}'
    )
    swapped = text.replace("a: f32[4], b", "b: f32[4], a").replace("a[i] + b[i]", "b[i] + a[i]")
    hash = workload_hash(parse_program(text.format("a")))
    assert hash == workload_hash(parse_program(swapped.format("b")))
    assert hash != workload_hash(parse_program(text.format("b")))


TILED = """program {p}({A}: f32[64, 64], {B}: f32[64, 64], out {C}: f32[64, 64]) {{
    alloc {t}: f32[64, 64]
    block {mm}[{i}: 64, {j}: 64 | {k}: 64] {{ {t}[{i}, {j}] += {A}[{i}, {k}] * {B}[{k}, {j}] }}
    block {r}[{i}: 64, {j}: 64] {{ {C}[{i}, {j}] = max({t}[{i}, {j}], 0.0) }}
}}"""

OWN = {"p": "p", "A": "A", "B": "B", "C": "C", "t": "t", "mm": "mm", "r": "relu", "i": "i", "j": "j", "k": "k"}

# Names that schedules give to loops, blocks and tiles, and names of other things of the first program.
HOSTILE = {
    "plain": {name: f"{name}_new" for name in OWN},
    "derived": {**OWN, "A": "j0", "B": "i", "C": "mm_init", "t": "i0_j0_fused", "i": "v", "j": "w", "k": "ax0"},
    "swapped": {**OWN, "A": "B", "B": "A", "mm": "relu", "r": "mm", "i": "j", "j": "k", "k": "i"},
    "mixed": {**OWN, "mm": "t", "t": "mm", "r": "A", "A": "relu"},
}


def _same(candidate: Candidate, program: Program) -> None:
    recorded = parse_program(TILED.format(**OWN))
    names = correspondence(recorded, program)
    assert names is not None
    moved = renamed(candidate.trace, names, program)
    wanted = workload_hash(candidate.program)
    assert workload_hash(replay(program, moved, strict=True).program) == wanted
    assert workload_hash(space_of_text(moved.as_ms("moved"), program).sample(0, strict=True).program) == wanted


@pytest.mark.parametrize("names", HOSTILE)
def test_a_trace_moves_to_a_renamed_program(names: str) -> None:
    space = automatic_space(parse_program(TILED.format(**OWN)), AVX2)
    other = parse_program(TILED.format(**HOSTILE[names]))
    for seed in range(4):
        _same(space.sample(seed), other)


BY_HAND = """schedule s for p {
    let cut ~ perfect_tile(relu.i, n = 2)
    let a, b = relu.i.split(cut)
    let place ~ compute_location(mm)
    mm.compute_at(place)
    let panel = mm.cache_read(B, scope = global)
    panel.ax1.vectorize()
}"""


@pytest.mark.parametrize("names", HOSTILE)
def test_a_schedule_by_hand_moves_to_a_renamed_program(names: str) -> None:
    program = parse_program(TILED.format(**OWN))
    space = space_of_text(BY_HAND, program)
    other = parse_program(TILED.format(**HOSTILE[names]))
    places = set()
    for seed in range(8):
        candidate = space.sample(seed)
        places.add(candidate.decisions["place"])
        _same(candidate, other)
    assert any(str(p).startswith("at(") for p in places), places


SIZED = "program p[{M}: dyn(1..64)](A: f32[{M}, 64], out C: f32[{M}, 64]) {{ block cc[i: {M}, j: 64] {{ {body} }} }}"


def test_a_trace_that_says_a_size_moves_to_a_program_with_another_name_for_it() -> None:
    body = "C[i, j] = A[i, j] + 1.0"
    recorded, other = (parse_program(SIZED.format(M=n, body=body)) for n in ("M", "N"))
    names = correspondence(recorded, other)
    assert names is not None
    text = """schedule s for p {
        let N, b = cc.j.split([_, M])
        cc.i.specialize(M % 16 == 0)
    }"""
    candidate = space_of_text(text, recorded).sample(0)
    moved = renamed(candidate.trace, names, other)
    made = replay(other, moved, strict=True).program
    assert workload_hash(made) == workload_hash(candidate.program)
    assert "M" not in {s.name for s in symbols_of(made)}
    assert structural_hash(space_of_text(moved.as_ms("moved"), other).sample(0, strict=True).program) == (
        structural_hash(made)
    )
