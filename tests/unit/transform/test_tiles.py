"""What blocks of whole tiles access: iterations whose tiles take turns, tiles that several loops count."""

import pytest

from mslang.schedule import Schedule
from mslang.sema.program import parse_program
from mslang.transform.primitives.compute_at import reverse_compute_at
from mslang.transform.primitives.loop_kinds import bind
from tests.unit.transform.layouts import same_meaning
from tests.unit.transform.programs import block, loop, refused


def scaled(start: str, length: int = 2, more: str = "") -> str:
    """A block that goes through tiles of a buffer, `o` of them, for loops `r` and `t`."""
    return f"""program p(A: f32[16], inout B: f32[16]) {{
        for t in 2, r in 2 {{
            block o[x: 4 = r * 2 + t, y: 4 = r + t] {{
                reads A[{start} .. {start} + {length}]
                writes B[{start} .. {start} + {length}]
                for i in {length} {{ block e[e: 16 = {start} + i] {{ B[e] = A[e] * 2.0 }} }}
            }}
            {more}
        }}
    }}"""


def test_tiles_that_threads_take_in_turn_are_apart() -> None:
    program = parse_program(scaled("x * 2"))
    same_meaning(program, bind(program, loop("t"), "threadIdx.x").program)


def test_so_they_are_where_blocks_go_through_the_same_tiles() -> None:
    second = """block q[x: 4 = r * 2 + t] {
        reads B[x * 2 .. x * 2 + 2]
        writes B[x * 2 .. x * 2 + 2]
        for j in 2 { block f[f: 16 = x * 2 + j] { B[f] += 1.0 } }
    }"""
    program = parse_program(scaled("x * 2", more=second))
    same_meaning(program, bind(program, loop("t"), "threadIdx.x").program)
    other = parse_program(scaled("x * 2", more=second.replace("x: 4 = r * 2 + t", "x: 4 = r * 2 + 1 - t")))
    with refused("MS310", "`B`"):
        bind(other, loop("t"), "threadIdx.x")


@pytest.mark.parametrize(("start", "length"), [("y * 2", 2), ("x", 2), ("x * 2 + 1", 4), ("x * 3", 4)])
def test_tiles_that_may_meet_are_refused(start: str, length: int) -> None:
    """Several iterations go through one tile, or tiles are not at multiples of their length."""
    with refused("MS310", "`B`"):
        bind(parse_program(scaled(start, length)), loop("t"), "threadIdx.x")


def test_tiles_counted_by_a_fused_loop_fill_a_box() -> None:
    text = """program p(A: f32[8, 8], out B: f32[8, 8]) {
        alloc T: f32[8, 8]
        for o in 2, f in 4, r in 2 {
            block t[x: 4 = r * 2 + f // 2, y: 4 = o * 2 + f % 2] {
                reads A[x * 2 .. x * 2 + 2, y * 2 .. y * 2 + 2]
                writes T[x * 2 .. x * 2 + 2, y * 2 .. y * 2 + 2]
                for i in 2, j in 2 { block e[u: 8 = x * 2 + i, v: 8 = y * 2 + j] { T[u, v] = A[u, v] } }
            }
        }
        block c[i: 8, j: 8] { B[i, j] = T[i, j] + 1.0 }
    }"""
    program = parse_program(text)
    same_meaning(program, reverse_compute_at(program, block("c"), loop("o")).program)
    gaps = parse_program(text.replace("r * 2 + f // 2", "r + f // 2"))
    with refused("MS332", "provably written"):
        reverse_compute_at(gaps, block("c"), loop("o"))


def test_what_an_axis_is_divided_into_determines_it() -> None:
    """A row of pixels, in tiles of open sizes."""
    text = "program p(A: f32[144], out B: f32[12, 12]) { block b[m: 144] { B[m // 12, m % 12] = A[m] } }"
    s = Schedule(parse_program(text), seed=0)
    m = s.axis("b", "m")
    s.bind(s.split(m, s.perfect_tile(m, 4, name="tile"))[1], "threadIdx.x")
    same_meaning(parse_program(text), s.program)
    with refused("MS310", "`B`"):
        bind(parse_program(text.replace("m % 12", "m % 6")), loop("m"), "threadIdx.x")
