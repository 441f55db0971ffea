"""Constant operands in the automatic spaces for CPUs: they are packed ahead of time, and no call packs them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.ir.find import blocks_of
from mslang.ir.program import Program
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.rules.default_cpu import default_schedule
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Space
from mslang.sema.program import parse_program
from mslang.target.description import AVX2, AVX512, Target
from mslang.target.detect import host
from mslang.tune.equivalence import difference
from tests.choice import Chosen

VNNI = replace(AVX512, name="vnni", features=(*AVX512.features, "avx512vnni"))

DENSE = """program dense[M = 7, N = 37, K = 9](A: f32[M, K], const W: f32[{w}], b: f32[N], out C: f32[M, N]) {{
    alloc T: f32[M, N]
    block mm[i: M, j: N | k: K] {{ T[i, j] += A[i, k] * W[{at}] }}
    block add[i: M, j: N] {{ C[i, j] = max(T[i, j] + b[j], 0.0) }}
}}"""
PROGRAMS = {
    "rows": DENSE.format(w="K, N", at="k, j"),
    "columns": DENSE.format(w="N, K", at="j, k"),
    "batched": """program bmm(A: f32[3, 5, 9], const W: f32[3, 9, 19], out C: f32[3, 5, 19]) {
        block mm[b: 3, i: 5, j: 19 | k: 9] { C[b, i, j] += A[b, i, k] * W[b, k, j] }
    }""",
    "convolution": """program conv(X: f32[7, 9, 3], const F: f32[3, 3, 3, 17], out Y: f32[5, 7, 17]) {
        block conv[h: 5, w: 7, co: 17 | r: 3, s: 3, ci: 3] { Y[h, w, co] += X[h + r, w + s, ci] * F[r, s, ci, co] }
    }""",
    "twice": """program twice(A: f32[6, 20], const W: f32[20, 20], out C: f32[6, 20]) {
        alloc T: f32[6, 20]
        block one[i: 6, j: 20 | k: 20] { T[i, j] += A[i, k] * W[k, j] }
        block two[i: 6, j: 20 | k: 20] { C[i, j] += T[i, k] * W[k, j] }
    }""",
    "copied": """program copied(A: f32[6, 20], const W: f32[20, 20], out C: f32[6, 20], out D: f32[20, 20]) {
        block mm[i: 6, j: 20 | k: 20] { C[i, j] += A[i, k] * W[k, j] }
        block copy[i: 20, j: 20] { D[j, i] = W[i, j] + 1.0 }
    }""",
    "bytes": """program bytes(A: i8[6, 64], const W: i8[64, 32], out C: i32[6, 32]) {
        block mm[i: 6, j: 32 | k: 64] { C[i, j] += i32(A[i, k]) * i32(W[k, j]) }
    }""",
}


def packed(p: Program) -> list[str]:
    return [q.buffer.name for q in p.params if q.packing is not None]


def sketches(space: Space) -> Iterator[Sketch]:
    for s in space.structures():
        assert isinstance(s, Sketch), s.diagnostic.message
        yield s


CASES = [*((n, (AVX2, VNNI)[k % 2]) for k, n in enumerate(PROGRAMS) if n != "bytes"), ("bytes", AVX2), ("bytes", VNNI)]


@pytest.mark.parametrize(("name", "target"), CASES, ids=lambda x: getattr(x, "name", x))
@pytest.mark.one_in(2)
def test_every_alternative_means_the_same(name: str, target: Target, chosen: Chosen) -> None:
    space = automatic_space(parse_program(PROGRAMS[name]), target)
    ahead = 0
    for k, sketch in enumerate(sketches(space)):
        ahead += bool(packed(sketch.program))
        if not chosen(k, 2):
            continue
        batch = sketch.batch()
        drawn = batch.draw(20, seed=k)
        for row in np.flatnonzero(batch.valid(drawn))[:1]:
            program = sketch.instantiate(drawn.row(int(row)))
            assert packed(program) == packed(sketch.program)
            if name != "bytes" or set(target.features) <= set(host().features):
                assert difference(space.program, program, 1e-4, 1e-4, k) is None
    assert ahead or (name == "bytes" and target is AVX2)


@pytest.mark.parametrize("name", ["rows", "columns", "batched", "convolution", "bytes"])
def test_nothing_is_packed_in_a_call(name: str) -> None:
    space = automatic_space(parse_program(PROGRAMS[name]), VNNI)
    for sketch in sketches(space):
        made = [b.name for b in blocks_of(sketch.program.body)]
        assert not [n for n in made if n.startswith(("W_global", "F_global"))], "no copy of the operand"


def test_the_same_program_without_the_word_copies_its_operand() -> None:
    plain = PROGRAMS["columns"].replace("const ", "")
    found = list(sketches(automatic_space(parse_program(plain), AVX512)))
    assert found and not any(packed(s.program) for s in found)
    assert any("W_global" in b.name for s in found for b in blocks_of(s.program.body))


def test_panels_are_of_one_vector_and_filled_up() -> None:
    space = automatic_space(parse_program(PROGRAMS["columns"]), AVX512)
    assert {dict(s.structure)["tile:mm"] for s in sketches(space)} == {"columns_ahead", "rows_ahead"}
    (w,) = (q for q in next(sketches(space)).program.params if q.buffer.name == "W")
    assert [n.value for n in w.buffer.shape] == [3, 9, 16] and w.constant  # type: ignore[attr-defined]
    assert w.packing is not None and w.packing.pad is not None


def test_an_operand_that_is_contiguous_may_stay_as_it_is() -> None:
    space = automatic_space(parse_program(PROGRAMS["rows"]), AVX512)
    taken = {str(dict(s.structure)["tile:mm"]) for s in sketches(space)}
    assert {"columns_direct", "columns_ahead"} <= taken and not any("packed" in x or "panel" in x for x in taken)


def test_constants_of_a_size_of_the_call_are_not_packed() -> None:
    p = parse_program("""program p[N: dyn(1..64)](A: f32[6, 8], const W: f32[8, N], out C: f32[6, N]) {
        block mm[i: 6, j: N | k: 8] { C[i, j] += A[i, k] * W[k, j] }
    }""")
    assert not any(packed(s.program) for s in sketches(automatic_space(p, AVX512)))


def test_bytes_lie_as_the_instruction_reads_them() -> None:
    (sketch,) = sketches(automatic_space(parse_program(PROGRAMS["bytes"]), VNNI))
    (w,) = (q for q in sketch.program.params if q.buffer.name == "W")
    assert [n.value for n in w.buffer.shape] == [2, 16, 16, 4]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "bytes"])
def test_the_schedule_without_a_search_packs_ahead(name: str) -> None:
    p = parse_program(PROGRAMS[name])
    found = default_schedule(p, AVX2).program
    assert packed(found) and difference(p, found, 1e-4, 1e-4, 0) is None
    plain = parse_program(PROGRAMS[name].replace("const ", ""))
    assert not packed(default_schedule(plain, AVX2).program)
