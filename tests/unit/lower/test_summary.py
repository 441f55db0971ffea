"""The summary of small kernels: its numbers are those that counting gives, exact where it says so."""

from __future__ import annotations

from collections import defaultdict

import pytest

import mslang as ms
from mslang.ir.arith import evaluate
from mslang.ir.arith.size import number
from mslang.ir.expr import ZERO, Binary, Const, Expr, Var
from mslang.ir.program import Program, Range
from mslang.kernel.nodes import Store
from mslang.kernel.visit import walk
from mslang.lower.passes import lower
from mslang.lower.summary import Access, Arithmetic, Statement, Summary, mapped, numbers, summarize
from mslang.lower.summary.footprint import dimension, is_exact, span
from mslang.lower.symbolic import lower_symbolic
from mslang.sema.program import parse_program
from mslang.target.description import GENERIC, Target
from tests.unit.lower.counted import Event, events

WIDE = Target("wide", vector_bits=512)

MATMUL = """program p(A: f32[12, 8], B: f32[8, 16], out C: f32[12, 16]) {
    for i0 in 3, j0 in 2, k0 in 4, i1 in 4, k1 in 2, j1 in 8 {
        block c[i: 12 = i0 * 4 + i1, j: 16 = j0 * 8 + j1 | k: 8 = k0 * 2 + k1] {
            init { C[i, j] = 0.0 }
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
        }
    }
}"""
CONVOLUTION = """program p(X: f32[14, 14], F: f32[3, 3], out Y: f32[12, 12]) {
    for h0 in 3, w0 in 2, r in 3, h1 in 4, s in 3, w1 in 6 {
        block y[h: 12 = h0 * 4 + h1, w: 12 = w0 * 6 + w1 | a: 3 = r, b: 3 = s] {
            init { Y[h, w] = 0.0 }
            Y[h, w] = Y[h, w] + X[h + a, w + b] * F[a, b]
        }
    }
}"""
STRIDED = """program p(X: f32[33], F: f32[3], out Y: f32[16]) {
    for o in 4, r in 3, i in 4 {
        block y[x: 16 = o * 4 + i | a: 3 = r] {
            init { Y[x] = 0.0 }
            Y[x] = Y[x] + X[x * 2 + a] * F[a]
        }
    }
}"""
STENCIL = """program p(X: f32[10, 10], out Y: f32[8, 8]) {
    for i in 8, j in 8 {
        block y[a: 8 = i, b: 8 = j] {
            Y[a, b] = X[a, b + 1] + X[a + 1, b] + X[a + 1, b + 1] + X[a + 1, b + 2] + X[a + 2, b + 1]
        }
    }
}"""
TRANSPOSE = """program p(X: f32[16, 8], out Y: f32[8, 16]) {
    for i0 in 2, j0 in 2, i1 in 4, j1 in 8 { block y[a: 8 = i0 * 4 + i1, b: 16 = j0 * 8 + j1] { Y[a, b] = X[b, a] } }
}"""
DIAGONAL = """program p(X: f32[8, 8], out Y: f32[8]) {
    for i in 8 { block y[a: 8 = i] { Y[a] = X[a, a] } }
}"""
FUSED = """program p(X: f32[6, 8], out Y: f32[6, 8]) {
    for f in 48 { block y[a: 6 = f // 8, b: 8 = f % 8] { Y[a, b] = X[a, b] * 2.0 } }
}"""
PADDED = """program p(X: f32[10], out Y: f32[12]) {
    for o in 3, i in 4 {
        block y[a: 12 = o * 4 + i] { Y[a] = select(1 <= a and a < 11, X[a - 1], 0.0) }
    }
}"""
TAIL = """program p(X: f32[10], out Y: f32[10]) {
    for o in 3, i in 4 { block y[a: 10 = o * 4 + i] { where o * 4 + i < 10
 Y[a] = X[a] } }
}"""
STAGED = """program p(X: f32[16, 8], out Y: f32[16, 8]) {
    alloc T: f32[16, 8]
    for o in 4 {
        for i in 4, j in 8 { block t[a: 16 = o * 4 + i, b: 8 = j] { T[a, b] = X[a, b] + 1.0 } }
        for i2 in 4, j2 in 8 { block y[a: 16 = o * 4 + i2, b: 8 = j2] { Y[a, b] = T[a, b] * T[a, 7 - b] } }
    }
}"""
PROGRAMS = {
    "matmul": MATMUL,
    "convolution": CONVOLUTION,
    "strided": STRIDED,
    "stencil": STENCIL,
    "transpose": TRANSPOSE,
    "diagonal": DIAGONAL,
    "fused": FUSED,
    "padded": PADDED,
    "tail": TAIL,
    "staged": STAGED,
}
EXACT = ("matmul", "convolution", "transpose", "strided")
"""Programs of which every access is affine, under no condition, and alone of its buffer in its statement."""


