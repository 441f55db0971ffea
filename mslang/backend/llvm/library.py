"""The C library's functions of f64, lane by lane: where there is no own approximation, or only a slow one."""

from __future__ import annotations

from collections.abc import Sequence

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.number import Number
from mslang.backend.llvm.types import Value, mangled


def call(fn: FunctionWriter, name: str, args: Sequence[Value]) -> Value:
    """`name(args)` of the C library, for f64 of equal lanes."""
    v = args[0]
    fn.declarations.add(f"declare double @{name}({', '.join('double' for _ in args)})")
    if v.lanes == 1:
        return Value(fn.pure(f"call double @{name}({', '.join(a.typed for a in args)})"), "f64")
    total = "poison"
    for k in range(v.lanes):
        picked = [fn.pure(f"extractelement {a.typed}, i64 {k}") for a in args]
        one = fn.pure(f"call double @{name}({', '.join(f'double {p}' for p in picked)})")
        total = fn.pure(f"insertelement {v.type} {total}, double {one}, i64 {k}")
    return Value(total, "f64", v.lanes)


def where(condition: Value, name: str, args: Sequence[Number], otherwise: Number) -> Number:
    """The C library's function in the lanes where a condition holds, and no call where it holds in none."""
    fn, v = otherwise.fn, otherwise.value
    # A branch on an undefined lane may do anything.
    condition = condition if condition.lanes == 1 else arithmetic.frozen(fn, condition)
    before, rare, done = fn.block, fn.fresh("library"), fn.fresh("joined")
    fn.branch(_any(fn, condition), rare, done)
    fn.start(rare)
    with fn.nested():
        called = call(fn, name, [a.value for a in args])
        chosen, chosen_from = arithmetic.choose(fn, condition, called, v), fn.block
        fn.jump(done)
    fn.start(done)
    ref = fn.op(f"phi {v.type} [ {v.ref}, %{before} ], [ {chosen.ref}, %{chosen_from} ]")
    return Number(fn, Value(ref, v.dtype, v.lanes))


def _any(fn: FunctionWriter, condition: Value) -> str:
    if condition.lanes == 1:
        return condition.ref
    name = f"@llvm.vector.reduce.or.{mangled('bool', condition.lanes)}"
    fn.declarations.add(f"declare i1 {name}({condition.type})")
    return fn.pure(f"call i1 {name}({condition.typed})")
