"""What reading the lowering for GPUs found wrong, in the emulation: races on what is asked for, vectors in tails, …"""

from __future__ import annotations

import numpy as np
import pytest

from mslang.backend.cuda.backend import CUDA
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.lower.gpu import lower
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.sema.program import parse_program
from mslang.target.description import SM_80
from tests.cuda.emulator import Emulated, why_not
from tests.cuda.modules import as_numbers, made, run
from tests.property.arrays import outputs_equal

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

Arrays = dict[str, np.ndarray]


def scheduled(text: str, steps: str | None) -> tuple[Program, Program]:
    """A program, and the same under steps; None: as it stands; "default": as it is without a schedule."""
    program = parse_program(text)
    if steps is None:
        return program, program
    if steps == "default":
        return program, CUDA.scheduled(program, SM_80)
    file = load("test.ms", f"{text}\nschedule s for p {{\n{steps}\n}}\n")
    return program, space_of(file, "s").sample(0).program


def judge(cases: list[tuple[str, str | None, Arrays, dict[str, int]]]) -> None:
    """No faults in the emulation, and the interpreter's results; g++ compiles all cases at once."""
    both = [scheduled(text, steps) for text, steps, _, _ in cases]
    kernels = [made(after, SM_80) for _, after in both]
    with Emulated(*(m.source.text for m in kernels)) as file:
        for k, ((text, _, arrays, sizes), (before, _), m) in enumerate(zip(cases, both, kernels, strict=True)):
            wanted = interpret.run(before, {n: a.copy() for n, a in arrays.items()}, check=False, sizes=sizes)
            ran = run(m, arrays, file, k, sizes=sizes)
            assert not ran.faults, (text, ran.faults[0])
            assert outputs_equal(wanted, {n: as_numbers(m, n, a) for n, a in ran.results.items()}), text


ASKED = "program p(inout n: i32[%d]) { %s { for t in %d%s { block b[i: %d = t] { n[i] = 5 } } } }"


def asked(head: str, kind: str = "", n: int = 64) -> str:
    return ASKED % (n, head, n, kind, n)


COUNTED = """program p(inout n: i32[64]) { for k in i64(n[0]) { for t in 64 @ threadIdx.x {
    block b[i: 64 = t | k: 8 = k] { init {} n[i] = n[i] + 1 }
} } }"""
TOLD = """program p(inout n: i32[40960]) { let x = i64(n[0])
    for t in 40960 { block b[i: 40960 = t, x: 100 = x] { n[i] = i32(x) + i32(i) + 1 } }
}"""


def test_all_have_asked_before_one_stores() -> None:
    n, large = np.zeros(64, np.int32), np.zeros(40960, np.int32)
    judge(
        [
            (asked("if n[0] == 0"), "default", {"n": n}, {}),
            (asked("if n[0] == 0"), "b.i.bind(threadIdx.x)", {"n": n}, {}),
            (asked("while n[0] < 3", " @ threadIdx.x"), None, {"n": n}, {}),
            (asked("while n[0] < 3"), "default", {"n": n}, {}),
            (COUNTED, None, {"n": n + 3}, {}),
            (TOLD, "default", {"n": large}, {}),
            (asked("if n[0] == 0", n=40960), "default", {"n": large}, {}),
        ]
    )


@pytest.mark.parametrize("head", ["if n[0] == 0", "while n[0] < 3"])
def test_blocks_do_not_ask_for_what_another_stores(head: str) -> None:
    with pytest.raises(MsError, match="MS434"):
        lower(parse_program(asked(head, " @ blockIdx.x")), SM_80)


def test_the_branches_of_a_branch_that_threads_do_not_share() -> None:
    """Lowering did not end: the statement that a condition was moved into came back as it was."""
    text = """program p(n: i32[4], A: i32[2, 4, 64], out B: i32[2, 4, 64], out C: i32[2, 4, 64]) {
        alloc S: i32[2, 4, 64] @ shared
        for z in 2 @ blockIdx.x {
            for u in 4 @ threadIdx.y, t in 64 @ threadIdx.x {
                block c[z: 2 = z, u: 4 = u, i: 64 = t] {
                    C[z, u, i] = A[z, u, i]
                    B[z, u, i] = 0
                }
            }
            for u1 in 2 @ threadIdx.y {
                if n[0] > 0 {
                    for t1 in 64 @ threadIdx.x { block a[z: 2 = z, u: 4 = u1, i: 64 = t1] { S[z, u, i] = A[z, u, i] } }
                    for t2 in 64 @ threadIdx.x {
                        block b[z: 2 = z, u: 4 = u1, i: 64 = t2] { B[z, u, i] = S[z, u, 63 - i] }
                    }
                } else {
                    for t3 in 64 @ threadIdx.x { block d[z: 2 = z, u: 4 = u1, i: 64 = t3] { B[z, u, i] = 1 } }
                }
            }
        }
    }"""
    a = np.arange(512, dtype=np.int32).reshape(2, 4, 64)
    judge([(text, None, {"n": np.full(4, v, np.int32), "A": a}, {}) for v in (0, 1)])


