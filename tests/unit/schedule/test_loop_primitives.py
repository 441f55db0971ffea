"""Tails, parts, merging, copies by condition, pipelines: in text, in all forms of a trace."""

from typing import Any

from mslang.ide.findings import findings
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.schedule import Schedule
from mslang.schedule.strategies import space_of
from mslang.schedule.trace import Trace
from mslang.sema.modules import load
from tests.unit.transform.meaning import same

TEXT = """
program dyn[N: dyn(1..64)](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] } }
program mm[M = 6, N = 5, K = 10](A: f32[M, K], W: f32[K, N], out C: f32[M, N]) {
    block mm[i: M, j: N | k: K] { C[i, j] += A[i, k] * W[k, j] }
}
program two[N = 12](A: f32[N], out B: f32[N]) {
    alloc T: f32[N]
    block first[i: N] { T[i] = A[i] + 1.0 }
    block second[i: N] { B[i] = T[i] * 2.0 }
}
schedule sizes_known_at_the_call for dyn {
    let fast, slow = b.i.specialize(N % 16 == 0)
    let f0, f1 = fast.split([_, 16], disable_predication = true)
    let g0, g1 = slow.split([_, 8], tail = peel)
}
schedule tiles for mm {
    let f ~ choose([2, 3, 4])
    let i0, i1 = mm.i.split([_, f], tail = peel)
    let j0, j1 = mm.j.split([_, 2], tail = shift)
    let p0, p1 = mm.k.loop_partition([4, _])
}
schedule staged for mm {
    let k0, k1 = mm.k.split([_, 4])
    reorder(k0, mm.i, mm.j, k1)
    let a = mm.cache_read(A, scope = local)
    a.compute_at(k0)
    k0.pipeline(stages = 3, copy = cp_async)
}
schedule joined for two {
    let m = merge(first.i, second.i)
    let x, y = m.fission(first)
}
"""
MODULE = load("loops.ms", TEXT)


def checked(name: str, **sizes: int) -> None:
    """A schedule that checks, keeps the meaning, and replays from each form of its trace."""
    space = space_of(MODULE, name)
    found = space.sample(1)
    same(space.program, found.program, **sizes)
    trace = found.trace
    read = Trace.from_json(trace.as_json())
    assert read == trace
    assert replay(space.program, read, strict=True).program == found.program
    assert space_of_text(trace.as_ms("again"), space.program).sample(0).program == found.program
    names: dict[str, Any] = {}
    exec(trace.as_python("again"), names)
    python = Schedule(space.program)
    names["again"](python)
    assert python.program == found.program


def test_the_module_is_without_fault():
    assert [d.message for d in findings(MODULE)] == []


def test_a_size_known_at_the_call_has_a_name():
    for n in (1, 16, 23):
        checked("sizes_known_at_the_call", N=n)


def test_tails_and_parts():
    checked("tiles")


def test_a_pipeline():
    checked("staged")


def test_merging_and_taking_apart():
    checked("joined")
