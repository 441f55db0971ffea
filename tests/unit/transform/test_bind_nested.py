"""bind: loops of one thread axis inside each other, which are one thread index."""

from __future__ import annotations

import pytest

from mslang.diagnostics import ScheduleError
from mslang.ir.expr import Choice, Const, Symbol
from mslang.ir.program import For, Program
from mslang.ir.visit import walk
from mslang.schedule import Schedule
from mslang.sema.program import parse_program
from mslang.transform.primitives.loop_kinds import bind, vectorize
from mslang.transform.primitives.loops import fuse, split
from tests.unit.transform.layouts import same_meaning
from tests.unit.transform.programs import loop, refused

COPIED = """program p(A: f32[8, 8], out B: f32[8, 8]) {
    alloc S: f32[8, 8] @ shared
    for b in 8, t in 8 {
        for u in 8 { block copy[x: 8 = b, y: 8 = u] { S[x, y] = A[x, y] } }
        block uses[x: 8 = b, y: 8 = t] { B[x, y] = S[x, y] + S[x, 7 - y] }
    }
}"""


def bound(text: str, *axes: tuple[str, str]) -> Program:
    program = parse_program(text)
    for name, axis in axes:
        program = bind(program, loop(name), axis).program
    return program


def kinds(program: Program) -> dict[str, str]:
    return {s.var: s.kind for s in walk(program.body) if isinstance(s, For)}


@pytest.mark.parametrize("order", [("b", "t", "u"), ("u", "t", "b"), ("t", "b", "u")])
def test_threads_share_out_what_they_all_need(order: tuple[str, ...]) -> None:
    axes = {"b": "blockIdx.x", "t": "threadIdx.x", "u": "threadIdx.x"}
    done = bound(COPIED, *((name, axes[name]) for name in order))
    assert kinds(done) == axes
    same_meaning(parse_program(COPIED), done)


@pytest.mark.parametrize("scope", ["shared", "shared.dyn", "global"])
def test_in_memory_that_they_share(scope: str) -> None:
    text = COPIED.replace("@ shared", f"@ {scope}")
    same_meaning(parse_program(text), bound(text, ("t", "threadIdx.y"), ("u", "threadIdx.y")))


def test_what_is_copied_may_have_been_copied() -> None:
    text = COPIED.replace("alloc S", "alloc L: f32[8, 8] @ shared\n    alloc S").replace(
        "for u in 8",
        "for v in 8 { block first[x: 8 = b, y: 8 = v] { L[x, y] = A[x, y] } }\n        for u in 8",
    )
    text = text.replace("S[x, y] = A[x, y]", "S[x, y] = L[x, 7 - y]")
    axes = [("t", "threadIdx.x"), ("u", "threadIdx.x"), ("v", "threadIdx.x")]
    same_meaning(parse_program(text), bound(text, *axes))
    same_meaning(parse_program(text), bound(text, *reversed(axes)))


def test_extents_that_are_one_decision_are_one() -> None:
    n = Symbol("n", Choice((2, 4, 8)))
    program = parse_program(COPIED)
    for name in ("t", "u"):
        program = split(program, loop(name), [None, n]).program
    outer = [s.var for s in walk(program.body) if isinstance(s, For)]
    assert outer == ["b", "t_0", "t_1", "u_0", "u_1"]
    program = bind(program, loop("t_1"), "threadIdx.x").program
    assert kinds(bind(program, loop("u_1"), "threadIdx.x").program)["u_1"] == "threadIdx.x"


def test_extents_that_may_differ_are_refused() -> None:
    program = split(parse_program(COPIED), loop("u"), [None, Symbol("n", Choice((2, 8)))]).program
    program = bind(program, loop("t"), "threadIdx.x").program
    with refused("MS395", "`t`", "`u_1`", "one thread index", "split"):
        bind(program, loop("u_1"), "threadIdx.x")


def test_other_extents_are_refused() -> None:
    text = COPIED.replace("for u in 8", "for w in 2, u in 4").replace("y: 8 = u]", "y: 8 = w * 4 + u]")
    for order in (("t", "u"), ("u", "t")):
        with refused("MS395", "`t`", "`u`", "different extents", "8", "4"):
            bound(text, *((name, "threadIdx.x") for name in order))


def test_memory_of_one_thread_is_refused() -> None:
    for scope in ("local", "warp", "wmma.a"):
        with refused("MS317", "`copy`", f"`{scope}`", "each thread has its own"):
            bound(COPIED.replace("@ shared", f"@ {scope}"), ("t", "threadIdx.x"), ("u", "threadIdx.x"))


