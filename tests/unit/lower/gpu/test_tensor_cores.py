"""Instructions of a warp on fragments: who runs them, and where they wait."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from mslang.backend.cuda.source import cuda_source
from mslang.diagnostics import MsError
from mslang.ir.dtype import size_of
from mslang.ir.expr import Call, Const, Load
from mslang.ir.intrin import Formal
from mslang.ir.program import Buffer, Program
from mslang.kernel import Allocate, Evaluate, Function, If, Invoke, Launch, Module, Store
from mslang.kernel.verify import verify
from mslang.kernel.visit import walk
from mslang.lower.gpu import lower
from mslang.lower.gpu.barriers import synchronized
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import TARGETS
from mslang.transform.outcome import LoopRef
from mslang.transform.primitives.pipeline import pipeline
from tests.unit.lower.gpu.support import barriers

SAMPLE = Path(__file__).parents[3] / "fixtures" / "samples" / "wmma.ms"


@lru_cache
def wmma() -> Program:
    """A candidate of the sample that is not pipelined."""
    return sampled(SAMPLE.read_text())


def sampled(text: str) -> Program:
    """The first candidate of the sample's space, as this text has it, that is not pipelined."""
    space = space_of(load(str(SAMPLE), text), "wmma_shared")
    for seed in range(100):
        try:
            return space.sample(seed, {"pipeline": "off"}).program
        except MsError:
            continue
    raise AssertionError("no candidate")


def test_instructions_are_run_by_all_lanes():
    module = lower(wmma(), TARGETS["sm_80"])
    verify(module)
    (f,) = module.functions
    assert f.launch is not None and f.launch.block[0] == Const(32)
    guarded = [s for s in walk(f.body) if isinstance(s, If) and any(isinstance(x, Invoke) for x in walk((s,)))]
    assert not guarded
    names = {s.name for s in walk(f.body) if isinstance(s, Invoke)}
    assert names == {"fill_f32", "load_a", "load_b", "wmma_16x16x16", "store_f32"}


def test_a_tile_waits_before_it_is_filled_and_before_it_is_read():
    assert barriers(lower(wmma(), TARGETS["sm_80"])) == 2


def test_pipelined_fragments_wait_once_an_iteration():
    p = pipeline(wmma(), LoopRef("k0"), stages=3, copy="cp_async").program
    module = lower(p, TARGETS["sm_80"])
    verify(module)
    assert barriers(module) == 1
    body = module.functions[0].body
    sizes = {
        s.value.args[2]
        for s in walk(body)
        if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.args[1:]
    }
    assert sizes <= {Const(4), Const(8), Const(16)} and sizes
    shared = [s.buffer for s in walk(body) if isinstance(s, Allocate) and s.buffer.scope.startswith("shared")]
    assert all(b.shape[0] == Const(3) and b.strides is not None for b in shared) and len(shared) == 2


@pytest.mark.parametrize(
    ("schedule", "program"),
    [("f16_by_warps", "gemm_f16"), ("bf16_by_warps", "gemm_bf16"), ("s8_by_warps", "gemm_s8")],
)
def test_rows_that_ldmatrix_reads_at_once_lie_in_different_banks(schedule: str, program: str):
    """Eight rows of 16 bytes fill the 128 bytes of all banks once if rows are an odd number of 16 bytes apart."""
    text = f"""use std.cuda.{{sm_80}}
use std.cuda.gemm_mma.{{{schedule}}}
use std.cuda.{"gemm_f16" if program == "gemm_f16" else "gemm_mma"}.{{{program}}}
space s for {program} on sm_80 = {schedule}
"""
    (f,) = lower(space_of(load("test.ms", text), "s").sample(0).program, TARGETS["sm_80"]).functions
    held = [s.buffer for s in walk(f.body) if isinstance(s, Allocate) and s.buffer.scope == "shared.dyn"]
    assert len(held) == 2
    for b in held:
        assert b.strides is not None and isinstance(b.strides[-2], Const)
        assert divmod(int(b.strides[-2].value) * size_of(b.dtype), 16)[1] == 0
        assert int(b.strides[-2].value) * size_of(b.dtype) // 16 % 2 == 1


def tile(name: str, buffer: str, meaning: Store | None = None) -> Invoke:
    """An instruction on a fragment `F` and a tile of a buffer."""
    begin = tuple(Load(b, (Const(0), Const(0)), "f32") for b in (buffer, "F"))
    stored = Store("F", (Const(0), Const(0)), begin[0]) if meaning is None else meaning
    return Invoke(name, "", (Formal(buffer, "f32"), Formal("F", "f32")), (2, 2), begin, (stored,))


@pytest.mark.parametrize(("threads", "waits"), [(32, 0), (64, 1), (128, 1)])
def test_the_warps_of_one_row_wait_before_a_tile_that_others_may_still_load_is_stored(threads: int, waits: int):
    s, fragment = (Buffer(n, "f32", (Const(16), Const(16)), scope) for n, scope in (("S", "shared"), ("F", "wmma.acc")))
    load = tile("load", "S")
    store = tile("store", "S", Store("S", (Const(0), Const(0)), Load("F", (Const(0), Const(0)), "f32")))
    one = Const(1)
    body = (Allocate(s, (Allocate(fragment, (load, store)),)),)
    f = Function("f", (), body, Launch((one, one, one), (Const(threads), one, one)))
    assert barriers(synchronized(Module("f", (), (f,)), TARGETS["sm_80"])) == waits


@pytest.mark.parametrize(("offset", "why"), [(8, None), (1, "has rows 65 elements of 2 bytes apart"), (4, "has rows")])
def test_rows_that_an_instruction_cannot_load_are_refused(offset: int, why: str | None):
    text = SAMPLE.read_text().replace("factor = 32, offset = 8", f"factor = 32, offset = {offset}")
    module = lower(sampled(text), TARGETS["sm_80"])
    if why is None:
        assert "load_matrix_sync" in cuda_source(module, TARGETS["sm_80"]).text
        return
    with pytest.raises(MsError) as caught:
        cuda_source(module, TARGETS["sm_80"])
    assert caught.value.diagnostic.code == "MS419"
    assert why in str(caught.value.diagnostic.why)
