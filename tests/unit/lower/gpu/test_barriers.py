"""Barriers: where threads of a block depend on one another, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from mslang.diagnostics import TargetError
from mslang.kernel import Barrier, Body, Module, Stmt
from mslang.kernel.visit import bodies, walk, with_bodies
from tests.property.judge import sparse_inputs
from tests.unit.lower.gpu import simulator
from tests.unit.lower.gpu.support import barriers, lowered, program, same_meaning

EXCHANGE = """program p(A: f32[2, 32], out B: f32[2, 32]) {
    alloc S: f32[2, 32] @ shared
    for b in 2 @ blockIdx.x {
        for t in 32 @ threadIdx.x { block one[y: 2 = b, x: 32 = t] { S[y, x] = A[y, x] } }
        for u in 32 @ threadIdx.x { block two[y: 2 = b, x: 32 = u] { B[y, x] = S[y, READ] } }
    }
}"""

TILED = """program mm(A: f32[8, 16], B: f32[16, 8], out C: f32[8, 8]) {
    alloc S: f32[8, 16] @ shared
    alloc T: f32[16, 8] @ shared
    for by in 2 @ blockIdx.y, bx in 2 @ blockIdx.x, ko in 4 {
        for a in 4 @ threadIdx.y, b in 4 @ threadIdx.x {
            block s[i: 8 = by * 4 + a, k: 16 = ko * 4 + b] { S[i, k] = A[i, k] }
        }
        for a2 in 4 @ threadIdx.y, b2 in 4 @ threadIdx.x {
            block t[k: 16 = ko * 4 + a2, j: 8 = bx * 4 + b2] { T[k, j] = B[k, j] }
        }
        for ty in 4 @ threadIdx.y, tx in 4 @ threadIdx.x, ki in 4 {
            block mm[i: 8 = by * 4 + ty, j: 8 = bx * 4 + tx | k: 16 = ko * 4 + ki] {
                init { C[i, j] = 0.0 }
                C[i, j] = C[i, j] + S[i, k] * T[k, j]
            }
        }
    }
}"""


def without_each_barrier(module: Module) -> Iterator[Module]:
    """The module with one barrier less, for each of its barriers."""
    for k, f in enumerate(module.functions):
        for wanted in range(sum(isinstance(s, Barrier) for s in walk(f.body))):
            left = [wanted]

            def cut(body: Body, left: list[int] = left) -> Body:
                out: list[Stmt] = []
                for s in body:
                    if isinstance(s, Barrier):
                        left[0] -= 1
                        if left[0] == -1:
                            continue
                    out.append(with_bodies(s, tuple(cut(b) for b in bodies(s))))
                return tuple(out)

            functions = list(module.functions)
            functions[k] = replace(f, body=cut(f.body))
            yield replace(module, functions=tuple(functions))


def needed(text: str, count: int) -> None:
    """The module has so many barriers, is right with them, and wrong without any one of them."""
    p = program(text)
    module = lowered(p)
    assert barriers(module) == count
    same_meaning(p, module)
    arrays = sparse_inputs(p, 1)
    for less in without_each_barrier(module):
        with pytest.raises(simulator.Wrong, match=r"between two barriers|before it is written"):
            for seed in range(4):
                simulator.run(less, arrays, seed)


@pytest.mark.parametrize(
    ("read", "count"),
    [("x", 0), ("31 - x", 1), ("x // 2", 1), ("0", 1), ("(x + 1) % 32", 1), ("x // 4 * 4 + x % 4", 0)],
)
def test_threads_that_read_what_others_wrote_wait(read: str, count: int):
    needed(EXCHANGE.replace("READ", read), count)


def test_tiles_wait_before_and_after_they_are_read():
    needed(TILED, 2)


def test_what_each_thread_has_to_itself_needs_none():
    needed(TILED.replace("S[i, k] * T[k, j]", "A[i, k] * B[k, j]"), 0)


def test_global_memory_of_a_block_is_waited_for_too():
    needed(EXCHANGE.replace("@ shared", "").replace("READ", "31 - x"), 1)


def test_a_reading_loop_waits_once():
    text = """program p(A: f32[16], out B: f32[16]) {
        alloc S: f32[16] @ shared
        for b in 1 @ blockIdx.x {
            for t in 16 @ threadIdx.x { block one[x: 16 = t] { S[x] = A[x] } }
            for u in 16 @ threadIdx.x, k in 16 {
                block two[x: 16 = u | r: 16 = k] { init { B[x] = 0.0 }  B[x] = B[x] + S[r] }
            }
        }
    }"""
    needed(text, 1)


def test_a_condition_that_differs_among_threads_moves_inwards():
    text = """program p(A: f32[4, 16], out B: f32[4, 8], out C: f32[16]) {
        alloc S: f32[4, 8] @ shared
        for b in 1 @ blockIdx.x {
            for v in 16 @ threadIdx.x { block all[x: 16 = v] { C[x] = A[0, x] } }
            for r in 4 {
                for t in 8 @ threadIdx.x { block one[y: 4 = r, x: 8 = t] { S[y, x] = A[y, x] } }
                for u in 8 @ threadIdx.x { block two[y: 4 = r, x: 8 = u] { B[y, x] = S[y, 7 - x] } }
            }
        }
    }"""
    needed(text, 2)


def test_a_condition_on_data_that_differs_among_threads_moves_inwards():
    text = """program p(N: i64[8], A: f32[8, 8], out B: f32[8, 8]) {
        alloc S: f32[8, 8] @ shared
        for b in 1 @ blockIdx.x, t in 8 @ threadIdx.x, k in 8 {
            if k < N[t] {
                block one[y: 8 = k, x: 8 = t] { S[y, x] = A[y, x] }
                block two[y: 8 = k, x: 8 = t] { B[y, x] = S[y, 7 - x] }
            }
        }
    }"""
    assert barriers(lowered(program(text))) == 2


def test_a_barrier_in_a_while_loop_is_refused():
    text = """program p(N: i64[8], inout B: f32[8]) {
        alloc S: f32[8] @ shared
        alloc L: i64[8] @ local
        for b in 1 @ blockIdx.x, t in 8 @ threadIdx.x {
            block one[x: 8 = t] {
                L[x] = N[x]
                while L[x] > 0 {
                    S[x] = B[x]
                    B[x] = S[7 - x]
                    L[x] = L[x] - 1
                }
            }
        }
    }"""
    with pytest.raises(TargetError, match="barrier") as found:
        lowered(program(text))
    assert found.value.diagnostics[0].code == "MS433"


def test_a_loop_that_never_runs_does_not_stand_for_a_barrier():
    p = program("""program p(A: f32[8], out B: f32[4]) {
        alloc S: f32[4] @ shared
        for b in 1 @ blockIdx.x {
            for t in 4 @ threadIdx.x, k in 2 @ serial("pipeline.stages" = 3) {
                for u in 4 @ threadIdx.x { block s[k: 2 = k, x: 4 = u] { S[x] = A[k * 4 + x] } }
                block c[x: 4 = t | k: 2 = k] { init { B[x] = 0.0 } B[x] += S[3 - x] }
            }
        }
    }""")
    module = lowered(p)
    assert barriers(module) == 2  # one in the loop of no iteration, one before what follows it
    same_meaning(p, module)


ROWS = """program p(A: f32[4, {n}], out B: f32[4, {n}]) {{
    alloc S: f32[4, {n}] @ shared
    for y in 4 @ threadIdx.y {{
        for a in {n} @ threadIdx.x {{ block s[i: 4 = y, k: {n} = a] {{ S[i, k] = A[i, k] }} }}
        for b in {n} @ threadIdx.x {{ block t[i: 4 = y, k: {n} = b] {{ B[i, k] = S[i, {n} - 1 - k] }} }}
    }}
}}"""


def scopes(text: str) -> list[str]:
    return [s.scope for f in lowered(program(text)).functions for s in walk(f.body) if isinstance(s, Barrier)]


@pytest.mark.parametrize("n", [32, 16, 4])
def test_lanes_of_one_warp_wait_for_one_another_alone(n: int):
    text = ROWS.format(n=n)
    assert scopes(text) == ["warp"]
    needed(text, 1)


@pytest.mark.parametrize("n", [64, 24])
def test_rows_that_are_no_part_of_a_warp_wait_as_a_block(n: int):
    assert scopes(ROWS.format(n=n)) == ["block"]


def test_what_other_warps_read_waits_for_all():
    text = ROWS.format(n=32).replace("S[i, 32 - 1 - k]", "S[3 - i, k]")
    assert scopes(text) == ["block"]


def test_a_barrier_that_other_warps_need_too_is_of_the_block():
    """One barrier of the block, before what the row itself reads, does for both."""
    text = """program p(A: f32[4, 32], out B: f32[4, 32], out C: f32[4, 32]) {
        alloc S: f32[4, 32] @ shared
        for g in 1 @ blockIdx.x {
            for y in 4 @ threadIdx.y, a in 32 @ threadIdx.x { block s[i: 4 = y, k: 32 = a] { S[i, k] = A[i, k] } }
            for y1 in 4 @ threadIdx.y, b in 32 @ threadIdx.x {
                block t[i: 4 = y1, k: 32 = b] { B[i, k] = S[i, 31 - k] }
            }
            for y2 in 4 @ threadIdx.y, c in 32 @ threadIdx.x { block u[i: 4 = y2, k: 32 = c] { C[i, k] = S[3 - i, k] } }
        }
    }"""
    assert scopes(text) == ["block"]
    same_meaning(program(text), lowered(program(text)))


def test_a_loop_whose_iterations_hand_on_within_a_warp():
    text = """program p(A: f32[8, 4, 32], out B: f32[8, 4, 32]) {
        alloc S: f32[4, 32] @ shared
        for y in 4 @ threadIdx.y, r in 8 {
            for a in 32 @ threadIdx.x { block s[q: 8 = r, i: 4 = y, k: 32 = a] { S[i, k] = A[q, i, k] } }
            for b in 32 @ threadIdx.x { block t[q: 8 = r, i: 4 = y, k: 32 = b] { B[q, i, k] = S[i, 31 - k] } }
        }
    }"""
    assert scopes(text) == ["warp", "warp"]
    needed(text, 2)


def by_warps(read: str, across: int, rows: int) -> str:
    """Threads that store an element each, and read one of another thread."""
    return f"""program p(A: f32[{rows}, {across}], out B: f32[{rows}, {across}]) {{
        alloc S: f32[{rows}, {across}] @ shared
        for b in 1 @ blockIdx.x {{
            for y in {rows} @ threadIdx.y, x in {across} @ threadIdx.x {{
                block one[i: {rows} = y, j: {across} = x] {{ S[i, j] = A[i, j] }}
            }}
            for v in {rows} @ threadIdx.y, u in {across} @ threadIdx.x {{
                block two[i: {rows} = v, j: {across} = u] {{ B[i, j] = S[{read}] + 1.0 }}
            }}
        }}
    }}"""


@pytest.mark.parametrize(
    ("read", "across", "rows", "scope"),
    [
        ("i, j // 32 * 32 + (31 - j % 32)", 64, 1, "warp"),
        ("i, j // 32 * 32 + (31 - j % 32)", 64, 3, "warp"),
        ("i, 63 - j", 64, 1, "block"),
        ("i, j // 16 * 16 + (15 - j % 16)", 64, 2, "warp"),
        ("i // 2 * 2 + (1 - i % 2), 15 - j", 16, 4, "warp"),
        ("i // 2 * 2 + (1 - i % 2), j", 32, 4, "block"),
        ("3 - i, j", 16, 4, "block"),
        ("2 - i, j", 16, 3, "block"),
    ],
)
def test_whole_warps_wait_where_only_their_lanes_meet(read: str, across: int, rows: int, scope: str) -> None:
    """Warps are 32 threads as they count, `threadIdx.x` first: parts of long rows, or several short ones."""
    text = by_warps(read, across, rows)
    assert scopes(text) == [scope]
    same_meaning(program(text))


@pytest.mark.parametrize(("read", "needed"), [("i % 5", 1), ("i % 7", 0)])
def test_a_remainder_does_not_tell_the_thread(read: str, needed: int):
    """Threads 0 and 5 read the element 0: what thread 0 has stored is waited for."""
    p = program(f"""program p(A: f32[7], out B: f32[7]) {{
        alloc T: f32[7] @ shared
        for b in 1 @ blockIdx.x {{
            for t in 7 @ threadIdx.x {{ block one[i: 7 = t] {{ T[i] = A[i] }} }}
            for u in 7 @ threadIdx.x {{ block two[i: 7 = u] {{ B[i] = T[{read}] }} }}
        }}
    }}""")
    module = lowered(p)
    assert barriers(module) == needed
    same_meaning(p, module)