def program(text: str) -> Program:
    """The only program of a text."""
    return parse_program(text)


def summary_of(text: str, target: Target = GENERIC) -> Summary:
    """The summary of a program as it stands."""
    return summarize(lower_symbolic(program(text), target), target)


def value(e: Expr) -> int:
    """The number that an expression of a concrete summary is."""
    assert isinstance(e, Const)
    return int(e.value)


def counted(found: list[Event], a: Access, k: int) -> int:
    """The most elements of a buffer that one run of the loops from `k` on accesses."""
    touched: dict[tuple[int, ...], set[tuple[int, ...]]] = defaultdict(set)
    for e in found:
        touched[e.loops[:k]].update(at for name, at in e.elements if name == a.buffer)
    return max(map(len, touched.values()))


@pytest.mark.parametrize("name", PROGRAMS)
def test_footprints_are_what_counting_gives(name: str):
    module = lower_symbolic(program(PROGRAMS[name]), GENERIC)
    summary, all_events = summarize(module, GENERIC), events(module.body)
    for number_of, s in enumerate(summary.statements):
        found = [e for e in all_events if e.statement == number_of]
        assert len(found) <= value(s.trips)
        assert s.guarded or len(found) == value(s.trips)
        for a in s.accesses:
            alone = sum(b.buffer == a.buffer for b in s.accesses) == 1
            for k in range(len(s.loops) + 1):
                told, real = value(a.elements[k]), counted(found, a, k)
                assert told >= real or not alone
                assert not (a.exact and alone) or told == real, (a.buffer, k)


@pytest.mark.parametrize("name", EXACT)
def test_affine_accesses_are_exact(name: str):
    always = [s for s in summary_of(PROGRAMS[name]).statements if not s.guarded]
    assert always
    assert all(a.exact for s in always for a in s.accesses)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "padded"])
def test_strides_are_differences_of_addresses(name: str):
    module = lower_symbolic(program(PROGRAMS[name]), GENERIC)
    summary, all_events = summarize(module, GENERIC), events(module.body)
    sizes = {p.buffer.name: [value(n) for n in p.buffer.shape] for p in module.params}
    sizes |= {b.name: [value(n) for n in b.shape] for b in summary.buffers}

    def address(buffer: str, at: tuple[int, ...]) -> int:
        place = 0
        for i, n in zip(at, sizes[buffer], strict=True):
            place = place * n + i
        return place

    seen = 0
    for number_of, s in enumerate(summary.statements):
        by_loops = {e.loops: e.elements for e in all_events if e.statement == number_of}
        for k in range(len(s.loops)):
            first = by_loops.get((0,) * len(s.loops))
            second = by_loops.get(tuple(int(d == k) for d in range(len(s.loops))))
            if first is None or second is None or len(first) != len(second):
                continue
            for a in s.accesses:
                steps = {
                    address(b, y) - address(b, x)
                    for (b, x), (c, y) in zip(first, second, strict=True)
                    if b == c == a.buffer
                }
                stride = a.strides[k]
                assert stride is not None and value(stride) in steps
                seen += 1
    assert seen


def test_reuse_of_a_tiled_matmul():
    (_, s) = summary_of(MATMUL).statements
    c, a, b = s.accesses
    # A[i, k] is the same along j1, B[k, j] along i1, C[i, j] along k1, all with loops inside of them or not.
    assert [value(x.reuse_trips) for x in (c, a, b)] == [2, 8, 4]
    assert [value(x.reuse_iterations) for x in (c, a, b)] == [8, 1, 16]
    # along i1: 8 elements of C, 2 of A, 2 * 8 of B are accessed between
    assert value(b.reuse_bytes) == 4 * (8 + 2 + 16)


def test_cache_lines_are_those_of_rows():
    (_, s) = summary_of(MATMUL).statements
    c, a, b = s.accesses
    # C is 12 rows of 64 bytes: a line each; A is 12 rows of 32 bytes: two rows a line
    assert value(c.lines[0]) == 12
    assert value(a.lines[0]) == 6
    assert value(b.lines[-1]) == 1


