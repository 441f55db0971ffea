"""Numbers with TVM's types, and their promotion.

In TVM loop variables, axes, sizes and Python's integers are 32 or 64 bits wide and mix with data; here they are all
`i64`, and data keeps its own type. A number made of indices alone is computed in `i64` and becomes data of another
type only where it is combined with such data.
"""

from __future__ import annotations

import ast

import msgspec

from mslang.interop.complement import complement
from mslang.interop.tvmscript.source import refuse
from mslang.ir.dtype import INDEX, bits, is_float, is_integer, is_unsigned, parts
from mslang.ir.expr import BITS, COMPARISONS, LOGICAL, SHIFTS, Binary, Call, Cast, Const, Expr, Select, Unary, dtype_of
from mslang.ir.visit import map_expr, walk_expr


class Number(msgspec.Struct, frozen=True):
    """An expression with its TVM type. An `index` is computed in `i64`, regardless of its width in TVM."""

    expr: Expr
    dtype: str
    index: bool = False


def index(expr: Expr, dtype: str = "i32") -> Number:
    """An expression of indices alone."""
    return Number(expr, dtype, True)


def literal(value: bool | int | float) -> Number:
    """The TVM type of Python's numbers: `bool`, `int32` (`int64` if needed), `float32`."""
    match value:
        case bool():
            return Number(Const(value, "bool"), "bool")
        case int():
            return index(Const(value), "i32" if -(2**31) <= value < 2**31 else "i64")
    return Number(Const(value, "f32"), "f32")


def constant(n: Number) -> int | float | bool | None:
    """The value of a literal, otherwise None."""
    match n.expr:
        case Const(value=v):
            return v
    return None


def as_data(n: Number, dtype: str) -> Expr:
    """The number as an expression of type `dtype`."""
    if n.index and dtype != INDEX:
        typed = _typed(n.expr, dtype) if isinstance(n.expr, Const) or _fits(n.expr, dtype) else None
        return Cast(dtype, n.expr) if typed is None else typed
    if n.index or n.dtype == dtype:
        return n.expr
    match n.expr:
        case Const(value=v) if is_float(dtype) or (is_integer(dtype) and not is_float(n.dtype)):
            return Const(float(v) if is_float(dtype) else _wrapped(int(v), dtype), dtype)
    return Cast(dtype, n.expr)


def _wrapped(value: int, dtype: str) -> int:
    width = bits(dtype)
    value &= (1 << width) - 1
    return value if is_unsigned(dtype) or value < 1 << (width - 1) else value - (1 << width)


def _fits(e: Expr, dtype: str) -> bool:
    """Whether all literals in an index expression are values of a type: otherwise quotients of what wraps around are
    other ones."""
    return not is_integer(dtype) or all(
        x.value == _wrapped(int(x.value), dtype) for x in walk_expr(e) if isinstance(x, Const)
    )


def _typed(e: Expr, dtype: str) -> Expr | None:
    """An index expression of literals alone as one of type `dtype`; None if it contains anything else."""
    match e:
        case Const(value=v) if is_float(dtype):
            return Const(float(v), dtype)
        case Const(value=v) if is_integer(dtype):
            return Const(_wrapped(int(v), dtype), dtype)
        case Binary(op=op, left=a, right=b) if is_integer(dtype) and op not in COMPARISONS:
            left, right = _typed(a, dtype), _typed(b, dtype)
            return None if left is None or right is None else Binary(op, left, right)
        case Unary(op="-", operand=x) if is_integer(dtype):
            inner = _typed(x, dtype)
            return None if inner is None else Unary("-", inner)
        case Call(name=name, args=args) if is_integer(dtype):
            given = tuple(_typed(x, dtype) for x in args)
            return None if None in given else Call(name, tuple(x for x in given if x is not None), dtype)
        case Select(condition=c, then=t, otherwise=o) if is_integer(dtype):
            then, otherwise = _typed(t, dtype), _typed(o, dtype)
            return None if then is None or otherwise is None else Select(c, then, otherwise)
    return None


