"""TVMScript against TVM itself: what it prints is read, what is written it takes, and both mean the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from mslang.backend.reference.interpret import run
from mslang.interop import tvmscript
from mslang.ir.equal import alpha_equal
from mslang.ir.expr import Const
from mslang.ir.print import print_program
from mslang.ir.program import Program
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from tests.property.arrays import NUMPY
from tests.property.drawn_programs import drawn_program

pytestmark = pytest.mark.peer
tvm = pytest.importorskip("tvm")
tvm_ffi = pytest.importorskip("tvm_ffi")
te = pytest.importorskip("tvm.te")
library = pytest.importorskip("tvm.s_tir.meta_schedule.testing.te_workload")

WORKLOADS: dict[str, Callable[[], Any]] = {
    "C1D": lambda: library.conv1d_nlc(1, 8, 3, 4, 3, 2, 1),
    "C2D": lambda: library.conv2d_nhwc(1, 6, 6, 3, 4, 3, 1, 1),
    "C3D": lambda: library.conv3d_ndhwc(1, 4, 4, 4, 2, 3, 3, 1, 1),
    "GMM": lambda: library.batch_matmul_nkkm(2, 4, 5, 6),
    "GMM int8": lambda: library.batch_matmul_nkkm(2, 4, 5, 6, "int8", "int32"),
    "GRP": lambda: library.conv2d_nhwc(1, 6, 6, 4, 4, 3, 2, 1, 1, 2),
    "DIL": lambda: library.conv2d_nhwc(1, 8, 8, 3, 4, 3, 1, 1, 2),
    "DEP": lambda: library.depthwise_conv2d_nhwc(1, 6, 6, 4, 3, 1, 1),
    "T2D": lambda: library.conv2d_transpose_nhwc(1, 4, 4, 3, 2, 4, 2, 1),
    "CAP": lambda: library.conv2d_capsule_nhwijc(1, 4, 4, 2, 3, 3, 1, 1),
    "NRM": lambda: library.norm_bmn(2, 5, 6),
    "SFM": lambda: library.softmax_mn(4, 5),
    "CBR": lambda: library.conv2d_nhwc_bn_relu(1, 6, 6, 3, 4, 3, 1, 1),
    "TBG": lambda: library.transpose_batch_matmul(1, 4, 2, 3),
}


def same_function(a: Any, b: Any) -> bool:
    """Structural equality, whatever the functions are called."""
    return bool(tvm_ffi.structural_equal(a.with_attr("global_symbol", "main"), b.with_attr("global_symbol", "main")))


def shapes(p: Program) -> list[tuple[int, ...]]:
    return [tuple(int(n.value) for n in q.buffer.shape if isinstance(n, Const)) for q in p.params]


def agree(p: Program, function: Any) -> None:
    """The interpreter and TVM's build compute the same."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 4, shape).astype(NUMPY[q.buffer.dtype]) for q, shape in zip(p.params, shapes(p), strict=True)
    ]
    given = {q.buffer.name: a for q, a in zip(p.params, arrays, strict=True) if q.direction != "out"}
    expected = run(p, given)
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    tvm.compile(function, target="llvm")(*tensors)
    for q, t in zip(p.params, tensors, strict=True):
        if q.direction != "in":
            np.testing.assert_allclose(t.numpy(), expected[q.buffer.name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WORKLOADS)
def test_its_workloads_come_and_go(name: str) -> None:
    function = te.create_prim_func(WORKLOADS[name]())
    p = tvmscript.parse_one(function.script())
    assert alpha_equal(parse_program(print_program(p)), p)
    assert same_function(tvm.script.from_source(tvmscript.print(p)), function)
    agree(p, function)


LIBRARY = sorted((Path(__file__).parents[2] / "stdlib" / "workloads").glob("*.ms"))


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_our_workloads_are_taken(path: Path) -> None:
    module = load(str(path))
    for name in module.programs:
        p = instantiate(module, name, {})
        function = tvm.script.from_source(tvmscript.print(p))
        # TVM computes constants (`3 // 2`) as it reads; what it makes of them goes through unchanged.
        back = tvmscript.parse_one(function.script())
        assert same_function(tvm.script.from_source(tvmscript.print(back)), function)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_programs_mean_the_same_there(seed: int) -> None:
    p = drawn_program(Random(seed))
    agree(p, tvm.script.from_source(tvmscript.print(p)))


def test_what_it_schedules_is_read() -> None:
    function = te.create_prim_func(library.matmul_relu(8, 8, 8))
    s = tvm.s_tir.Schedule(function)
    block = s.get_sblock("C")
    i, j, k = s.get_loops(block)
    i0, i1 = s.split(i, [None, 4])
    s.reorder(i0, k, i1, j)
    s.parallel(i0)
    s.vectorize(j)
    s.decompose_reduction(block, k)
    s.annotate(i0, "pragma_x", 1)
    local = s.cache_write(s.get_sblock("compute"), 0, "local")
    s.reverse_compute_at(local, s.get_loops(s.get_sblock("compute"))[0])
    p = tvmscript.parse_one(s.mod["main"].script())
    assert same_function(tvm.script.from_source(tvmscript.print(p)), s.mod["main"])
    agree(p, s.mod["main"])


def test_a_module_is_taken_whole() -> None:
    p = tvmscript.parse_one(te.create_prim_func(library.matmul(4, 4, 4)).script())
    module = tvm.script.from_source(tvmscript.print(p, p))
    assert len(tvmscript.parse(module.script())) == len(module.functions) == 2


@pytest.mark.parametrize("condition", ["A[x] == x", "x + 1 != A[x]", "A[x] == 3", "select(x < 3, x, A[x]) == -A[x]"])
def test_tvm_takes_equalities_of_indices_and_data(condition: str) -> None:
    p = parse_program(f"program p(A: i64[8], out B: i32[8]) {{ block b[x: 8] {{ B[x] = select({condition}, 1, 0) }} }}")
    taken = tvm.script.from_source(tvmscript.print(p))
    agree(p, taken)
