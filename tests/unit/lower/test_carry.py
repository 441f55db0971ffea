"""Buffers that hand values from one iteration to the next live around the loop, others inside."""

from mslang.kernel.nodes import Allocate, For
from mslang.lower.carry import carried_by
from mslang.lower.passes import LOOPS, lower
from mslang.sema.program import parse_program
from mslang.target.detect import host
from tests.unit.transform.meaning import same

HANDED_ON = parse_program(
    """program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8]
        for i in 0..8 {
            block a[x: 8 = i] { T[x] = A[x] * 2.0 }
            block b[x: 8 = i] { B[x] = T[x] + T[max(x - 1, 0)] }
        }
    }"""
)
OWN = parse_program(
    """program p(A: f32[8], out B: f32[8]) {
        alloc T: f32[8]
        for i in 0..8 {
            block a[x: 8 = i] { T[x] = A[x] * 2.0 }
            block b[x: 8 = i] { B[x] = T[x] + 1.0 }
        }
    }"""
)
HALF = parse_program(
    """program p(A: f32[4, 8], out B: f32[4, 8]) {
        alloc T: f32[4, 8]
        for i in 0..4, j in 0..8 {
            block a[x: 4 = i, y: 8 = j] { T[x, y] = A[x, y] * 2.0 }
            block b[x: 4 = i, y: 8 = j] { B[x, y] = T[x, y] + T[x, max(y - 1, 0)] }
        }
    }"""
)


def test_what_is_handed_on():
    assert carried_by(HANDED_ON).between == {("T", "i")}
    assert carried_by(OWN).between == frozenset()
    assert carried_by(HALF).between == {("T", "j")}


def test_where_buffers_are_placed():
    assert isinstance(lower(HANDED_ON, host(), passes=LOOPS).body[0], Allocate)
    loop = lower(OWN, host(), passes=LOOPS).body[0]
    assert isinstance(loop, For) and isinstance(loop.body[0], Allocate)
    row = lower(HALF, host(), passes=LOOPS).body[0]
    assert isinstance(row, For) and isinstance(row.body[0], Allocate)
    assert [n.value for n in row.body[0].buffer.shape] == [1, 8]


def test_results():
    for program in (HANDED_ON, OWN, HALF):
        same(program, program)


SCAN = """program p(A: f32[8], out B: f32[8]) {
    alloc T: f32[8]
    alloc S: f32[]
    block z[] { S[] = 0.0 }
    for i in 0..8 {
        block a[x: 8 @ scan = i] {
            T[x] = STORED
            S[] = S[] + A[x]
        }
        block b[x: 8 = i] { B[x] = T[x] + S[] }
    }
}"""


def test_what_a_scan_stores_at_its_own_axis_is_placed_inside():
    own = parse_program(SCAN.replace("STORED", "A[x] * 2.0 + S[]"))
    before = parse_program(SCAN.replace("STORED", "A[x] + select(x > 0, T[max(x - 1, 0)], 0.0)"))
    for program, inside in ((own, True), (before, False)):
        same(program, program)
        outer = lower(program, host(), passes=LOOPS).body
        loops = [s for a in outer for s in (a, *getattr(a, "body", ())) if isinstance(s, For)]
        held = {a.buffer.name for loop in loops for a in loop.body if isinstance(a, Allocate)}
        assert ("T" in held) == inside and "S" not in held
