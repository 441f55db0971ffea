"""Traces, programs and records beside TVM itself. Where its wheel is not there, nothing of this runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

import mslang as ms
from mslang.interop import tvmscript
from mslang.interop.tvm import records
from mslang.interop.tvm.program_in import programs
from mslang.interop.tvm.program_out import to_graph
from mslang.interop.tvm.store import export_from, import_into
from mslang.interop.tvm.trace_in import import_trace
from mslang.interop.tvm.trace_json import from_data, to_data
from mslang.interop.tvm.trace_out import export_trace
from mslang.ir.equal import alpha_equal
from mslang.ir.find import blocks_of
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.schedule.replay import replay, space_of_text
from mslang.sema.modules import load
from mslang.sema.program import instantiate, parse_program
from mslang.target.detect import host
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Record

tvm: Any = pytest.importorskip("tvm")
pytest.importorskip("tvm.s_tir.meta_schedule")

Arrays = Mapping[str, NDArray[np.float32]]

GEMM = """program gemm(A: f32[64, 48], B: f32[48, 32], out C: f32[64, 32]) {
    alloc D: f32[64, 32]
    block mm[i: 64, j: 32 | k: 48] { D[i, j] += A[i, k] * B[k, j] }
    block relu[i: 64, j: 32] { C[i, j] = max(D[i, j], 0.0) }
}"""

SCHEDULE = """schedule s for gemm {
    let ti ~ perfect_tile(mm.i, n = 3, max_inner = 16)
    let tj ~ perfect_tile(mm.j, n = 2, max_inner = 16)
    let tk ~ perfect_tile(mm.k, n = 2)
    let i0, i1, i2 = mm.i.split(ti)
    let j0, j1 = mm.j.split(tj)
    let k0, k1 = mm.k.split(tk)
    reorder(i0, j0, i1, k0, k1, i2, j1)
    relu.reverse_compute_at(j0)
    let packed = mm.cache_read(B, global)
    packed.compute_at(j0)
    let u ~ choose([0, 16])
    k1.annotate("pragma_auto_unroll_max_step", u)
    let outer = fuse(i0, j0)
    outer.parallel()
    j1.vectorize()
    let zero = mm.decompose_reduction(k0)
}"""


def inputs() -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(5)
    return {
        "A": rng.standard_normal((64, 48), dtype=np.float32),
        "B": rng.standard_normal((48, 32), dtype=np.float32),
    }


def expected(given: Arrays) -> NDArray[np.float32]:
    return np.maximum(given["A"] @ given["B"], 0)


def target() -> Any:
    return tvm.target.Target({"kind": "llvm", "num-cores": 2})


def run_ours(program: Program, given: Arrays) -> NDArray[np.float32]:
    out = np.full((64, 32), np.nan, np.float32)
    ms.build(program, host())(given["A"], given["B"], out)
    return out


def run_theirs(module: Any, given: Arrays) -> NDArray[np.float32]:
    built = tvm.compile(module, target=target())
    out = tvm.runtime.tensor(np.zeros((64, 32), np.float32))
    built["main"](tvm.runtime.tensor(given["A"]), tvm.runtime.tensor(given["B"]), out)
    return np.asarray(out.numpy())


def their_schedule(program: Program, trace: ms.Trace) -> Any:
    schedule = tvm.s_tir.Schedule(tvm.ir.load_json(to_graph(program)))
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(to_data(export_trace(program, trace).trace), schedule)
    return schedule


# ------------------------------------------------------------------ programs
@pytest.mark.parametrize("name", ["gemm", "conv2d", "softmax", "attention", "quantized_gemm", "scan"])
def test_our_programs_are_what_tvm_parses_from_its_own_text(name: str) -> None:
    ffi = pytest.importorskip("tvm_ffi")
    module = load(str(stdlib_folder() / "workloads" / f"{name}.ms"))
    for program in module.programs:
        p = instantiate(module, program, {})
        theirs = tvm.ir.load_json(to_graph(p))
        assert ffi.structural_equal(tvm.script.from_source(theirs.script()), theirs, map_free_vars=True)
        (again,) = programs(tvm.ir.save_json(theirs)).values()
        assert alpha_equal(replace(again, name=p.name), p)


# ------------------------------------------------------------------ traces
@pytest.mark.parametrize("seed", range(3))
def test_our_trace_gives_the_same_numbers_there(seed: int) -> None:
    program = parse_program(GEMM)
    candidate = space_of_text(SCHEDULE, program).sample(seed)
    theirs = their_schedule(program, candidate.trace)
    given = inputs()
    np.testing.assert_allclose(run_theirs(theirs.mod, given), expected(given), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(run_ours(candidate.program, given), expected(given), rtol=1e-4, atol=1e-4)


OWN_NAMES = """
# from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 48), "float32"), B: T.Buffer((48, 32), "float32"), C: T.Buffer((64, 32), "float32")):
    D = T.sblock_alloc_buffer((64, 32), "float32")
    for i, j, k in T.grid(64, 32, 48):
        with T.sblock("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(64, 32):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(D[vi, vj], T.float32(0))
"""


def test_a_trace_goes_to_a_module_of_their_own_by_the_names_there() -> None:
    (function,) = tvmscript.read(OWN_NAMES).functions
    assert function.blocks == {"D": "D_block", "C": "C_block"}
    s = ms.Schedule(function.program)
    product = s.get("D_block")
    i = s.axis("D_block", "vi")
    outer, inner = s.split(i, [None, 8])
    s.compute_at(s.cache_read(product, s.get("A"), "local"), outer)
    s.decompose_reduction(product, inner)
    s.reverse_compute_at(s.get("C_block"), outer)
    s.unroll(s.loops(s.get("C_block"))[-1])
    trace = export_trace(function.program, s.trace, blocks=function.blocks).trace
    schedule = tvm.s_tir.Schedule(tvm.script.from_source(OWN_NAMES))
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(to_data(trace), schedule)
    given = inputs()
    np.testing.assert_allclose(run_theirs(schedule.mod, given), expected(given), rtol=1e-4, atol=1e-4)
    for name in ("A_local", "D_init", "D_update", "C"):
        schedule.get_sblock(name)


def test_the_loops_are_the_same_there() -> None:
    program = parse_program(GEMM)
    candidate = space_of_text(SCHEDULE, program).sample(1)
    theirs = their_schedule(program, candidate.trace)
    schedule = ms.Schedule(candidate.program)
    for name, called in (("mm_update", "mm_update"), ("zero", "mm_init"), ("relu", "relu")):
        ours = [schedule.extent(h) for h in schedule.loops(schedule.get(name))]
        block = theirs.get_sblock(called)
        assert ours == [int(theirs.get(h).extent) for h in theirs.get_loops(block)]


PRIMITIVES = json.loads((Path(__file__).parents[1] / "data" / "tvm" / "primitives.json").read_text())


@pytest.mark.parametrize("entry", PRIMITIVES, ids=[e["name"] for e in PRIMITIVES])
def test_what_goes_there_and_back_is_the_same_program_there(entry: dict[str, Any]) -> None:
    ffi = pytest.importorskip("tvm_ffi")
    program = parse_program(entry["program"])
    recorded = tvm.s_tir.Schedule(tvm.ir.load_json(to_graph(program)))
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(entry["trace"], recorded)
    again = their_schedule(program, import_trace(program, from_data(entry["trace"])).trace)
    assert ffi.structural_equal(recorded.mod, again.mod, map_free_vars=True)


# ------------------------------------------------------------------ tune there, run here
def test_tune_in_tvm_import_the_record_replay_build_and_verify_here(tmp_path: Path) -> None:
    meta = tvm.s_tir.meta_schedule
    program = parse_program(GEMM)
    meta.tune_tir(
        tvm.ir.load_json(to_graph(program)),
        target(),
        work_dir=str(tmp_path / "db"),
        max_trials_global=3,
        num_trials_per_iter=3,
        strategy="replay-trace",
        cost_model="none",
        builder=meta.builder.LocalBuilder(max_workers=1, timeout_sec=120),
        runner=meta.runner.LocalRunner(timeout_sec=60),
        num_tuning_cores=1,
        seed=1,
    )
    found = records.read_database(tmp_path / "db")
    assert found.diagnostics == ()
    ((workload, trials),) = found.tuned()
    assert alpha_equal(replace(workload.program, name=program.name), program)
    assert len(trials) == 3 and trials[0].seconds is not None
    given = inputs()
    for trial in trials:
        done = import_trace(program, trial.trace)
        assert alpha_equal(replay(program, done.trace).program, done.program)
        np.testing.assert_allclose(run_ours(done.program, given), expected(given), rtol=1e-4, atol=1e-4)

    with Database(tmp_path / "records.db") as store:
        moved = import_into(store, found, "db")
        assert moved.count >= 1 and moved.diagnostics == ()
        kept = [r for r in store.records() if isinstance(r, Record)]
        assert {r.result.outcome for r in kept} == {Outcome.ELSEWHERE}
        assert store.top() == []
        assert export_from(store, tmp_path / "out", [None], {"kind": "llvm"}).diagnostics == ()
    back = meta.database.JSONDatabase(
        path_workload=str(tmp_path / "out" / records.WORKLOADS),
        path_tuning_record=str(tmp_path / "out" / records.RECORDS),
    )
    theirs = back.get_all_tuning_records()
    assert len(theirs) == moved.count
    for record in theirs:
        schedule = tvm.s_tir.Schedule(record.workload.mod)
        record.trace.apply_to_schedule(schedule, remove_postproc=False)
        np.testing.assert_allclose(run_theirs(schedule.mod, given), expected(given), rtol=1e-4, atol=1e-4)


ODD = """program gemm(A: f32[30, 29], B: f32[29, 31], out C: f32[30, 31]) {
    block mm[i: 30, j: 31 | k: 29] { C[i, j] += A[i, k] * B[k, j] }
}"""


def test_tvm_finds_the_copies_that_pad() -> None:
    program = parse_program(ODD)
    s = ms.Schedule(program)
    mm = s.get("mm")
    s.reindex(mm, s.get("A"), access="read")
    s.pad_einsum(mm, [16, 16, 16])
    s.compute_inline(s.get("A_reindex_1_pad"))
    (again,) = programs(tvm.ir.save_json(their_schedule(program, s.trace).mod)).values()
    assert [b.name for b in blocks_of(again.body)] == ["A_reindex_reindex", "B_pad", "mm", "C_pad"]
