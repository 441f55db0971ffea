"""`parse(print(p)) == p`: for drawn programs, and for expressions of every form and type."""

from __future__ import annotations

import math
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mslang.ir.dtype import is_float
from mslang.ir.equal import alpha_equal, structural_hash
from mslang.ir.expr import (
    ONE,
    TRUE,
    Binary,
    Call,
    Cast,
    Choice,
    Const,
    DynamicRange,
    Expr,
    FreeTile,
    Load,
    PartitionedTile,
    PerfectTile,
    Select,
    Symbol,
    Unary,
    Uniform,
    Var,
)
from mslang.ir.functions import FUNCTIONS
from mslang.ir.print import print_program
from mslang.ir.program import (
    Axis,
    Block,
    Buffer,
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
from mslang.ir.verify import verify
from mslang.sema.program import parse_program
from tests.property.strategies import programs

TYPES = ("f32", "f16", "bf16", "f64", "i8", "i32", "i64", "u8", "u64", "bool")
EXTENT = Symbol("M", DynamicRange(1, 4096, 8))
SYMBOLS = (
    EXTENT,
    Symbol("ti", PerfectTile(Const(512), 4, 64), 2),
    Symbol("sa/vec", Choice((1, 2, -4), (0.5, 0.25, 0.25))),
    Symbol("free", FreeTile(Binary("+", EXTENT, ONE), 2), 0),
    Symbol("part", PartitionedTile(Symbol("ti", PerfectTile(Const(512), 4, 64), 0), 3, 1, 16), 1),
    Symbol("u", Uniform(-3, 9)),
)


class Odd:
    """Makes programs that mean nothing much, with expressions of every form wherever the IR has one."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def constant(self, dtype: str) -> Const:
        if dtype == "bool":
            return Const(self.random.random() < 0.5, "bool")
        if is_float(dtype):
            odd = (math.inf, -math.inf, 0.0, -1.5, 1e-7, 65504.0 if dtype == "f16" else 1e22, 0.1, math.nan)
            return Const(self.random.choice((*odd, self.random.uniform(-9, 9))), dtype)
        return Const(self.random.randint(*((0, 255) if dtype.startswith("u") else (-128, 127))), dtype)

    def leaf(self, dtype: str) -> Expr:
        leaves: list[Expr] = [self.constant(dtype), Load(f"b_{dtype}", (Var("i"),), dtype)]
        if dtype == "i64":
            leaves += [Var("i"), Var("k"), *SYMBOLS]
        return self.random.choice(leaves)

    def expr(self, dtype: str, depth: int = 4) -> Expr:
        pick = self.random.choice
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(dtype)

        def inner(t: str = dtype) -> Expr:
            return self.expr(t, depth - 1)

        other = pick(TYPES)
        forms = ["load", "select", "cast", "unary", "binary", "binary", "binary", "call"]
        match pick(forms):
            case "load":
                return Load(f"b_{dtype}", (inner("i64"),), dtype)
            case "select":
                return Select(inner("bool"), inner(), inner())
            case "cast":
                return Cast(dtype, inner(other))
            case "unary":
                return Unary("not" if dtype == "bool" else "-", inner())
            case "call":
                given = pick([t for t in TYPES if t != "bool"]) if dtype == "bool" else dtype
                function = pick(
                    [f for f in FUNCTIONS.values() if f.takes(given) and f.result(given) == dtype] or [None]
                )
                if function is not None:
                    return Call(function.name, tuple(inner(given) for _ in range(function.arity)), dtype)
        if dtype == "bool":
            if pick((True, False)) and other != "bool":
                return Binary(pick(["==", "!=", "<", "<=", ">", ">="]), inner(other), inner(other))
            return Binary(pick(["and", "or", "and", "or", "&", "|", "^", "==", "!="]), inner(), inner())
        operators = ["+", "-", "*", "min", "max"]
        operators += ["/"] if is_float(dtype) else ["//", "%", "<<", ">>", "&", "|", "^"]
        return Binary(pick(operators), inner(), inner())

    def store(self) -> Stmt:
        dtype = self.random.choice(TYPES)
        at = (self.expr("i64", 2),)
        value = self.expr(dtype)
        if dtype != "bool" and self.random.random() < 0.3:
            value = Binary(self.random.choice("+*"), Load(f"b_{dtype}", at, dtype), value)
        return Store(f"b_{dtype}", at, value)

    def statement(self) -> Stmt:
        match self.random.randint(0, 5):
            case 0:
                return If(self.expr("bool", 3), (self.store(),), self.random.choice([(), (self.store(),)]))
            case 1:
                return If(self.expr("bool", 2), (self.store(),), (If(self.expr("bool", 2), (self.store(),)),))
            case 3:
                return While(self.expr("bool", 2), (self.store(), self.store()))
        return self.store()

    def program(self) -> Program:
        pick = self.random.choice
        size = pick([Const(8), *SYMBOLS[:2]])
        body: tuple[Stmt, ...] = tuple(self.statement() for _ in range(self.random.randint(1, 3)))
        if pick((True, False)):
            body = (self.store(), Let("v", self.expr(pick(TYPES), 3), body))
        extents = [ONE, Const(16), size, Binary("+", EXTENT, Var("i")), Binary("*", Const(2), Var("k"))]
        regions = tuple(
            Region(f"b_{t}", (Range(self.expr("i64", 2), pick(extents)),)) for t in self.random.sample(TYPES, 3)
        )
        viewed = Region(regions[0].buffer, (Range(self.expr("i64", 2), Const(2)),))
        notes = (
            ("key", pick([3, -3, 2.5, -math.inf, True, 'a"\\ \n\tä', ()])),
            ("pragma.x", (1, "two", pick(SYMBOLS), Const(3), Const(2.5, "f32"), TRUE)),
        )
        kinds = [pick(["spatial", "reduce", "scan", "opaque"]) for _ in range(2)]
        axes = (
            Axis("i", size, kinds[0], pick([Var("i"), Var("j")])),
            Axis("k", Const(4), kinds[1], Binary("*", Var("j"), Const(2))),
        )
        block = Block(
            "blk",
            axes,
            regions,
            regions[: pick([0, 1])],
            body,
            pick([None, body[:1]]),
            self.expr("bool", 3),
            (Buffer("t", "f32x4", (Const(2), size), "local", (size, ONE), EXTENT, 64),),
            (View(Buffer("w", regions[0].buffer[2:], (Const(2),), pick(["global", "shared"])), viewed),),
            notes,
        )
        start = pick([Const(0), Const(3), Var("i"), EXTENT, Binary("+", Const(0), EXTENT)])
        extent = pick([size, Binary("+", Const(0), EXTENT), Binary("*", EXTENT, Const(2))])
        inner = For("j", extent, (block,), pick(["serial", "parallel", "threadIdx.x"]), start, pick([notes, ()]))
        params = tuple(Param(Buffer(f"b_{t}", t, (size,)), "inout") for t in TYPES)
        return Program("for", params, (For("i", Const(4), (inner,)),), (), (EXTENT,), notes[:1])


@settings(max_examples=60, deadline=None)
@given(programs())
def test_drawn_programs_are_well_formed_and_read_back(p: Program):
    assert verify(p) == ()
    q = parse_program(print_program(p))
    assert q == p, print_program(p)
    assert structural_hash(q) == structural_hash(p)
    assert alpha_equal(p, q)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_everything_reads_back(seed: int):
    p = Odd(seed).program()
    text = print_program(p)
    q = parse_program(text)
    assert print_program(q) == text
    assert q == p, text
