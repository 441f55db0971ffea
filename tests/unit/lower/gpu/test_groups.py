"""Instructions that threads run together: who must reach them, and what their operands may depend on."""

from __future__ import annotations

import pytest

from mslang.diagnostics import TargetError
from mslang.ir.expr import Binary, Const, DynamicRange, Expr, Load, Symbol, Var
from mslang.ir.intrin import Formal
from mslang.kernel import Allocate, Body, For, If, Invoke, Let, Module, Stmt, Store
from mslang.lower.gpu.barriers import synchronized
from mslang.target.description import SM_90
from tests.unit.cuda.kernels import TX, buffer, launch, module, modulo, n, over, plus, times

BX, TY, K = Var("blockIdx.x"), Var("threadIdx.y"), Var("k")
FIRST, FOUR = n(0), n(4)
HELD = {
    "warp": buffer("held", "f32", 64, 16, 16, scope="wmma.acc"),
    "four": buffer("held", "f32", 64, 64, 64, scope="wgmma.acc"),
}
SIZES = Symbol("M", "", DynamicRange(1, 64))


def less(a: Expr, b: Expr) -> Expr:
    return Binary("<", a, b)


def instruction(at: Expr = FIRST, text: str = "") -> Invoke:
    """An instruction on tile `at` of the fragments, which fills it."""
    indices = (at, n(0), n(0))
    return Invoke(
        "fill",
        text,
        (Formal("dst", "f32"),),
        (2,),
        (Load("held", indices, "f32"),),
        (Store("held", indices, Const(0.0, "f32")),),
    )


def kernel(s: Stmt, block: tuple[int, ...], kind: str = "warp") -> Module:
    given = (buffer("flags", "i32", 64), buffer("C", "f32", 64))
    own = buffer("mine", "i32", 1, scope="local")
    body: Body = (Allocate(HELD[kind], (Allocate(own, (s,)),)),)
    return module("k", body, given, launch((4,), block))


def loop(s: Stmt, extent: Expr = FOUR, start: Expr = FIRST) -> For:
    return For("k", extent, (s,), "serial", start)


def flag(at: Expr) -> Expr:
    return Binary("==", Load("flags", (at,), "i32"), Const(0, "i32"))


@pytest.mark.parametrize(
    ("s", "block", "kind"),
    [
        (instruction(), (32,), "warp"),
        (instruction(), (8, 4), "warp"),
        (instruction(TY), (32, 2), "warp"),
        (instruction(over(TX, 64)), (128,), "warp"),
        (instruction(modulo(over(TX, 32), 2)), (128,), "warp"),
        (instruction(over(TY, 2)), (64, 4), "four"),
        (loop(instruction(plus(K, times(TY, 4)))), (32, 2), "warp"),
        (loop(instruction(K), over(plus(TX, n(32)), 32)), (64,), "warp"),
        (If(less(plus(times(BX, 4), TY), n(11)), (instruction(TY),)), (32, 4), "warp"),
        (If(less(BX, SIZES), (instruction(),)), (32,), "warp"),
        (If(flag(BX), (instruction(),)), (32,), "warp"),
        (Let("w", over(TX, 32), (If(less(Var("w"), n(1)), (instruction(Var("w")),)),)), (64,), "warp"),
        (loop(instruction(text="#barrier")), (32, 4), "warp"),
        (instruction(TY, "#barrier"), (32, 4), "warp"),
    ],
)
def test_what_is_the_same_in_a_group_may_differ_among_groups(s: Stmt, block: tuple[int, ...], kind: str) -> None:
    made = kernel(s, block, kind)
    assert synchronized(made, SM_90) == made


@pytest.mark.parametrize(
    ("s", "block", "kind", "message", "why"),
    [
        (
            instruction(),
            (16,),
            "warp",
            "`fill` is an instruction of 32 threads, and a block has 16",
            "in the registers",
        ),
        (
            instruction(),
            (64,),
            "four",
            "`fill` is an instruction of 128 threads, and a block has 64",
            "in the registers",
        ),
        (instruction(), (160,), "four", "`fill` is an instruction of 128 threads, and a block has 160", ""),
        (If(less(TX, n(16)), (instruction(),)), (32,), "warp", "not all of the 32 threads that run `fill`", "< 16"),
        (If(less(TY, n(2)), (instruction(),)), (8, 4), "warp", "not all of the 32 threads that run `fill`", "< 2"),
        (If(less(TX, n(32)), (instruction(),)), (128,), "four", "not all of the 128 threads", "< 32"),
        (loop(instruction(K), plus(TX, n(1))), (32,), "warp", "not all of the 32 threads", "+ 1"),
        (If(flag(TX), (instruction(),)), (32,), "warp", "not all of the 32 threads", "flags"),
        (
            If(Binary("==", Load("mine", (n(0),), "i32"), Const(0, "i32")), (instruction(),)),
            (32,),
            "warp",
            "not all of the 32 threads",
            "mine",
        ),
        (
            Let("w", TX, (If(less(Var("w"), n(1)), (instruction(),)),)),
            (64,),
            "warp",
            "not all of the 32 threads",
            "< 1",
        ),
        (instruction(over(TX, 16)), (64,), "warp", "are not known to have the same `dst`", "// 16"),
        (loop(instruction(K), n(4), TX), (32,), "warp", "are not known to have the same `dst`", "k"),
        (
            If(less(TY, n(2)), (instruction(text="#barrier"),)),
            (32, 4),
            "warp",
            "not all of the 128 threads that run `fill` together are known to reach it",
            "< 2",
        ),
    ],
)
def test_an_instruction_of_a_part_of_a_group_is_refused(
    s: Stmt, block: tuple[int, ...], kind: str, message: str, why: str
) -> None:
    with pytest.raises(TargetError) as caught:
        synchronized(kernel(s, block, kind), SM_90)
    found = caught.value.diagnostic
    assert found.code == "MS456"
    assert message in found.message
    assert why in str(found.why)
