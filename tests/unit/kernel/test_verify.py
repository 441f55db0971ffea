"""What is wrong with a kernel is named; what lowering makes of programs is well-formed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.ir.expr import ONE, TRUE, Binary, Broadcast, Const, Expr, Load, Ramp, Select, Shuffle, Symbol, Uniform, Var
from mslang.ir.program import Buffer, Param
from mslang.kernel.lanes import lanes_of
from mslang.kernel.nodes import (
    Allocate,
    Atomic,
    Barrier,
    Body,
    For,
    Function,
    If,
    Launch,
    Let,
    Module,
    Stmt,
    Store,
)
from mslang.kernel.print import print_module
from mslang.kernel.verify import faults, verify
from mslang.lower.passes import stages
from mslang.target.description import GENERIC
from tests.unit.lower.programs import packed_gemm

A = Buffer("A", "f32", (Const(8),))
X = Var("i")


def module(*body: object, **changed: object) -> Module:
    made: Body = tuple(body)  # type: ignore[arg-type]
    function = replace(Function("f", (A,), made), **changed)
    return Module("k", (Param(A, "inout"),), (function,))


def load(*at: Expr) -> Load:
    return Load("A", at, "f32")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (Store("A", (X,), load(ONE)), "`i` is not bound here"),
        (Store("B", (ONE,), load(ONE)), "there is no buffer `B` here"),
        (Store("A", (ONE, ONE), load(ONE)), "`A` has 1 dimensions and is accessed with 2 indices"),
        (Store("A", (ONE,), ONE), "`A` holds f32 and is accessed as i64"),
        (Store("A", (ONE,), Load("A", (ONE,), "f64")), "`A` holds f32 and is accessed as f64"),
        (For("i", TRUE, ()), "the bounds of `i` are not indices"),
        (For("i", ONE, (), kind="sideways"), "the loop `i` is of the unknown kind `sideways`"),
        (If(ONE, ()), "the condition `1` is not one bool"),
        (If(Broadcast(TRUE, 4), ()), "the condition `broadcast(true, 4)` is not one bool"),
        (Barrier("house"), "a barrier of the unknown scope `house`"),
        (Atomic("-", "A", (ONE,), load(ONE)), "`-` is not atomic"),
        (Store("A", (Ramp(ONE, 1, 4),), load(Ramp(ONE, 1, 8))), "vectors of 4 and 8 lanes meet"),
        (Store("A", (Ramp(ONE, 1, 4),), load(ONE), mask=Ramp(ONE, 1, 4)), "the mask `ramp(1, 1, 4)` is i64"),
        (Store("A", (Ramp(Ramp(ONE, 1, 4), 1, 4),), load(ONE)), "is made of a vector"),
        (Store("A", (Symbol("N", Uniform(0, 4)),), load(ONE)), "`N` is not a size of the kernel"),
        (Let("x", TRUE, (Store("A", (Var("x"),), load(ONE)),)), "`x` is bool, not i64"),
    ],
)
def test_a_fault_is_named(body: Stmt, fault: str) -> None:
    found = list(faults(module(body)))
    assert any(fault in f for f in found), found
    with pytest.raises(MsError, match="MS424"):
        verify(module(body))


def test_names_are_bound_where_they_are_seen() -> None:
    inner = Store("T", (Var("i"),), load(Ramp(Var("x"), 1, 1)))
    good = For("i", Const(4), (Let("x", Binary("+", X, ONE), (Allocate(Buffer("T", "f32", (ONE,)), (inner,)),)),))
    verify(module(good))
    assert list(faults(module(good, inner)))


def test_a_launched_function_has_threads() -> None:
    body = Store("A", (Var("threadIdx.x"),), load(Var("blockIdx.x")))
    assert list(faults(module(body)))
    launch = Launch((ONE, ONE, ONE), (Const(8), ONE, ONE))
    made = module(body, Barrier(), launch=launch)
    verify(made)
    assert print_module(made) == (
        "kernel k(inout A: f32[8]) {\n"
        "    function f(A) @ launch(grid (1, 1, 1), block (8, 1, 1)) {\n"
        "        A[`threadIdx.x`] = A[`blockIdx.x`]\n"
        "        barrier(block)\n"
        "    }\n"
        "}\n"
    )


def test_lanes() -> None:
    assert lanes_of(Select(TRUE, load(Ramp(X, 1, 4)), load(X))) == 4
    assert lanes_of(Shuffle((Ramp(X, 1, 4),), (3,))) == 1
    assert lanes_of(Shuffle((Ramp(X, 1, 4),), (3, 2))) == 2
    with pytest.raises(ValueError, match="4 and 8"):
        lanes_of(Binary("+", Ramp(X, 1, 4), Broadcast(X, 8)))


def test_every_pass_makes_a_well_formed_kernel() -> None:
    for parallel in (False, True):
        for _, made in stages(packed_gemm(62, 200, 32, parallel=parallel), GENERIC):
            verify(made)
