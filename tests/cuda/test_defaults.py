"""Default schedules for GPUs: every workload of the library, by the interpreter and in the emulation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mslang.backend.backend import Options
from mslang.backend.cuda.backend import CUDA
from mslang.backend.cuda.default import default_schedule
from mslang.backend.reference import interpret
from mslang.ir.find import all_buffers
from mslang.ir.program import Program
from mslang.lower.gpu import lower
from mslang.schedule.decisions import Drawing
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.gpu.auto import schedule_threads
from mslang.schedule.rules.gpu.nests import has_bound_loop, unbound
from mslang.schedule.rules.nests import do
from mslang.schedule.session import Session
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.target.description import SM_80
from mslang.tune.verification import SPARSE, make_inputs
from tests.cuda.campaign import generator_of
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import as_numbers, made, run
from tests.property.arrays import outputs_equal
from tests.property.campaign import GENERATORS

DRAWN_SEED, DRAWN = 13, 24
FOLDER = Path(__file__).parents[2] / "stdlib" / "workloads"
WORKLOADS: Mapping[str, Mapping[str, int]] = {
    "attention.attention": {"B": 2, "L": 9, "T": 40, "D": 10},
    "batch_gemm.batch_gemm": {"BATCH": 2, "M": 17, "N": 20, "K": 19},
    "batch_norm.batch_norm": {"N": 2, "H": 3, "W": 4, "C": 20},
    "batch_norm.batch_norm_train": {"N": 2, "H": 5, "W": 7, "C": 21},
    "blur.blur": {"H": 21, "W": 40},
    "conv1d.conv1d_nlc": {"L": 19, "CI": 9, "CO": 17},
    "conv2d.conv2d_nhwc": {"H": 9, "W": 9, "CI": 8, "CO": 10},
    "conv2d_capsule.conv2d_capsule_nhwc": {"H": 5, "W": 5, "CI": 3, "CO": 8, "CAP": 2},
    "conv2d_nchw.conv2d_nchw": {"H": 8, "W": 7, "CI": 9, "CO": 10},
    "conv2d_nchw.conv2d_grouped": {"H": 8, "W": 7, "CI": 8, "CO": 12},
    "conv2d_nchwc_int8.conv2d_nchwc_int8": {"H": 6, "W": 6, "CI": 8, "CO": 16, "VI": 4, "VO": 8},
    "conv2d_transposed.conv2d_transposed_nhwc": {"H": 3, "W": 4, "CI": 9, "CO": 9},
    "conv3d.conv3d_ndhwc": {"D": 3, "H": 4, "W": 9, "CI": 8, "CO": 9},
    "dense.dense_bias_relu": {"M": 9, "N": 20, "K": 17},
    "depthwise.depthwise_nhwc": {"H": 6, "W": 7, "C": 9},
    "gemm.gemm": {"M": 33, "N": 35, "K": 17},
    "layer_norm.layer_norm": {"M": 3, "N": 37},
    "norm.matrix_norm": {"B": 3, "M": 7, "N": 9},
    "pool.max_pool": {"H": 9, "W": 8, "C": 19},
    "pool.average_pool": {"H": 8, "W": 6, "C": 19},
    "pool.global_average_pool": {"H": 7, "W": 6, "C": 19},
    "quantized_gemm.quantized_gemm": {"M": 12, "N": 20, "K": 24},
    "reduce.row_sum": {"M": 3, "N": 300},
    "reduce.row_max": {"M": 3, "N": 40},
    "reduce.argmax": {"M": 3, "N": 37},
    "scan.cumulative_sum": {"M": 5, "N": 17},
    "softmax.softmax": {"M": 3, "N": 70},
    "spmv.spmv": {"N": 7, "M": 5, "NNZ": 23},
    "transpose.transpose": {"M": 40, "N": 36},
}
"""Module and program, and sizes: tails everywhere."""


def workload(name: str) -> Program:
    """The program of a workload, small."""
    home, _, program = name.partition(".")
    module = load(f"{home}.ms", (FOLDER / f"{home}.ms").read_text())
    return instantiate(module, program, WORKLOADS[name])


@cache
def scheduled(name: str) -> Program:
    """The workload as it is compiled for a GPU."""
    return CUDA.scheduled(workload(name), SM_80)


def arrays_for(program: Program) -> dict[str, np.ndarray]:
    """Small integers, mostly zeros; within declared ranges where there are any."""
    return dict(make_inputs(program, SPARSE, seed=5))


def test_every_workload_of_the_library_is_here():
    names = {f"{f.stem}.{p}" for f in FOLDER.glob("*.ms") for p in load(str(f), f.read_text()).programs}
    assert names == set(WORKLOADS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WORKLOADS)
def test_threads_share_every_nest(name: str):
    program = scheduled(name)
    assert has_bound_loop(program)
    assert unbound(program) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_result_is_that_of_the_program(name: str):
    program = workload(name)
    arrays = arrays_for(program)
    wanted, found = (interpret.run(p, arrays, check=False) for p in (program, scheduled(name)))
    for k, array in wanted.items():
        np.testing.assert_allclose(found[k], array, rtol=1e-5, atol=1e-6)


SMALL = {
    "whole": "program whole(X: f32[100], out Y: f32[]) { block s[| j: 100] { Y[] += X[j] } }",
    "parts": "program parts(X: f32[81920], out Y: f32[]) { block s[| j: 81920] { Y[] += X[j] } }",
    "gemv": """program gemv(A: f32[5, 70], x: f32[70], out y: f32[5]) {
        block s[i: 5 | k: 70] { y[i] += A[i, k] * x[k] }
    }""",
    "columns": "program columns(X: f32[50, 40], out Y: f32[40]) { block s[c: 40 | n: 50] { Y[c] += X[n, c] } }",
    "stages": """program stages(A: f32[8, 512], out B: f32[8, 512]) {
        alloc T: f32[8, 512]
        block twice[i: 8, j: 512] { T[i, j] = A[i, j] * 2.0 }
        block more[i: 8, j: 512] { B[i, j] = exp(T[i, j]) }
    }""",
    "point": "program point(A: f32[3], out B: f32[]) { block b[] { B[] = A[1] } }",
}
"""Kinds of nests that the library has no program of."""


def primitives(program: Program) -> list[str]:
    """What the default schedule does, in order."""
    session = Session(program, Drawing(0))
    schedule_threads(session)
    return [i.op for i in session.instructions]


def test_a_whole_array_is_reduced_in_two_kernels_where_it_is_large():
    kernels = {n: len(lower(CUDA.scheduled(parse_program(SMALL[n]), SM_80), SM_80).functions) for n in SMALL}
    assert kernels == {"whole": 1, "parts": 2, "gemv": 1, "columns": 1, "stages": 1, "point": 1}


def test_elementwise_stages_are_inlined_and_vectorized():
    assert primitives(parse_program(SMALL["stages"])) == [
        *("compute_inline", "fuse", "split", "bind", "bind", "vectorize"),
    ]


def test_products_go_through_shared_memory():
    program = scheduled("gemm.gemm")
    assert {b.scope for b in all_buffers(program).values()} == {"global", "shared", "local"}


def test_what_two_kernels_access_is_in_global_memory():
    """`local` is said of a CPU, where it means the stack; the counter of a `while` loop is read by the host, too."""
    program = parse_program("""program p(A: f32[8, 40], inout U: i32[3], out B: f32[40, 8]) {
        alloc T: f32[8, 40] @ local
        alloc n: i32[1] @ local
        block sums[i: 8, j: 40 | k: 40] { T[i, j] += A[i, k] }
        block start[] { n[0] = 0 }
        while n[0] < 3 {
            for l in 3 { block more[i: 3 = l] { U[i] = U[i] + n[0] } }
            block count[] { n[0] = n[0] + 1 }
        }
        block turn[i: 8, j: 40] { B[j, i] = T[i, j] + A[i, j] }
    }""")
    scheduled = CUDA.scheduled(program, SM_80)
    assert {b.name: b.scope for b in scheduled.allocs if b.name in ("T", "n")} == {"T": "global", "n": "global"}
    assert len(lower(scheduled, SM_80).functions) > 1
    arrays = arrays_for(program)
    for k, array in interpret.run(program, arrays, check=False).items():
        np.testing.assert_array_equal(interpret.run(scheduled, arrays, check=False)[k], array)


def test_a_chain_of_reductions_is_one_kernel():
    assert len(lower(scheduled("softmax.softmax"), SM_80).functions) == 1
    assert len(lower(scheduled("layer_norm.layer_norm"), SM_80).functions) == 1


def test_a_program_that_binds_a_loop_is_left_as_it_is():
    program = parse_program(SMALL["stages"])
    session = Session(program, Drawing(0))
    do(session, "bind", session.axis(session.named("more"), "j"), "threadIdx.x")
    assert CUDA.scheduled(session.program, SM_80) == session.program
    assert default_schedule(session.program, SM_80).trace.instructions == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_default_is_a_candidate_that_its_trace_gives_again(name: str):
    """So it can be on record."""
    candidate = default_schedule(workload(name), SM_80)
    assert candidate.program == scheduled(name) and candidate.decisions == {}
    assert space_of_text(candidate.trace.as_ms("again"), workload(name)).sample(0).program == candidate.program


def test_the_rule_stands_in_schedules():
    text = f"use std.cuda.{{auto, sm_80}}\n{SMALL['gemv']}\nspace s for gemv on sm_80 = auto\n"
    made = space_of(load("test.ms", text), "s").sample(0).program
    assert made == CUDA.scheduled(parse_program(SMALL["gemv"]), SM_80)


def test_the_back_end_compiles_what_the_threads_combine():
    source = CUDA.built(parse_program(SMALL["gemv"]), SM_80, Options(text_only=True)).source.text
    assert "__shfl_xor_sync" in source


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_emitted_source_computes_every_workload():
    programs = {n: workload(n) for n in WORKLOADS} | {n: parse_program(text) for n, text in SMALL.items()}
    kernels = [made(CUDA.scheduled(p, SM_80), SM_80) for p in programs.values()]
    with Emulated(*(k.source.text for k in kernels)) as file:
        for number, ((name, program), kernel) in enumerate(zip(programs.items(), kernels, strict=True)):
            arrays = arrays_for(program)
            found = run(kernel, arrays, file, number)
            assert found.faults == (), name
            for k, array in interpret.run(program, arrays, check=False).items():
                np.testing.assert_allclose(found.results[k], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_drawn_programs_mean_the_same() -> None:
    """Programs of the campaign, branches and `while` loops above blocks among them, several launches each."""
    drawn = [GENERATORS[generator_of(n)].draw(DRAWN_SEED, n)[0] for n in range(DRAWN)]
    kernels = [made(CUDA.scheduled(before.program, SM_80)) for before in drawn]
    with Emulated(*(m.source.text for m in kernels)) as file:
        for k, (before, m) in enumerate(zip(drawn, kernels, strict=True)):
            for case, wanted in zip(before.cases, before.wanted, strict=True):
                ran = run(m, case.arrays, file, k, sizes=case.sizes)
                assert not ran.faults, ran.faults[0]
                assert outputs_equal(wanted, {n: as_numbers(m, n, a) for n, a in ran.results.items()})
