"""Memory of warps: registers of lanes, and shuffles where one reads what another wrote."""

import pytest

from mslang.diagnostics import TargetError
from mslang.ir.expr import Call
from mslang.ir.visit import walk_expr
from mslang.kernel import Allocate, If, Module
from mslang.kernel.visit import expressions, walk
from tests.unit.lower.gpu.support import barriers, lowered, program, same_meaning


def shuffles(module: Module) -> int:
    found = [x for f in module.functions for s in walk(f.body) for e in expressions(s) for x in walk_expr(e)]
    return sum(isinstance(x, Call) and x.name == "shuffle" for x in found)


def shapes(module: Module) -> dict[str, tuple[str, tuple[int, ...]]]:
    found = [s.buffer for f in module.functions for s in walk(f.body) if isinstance(s, Allocate)]
    return {b.name: (b.scope, tuple(int(n.value) for n in b.shape)) for b in found}


def turned(read: str, write: str = "x", size: int = 64, lanes: int = 32, each: int = 2, rows: int = 1) -> str:
    """Rows of elements that go through memory of a warp: lanes write `write` of their number, and read `read`."""
    mine = write.replace("t", "u").replace("c", "d")
    return f"""program p(A: f32[{rows}, {size}], out B: f32[{rows}, {size}]) {{
        alloc W: f32[{rows}, {size}] @ warp
        for b in 1 @ blockIdx.x, y in {rows} @ threadIdx.y {{
            for t in {lanes} @ threadIdx.x, c in {each} {{
                block one[r: {rows} = y, x: {size} = {write}] {{ W[r, x] = A[r, x] }}
            }}
            for u in {lanes} @ threadIdx.x, d in {each} {{
                block two[r: {rows} = y, x: {size} = {mine}] {{ B[r, x] = W[r, {read}] + 1.0 }}
            }}
        }}
    }}"""


@pytest.mark.parametrize(
    ("read", "write", "each"),
    [
        ("31 - x", "t + c", 1),
        ("63 - x", "t + c * 32", 2),
        ("(x + 2) % 64", "t * 2 + c", 2),
        ("x // 32 * 32 + (x + 7) % 32", "t + c * 32", 2),
    ],
)
def test_lanes_exchange_by_shuffles(read: str, write: str, each: int) -> None:
    p = program(turned(read, write, 32 * each, 32, each))
    module = lowered(p)
    assert shuffles(module) > 0 and barriers(module) == 0
    assert shapes(module)["W"][0] == "local"
    same_meaning(p, module)


def test_each_lane_keeps_its_share() -> None:
    assert shapes(lowered(program(turned("(x + 2) % 64", "t * 2 + c"))))["W"] == ("local", (1, 1, 2))
    assert shapes(lowered(program(turned("63 - x", "t + c * 32"))))["W"] == (
        "local",
        (1, 2, 1),
    )


@pytest.mark.parametrize(("lanes", "rows"), [(8, 1), (8, 4), (16, 3), (32, 2)])
def test_rows_of_threads_that_share_a_warp_exchange_among_themselves(lanes: int, rows: int) -> None:
    p = program(turned(f"{lanes} - 1 - x", "t + c", lanes, lanes, 1, rows))
    same_meaning(p)


def test_what_each_lane_reads_of_its_own_needs_no_shuffle() -> None:
    p = program(turned("x", "t * 2 + c"))
    assert shuffles(lowered(p)) == 0
    same_meaning(p)


def test_conditions_that_differ_among_lanes_go_around_what_is_done_with_the_value() -> None:
    text = """program p(A: f32[32], N: i32[1], out B: f32[32]) {
        alloc W: f32[32] @ warp
        for b in 1 @ blockIdx.x {
            for t in 32 @ threadIdx.x { block one[x: 32 = t] { W[x] = A[x] } }
            for u in 32 @ threadIdx.x {
                block two[x: 32 = u] {
                    if A[x] > 0.0 { B[x] = W[31 - x] } else { B[x] = W[(x + 5) % 32] * 2.0 }
                }
            }
        }
    }"""
    p = program(text)
    module = lowered(p)
    assert shuffles(module) == 2
    inside = [s for f in module.functions for s in walk(f.body) if isinstance(s, If)]
    assert not any(
        isinstance(x, Call) for i in inside for s in walk(i.then) for e in expressions(s) for x in walk_expr(e)
    )
    same_meaning(p, module)


def test_fewer_lanes_may_read_than_write() -> None:
    text = turned("x * 3", "t + c", 32, 32, 1).replace("for u in 32", "for u in 10").replace("B[r, x] =", "B[r, x] =")
    p = program(text.replace("out B", "inout B"))
    same_meaning(p)


def test_what_is_done_once_gets_its_value_from_the_lane_that_has_it() -> None:
    text = """program p(A: f32[32], out B: f32[2]) {
        alloc W: f32[32] @ warp
        for b in 1 @ blockIdx.x {
            for t in 32 @ threadIdx.x { block one[x: 32 = t] { W[x] = A[x] } }
            for k in 2 { block two[x: 2 = k] { B[x] = W[x * 7 + 3] } }
        }
    }"""
    same_meaning(program(text))


def test_a_loop_exchanges_again_and_again() -> None:
    """Each step adds what a lane at a growing distance has."""
    text = """program p(A: f32[32], out B: f32[32]) {
        alloc W: f32[6, 32] @ warp
        for b in 1 @ blockIdx.x {
            for t in 32 @ threadIdx.x { block start[x: 32 = t] { W[0, x] = A[x] } }
            for k in 5 {
                for u in 32 @ threadIdx.x {
                    block step[q: 5 = k, x: 32 = u] {
                        W[q + 1, x] = W[q, x] + select(x >= q * 3, W[q, max(x - q * 3, 0)], 0.0)
                    }
                }
            }
            for v in 32 @ threadIdx.x { block last[x: 32 = v] { B[x] = W[5, x] } }
        }
    }"""
    same_meaning(program(text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (turned("x // 2", "t * 2 + c"), "different registers"),
        (turned("31 - x", "t * 7 % 32 + c", 32, 32, 1), "evenly"),
    ],
)
def test_what_shuffles_cannot_exchange_is_refused(text: str, why: str) -> None:
    with pytest.raises(TargetError) as found:
        lowered(program(text))
    assert "MS438" in str(found.value) and why in str(found.value)


def test_lanes_of_several_warps_are_refused() -> None:
    with pytest.raises(TargetError) as found:
        lowered(program(turned("63 - x", "t + c", 64, 64, 1)))
    assert "MS432" in str(found.value)
