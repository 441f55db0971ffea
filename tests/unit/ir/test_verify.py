"""`verify` says each way in which a program is not well-formed, and nothing of those that are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from mslang.ir.expr import (
    ONE,
    TRUE,
    ZERO,
    Binary,
    Call,
    Cast,
    Choice,
    Const,
    DynamicRange,
    Expr,
    Load,
    PerfectTile,
    Select,
    Symbol,
    Unary,
    Var,
)
from mslang.ir.program import (
    Axis,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Param,
    Program,
    Range,
    Region,
    Stmt,
    Store,
    View,
    While,
)
from mslang.ir.region import point
from mslang.ir.verify import verify
from mslang.sema.program import parse_program

I, K = Var("i"), Var("k")  # noqa: E741
F0 = Const(0.0, "f32")
N = Symbol("N", DynamicRange(1, 64))


def load(buffer: str, *at: Expr, dtype: str = "f32") -> Load:
    return Load(buffer, at, dtype)


def block(**changes: object) -> Block:
    """`block b[i: 4 = i | k: 8 = k] { C[i] += A[i, k] }`, well-formed but for the changes."""
    start = Block(
        "b",
        (Axis("i", Const(4), "spatial", Var("i0")), Axis("k", Const(8), "reduce", Var("k0"))),
        (Region("A", (point(I), point(K))),),
        (Region("C", (point(I),)),),
        (Store("C", (I,), Binary("+", load("C", I), load("A", I, K))),),
        (Store("C", (I,), F0),),
    )
    return replace(start, **changes)


def program(*body: Stmt, **changes: object) -> Program:
    """A program of two loops around `body` (the block above unless it is given)."""
    nest = For("i0", Const(4), (For("k0", Const(8), body or (block(),)),))
    params = (
        Param(Buffer("A", "f32", (Const(4), Const(8)))),
        Param(Buffer("n", "i32", (Const(4),))),
        Param(Buffer("C", "f32", (Const(4),)), "out"),
    )
    return replace(Program("p", params, (nest,)), **changes)


def storing(value: Expr, buffer: str = "C", at: Expr = I) -> Program:
    return program(block(body=(Store(buffer, (at,), value),), init=None))


def with_body(*body: Stmt, **changes: object) -> Program:
    return program(block(body=body, init=None, **changes))


def params(*more: Param) -> tuple[Param, ...]:
    return (*program().params, *more)


STORE = Store("C", (I,), F0)

CASES: dict[str, tuple[Callable[[], Program], str, str]] = {
    "two loops": (
        lambda: program(block(), body=(For("i0", Const(4), (program().body[0],)),)),
        "MS150",
        "`i0` is the name of 2 loops",
    ),
    "two blocks": (lambda: program(block(), block()), "MS150", "`b` is the name of 2 blocks"),
    "buffer and block": (lambda: program(block(name="C")), "MS150", "`C` is the name of a buffer and a block"),
    "axis and buffer": (
        lambda: program(block(axes=(Axis("A", Const(4), "spatial", Var("i0")),), body=(), init=None)),
        "MS150",
        "`A` is the name of a buffer and of an axis",
    ),
    "two axes": (lambda: program(block(axes=block().axes * 2)), "MS150", "2 axes are called `i`"),
    "let hides": (lambda: with_body(Let("i", ONE, (STORE,))), "MS150", "`i` hides"),
    "loop hides": (lambda: with_body(For("i", ONE, (STORE,))), "MS150", "`i` hides"),
    "odd name": (lambda: program(name="a`b"), "MS150", "cannot be a name"),
    "reserved name": (lambda: with_body(Let("inf", ONE, (STORE,))), "MS150", "'inf' cannot be a name"),
    "annotation twice": (lambda: program(block(annotations=(("x", 1), ("x", 2)))), "MS150", "`x` stands 2 times"),
    "loop in body": (lambda: storing(F0, at=Var("i0")), "MS151", "`i0` is not in scope (block `b`)"),
    "axis in binding": (
        lambda: program(block(axes=(Axis("i", Const(4), "spatial", I),), body=(STORE,), init=None)),
        "MS151",
        "`i` is not in scope",
    ),
    "inner loop in bound": (
        lambda: replace(program(), body=(replace(program().body[0], extent=Var("k0")),)),
        "MS151",
        "`k0` is not in scope (loop `i0`)",
    ),
    "let after its scope": (
        lambda: with_body(If(TRUE, (Let("v", F0, (STORE,)),)), Store("C", (I,), Var("v", "f32"))),
        "MS151",
        "`v` is not in scope",
    ),
    "unknown buffer": (lambda: storing(load("D", I)), "MS152", "no buffer `D`"),
    "region of own alloc": (
        lambda: program(block(allocs=(Buffer("t", "f32", ()),), reads=(*block().reads, Region("t", ())))),
        "MS152",
        "no buffer `t` for this region",
    ),
    "stored type": (lambda: storing(Const(1, "i32")), "MS153", "`C` has elements of type `f32`, not `i32`"),
    "operand types": (lambda: storing(Binary("+", F0, Const(1.0, "f64"))), "MS153", "`f32` and `f64`"),
    "integer division": (lambda: storing(Cast("f32", Binary("/", I, K))), "MS153", "`/` does not work on `i64`"),
    "float remainder": (lambda: storing(Binary("%", F0, F0)), "MS153", "`%` does not work on `f32`"),
    "bool sum": (lambda: storing(Cast("f32", Binary("+", TRUE, TRUE))), "MS153", "`+` does not work on `bool`"),
    "and of numbers": (lambda: with_body(If(Binary("and", I, K), (STORE,))), "MS153", "`and` does not work"),
    "not of a number": (lambda: with_body(If(Unary("not", I), (STORE,))), "MS153", "`not` does not work"),
    "variable's type": (lambda: storing(Var("i", "f32")), "MS153", "`i` is `i64`, but is used as `f32`"),
    "select types": (lambda: storing(Select(TRUE, F0, Const(1))), "MS153", "chooses between `f32` and `i64`"),
    "select condition": (lambda: storing(Select(I, F0, F0)), "MS153", "condition of"),
    "if condition": (lambda: with_body(If(I, (STORE,))), "MS153", "the condition `i` is `i64`, not `bool`"),
    "while condition": (lambda: with_body(While(I, (STORE,))), "MS153", "the condition"),
    "predicate": (lambda: program(block(predicate=I)), "MS153", "the predicate `i`"),
    "index type": (lambda: storing(F0, at=load("n", I, dtype="i32")), "MS153", "the index `n[i]` of `C` is `i32`"),
    "load's type": (lambda: storing(load("n", I)), "MS153", "`n` has elements of type `i32`, not `f32`"),
    "constant": (lambda: storing(Cast("f32", Const(300, "u8"))), "MS153", "300 is not a value of type `u8`"),
    "function's type": (lambda: storing(Call("exp", (I,), "f32")), "MS153", "`exp` does not work on `i64`"),
    "function's result": (lambda: storing(Call("isnan", (F0,), "f32")), "MS153", "`isnan` to `f32` of `f32`"),
    "foreign function": (lambda: storing(Call("my_fn", (F0,), "f32")), "MS155", "there is no function `my_fn`"),
    "function of integers": (lambda: storing(Cast("f32", Call("exp", (I,), "i64"))), "MS153", "does not work on `i64`"),
    "view's type": (
        lambda: program(block(views=(View(Buffer("v", "i32", ()), Region("C", (point(I),))),))),
        "MS153",
        "`v` views `f32` elements as `i32`",
    ),
    "rank": (lambda: storing(load("A", I)), "MS154", "`A` has 2 dimensions, but 1 are indexed"),
    "region's rank": (lambda: program(block(reads=(Region("A", (point(I),)),))), "MS154", "has 1 dimensions, not 2"),
    "region of data": (
        lambda: program(block(reads=(Region("A", (point(I), point(Cast("i64", load("n", I, dtype="i32"))))),))),
        "MS154",
        "depends on data",
    ),
    "strides": (
        lambda: program(params=params(Param(Buffer("D", "f32", (ONE,), strides=(ONE, ONE))))),
        "MS154",
        "1 dimensions, but 2 strides",
    ),
    "align": (lambda: program(allocs=(Buffer("D", "f32", (ONE,), align=12),)), "MS154", "aligned to 12"),
    "negative size": (lambda: program(allocs=(Buffer("D", "f32", (Const(-1),)),)), "MS154", "is -1"),
    "shape of a view": (
        lambda: program(block(views=(View(Buffer("v", "f32", (Const(3),)), Region("C", (Range(ZERO, Const(4)),))),))),
        "MS154",
        "another extent",
    ),
    "rank of a view": (
        lambda: program(block(views=(View(Buffer("v", "f32", ()), Region("C", (Range(ZERO, Const(4)),))),))),
        "MS154",
        "other dimensions",
    ),
    "variable in an extent": (
        lambda: program(block(axes=(Axis("i", Var("i0"), "spatial", Var("i0")),), body=(STORE,), init=None)),
        "MS151",
        "`i0` is not in scope",
    ),
    "element type": (lambda: program(allocs=(Buffer("D", "f31", (ONE,)),)), "MS155", "`f31`"),
    "scope": (lambda: program(allocs=(Buffer("D", "f32", (ONE,), "nowhere"),)), "MS155", "`nowhere`"),
    "loop kind": (lambda: with_body(For("u", ONE, (STORE,), "fast")), "MS155", "`fast` is not a kind of loop"),
    "axis kind": (
        lambda: program(block(axes=(Axis("i", Const(4), "odd", Var("i0")), block().axes[1]))),
        "MS155",
        "`odd` is not a kind of axis",
    ),
    "direction": (lambda: program(params=params(Param(Buffer("D", "f32", ()), "sideways"))), "MS155", "`sideways`"),
    "operator": (lambda: storing(Binary("**", F0, F0)), "MS155", "there is no operator `**`"),
    "arity": (lambda: storing(Call("exp", (F0, F0), "f32")), "MS155", "`exp` takes 1 arguments, not 2"),
    "cast": (lambda: storing(Cast("float", F0)), "MS155", "`float` is not an element type"),
    "init elsewhere": (
        lambda: program(block(init=(Store("D", (I,), F0),)), allocs=(Buffer("D", "f32", (Const(4),)),)),
        "MS156",
        "the init writes `D`",
    ),
    "init over k": (lambda: program(block(init=(Store("C", (K,), F0),))), "MS156", "names a reduction axis"),
    "empty init": (lambda: program(block(init=())), "MS156", "the init is empty"),
    "undeclared read": (lambda: program(block(reads=())), "MS157", "`A` is not among the reads of the block"),
    "undeclared write": (
        lambda: program(block(writes=(), init=None, reads=(*block().reads, *block().writes))),
        "MS157",
        "`C` is not among the writes of the block",
    ),
    "wrong region": (
        lambda: program(block(reads=(Region("A", (point(I), Range(Binary("+", K, ONE), ONE))),))),
        "MS157",
        "the reads of `A` are outside of the declared region",
    ),
    "undeclared size": (lambda: storing(Cast("f32", N)), "MS158", "the size `N` is not declared"),
    "two domains": (
        lambda: storing(Cast("f32", Binary("+", Symbol("c", Choice((1,))), Symbol("c", Choice((2,)))))),
        "MS158",
        "two domains",
    ),
    "factor": (
        lambda: storing(Cast("f32", Symbol("t", PerfectTile(Const(4), 2), 2))),
        "MS158",
        "`t[2]` is not a factor",
    ),
    "tile as a number": (lambda: storing(Cast("f32", Symbol("t", PerfectTile(Const(4), 2)))), "MS158", "not a factor"),
    "factor of a number": (lambda: storing(Cast("f32", Symbol("c", Choice((1,)), 0))), "MS158", "has no factors"),
    "empty range": (lambda: program(dynamic=(Symbol("N", DynamicRange(4, 2)),)), "MS158", "no value from 4 to 2"),
    "dynamic": (lambda: program(dynamic=(Symbol("N", Choice((1,))),)), "MS158", "only dynamic sizes"),
    "let before others": (lambda: with_body(Let("v", F0, (STORE,)), STORE), "MS159", "statements follow `let v`"),
    "write to an input": (
        lambda: with_body(Store("A", (I, K), F0), writes=(Region("A", (point(I), point(K))),)),
        "MS159",
        "`A` is an input",
    ),
    "no call": (lambda: with_body(Evaluate(F0), STORE), "MS159", "only a call"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str):
    make, code, message = CASES[name]
    found = verify(make())
    assert any(d.code == code and message in d.message for d in found), found


def test_each_code_is_met():
    assert {code for _, code, _ in CASES.values()} == {f"MS15{k}" for k in range(10)}


WELL_FORMED: dict[str, Callable[[], Program]] = {
    "plain": program,
    "predicate over loops and axes": lambda: program(block(predicate=Binary("<", Binary("+", Var("i0"), I), Const(9)))),
    "parametric": lambda: program(dynamic=(N,), allocs=(Buffer("t", "f32", (N, Symbol("s", PerfectTile(N, 2), 1))),)),
    "nested": lambda: with_body(
        For(
            "u",
            Const(2),
            (Block("inner", (Axis("i", Const(4), "spatial", I),), (), (Region("C", (point(I),)),), (STORE,)),),
        )
    ),
    "view": lambda: program(
        block(
            views=(View(Buffer("v", "f32", (Const(8),)), Region("A", (point(I), Range(ZERO, Const(8))))),),
            body=(Store("C", (I,), Binary("+", load("C", I), load("v", K))),),
        )
    ),
    "larger region": lambda: program(block(reads=(Region("A", (Range(ZERO, Const(4)), Range(ZERO, Const(8)))),))),
    "loop over an outer variable": lambda: with_body(For("u", Binary("+", I, ONE), (STORE,))),
    "axes of one name in two blocks": lambda: program(block(), block(name="c")),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_accepted(name: str):
    assert verify(WELL_FORMED[name]()) == ()


@pytest.mark.parametrize("declared", ["", "writes B[0..16]"])
def test_a_product_of_loops_inside_a_block_is_an_index(declared: str) -> None:
    text = f"block b[v: 1] {{ {declared} for i in 4, j in 4 {{ B[i * j] = 1.0 }} }}"
    assert not verify(parse_program(f"program p(inout B: f32[16]) {{ {text} }}"))