def test_what_depends_on_the_thread_is_refused() -> None:
    differs = COPIED.replace("x: 8 = b, y: 8 = u] {", "x: 8 = t, y: 8 = u] {").replace(
        "S[x, y] + S[x, 7 - y]", "S[y, y] + S[y, 7 - y]"
    )
    with refused("MS317", "`copy`", "depends on loop `t`"):
        bound(differs, ("t", "threadIdx.x"), ("u", "threadIdx.x"))
    square = """program p(A: f32[8, 8], out B: f32[8, 8]) {
        for i in 8, j in 8 { block b[x: 8 = i, y: 8 = j] { B[x, y] = A[x, y] } }
    }"""
    for order in (("i", "j"), ("j", "i")):
        with refused("MS317", "`b`", "depends on loop `i`"):
            bound(square, *((name, "threadIdx.x") for name in order))


def test_a_guard_or_a_loop_that_depends_on_the_thread_is_refused() -> None:
    guarded = COPIED.replace("{ S[x, y] = A[x, y] }", "{ where u < t + 8  S[x, y] = A[x, y] }")
    with refused("MS317", "`copy`", "depends on loop `t`"):
        bound(guarded, ("t", "threadIdx.x"), ("u", "threadIdx.x"))
    repeated = COPIED.replace("for u in 8", "for r in t + 1, u in 8")
    with refused("MS317", "how often loop `r` runs"):
        bound(repeated, ("u", "threadIdx.x"), ("t", "threadIdx.x"))


def test_a_source_that_each_thread_has_to_itself_is_refused() -> None:
    text = COPIED.replace("alloc S", "alloc L: f32[8, 8] @ local\n    alloc S").replace(
        "for u in 8", "for v in 8 { block own[x: 8 = b, y: 8 = v, z: 8 = t] { L[x, y] = A[z, y] } }\n        for u in 8"
    )
    text = text.replace("S[x, y] = A[x, y]", "S[x, y] = L[x, y]")
    with refused("MS317", "`own`", "depends on loop `t`"):
        bound(text, ("t", "threadIdx.x"), ("u", "threadIdx.x"))


def test_sums_are_refused() -> None:
    sums = """program p(A: f32[8, 8], out B: f32[8, 8]) {
        alloc S: f32[8, 8] @ shared
        for b in 8, t in 8 {
            for u in 8, k in 8 { block sum[z: 8 = b, x: 8 = u | y: 8 = k] { S[z, x] += A[x, y] } }
            block uses[x: 8 = b, y: 8 = t] { B[x, y] = S[x, y] }
        }
    }"""
    for axes in (("t", "u"), ("u", "t")):
        with refused("MS317", "`sum`", "is reduce"):
            bound(sums, *((name, "threadIdx.x") for name in axes))


def test_what_another_primitive_breaks_is_refused_then() -> None:
    schedule = Schedule(bound(COPIED, ("t", "threadIdx.x"), ("u", "threadIdx.x")))
    with pytest.raises(ScheduleError) as found:
        schedule.apply("set_scope", schedule.get("copy"), schedule.get("S"), "local")
    assert found.value.diagnostic.code == "MS317"


# ------------------------------------------------------------------ what a launch shares out, in parts
POOL = """program p(A: f32[9, 9, 8], out B: f32[4, 4, 8]) {
    for h in 4, w in 4, c in 8, r in 3, s in 3 {
        block pool[x: 4 = h, y: 4 = w, z: 8 = c | p: 3 = r, q: 3 = s] {
            B[x, y, z] = max(B[x, y, z], A[x * 2 + p, y * 2 + q, z])
        }
    }
}"""
HALO = """program p(A: f32[20, 24], out B: f32[20, 24]) {
    alloc S: f32[20, 24] @ shared
    for q in 2 {
        for a in 13, b in 9 { block copy[x: 20 = q * 8 + a, y: 24 = b] {
            where q * 8 + a < 20
            S[x, y] = A[x, y]
        } }
        for c in 10, d in 24 { block made[x: 20 = q * 10 + c, y: 24 = d] { B[x, y] = A[x, y] } }
    }
}"""


@pytest.mark.parametrize("threads", [16, 32, 12, 20])
def test_reductions_side_by_side(threads: int) -> None:
    program = parse_program(POOL)
    whole = fuse(program, [loop(n) for n in "hwc"])
    parts = split(whole.program, whole.handles[0], [None, Const(threads)])
    done = parts.program
    for handle, axis in zip(parts.handles, ("blockIdx.x", "threadIdx.x"), strict=True):
        done = bind(done, handle, axis).program
    same_meaning(program, done)


def test_a_copy_that_a_guard_cuts() -> None:
    program = parse_program(HALO)
    whole = fuse(program, [loop("a"), loop("b")])
    parts = split(whole.program, whole.handles[0], [None, Const(7), Const(2)])
    done = bind(parts.program, parts.handles[1], "threadIdx.x").program
    done = vectorize(done, parts.handles[2]).program
    assert {"threadIdx.x", "vectorized"} <= set(kinds(done).values())
