"""The analytical draft: what must make a candidate slower does so by estimate, and it agrees with recorded times."""

import json
from pathlib import Path

import numpy as np
import pytest

import mslang as ms
from mslang.schedule.batch.layout import DecisionBatch
from mslang.schedule.sketch import Sketch
from mslang.search.draft import Draft
from mslang.search.features.task import DRAFT, features_of
from mslang.target.description import AVX512, SM_80, Target

WORKLOADS = Path(__file__).parents[3] / "stdlib" / "workloads"
RECORDED = Path(__file__).parents[2] / "data" / "costs"

SCALE = """
program scale(A: f32[1048576], out B: f32[1048576]) { block b[i: 1048576] { B[i] = A[i] * 2.0 } }
schedule tiled for scale {
    let t ~ perfect_tile(b.i, 3)
    let outer, middle, inner = b.i.split(t)
    outer.parallel()
    inner.vectorize()
}
"""
ON_GPU = """
program scale(A: f32[1048576], out B: f32[1048576]) { block b[i: 1048576] { B[i] = A[i] * 2.0 } }
schedule apart for scale {
    let t ~ perfect_tile(b.i, 3)
    let blocks, threads, inner = b.i.split(t)
    blocks.bind(blockIdx.x)
    threads.bind(threadIdx.x)
}
"""
CORES = Target("cores", vector_bits=512, registers=32, cores=16)


def sketch_of(text: str, name: str) -> Sketch:
    return next(ms.parse(text).space(name).sketches())


def seconds(sketch: Sketch, target: Target, *tiles: tuple[int, ...]) -> list[float]:
    batch = sketch.batch().of([{"t": t} for t in tiles])
    return Draft(sketch, target).seconds(batch).tolist()


def test_vectors_and_cores_make_it_faster() -> None:
    sketch = sketch_of(SCALE, "tiled")
    scalar, vector, cores = seconds(sketch, CORES, (1, 1048576, 1), (1, 65536, 16), (16, 4096, 16))
    assert scalar > vector > cores


def test_work_that_does_not_divide_evenly_among_the_cores_is_slower() -> None:
    sketch = sketch_of(SCALE.replace("perfect_tile", "tile"), "tiled")
    even, uneven = seconds(sketch, CORES, (16, 4096, 16), (17, 3856, 16))
    assert uneven > 1.5 * even


def test_threads_that_access_neighbours_are_faster_than_threads_apart() -> None:
    sketch = sketch_of(ON_GPU, "apart")
    together, apart, one_warp = seconds(sketch, SM_80, (4096, 256, 1), (128, 256, 32), (1, 32, 32768))
    assert together < apart < one_warp


def test_a_program_of_a_known_roofline() -> None:
    # 8 MiB through the third level: 2^17 lines of 20 cycles at 3 GHz, and one core.
    (found,) = seconds(sketch_of(SCALE, "tiled"), AVX512, (1, 65536, 16))
    assert found == pytest.approx(131072 * 20 / 3e9, rel=0.3)


def test_the_draft_is_a_column_of_the_features() -> None:
    sketch = next(ms.load(WORKLOADS / "gemm.ms").space("tiled", target=AVX512).sketches())
    drawn = sketch.batch().draw(100, 0)
    drawn = drawn[sketch.batch().valid(drawn)]
    features = features_of([sketch], AVX512)
    assert features.names[-1] == DRAFT
    np.testing.assert_allclose(
        features.rows(0, drawn)[:, -1], np.log2(Draft(sketch, AVX512).seconds(drawn)), rtol=1e-4, atol=1e-4
    )


def test_a_correction_changes_the_draft_alone() -> None:
    sketch = next(ms.load(WORKLOADS / "gemm.ms").space("tiled", target=AVX512).sketches())
    features = features_of([sketch], AVX512)
    drawn: DecisionBatch = sketch.batch().draw(10, 0)
    corrected = features.corrected(lambda stores: np.full(len(stores), float(stores.shape[1])))
    plain, found = features.rows(0, drawn), corrected.rows(0, drawn)
    np.testing.assert_array_equal(plain[:, :-1], found[:, :-1])
    np.testing.assert_allclose(found[:, -1] - plain[:, -1], len(features.stores(0, drawn)[0]), rtol=1e-5)


def ranks(x: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(x))


@pytest.mark.parametrize("name", ["gemm", "conv2d", "depthwise"])
def test_it_agrees_with_recorded_times(name: str) -> None:
    """Random candidates of one structure of the automatic space, timed on two cores (AMD Zen 4) under load."""
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    target = Target(**recorded["target"])
    sketch = next(ms.parse(recorded["text"]).space("recorded", target=target).sketches())
    values = [{k: tuple(v) if isinstance(v, list) else v for k, v in t["values"].items()} for t in recorded["trials"]]
    batch = sketch.batch().of(values)
    assert sketch.batch().valid(batch).all()
    times = np.array([t["seconds"] for t in recorded["trials"]])
    assert np.corrcoef(ranks(Draft(sketch, target).seconds(batch)), ranks(times))[0, 1] > 0.5
