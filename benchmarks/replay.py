"""Replaying schedules: new sketches, further draws by substitution, the time to compile a candidate, and a trace of
100 instructions on a gemm.

python benchmarks/replay.py
"""

from __future__ import annotations

import statistics

from common import WORKLOADS, conditions, percentile, seconds, show, table

import mslang as ms
from mslang.backend.llvm.compile import compile
from mslang.ir.program import Program
from mslang.lower.passes import lower
from mslang.schedule import memo
from mslang.schedule.replay import replay
from mslang.schedule.schedule import Schedule
from mslang.schedule.space import Candidate
from mslang.schedule.trace import Trace
from mslang.target.detect import host

TILED = {"gemm.ms": "tiled", "conv2d.ms": "tiled", "softmax.ms": "placed", "dense.ms": "tiled", "blur.ms": "tiled"}
DRAWS = 60
LENGTH = 100
"""Instructions of the long trace."""


def main() -> None:
    target = host()
    rows = []
    for file, name in TILED.items():
        module = ms.load(WORKLOADS / file)
        space = module.space(name, target=target)
        drawn = (space.attempt(0, k) for k in range(4 * DRAWS))
        candidates = [c for c in drawn if isinstance(c, Candidate)][:DRAWS]
        fresh = seconds(lambda module=module, name=name: module.space(name, target=target).attempt(1), 7)
        again = seconds(lambda space=space, c=candidates[0]: space.replay(c.decisions), 15)
        lowering = [seconds(lambda c=c: lower(c.program, target), 1)[0] for c in candidates[:20]]
        kernels = [lower(c.program, target) for c in candidates[:20]]
        compiling = [seconds(lambda k=k: compile(k, target), 1)[0] for k in kernels]
        rows.append(
            (
                f"{file}:{name}",
                len(candidates[0].trace.instructions),
                show(statistics.median(fresh)),
                f"{1 / statistics.median(again):.0f}/s",
                show(statistics.median(lowering)),
                show(statistics.median(compiling)),
                show(percentile(compiling, 95)),
            )
        )
    head = ("sketch", "instructions", "first replay", "draws by substitution", "lower", "compile", "compile p95")
    print(table(head, rows))

    print()
    print(table(("trace of 100 instructions on a gemm", "median"), long_trace()))
    print(f"\n{conditions('llvmlite')}")


def long_trace() -> list[tuple[str, str]]:
    """Replaying one long trace concretely: every primitive applied, the numbers put in."""
    program = ms.load(WORKLOADS / "gemm.ms").program("gemm", M=512, N=512, K=512)
    trace = tiled_trace(program)
    other = trace.with_decision("ti", (4, 8, 4, 4))
    assert len(trace.instructions) == LENGTH

    def afresh() -> None:
        memo.forget()
        replay(program, trace)

    cold = seconds(afresh, 15)
    replay(program, trace)
    again = seconds(lambda: replay(program, trace), 25)
    turn = [trace, other] * 13
    drawn = seconds(lambda: replay(program, turn.pop()), 25)
    return [
        ("every primitive computed", show(statistics.median(cold))),
        ("again: outcomes kept", show(statistics.median(again))),
        ("with other decisions", show(statistics.median(drawn))),
    ]


def tiled_trace(program: Program) -> Trace:
    """Two-level tiles, three copies, and splits, unit loops and notes until there are 100 instructions."""
    s = Schedule(program)
    mm = s.get("mm")
    i, j, k = s.loops(mm)
    ti = s.perfect_tile(i, 4, 64, name="ti", decision=[8, 4, 2, 8])
    tj = s.perfect_tile(j, 4, 64, name="tj", decision=[4, 2, 1, 64])
    tk = s.perfect_tile(k, 2, 64, name="tk", decision=[32, 16])
    (i0, i1, i2, i3), (j0, j1, j2, j3) = s.apply("split", i, ti), s.apply("split", j, tj)
    k0, k1 = s.apply("split", k, tk)
    s.apply("reorder", i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    (tile,) = s.apply("cache_write", mm, s.get("C"), "local")
    s.apply("reverse_compute_at", tile, j1)
    (left,) = s.apply("cache_read", mm, s.get("A"), "global")
    (right,) = s.apply("cache_read", mm, s.get("B"), "global")
    for copy in (left, right):
        s.apply("compute_at", copy, k0)
    (outer,) = s.apply("fuse", i0, j0)
    s.apply("parallel", outer)
    s.apply("decompose_reduction", mm, k0)
    s.apply("vectorize", j3)
    s.apply("unroll", i3)
    for copy in (left, right, tile):
        (flat,) = s.apply("fuse", *s.loops(copy)[-2:])
        _, lanes = s.apply("split", flat, [None, 8])
        s.apply("vectorize", lanes)
    loops = [i2, k1, k0, j2]
    for n in range(LENGTH):
        if len(s.trace.instructions) == LENGTH:
            break
        at = n % len(loops)
        match n % 4:
            case 0:
                _, loops[at] = s.apply("split", loops[at], [None, 2])
            case 1:
                s.apply("unroll", *s.apply("add_unit_loop", loops[at]))
            case 2:
                s.apply("annotate", mm, f"note.{n}", n)
            case 3:
                s.apply("reorder", loops[at])
    return s.trace


if __name__ == "__main__":
    main()
