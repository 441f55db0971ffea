"""Features on arrays: hand-computed values, equal to those of the concrete program, blind to names."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from math import log2
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang.ir.arith.operations import OPERATIONS, SCALAR
from mslang.ir.expr import Binary, Choice, Const, DynamicRange, Symbol
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.sketch import Sketch
from mslang.search.features.ansor import ansor_features
from mslang.search.features.extractor import store_features
from mslang.search.features.order import ranked
from mslang.search.features.task import TaskFeatures, features_of
from mslang.search.formulas import Formulas
from mslang.search.summaries import summary_of
from mslang.target.description import AVX512, SM_80, Target

WORKLOADS = Path(__file__).parents[3] / "stdlib" / "workloads"

SCALE = """
program scale(A: f32[1024], out B: f32[1024]) { block b[i: 1024] { B[i] = A[i] * 2.0 } }
schedule tiled for scale {
    let t ~ perfect_tile(b.i, 2)
    let outer, inner = b.i.split(t)
    outer.parallel()
    inner.vectorize()
}
"""
GEMM = """
program gemm(A: f32[8, 8], B: f32[8, 8], out C: f32[8, 8]) {
    block c[i: 8, j: 8 | k: 8] { C[i, j] += A[i, k] * B[k, j] }
}
schedule plain for gemm { }
"""

CASES = [
    ("gemm.ms", "tiled", AVX512),
    ("gemm.ms", None, AVX512),
    ("conv2d.ms", "tiled", AVX512),
    ("conv2d.ms", None, AVX512),
    ("softmax.ms", "placed", AVX512),
    ("gemm.ms", "tiled", SM_80),
]


def only(space: object) -> Sketch:
    (sketch,) = space.sketches()  # type: ignore[attr-defined]
    return sketch


def stores(sketch: Sketch, batch: DecisionBatch, target: Target = AVX512) -> list[dict[str, float]]:
    """The features of the first candidate by store and name."""
    features = features_of([sketch], target)
    rows = features.stores(0, batch)[0]
    return [dict(zip(features.store_names, map(float, row), strict=True)) for row in rows]


def test_hand_computed_values_of_an_elementwise_program() -> None:
    sketch = only(ms.parse(SCALE).space("tiled"))
    (found,) = stores(sketch, sketch.batch().of([{"t": (64, 16)}]))
    expected = {
        "ops.float_mul": log2(1025),
        "ops.float_fma": 0.0,
        "vectorized.product": log2(17),
        "vectorized.inner_spatial": 1.0,
        "parallel.extent": log2(65),
        "parallel.outer_spatial": 1.0,
        "unrolled.none": 1.0,
        "buffer0.write": 1.0,
        "buffer1.read": 1.0,
        "buffer1.bytes": log2(4097),
        "buffer1.unique_bytes": log2(4097),
        "buffer1.lines": log2(65),
        "buffer1.unique_lines": log2(65),
        "buffer1.no_reuse": 1.0,
        "buffer1.bytes_by_reuse": log2(8193),
        "buffer1.stride": 1.0,
        "buffer2.bytes": 0.0,
        "intensity9": log2(1024 / 8192),
        "allocated.bytes": log2(4097),
        "loops.product": log2(1025),
        "loops.count": log2(3),
        "vector.lanes": log2(17),
        "vector.use": 1.0,
        "waste": 1.0,
        "l1.lines": log2(129),
        "l1.iterations": log2(1025),
    }
    assert {k: found[k] for k in expected} == pytest.approx(expected, rel=1e-5)


def test_hand_computed_reuse_of_a_product() -> None:
    sketch = only(ms.parse(GEMM).space("plain"))
    found = stores(sketch, sketch.batch().of([{}]))[0]
    reuse = {
        k: [2 ** found[f"buffer{k}.{n}"] - 1 for n in ("reuses", "reuse_iterations", "reuse_distance")]
        for k in range(3)
    }
    # The output is used again in each iteration of k; A for each j, after k has run; B for each i, after j and k have.
    assert reuse[0] == pytest.approx([8, 1, 12], rel=1e-4)
    assert reuse[1] == pytest.approx([8, 8, 68], rel=1e-4)
    assert reuse[2] == pytest.approx([8, 64, 320], rel=1e-4)
    assert [found[f"buffer{k}.loop_reuse"] for k in range(3)] == [1, 1, 1]
    assert (found["buffer0.update"], found["buffer1.read"]) == (1, 1)
    assert 2 ** found["buffer2.stride"] - 1 == pytest.approx(8, rel=1e-5)
    assert found["intensity9"] == pytest.approx(log2(1024 / 768), rel=1e-4)


def test_the_groups_have_164_values() -> None:
    summary = summary_of(only(ms.parse(GEMM).space("plain")).program, AVX512)
    f = Formulas()
    s = summary.statements[-1]
    from mslang.search.features.ansor import Around

    names = [name for name, _ in ansor_features(f, s, Around(s.accesses, (), None, 64, False))]
    assert len(names) == len(set(names)) == 57 + 90 + 10 + 4 + 3


@pytest.mark.parametrize("op", OPERATIONS)
def test_formulas_compute_what_the_table_of_operators_says(op: str) -> None:
    f = Formulas()
    for a, b in ((7, 2), (2, 2), (0, 3)):
        assert f.expr(Binary(op, Const(a), Const(b))).constant == SCALAR[op](a, b)
    f.expr(Binary(op, Symbol("x", Choice((1, 2))), Symbol("y", Choice((1, 2)))))
    rounded = {"//": ["true_divide", "floor"], "%": ["true_divide", "floor", "multiply", "subtract"]}
    exact = {"<<", ">>", "&", "|", "^"}
    assert [s.function for s in f.steps] == ([] if op in exact else rounded.get(op, [OPERATIONS[op].array]))


def test_a_dynamic_size_counts_as_the_greatest_of_its_range() -> None:
    f = Formulas()
    size = Symbol("M", DynamicRange(17, 70, multiple=8))
    assert f.expr(Binary("*", size, Const(2))).constant == 128
    assert f.expr(Binary(">>", size, Const(1))).constant == 32
    shift = Symbol("d", Choice((1, 2)))
    assert f.expr(Binary(">>", size, shift)).constant is None
    assert list(f.exact) == [Binary(">>", Const(64), shift)]


@lru_cache(maxsize=16)
def sketches(file: str, schedule: str | None, target: Target) -> list[Sketch]:
    module = ms.load(WORKLOADS / file)
    if schedule is None:
        space = automatic_space(module.program(next(iter(module.programs))), target)
    else:
        space = module.space(schedule, target=target)
    return list(islice(space.sketches(), 4))


def concrete(sketch: Sketch, batch: DecisionBatch, k: int, target: Target) -> Iterator[list[float]]:
    """The features of one candidate from the summary of its own program, a row a store."""
    order = ranked(summary_of(sketch.program, target), sketch.decisions)
    lowered = summary_of.__wrapped__(sketch.instantiate(batch.row(k)), target)
    f = Formulas()
    for at in order[:8]:
        found = [x for _, x in store_features(f, lowered, at, target)]
        assert all(x.constant is not None for x in found)
        yield [x.constant for x in found if x.constant is not None]


def check(file: str, schedule: str | None, target: Target, draws: int) -> None:
    for sketch in sketches(file, schedule, target)[-1:]:
        many = sketch.batch()
        drawn = many.draw(8 * draws, 3)
        drawn = drawn[many.valid(drawn)][:draws]
        found = features_of([sketch], target).stores(0, drawn)
        for k in range(len(drawn)):
            np.testing.assert_allclose(found[k], list(concrete(sketch, drawn, k, target)), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("file", "schedule", "target"), CASES)
def test_features_are_those_of_the_concrete_program(file: str, schedule: str | None, target: Target) -> None:
    check(file, schedule, target, 5)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("file", "schedule", "target"), CASES)
def test_features_are_those_of_the_concrete_program_in_a_thousand_draws(
    file: str, schedule: str | None, target: Target
) -> None:
    check(file, schedule, target, 1000)


def test_names_do_not_count() -> None:
    text = (WORKLOADS / "gemm.ms").read_text()
    program = ms.parse(text).program("gemm")
    renamed = ms.parse("""
