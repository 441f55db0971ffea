"""Every kind of statement, compiled plainly and with checks, beside the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest
from msgspec.structs import replace

from mslang.backend.llvm.compile import optimised
from mslang.backend.reference import interpret
from mslang.diagnostics import MsError
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Const, Load, Var
from mslang.ir.operators import Value, call, select
from mslang.ir.program import For, Program, Stmt, Store, While
from mslang.runtime.kernel import load
from mslang.sema.program import parse_program
from mslang.target.detect import host
from tests.unit.llvm.support import executable, loaded, run

X = np.arange(48, dtype=np.float32).reshape(6, 8) % 11 - 4


def agrees(program: Program, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    wanted = interpret.run(program, arrays, check=False)
    for checked in (False, True):
        kernel = loaded(program, checked=checked)
        given = {p.buffer.name: arrays[p.buffer.name].copy() for p in program.params if p.direction != "out"}
        bound = kernel.bind(**given)
        bound.run()
        for name, array in wanted.items():
            assert np.array_equal(bound.arrays[name], array), (name, checked)
    return wanted


@pytest.mark.parametrize("kind", ["serial", "vectorized", "unrolled", "parallel"])
def test_views_stand_for_their_regions(kind: str):
    b = ProgramBuilder("views")
    x, y = b.input("X", (6, 8)), b.output("Y", (6, 4))
    with b.loop("i0", 6, kind=kind) as i0, b.loop("j0", 2) as j0:
        with b.block("half", spatial("i", 6, at=i0), spatial("h", 2, at=j0)) as (i, h):
            source = b.view("S", x, [(i, 1), (h * 4, 4)], keep=1)
            target = b.view("T", y, [(i, 1), (h * 2, 2)])
            inner = b.view("U", target, [(0, 1), (0, 2)], keep=1)
            with b.loop("c", 2) as c:
                inner[c] = source[c] * 2.0 + source[c + 2]
    assert agrees(b.finish(), X=X)["Y"][1, 3] == 2 * X[1, 5] + X[1, 7]


def test_nested_blocks_and_lets():
    b = ProgramBuilder("nested")
    x, y, s = b.input("X", (6, 8)), b.output("Y", (6,)), b.alloc("s", (6, 8))
    with b.loop("io", 3) as io, b.block("outer", spatial("o", 3, at=io)) as (o,):
        with b.loop("ii", 2) as ii, b.loop("jj", 8, kind="vectorized") as jj:
            with b.block("scaled", spatial("i", 6, at=o * 2 + ii), spatial("j", 8, at=jj)) as (i, j):
                with b.let("v", x[i, j] + 1.0) as v, b.let("w", v * v) as w:
                    s[i, j] = w - v
        with b.loop("i2", 2) as i2, b.loop("k2", 8) as k2:
            with b.block("sum", spatial("i", 6, at=o * 2 + i2), reduce("k", 8, at=k2)) as (i, k):
                y[i] += s[i, k]
    agrees(b.finish(), X=X)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_a_select_guards_what_it_reads(kind: str):
    b = ProgramBuilder("edges")
    x, p, y = b.input("X", (6, 8)), b.input("P", (6, 8), "i32"), b.output("Y", (6, 8))
    with b.loop("i0", 6) as i0, b.loop("j0", 8, kind=kind) as j0:
        with b.block("y", spatial("i", 6, at=i0), spatial("j", 8, at=j0)) as (i, j):
            at = i + p[i, j].cast("i64")
            y[i, j] = select((at >= 0) & (at < 6), x[at, j], select(j < 7, x[i, j + 1], -1.0))
    agrees(b.finish(), X=X, P=(np.arange(48).reshape(6, 8) * 7 % 23 - 11).astype(np.int32))


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_gathers_and_scatters(kind: str):
    b = ProgramBuilder("shuffle")
    x, p, y = b.input("X", (48,)), b.input("P", (48,), "i64"), b.output("Y", (48, 2))
    with b.loop("i0", 48, kind=kind) as i0, b.block("y", spatial("i", 48, at=i0)) as (i,):
        y[i, 0] = x[p[i]]
        y[47 - i, 1] = x[i] * 2.0
    order = np.random.default_rng(0).permutation(48)
    agrees(b.finish(), X=X.ravel(), P=order)


def test_in_place_updates_and_guarded_statements():
    b = ProgramBuilder("relu")
    y = b.inout("Y", (6, 8))
    with b.loop("i0", 6, kind="parallel") as i0, b.loop("j0", 8, kind="vectorized") as j0:
        with b.block("y", spatial("i", 6, at=i0), spatial("j", 8, at=j0)) as (i, j):
            with b.when(y[i, j] < 0.0):
                y[i, j] = y[i, j] * 0.5
    agrees(b.finish(), Y=X)


def test_strided_parameters():
    b = ProgramBuilder("columns")
    x, y = b.input("X", (6, 8)), b.output("Y", (8, 6))
    with b.loop("i0", 6) as i0, b.loop("j0", 8, kind="vectorized") as j0:
        with b.block("y", spatial("i", 6, at=i0), spatial("j", 8, at=j0)) as (i, j):
            y[j, i] = x[i, j]
    program = b.finish()
    first = program.params[0]
    turned = replace(first, buffer=replace(first.buffer, strides=(Const(1), Const(6))))
    program = replace(program, params=(turned, program.params[1]))
    assert np.array_equal(run(program, np.asfortranarray(X)), X.T)


def test_while_loops():
    """The number of halvings until a value is below one."""
    b = ProgramBuilder("halvings")
    x, y, t = b.input("X", (6,)), b.output("Y", (6,), "i32"), b.alloc("t", (1,))
    with b.loop("i0", 6) as i0, b.block("y", spatial("i", 6, at=i0)) as (i,):
        t[0] = x[i]
        y[i] = Value(Const(0, "i32"))
        value = Load("t", (Const(0),), "f32")
        count = Load("Y", (i.expr,), "i32")
        steps: tuple[Stmt, ...] = (
            Store("t", (Const(0),), Binary("*", value, Const(0.5, "f32"))),
            Store("Y", (i.expr,), Binary("+", count, Const(1, "i32"))),
        )
        b.emit(While(Binary(">=", value, Const(1.0, "f32")), steps))
    data = np.array([0.5, 1, 2, 3, 8, 1000], np.float32)
    assert run(b.finish(), data).tolist() == [0, 1, 2, 2, 4, 10]


def test_loops_that_start_elsewhere_and_depend_on_others():
    b = ProgramBuilder("triangle")
    x, y = b.input("X", (6, 8)), b.output("Y", (6,))
    with b.loop("i0", 6) as i0:
        with b.block("y", spatial("i", 6, at=i0)) as (i,):
            y[i] = 0.0
            with b.loop("k", i + 1, start=1) as k:
                y[i] = y[i] + x[i, k]
    wanted = np.array([X[i, 1 : i + 2].sum() for i in range(6)], np.float32)
    assert np.array_equal(run(b.finish(), X), wanted)


def test_functions_of_unsuited_types_are_refused():
    b = ProgramBuilder("strange")
    x, y = b.input("X", (4,), "i32"), b.output("Y", (4,), "i32")
    with b.block("y", spatial("i", 4)) as (i,):
        y[i] = call("exp", x[i])
    with pytest.raises(MsError) as caught:
        loaded(b.finish())
    assert caught.value.diagnostic.code == "MS407"


def test_a_view_with_too_many_indices_is_refused():
    b = ProgramBuilder("views")
    x, y = b.input("X", (6,)), b.output("Y", (6,))
    with b.block("y", spatial("i", 6)) as (i,):
        b.view("V", x, [(i, 1)])
        y[i] = x[i]
    program = b.finish()

    def wrong(s: Stmt) -> Stmt:
        if isinstance(s, For):
            return replace(s, body=tuple(wrong(t) for t in s.body))
        store = Store("Y", (Var("i"),), Load("V", (Const(0), Const(0)), "f32"))
        return replace(s, body=(store,))

    with pytest.raises(MsError) as caught:
        loaded(replace(program, body=tuple(wrong(s) for s in program.body)))
    assert caught.value.diagnostic.code == "MS405"


def test_a_module_that_llvm_refuses_is_explained():
    with pytest.raises(MsError) as caught:
        optimised("define void @f() { ret i32 1 }", host())
    assert caught.value.diagnostic.code == "MS401"
    assert caught.value.diagnostic.why


def test_workspace_of_dynamic_buffers_holds_the_largest_size():
    b = ProgramBuilder("reversed")
    m = b.dynamic("M", 1, 50)
    x, y, t = b.input("X", (m,)), b.output("Y", (m,)), b.alloc("T", (60 - m,))
    with b.block("t", spatial("i", 60 - m)) as (i,):
        t[i] = select(i < m, x[i], 7.0)
    with b.block("y", spatial("i", m)) as (i,):
        y[i] = select(m - 1 - i < 60 - m, t[m - 1 - i], 0.0)
    kernel = loaded(b.finish())
    assert kernel.signature.workspace >= 59 * 4
    for count in (1, 30, 50):
        data = np.arange(1, count + 1, dtype=np.float32)
        wanted = np.where(np.arange(count)[::-1] < 60 - count, data[::-1], 0)
        assert np.array_equal(kernel(data), wanted)


def test_many_local_buffers_do_not_overrun_the_stack():
    b = ProgramBuilder("large")
    x, y = b.input("X", (8, 4096)), b.output("Y", (8, 4096))
    parts = [b.alloc(f"t{k}", (4096,), scope="local") for k in range(24)]
    with b.loop("i0", 8, kind="parallel") as i0:
        for k, part in enumerate(parts):
            with b.loop("j0", 4096) as j0, b.block("fill", spatial("i", 8, at=i0), spatial("j", 4096, at=j0)) as (i, j):
                part[j] = x[i, j] + float(k)
        with b.loop("j1", 4096) as j1, b.block("sum", spatial("i", 8, at=i0), spatial("j", 4096, at=j1)) as (i, j):
            total = parts[0][j]
            for part in parts[1:]:
                total = total + part[j]
            y[i, j] = total
    program = b.finish()
    made = executable(program)
    assert sum(int(n) for n in re.findall(r"alloca \[(\d+) x float\]", made.llvm)) * 4 <= 256 * 1024
    data = np.ones((8, 4096), np.float32)
    assert (load(made.object, made.signature)(data) == 24 + sum(range(24))).all()


def test_buffers_of_vectors_are_refused():
    b = ProgramBuilder("vectors")
    y = b.output("Y", (4,))
    b.alloc("T", (4,), "f32x16")
    with b.block("y", spatial("i", 4)) as (i,):
        y[i] = 0.0
    with pytest.raises(MsError) as caught:
        loaded(b.finish())
    assert caught.value.diagnostic.code == "MS409"


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_lets_of_every_type(kind: str):
    b = ProgramBuilder("lets")
    x, y = b.input("X", (6, 8)), b.output("Y", (6, 8))
    with b.loop("i0", 6) as i0, b.loop("j0", 8, kind=kind) as j0:
        with b.block("y", spatial("i", 6, at=i0), spatial("j", 8, at=j0)) as (i, j):
            with b.let("half", Value(Const(1.5, "f32"))) as half, b.let("at", (i + j) % 8) as at:
                with b.let("far", at > 3) as far, b.let("v", x[i, at]) as v:
                    y[i, j] = select(far, v * half, v - half)
    agrees(b.finish(), X=X)


def test_a_let_may_have_the_name_of_a_loop_around_its_block():
    for value, used in (("A[i] * 2.0", "A[i]"), ("1.0", "f32(i)"), ("7 - i", "A[i]")):
        p = parse_program(f"""program p(A: f32[8], out B: f32[8]) {{
            for x in 8 {{ block b[i: 8 = x] {{ let x = {value}  B[i] = f32(x) + {used} }} }}
        }}""")
        agrees(p, A=X.ravel()[:8])


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_zeros_of_both_signs_in_like_expressions(kind: str):
    p = parse_program(f"""program p(A: f32[8], out B: f32[8], out C: f32[8]) {{
        for j in 8 @ {kind} {{ block b[i: 8 = j] {{ B[i] = A[i] * 0.0  C[i] = A[i] * -0.0 }} }}
    }}""")
    found = agrees(p, A=np.ones(8, np.float32))
    plus, minus = loaded(p)(np.ones(8, np.float32))
    assert not np.signbit(plus).any() and np.signbit(minus).all()
    assert np.array_equal(np.signbit(minus), np.signbit(found["C"]))


@pytest.mark.parametrize(
    ("loop", "body"),
    [
        ("i in N[0]..N[0] + 1", "N[0] = 5  B[i] = B[i] + 1"),
        ("i in N[0]..N[0] + 3 @ unrolled", "N[0] = N[0] + 5  B[i] = B[i] + 1"),
        ("i in 0..N[1] @ vectorized", "N[i] = 16"),
        ("i in 0..N[1]", "if i < 4 { B[i] = 7 }  B[i + 9] = 3  N[1] = 2"),
        ("i in 0..N[1]", "for j in 0..N[2] { B[i] = B[i] + 1  N[2] = 1 }"),
    ],
)
def test_a_loop_runs_as_long_as_its_bounds_said_before_it(loop: str, body: str):
    p = parse_program(f"""program p(inout N: i64[20], inout B: i64[20]) {{
        block b[] {{ for {loop} {{ {body} }} }}
    }}""")
    agrees(p, N=np.full(20, 9), B=np.zeros(20, np.int64))


def test_copies_do_not_run_ahead_in_a_loop_that_changes_its_length():
    p = parse_program("""program p(inout N: i64[1], A: f32[16], inout B: f32[16]) {
        alloc T: f32[16]
        for i in 0..N[0] @ serial("pipeline.stages" = 2) {
            block c[k: 16 = i] { T[k] = A[k] }
            block d[k: 16 @ opaque = i] { B[k] = T[k]  N[0] = 2 }
        }
    }""")
    agrees(p, N=np.array([8]), A=X.ravel()[:16], B=np.zeros(16, np.float32))


@pytest.mark.parametrize("stored", ["at", "v"])
def test_an_axis_keeps_its_value_where_its_block_changes_what_it_is_bound_to(stored: str):
    p = parse_program(f"""program p(inout at: i32[1], inout B: f32[8]) {{
        for k in 4 {{
            block b[i: 8 @ opaque = i64(at[0])] {{
                where i < 7
                view v: i32[1] = at[0..1]
                {stored}[0] = i32(i) + i32(2)
                B[i] = B[i] + 1.0
            }}
        }}
    }}""")
    agrees(p, at=np.array([1], np.int32), B=np.zeros(8, np.float32))


@pytest.mark.parametrize("kind", ["serial", "vectorized", "unrolled"])
def test_data_that_a_let_holds_wrap_around(kind: str):
    p = parse_program(f"""program p(A: i64[8], z: i64[1], out S: i64[8], out Q: i64[8], out L: i64[8], out M: i64[8]) {{
        for j in 8 @ {kind} {{
            block b[i: 8 = j] {{
                let x = A[i]
                let y = x * 6364136223846793005 + 1442695040888963407
                let end = z[0]
                S[i] = y * y
                Q[i] = x * 4 // 4
                L[i] = select(x + 1 > x, 1, 0) + select(i < end, 2, 0)
                M[i] = min(x, x + 3) + A[(x * 6) % 3 * 2]
            }}
        }}
    }}""")
    a = np.array([2**62, -(2**63), 2**63 - 1, 5, -7, 0, 1, 3])
    for end in (-(2**63), 3, 2**63 - 1):
        found = agrees(p, A=a, z=np.array([end]))
    with np.errstate(over="ignore"):
        y = a * 6364136223846793005 + 1442695040888963407
        assert np.array_equal(found["S"], y * y)
        assert np.array_equal(found["Q"], a * 4 // 4)
        assert np.array_equal(found["L"], np.where(a + 1 > a, 1, 0) + 2)
