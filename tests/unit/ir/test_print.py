"""Golden long forms. `tests/expect/long_form/*.ms` hold what is printed, and parse back to the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mslang.diagnostics import MsError
from mslang.ir import te
from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import (
    Binary,
    Call,
    Cast,
    Choice,
    Const,
    Expr,
    Load,
    PerfectTile,
    Select,
    Symbol,
    Unary,
    Var,
)
from mslang.ir.operators import select
from mslang.ir.print import print_expr, print_program, print_stmt
from mslang.ir.program import Buffer, For, Param, Program, Store
from mslang.ir.text import KEYWORDS, name_text
from mslang.sema.program import parse_program

ROOT = Path(__file__).parents[3]
EXPECT = ROOT / "tests" / "expect" / "long_form"

TILE = PerfectTile(Const(512), 4, 64)


def scheduled_matmul() -> Program:
    b = ProgramBuilder("matmul")
    a_in, b_in, c_out = b.input("A", (64, 64)), b.input("B", (64, 64)), b.output("C", (64, 64))
    acc = b.alloc("acc", (64, 64), scope="local")
    with b.loop("i0", 16, kind="parallel") as i0, b.loop("j0", 4) as j0:
        with (
            b.loop("k", 64) as k,
            b.loop("i1", 4) as i1,
            b.loop("j1", 16, kind="vectorized") as j1,
            b.block("mm", spatial("i", 64, i0 * 4 + i1), spatial("j", 64, j0 * 16 + j1), reduce("k", 64, k)) as (
                i,
                j,
                kk,
            ),
        ):
            acc[i, j] += a_in[i, kk] * b_in[kk, j]
        with (
            b.loop("ax0", 4) as x0,
            b.loop("ax1", 16, kind="vectorized") as x1,
            b.block("C_local", spatial("i", 64, i0 * 4 + x0), spatial("j", 64, j0 * 16 + x1)) as (i, j),
        ):
            c_out[i, j] = acc[i, j]
    return b.finish()


def parametric() -> Program:
    b = ProgramBuilder("copy")
    m = b.dynamic("M", 1, 4096, 8)
    x, y = b.input("x", (m, 512)), b.output("y", (m, 512))
    t2, t3 = (te.Value(Symbol("ti", TILE, k)) for k in (2, 3))
    unroll = Symbol("sa/unroll", Choice((0, 16, 64), (0.5, 0.25, 0.25)))
    with (
        b.loop("i", m, kind="parallel", annotations=(("pragma.unroll", unroll), ("vec", True))) as i,
        b.loop("a", t2) as a,
        b.loop("b", t3, start=0) as c,
        b.block(
            "cp",
            spatial("i", m, i),
            spatial("j", 512, a * t3 + c),
            where=a * t3 + c < 512,
            annotations=(("note", 'two "words"'), ("at", (1, 2.5))),
        ) as (i, j),
    ):
        y[i, j] = x[i, j]
    return b.finish((("seed", 3),))


def everything() -> Program:
    b = ProgramBuilder("everything")
    x, y = b.input("x", (8, 10)), b.output("for", (8, 10))
    n = b.inout("n.1", (8,), "i32")
    with (
        b.loop("i", 2, start=1) as i,
        b.loop("j", i + 1, start=i) as j,
        b.block("outer", spatial("i", 3, i), spatial("j", 4, j)) as (ai, aj),
    ):
        tmp = b.alloc("tmp", (4,), "f32", "local")
        view = b.view("v", x, [(ai, 1), (aj, 4)], keep=1)
        with b.let("half", te.Value(Const(0.5, "f32"))) as half:
            with b.loop("u", 4, kind="unrolled") as u, b.block("inner", spatial("u", 4, u)) as (au,):
                tmp[au] = view[au] * 2 - 1
            with b.when((ai < 2) & ~(aj >= 3)):
                y[ai, aj] = select(tmp[0] > 0, tmp[0] * half, float("inf"))
            n[ai] = -n[ai] << 2
    return b.finish()


def tensor_expressions() -> Program:
    a, c = te.placeholder((6, 5), "i32", "A"), te.placeholder((5,), "i32", "c")
    k = te.reduce_axis(5, "k")
    row = te.compute((6,), lambda i: te.max(a[i, k] + c[k], axis=k), "row")
    return te.program("rows", te.compute((6, 2), lambda i, j: row[i] * 2 + 1, "out_"), row)


GOLDEN = {"matmul": scheduled_matmul, "parametric": parametric, "everything": everything, "te": tensor_expressions}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str):
    p = GOLDEN[name]()
    text = print_program(p)
    assert text == (EXPECT / f"{name}.ms").read_text()
    assert parse_program(text) == p


I, F = Var("i"), Load("f", (Var("i"),), "f32")  # noqa: E741


def add(a: Expr, b: Expr) -> Expr:
    return Binary("+", a, b)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (add(I, add(I, I)), "i + (i + i)"),
        (add(add(I, I), I), "i + i + i"),
        (Binary("*", add(I, I), I), "(i + i) * i"),
        (Binary("//", I, Binary("%", I, Const(3))), "i // (i % 3)"),
        (Binary("-", I, Const(-3)), "i - -3"),
        (Unary("-", Const(3)), "-(3)"),
        (Unary("-", add(I, I)), "-(i + i)"),
        (Unary("not", Binary("<", I, I)), "not i < i"),
        (Binary("==", Unary("not", Const(True, "bool")), Const(False, "bool")), "(not true) == false"),
        (Binary("and", Binary("or", Const(True, "bool"), Var("c", "bool")), Var("c", "bool")), "(true or c) and c"),
        (Binary("min", I, Binary("<<", I, Const(2))), "min(i, shift_left(i, 2))"),
        (
            Binary("&", I, Binary("^", I, Binary("|", I, Binary(">>", I, I)))),
            "bit_and(i, bit_xor(i, bit_or(i, shift_right(i, i))))",
        ),
        (add(F, Const(1.5, "f32")), "f[i] + 1.5"),
        (add(F, Const(1e-7, "f32")), "f[i] + 1e-07"),
        (add(Const(1.5, "f16"), Const(2.0, "f16")), "f16(1.5) + f16(2.0)"),
        (Const(3, "i32"), "i32(3)"),
        (Cast("f32", Const(3)), "f32(i64(3))"),
        (Cast("f32", I), "f32(i)"),
        (Const(float("-inf"), "f32"), "f32(-inf)"),
        (Select(Binary(">", F, Const(0.0, "f32")), F, Const(float("nan"), "f32")), "select(f[i] > 0.0, f[i], nan)"),
        (Call("exp", (F,), "f32"), "exp(f[i])"),
        (Call("isnan", (F,), "bool"), "isnan(f[i])"),
        (Call("isnan", (Const(1.0, "f32"),), "bool"), "isnan(f32(1.0))"),
        (Call("atan2", (F, Const(1.0, "f32")), "f32"), "atan2(f[i], 1.0)"),
        (Symbol("ti", TILE, 2), "ti[2]"),
        (Symbol("sa/vec", Choice((1,))), "`sa/vec`"),
        (Var("for"), "`for`"),
    ],
)
def test_expressions(e: Expr, text: str):
    assert print_expr(e) == text


def test_statements():
    s = For("i", Const(4), (Store("C", (Var("i"),), Const(0.0, "f32")),), "unrolled", Const(2))
    assert print_stmt(s) == "for i in 2..6 @ unrolled {\n    C[i] = 0.0\n}"
    assert print_stmt(For("i", Const(4), (), "serial", Var("k"))) == "for i in k .. k + 4 {}"


def test_long_headers_break():
    names = [f"a_rather_long_name_{k}" for k in range(6)]
    b = ProgramBuilder("p")
    for n in names:
        b.input(n, (4, 4))
    text = print_program(b.finish())
    assert text.splitlines()[1] == "    a_rather_long_name_0: f32[4, 4]," and max(map(len, text.splitlines())) <= 100


def test_the_keywords_are_those_of_the_grammar():
    grammar = (ROOT / "grammar" / "ms.lark").read_text()
    assert set(re.findall(r'"([a-z]+)"', grammar)) == KEYWORDS


@pytest.mark.parametrize("name", ["x", "_x", "xä", "ä1", "for", "a.b", "sa/vec", "1x", "inout"])
def test_names(name: str):
    b = ProgramBuilder(name)
    out = b.output(name + "_", (2,))
    with b.block(name, spatial("k", 2)) as (k,):
        out[k] = 0
    assert parse_program(print_program(b.finish())) == b.finish()
    assert (name_text(name) == name) == (name in ("x", "_x", "xä"))


def test_strides_offsets_and_scopes():
    b = Buffer("t", "f16x8", (Const(4), Const(2)), "shared.dyn", (Const(2), Const(1)), Const(16), 64)
    text = print_program(Program("p", (), (), (b,)))
    assert "alloc t: f16x8[4, 2] @ shared.dyn(strides = [2, 1], offset = 16, align = 64)" in text
    assert parse_program(text) == Program("p", (), (), (b,))


def test_a_program_that_is_nested_too_deeply_has_no_text() -> None:
    total: Expr = Const(1.0, "f32")
    for _ in range(600):
        total = Binary("+", total, Const(1.0, "f32"))
    with pytest.raises(MsError) as caught:
        print_program(Program("deep", (Param(Buffer("C", "f32", ()), "out"),), (Store("C", (), total),)))
    assert caught.value.diagnostic.code == "MS705" and "`deep`" in caught.value.diagnostic.message