program product(Y: f32[512, 512], X: f32[512, 512], out Result: f32[512, 512]) {
    block a_first[row: 512, column: 512 | inner: 512] { Result[row, column] += Y[row, inner] * X[inner, column] }
}
""").program("product")
    a, b = (list(automatic_space(p, AVX512).sketches()) for p in (program, renamed))
    fa, fb = features_of(a, AVX512), features_of(b, AVX512)
    assert fa.names == fb.names
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        drawn = x.batch().draw(64, 1)
        same = DecisionBatch(y.batch().layout, drawn.array)
        np.testing.assert_array_equal(fa.rows(k, drawn), fb.rows(k, same))


def test_a_row_has_the_same_width_for_all_sketches_and_tells_them_apart() -> None:
    found = sketches("softmax.ms", "placed", AVX512)
    features = features_of(found, AVX512)
    assert features.width == len(features.names) == len(set(features.names)) > 0
    rows = [features.rows(k, s.batch().draw(3, 0)) for k, s in enumerate(found)]
    assert {r.shape for r in rows} == {(3, features.width)}
    assert {r.dtype for r in rows} == {np.dtype(np.float32)}
    assert all(np.isfinite(r).all() for r in rows)


def test_rows_do_not_depend_on_how_a_batch_is_cut() -> None:
    sketch = sketches("gemm.ms", "tiled", AVX512)[0]
    features, drawn = features_of([sketch], AVX512), sketch.batch().draw(5000, 0)
    whole = features.rows(0, drawn)
    np.testing.assert_array_equal(whole[4990:], features.rows(0, drawn[4990:]))


class Trips:
    """A user's own extractor."""

    name = "trips"

    def rows(self, f, sketch, summary, target):
        return [[("trips", f.expr(s.trips).slog()), ("target", f.number(1.0))] for s in summary.statements]


def test_a_users_own_extractor() -> None:
    sketch = only(ms.parse(SCALE.replace("perfect_tile", "tile")).space("tiled"))
    features: TaskFeatures = features_of([sketch], AVX512, Trips())
    assert features.names == ("store0.trips", "draft")  # what is the same for all candidates is not a column
    rows = features.rows(0, sketch.batch().of([{"t": (11, 100)}, {"t": (64, 16)}]))
    np.testing.assert_allclose(rows[:, 0], np.log2([1101, 1025]), rtol=1e-6)


def test_a_loop_that_never_runs_has_features_that_are_numbers() -> None:
    program = ms.parse("""program p(A: f32[16], out B: f32[16]) {
        block b[i: 16] { B[i] = A[i] }
        for i in 4 { for j in 5..i { block c[x: 16 = j] { B[x] = 0.0 } } }
    }""").program()
    for sketch in automatic_space(program, AVX512).sketches():
        batch = sketch.batch().draw(4, 0)
        features = features_of([sketch], AVX512)
        assert np.isfinite(features.rows(0, batch)).all()
        assert np.isfinite(features.stores(0, batch)).all()