@pytest.mark.parametrize(
    ("value_text", "expected"),
    [
        ("A[x] * 2.0 + B[x]", Arithmetic(float_fma=1)),
        ("A[x] * 2.0 * B[x] - A[x] / B[x]", Arithmetic(float_fma=1, float_mul=1, float_div=1)),
        ("exp(A[x]) + sqrt(B[x])", Arithmetic(float_math=2, float_add=1)),
        ("max(A[x], 0.0)", Arithmetic(compare=1)),
        ("select(A[x] < B[x], A[x], B[x])", Arithmetic(compare=1, select=1)),
        ("A[7 - x]", Arithmetic()),
    ],
)
def test_operations_by_type(value_text: str, expected: Arithmetic):
    body = f"for i in 8 {{ block c[x: 8 = i] {{ C[x] = {value_text} }} }}"
    text = f"program p(A: f32[8], B: f32[8], out C: f32[8]) {{ {body} }}"
    (s,) = summary_of(text).statements
    assert s.arithmetic == expected


def test_integer_operations():
    text = """program p(A: i32[8], B: i32[8], out C: i32[8]) {
        for i in 8 { block c[x: 8 = i] { C[x] = A[x] * B[x] + shift_right(A[x], 1) } }
    }"""
    (s,) = summary_of(text).statements
    assert s.arithmetic == Arithmetic(integer_mul=1, integer_add=1, bitwise=1)


TILE = """program p(A: f32[6, 32], B: f32[32, 32], out C: f32[6, 32]) {
    for k in 32, i in 6 @ unrolled, j in 32 @ vectorized {
        block c[x: 6 = i, y: 32 = j | z: 32 = k] {
            init { C[x, y] = 0.0 }
            C[x, y] = C[x, y] + A[x, z] * B[z, y]
        }
    }
}"""


def test_registers_of_a_tile():
    (_, s) = summary_of(TILE, WIDE).statements
    # 6 rows of 2 vectors of 16 lanes; the 2 vectors of B stay, the 6 elements of A stream through one register
    assert (value(s.lanes), value(s.vectors)) == (32, 2)
    assert value(s.accumulators) == 12
    assert value(s.operands) == 3
    assert value(s.copies) == 12


def test_a_loop_beyond_its_limit_is_not_written_out():
    def copies(limit: int) -> int:
        (s,) = summary_of(
            f"""program p(A: f32[16], out B: f32[16]) {{
                for i in 16 @ unrolled("unroll.max_steps" = {limit}) {{ block b[x: 16 = i] {{ B[x] = A[x] }} }}
            }}"""
        ).statements
        return value(s.copies)

    assert (copies(16), copies(15)) == (16, 1)


NESTED = """program p(A: f32[64, 32], out B: f32[64, 32]) {
    block b[i: 64, j: 32] { B[i, j] = A[i, j] }
}
schedule nested for p {
    let steps ~ choose([2, 32])
    b.i.unroll()
    b.j.unroll(max_steps = steps)
}"""


@pytest.mark.parametrize(("steps", "copies"), [(2, 64), (32, 32)])
def test_a_loop_around_one_beyond_its_limit_is_written_out(steps: int, copies: int):
    """As many copies as lowering makes, with the decision open and with its value."""
    space = ms.parse(NESTED).space("nested")
    program = space.replay({"steps": steps}).program
    written = sum(isinstance(s, Store) for s in walk(lower(program, GENERIC).body))
    (s,) = summarize(lower_symbolic(program, GENERIC), GENERIC).statements
    sketch = space.sample(0).sketch
    (open_,) = summarize(lower_symbolic(sketch.program, GENERIC), GENERIC).statements
    assert written == value(s.copies) == evaluate(open_.copies, {}, {"steps": steps}) == copies


def test_buffers_are_as_large_as_what_is_placed():
    (b,) = summary_of(STAGED).buffers
    assert ([value(n) for n in b.shape], value(b.bytes), b.loops, b.nest) == ([4, 8], 128, ("o",), 0)


def test_indices_that_depend_on_data_have_the_whole_dimension():
    text = """program p(P: i32[4], X: f32[100], out Y: f32[4]) {
        for i in 4 { block y[x: 4 = i] { Y[x] = X[i64(P[x])] } }
    }"""
    (s,) = summary_of(text).statements
    (x,) = (a for a in s.accesses if a.buffer == "X")
    assert value(x.elements[0]) == 100
    assert x.strides == (None,)
    assert not x.exact