ADDED = """program p(A: f32[64, 8], out B: f32[64]) {
    alloc S: f32[64]
    for t in 64 {
        block z[i: 64 = t] { S[i] = 0.0 }
        for k in 8 { block c[i: 64 = t | k: 8 = k] { init {} S[i] += A[i, k] } }
        block d[i: 64 = t] { B[i] = S[i] }
    }
}"""


def test_vectors_types_and_memory() -> None:
    f = np.arange(80, dtype=np.float32)
    tails = "let o, v = b.i.split([_, 48])\no.bind(blockIdx.x)\nv.vectorize()"
    judge(
        [
            *(
                (
                    f"program p(A: f32[{n}], out B: f32[{n}]) {{ block b[i: {n}] {{ B[i] = A[i] + 1.0 }} }}",
                    tails,
                    {"A": f[:n]},
                    {},
                )
                for n in (72, 80)
            ),
            (
                """program p(A: i64[64], out D: i32[64]) { for t in 64 @ threadIdx.x { block b[i: 64 = t] {
                    let x = A[i]
                    D[i] = select(x + 1 > x, 1, 0)
                } } }""",
                None,
                {"A": np.full(64, 2**63 - 1)},
                {},
            ),
            (
                """program p(x: f32[], y: f32[16], out B: f32[16]) {
                    alloc s: f32[16] @ shared
                    for k in 16 @ serial("pipeline.stages" = 2, "pipeline.copy" = "cp_async") {
                        block c[i: 16 = k] { s[i] = x[] }
                        block d[i: 16 = k] { B[i] = s[i] * y[i] }
                    }
                }""",
                None,
                {"x": np.array(3, np.float32), "y": f[:16]},
                {},
            ),
            (
                """program p[M: dyn(1..100)](X: u8[M], inout U: f32[4, 8]) {
                    block q[i: 4, j: 8] { U[i, j] = max(U[i, j], f32(X[min(i, M - 1)])) }
                }""",
                "default",
                {"X": np.arange(7, dtype=np.uint8), "U": np.zeros((4, 8), np.float32)},
                {"M": 7},
            ),
            (
                """program p(atomicAdd: f32[64], inout B: f32[64]) {
                    for t in 64 @ threadIdx.x { block b[i: 64 = t] { attr "atomic" = true
                        B[i] = B[i] + atomicAdd[i] } }
                }""",
                None,
                {"atomicAdd": f[:64], "B": f[:64]},
                {},
            ),
            (
                ADDED,
                "c.atomic()\nc.set_scope(S, local)\nd.loops()[0].bind(threadIdx.x)",
                {"A": np.ones((64, 8), np.float32)},
                {},
            ),
        ]
    )


def test_vectors_of_bools_are_bools() -> None:
    """nvcc refuses the `int` that C makes of `a & b`."""
    text = """program p(A: bool[64], B: bool[64], out D: bool[64]) {
        for t in 16 @ threadIdx.x, v in 4 @ vectorized {
            block b[i: 64 = t * 4 + v] { D[i] = bit_and(A[i], B[i]) }
        }
    }"""
    assert "(bool)(" in made(parse_program(text), SM_80).source.text
    judge([(text, None, {"A": np.arange(64) % 2 > 0, "B": np.arange(64) % 3 > 0}, {})])


@pytest.mark.parametrize("kind", ["threadIdx.x", "blockIdx.x", "vthread.x"])
def test_loops_of_one_axis_inside_each_other_are_refused(kind: str) -> None:
    """Only the iterations in which both are the same would run."""
    text = f"""program p(X: f32[8, 8], out U: f32[8, 8]) {{
        for i in 8 @ {kind}, k in 8 @ {kind} {{ block q[i: 8 = i, k: 8 = k] {{ U[i, k] = X[i, k] }} }}
    }}"""
    with pytest.raises(MsError, match="MS317"):
        lower(parse_program(text), SM_80)