def data(n: Number) -> Expr:
    """The number as an expression of its own type."""
    return as_data(n, n.dtype)


def as_index(n: Number, at: ast.AST) -> Expr:
    """The number as an index."""
    match n:
        case Number(index=True) | Number(dtype="i64"):
            return plain_index(n.expr)
        case Number(expr=Const(value=v), dtype="i32"):
            return Const(v)
        case Number(expr=Cast(dtype="i32", operand=x)) if _is_index(x):
            return x
    if not is_integer(n.dtype):
        raise refuse("MS733", at, f"a `{n.dtype}` is not an index")
    return Cast(INDEX, n.expr)


def plain_index(e: Expr) -> Expr:
    """An index without conversions between TVM's two widths of indices."""
    return map_expr(
        e, lambda x: x.operand if isinstance(x, Cast) and x.dtype == INDEX and _is_index(x.operand) else None
    )


def _is_index(e: Expr) -> bool:
    return dtype_of(e) == INDEX


def condition(n: Number, at: ast.AST) -> Expr:
    """The number as a condition."""
    if n.dtype == "bool":
        return n.expr
    if n.index:
        return Binary("!=", n.expr, Const(0))
    if is_integer(n.dtype):
        return Binary("!=", n.expr, Const(0, n.dtype))
    raise refuse("MS733", at, f"a `{n.dtype}` is not a condition")


def promoted(a: str, b: str, at: ast.AST) -> str:
    """The common type of two types."""
    if a == b:
        return a
    first, second = parts(a), parts(b)
    assert first is not None and second is not None
    if first.lanes != second.lanes:
        raise refuse("MS731", at, f"`{a}` and `{b}` do not meet here", "a scalar does not become a vector by itself")
    for one, other in ((a, b), (b, a)):
        if is_float(one) and not is_float(other):
            return one
        if other == "bool":
            return one
    if a.startswith("bf") != b.startswith("bf"):
        return b if a.startswith("bf") else a
    if bits(a) != bits(b):
        return a if bits(a) > bits(b) else b
    return a if is_unsigned(a) else b


def met(a: Number, b: Number, at: ast.AST) -> tuple[Expr, Expr, Number]:
    """Two numbers converted to one type, and a number of that type (a template for results)."""
    dtype = promoted(a.dtype, b.dtype, at)
    a, b = _beside(a, b), _beside(b, a)
    if a.index and b.index:
        return a.expr, b.expr, index(a.expr, dtype)
    return as_data(a, dtype), as_data(b, dtype), Number(a.expr, dtype)


def _beside(n: Number, other: Number) -> Number:
    """A literal `T.int32(4)` is an index if the other operand is one."""
    match n.expr:
        case Const(value=v, dtype="i32") if other.index:
            return index(Const(v))
    return n


def with_expr(like: Number, expr: Expr) -> Number:
    """A number of the same type."""
    return Number(expr, like.dtype, like.index)


def complemented(n: Number, at: ast.AST) -> Number:
    """`~n`, of the same type."""
    if n.dtype == "bool" or is_integer(n.dtype):
        return with_expr(n, complement(n.expr, n.dtype))
    raise refuse("MS733", at, f"`~` does not work on `{n.dtype}`")


def binary(op: str, a: Number, b: Number, at: ast.AST) -> Number:
    """`a op b`, in the common type of the two."""
    if op in LOGICAL:
        return Number(Binary(op, condition(a, at), condition(b, at)), "bool")
    left, right, like = met(a, b, at)
    if op in COMPARISONS:
        return Number(Binary(op, left, right), "bool")
    if op in ("//", "%", *SHIFTS) and not is_integer(like.dtype):
        raise refuse("MS733", at, f"`{op}` does not work on `{like.dtype}`")
    if op in BITS and not (is_integer(like.dtype) or like.dtype == "bool"):
        raise refuse("MS733", at, f"`{op}` does not work on `{like.dtype}`")
    if op == "/" and not is_float(like.dtype):
        raise refuse("MS733", at, "`/` on integers says not how it rounds", help="write `//`")
    return with_expr(like, Binary(op, left, right))