@pytest.mark.parametrize(
    "index", [Var("i"), Binary("*", Var("i"), Const(3)), Binary("//", Var("i"), Const(2))], ids=["i", "3i", "i // 2"]
)
def test_a_loop_that_never_runs_touches_nothing(index: Expr):
    found = span(dimension([index], frozenset({"i"}), None), {"i": Range(ZERO, ZERO)}, 1)
    assert found is not None
    assert (found.values, found.reach) == (number(0), number(1))


THREADS = """program p(A: f32[4096], out B: f32[4096]) {
    alloc S: f32[4096] @ shared
    alloc L: f32[4096] @ local
    for b in 32 @ blockIdx.x, t in 64 @ threadIdx.x {
        for c in 2, u in 64 @ threadIdx.x { block s[x: 4096 = b * 128 + c * 64 + u] { S[x] = A[x] } }
        for d in 2 { block l[x: 4096 = b * 128 + t * 2 + d] { L[x] = S[x] * 2.0 } }
        for e in 2 { block o[x: 4096 = b * 128 + t * 2 + e] { B[x] = L[x] } }
    }
}"""
GPU = Target("gpu", "cuda", vector_bits=128, registers=255, extra=(("max_threads", 1024), ("shared", 48 * 1024)))


def test_a_launch_has_blocks_threads_and_memory():
    (nest,) = summary_of(THREADS, GPU).nests
    assert [value(e) for e in (*nest.grid, *nest.block)] == [32, 1, 1, 64, 1, 1]
    assert value(nest.threads) == 64
    assert value(nest.shared) == 128 * 4
    assert value(nest.local) == 2 * 4


def test_loops_of_one_thread_axis_inside_each_other_run_once():
    copy = next(s for s in summary_of(THREADS, GPU).statements if s.buffer == "S")
    assert [x.var for x in copy.loops] == ["b", "t", "c"]
    assert value(copy.trips) == 4096


def test_a_summary_is_a_tree_of_expressions():
    summary = summary_of(MATMUL)
    found = list(numbers(summary))
    assert len({path for path, _ in found}) == len(found)
    doubled = mapped(summary, lambda e: Const(2 * int(evaluate(e, {}))))
    assert isinstance(doubled.statements[0], Statement)
    assert [value(e) for _, e in numbers(doubled)] == [2 * value(e) for _, e in found]


@pytest.mark.parametrize(
    ("terms", "exact"),
    [
        (((1, 4), (4, 3)), True),  # tiles of one dimension
        (((1, 8), (1, 3)), True),  # a window
        (((8, 2), (1, 8), (1, 3)), True),  # a window over tiles
        (((2, 8), (1, 3)), True),  # a strided window
        (((3, 8), (2, 4)), False),
        (((4, 3), (4, 2), (1, 2)), False),
        (((4, 3), (1, 2)), True),  # values with gaps
        (((1, 2), (4, 3), (6, 2)), False),
    ],
)
def test_exact_is_said_only_where_it_is(terms: tuple[tuple[int, int], ...], exact: bool):
    assert is_exact(tuple((number(c), number(n)) for c, n in terms)) is exact
    values = {0}
    reach = trips = 1
    for c, n in terms:
        values = {v + c * k for v in values for k in range(n)}
        reach, trips = reach + c * (n - 1), trips * n
    assert min(reach, trips) >= len(values)
    assert not exact or min(reach, trips) == len(values)


@pytest.mark.parametrize("loop", ["j in 0..N[0]", "j in N[0]..N[1]", "j in 0..N[1] @ unrolled", "j in 0..min(N[0], 7)"])
@pytest.mark.parametrize("index", ["k", "k // 4", "k * 2 % 16"])
def test_numbers_of_a_loop_whose_length_depends_on_data(loop: str, index: str):
    program = parse_program(f"""program p(N: i64[2] in 0..17, A: i64[16], inout B: i64[16]) {{
        for i in 3, {loop} {{ block b[n: 3 = i, k: 16 = j] {{ B[k] = B[k] + A[{index}] }} }}
    }}""")
    summary = summarize(lower_symbolic(program, GENERIC), GENERIC)
    assert all(isinstance(evaluate(e, {}), int) for _, e in numbers(summary))
    assert int(evaluate(summary.statements[0].trips, {})) == 3
