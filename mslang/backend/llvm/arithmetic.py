"""Operators and conversions on values, scalar or vector, with the language's meaning of integers.

Integers wrap; `//` and `%` floor, and give 0 for a divisor of 0; a shift by the width or more gives what shifting
step by step would. bf16 is computed in f32 and rounded after each operation, as hardware that has it does. `min` and
`max` of floats are IEEE 754-2019's `minimum` and `maximum`: NaN propagates, and -0 is less than +0.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence

from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.types import Value, constant, type_of
from mslang.ir.dtype import bits, is_float, is_unsigned

FUSED = frozenset({"f32", "f64"})
"""The types in which a product and a sum are one operation."""

FAST = "contract "
"""Flags of floating operations: a product and a sum may become one fused operation, nothing else may change."""

_FLOAT_OPS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INT_OPS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "and": "and", "or": "or"}
_ORDER = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def widen(fn: FunctionWriter, v: Value, lanes: int) -> Value:
    """A scalar in every lane."""
    if v.lanes == lanes:
        return v
    if not v.ref.startswith("%"):
        return Value(f"splat ({v.typed})", v.dtype, lanes)
    target = type_of(v.dtype, lanes)
    first = fn.pure(f"insertelement {target} poison, {v.typed}, i64 0")
    ref = fn.pure(f"shufflevector {target} {first}, {target} poison, <{lanes} x i32> zeroinitializer")
    return Value(ref, v.dtype, lanes)


def shuffle(fn: FunctionWriter, values: Sequence[Value], order: Sequence[int]) -> Value:
    """The elements of vectors, one after the other, at the positions `order`; a scalar if that is one position."""
    wide = level(fn, *values)
    dtype, lanes = wide[0].dtype, wide[0].lanes
    if len(order) == 1:
        source = wide[order[0] // lanes]
        return Value(fn.pure(f"extractelement {source.typed}, i64 {order[0] % lanes}"), dtype)
    if len(wide) <= 2:
        places = ", ".join(f"i32 {k}" for k in order)
        second = wide[1].typed if len(wide) == 2 else f"{wide[0].type} poison"
        ref = fn.pure(f"shufflevector {wide[0].typed}, {second}, <{len(order)} x i32> <{places}>")
        return Value(ref, dtype, len(order))
    ref, kind = "poison", type_of(dtype, len(order))
    for k, at in enumerate(order):
        element = fn.pure(f"extractelement {wide[at // lanes].typed}, i64 {at % lanes}")
        ref = fn.pure(f"insertelement {kind} {ref}, {type_of(dtype)} {element}, i64 {k}")
    return Value(ref, dtype, len(order))


def level(fn: FunctionWriter, *values: Value) -> tuple[Value, ...]:
    """The values, each with as many lanes as the widest."""
    lanes = max(v.lanes for v in values)
    return tuple(widen(fn, v, lanes) for v in values)


def instruction(fn: FunctionWriter, text: str, v: Value) -> Value:
    """The result of `text`, which has the type of `v`."""
    return Value(fn.pure(text), v.dtype, v.lanes)


# ------------------------------------------------------------------ operators
def binary(fn: FunctionWriter, op: str, left: Value, right: Value) -> Value:
    """`left op right`."""
    left, right = level(fn, left, right)
    if op in ("min", "max") and is_float(left.dtype):
        return _extreme(fn, op, left, right)
    if left.dtype == "bf16":
        wide = binary(fn, op, cast(fn, left, "f32"), cast(fn, right, "f32"))
        return wide if wide.dtype == "bool" else cast(fn, wide, "bf16")
    if op in ("<", "<=", ">", ">=", "==", "!="):
        return compare(fn, op, left, right)
    if op in ("min", "max"):
        return choose(fn, compare(fn, "<" if op == "min" else ">", left, right), left, right)
    if is_float(left.dtype):
        if op in ("//", "%"):
            return _float_modulo(fn, op, left, right)
        return instruction(fn, f"{_FLOAT_OPS[op]} {FAST}{left.typed}, {right.ref}", left)
    match op:
        case "//" | "%":
            return _divide(fn, op, left, right)
        case "<<" | ">>":
            return _shift(fn, op, left, right)
    return instruction(fn, f"{_INT_OPS[op]} {left.typed}, {right.ref}", left)


def multiply_add(fn: FunctionWriter, a: Value, b: Value, c: Value) -> Value:
    """`a * b + c`, in one instruction where the target has it: one value for LLVM, whatever it moves across it."""
    args = level(fn, a, b, c)
    return fn.intrinsic("fmuladd", c.dtype, args[0].lanes, args, FAST)


def _extreme(fn: FunctionWriter, op: str, left: Value, right: Value) -> Value:
    """`minimum` or `maximum` of IEEE 754-2019, in as few instructions as the target and the operands allow."""
    if left.dtype in ("f16", "bf16"):
        wide = _extreme(fn, op, cast(fn, left, "f32"), cast(fn, right, "f32"))
        return _exactly_halved(fn, wide, left.dtype)
    if not left.ref.startswith("%"):
        left, right = right, left
    if fn.nan_free:
        return choose(fn, compare(fn, "<" if op == "min" else ">", left, right), left, right)
    known = _constant(right)
    if known is not None and known == known:
        # An unordered comparison takes a NaN on the left; of two zeros it takes the one the operation asks for.
        code = "gt" if op == "max" else "lt"
        if known == 0 and (math.copysign(1.0, known) > 0) == (op == "min"):
            code = "ge" if op == "max" else "le"
        taken = Value(fn.pure(f"fcmp u{code} {left.typed}, {right.ref}"), "bool", left.lanes)
        return choose(fn, taken, left, right)
    if left.lanes > 1:
        return fn.intrinsic(f"{op}imum", left.dtype, left.lanes, (left, right))
    # LLVM branches on the sign of a scalar: selects instead.
    integer = f"i{bits(left.dtype)}"
    words = (bitcast(fn, left, integer), bitcast(fn, right, integer))
    zero = bitcast(fn, binary(fn, "&" if op == "max" else "|", *words), left.dtype)
    strict = choose(fn, compare(fn, "<" if op == "min" else ">", left, right), left, right)
    ordered = choose(fn, compare(fn, "==", left, right), zero, strict)
    unordered = Value(fn.pure(f"fcmp uno {left.typed}, {right.ref}"), "bool", left.lanes)
    return choose(fn, unordered, instruction(fn, f"fadd {left.typed}, {right.ref}", left), ordered)


_LITERAL = re.compile(r"0x([0-9A-F]{16})")


def _constant(v: Value) -> float | None:
    """The number of an f32 or f64 constant; None for what is computed."""
    found = None if v.ref.startswith("%") else _LITERAL.search(v.ref)
    return None if found is None else float(struct.unpack(">d", bytes.fromhex(found[1]))[0])


def compare(fn: FunctionWriter, op: str, left: Value, right: Value) -> Value:
    """A comparison; with a NaN only `!=` holds."""
    if is_float(left.dtype):
        code = {"==": "oeq", "!=": "une"}.get(op) or "o" + _ORDER[op]
        text = f"fcmp {code} {left.typed}, {right.ref}"
    else:
        sign = "u" if is_unsigned(left.dtype) or left.dtype == "bool" else "s"
        code = {"==": "eq", "!=": "ne"}.get(op) or sign + _ORDER[op]
        text = f"icmp {code} {left.typed}, {right.ref}"
    return Value(fn.pure(text), "bool", left.lanes)


def choose(fn: FunctionWriter, condition: Value, then: Value, otherwise: Value) -> Value:
    """`then` where the condition holds, else `otherwise`; both are values already."""
    then, otherwise = level(fn, then, otherwise)
    if condition.lanes > then.lanes:
        then, otherwise = widen(fn, then, condition.lanes), widen(fn, otherwise, condition.lanes)
    if condition.ref in ("true", "false"):
        return then if condition.ref == "true" else otherwise
    return instruction(fn, f"select {condition.typed}, {then.typed}, {otherwise.typed}", then)


def negate(fn: FunctionWriter, v: Value) -> Value:
    """`-v`."""
    if v.dtype == "bf16":
        return cast(fn, negate(fn, cast(fn, v, "f32")), "bf16")
    if is_float(v.dtype):
        return instruction(fn, f"fneg {v.typed}", v)
    return instruction(fn, f"sub {v.type} {constant(0, v.dtype, v.lanes).ref}, {v.ref}", v)


def invert(fn: FunctionWriter, v: Value) -> Value:
    """`not v` of a bool."""
    return instruction(fn, f"xor {v.typed}, {constant(True, 'bool', v.lanes).ref}", v)


def _divide(fn: FunctionWriter, op: str, left: Value, right: Value) -> Value:
    zero = constant(0, left.dtype, left.lanes)
    one = constant(1, left.dtype, left.lanes)
    # A vector of constants may hold a 0, in a lane that does not act.
    literal = not right.ref.startswith(("%", "<"))
    if literal and right.ref == zero.ref:
        return zero
    if right.lanes > 1 and not literal:
        right = frozen(fn, right)
    code = "div" if op == "//" else "rem"
    if is_unsigned(left.dtype):
        safe = right if literal else choose(fn, compare(fn, "==", right, zero), one, right)
        plain = instruction(fn, f"u{code} {left.typed}, {safe.ref}", left)
        return plain if literal else choose(fn, compare(fn, "==", right, zero), zero, plain)
    minus = constant(-1, left.dtype, left.lanes)
    if right.ref == minus.ref:
        # The smallest integer has no quotient that fits: it wraps to itself.
        return negate(fn, left) if op == "//" else zero
    safe = right
    if not literal:
        # The smallest integer by -1 traps: -1 is divided by as 1, and the quotient negated.
        odd = compare(fn, "==", right, minus)
        none = compare(fn, "==", right, zero)
        safe = choose(fn, none, one, choose(fn, odd, one, right))
    quotient = instruction(fn, f"sdiv {left.typed}, {safe.ref}", left)
    remainder = instruction(fn, f"srem {left.typed}, {safe.ref}", left)
    signs = instruction(fn, f"xor {remainder.typed}, {safe.ref}", left)
    inexact = compare(fn, "!=", remainder, zero)
    wrong = Value(fn.pure(f"and {inexact.typed}, {compare(fn, '<', signs, zero).ref}"), "bool", left.lanes)
    if op == "//":
        lowered = binary(fn, "-", quotient, one)
        result = choose(fn, wrong, lowered, quotient)
        if not literal:
            result = choose(fn, odd, negate(fn, left), result)
    else:
        result = choose(fn, wrong, binary(fn, "+", remainder, safe), remainder)
    return result if literal else choose(fn, none, zero, result)


def frozen(fn: FunctionWriter, v: Value) -> Value:
    """A vector whose undefined lanes, those that do not act, are some number: the same wherever it is used."""
    return instruction(fn, f"freeze {v.typed}", v)


def _shift(fn: FunctionWriter, op: str, left: Value, right: Value) -> Value:
    width = bits(left.dtype)
    last = constant(width - 1, left.dtype, left.lanes)
    # A negative count is, unsigned, at least the width.
    fits = Value(fn.pure(f"icmp ule {right.typed}, {last.ref}"), "bool", left.lanes)
    inside = choose(fn, fits, right, last)
    zero = constant(0, left.dtype, left.lanes)
    if op == "<<":
        return choose(fn, fits, instruction(fn, f"shl {left.typed}, {inside.ref}", left), zero)
    if is_unsigned(left.dtype):
        return choose(fn, fits, instruction(fn, f"lshr {left.typed}, {inside.ref}", left), zero)
    return instruction(fn, f"ashr {left.typed}, {inside.ref}", left)


def _float_modulo(fn: FunctionWriter, op: str, left: Value, right: Value) -> Value:
    quotient = instruction(fn, f"fdiv {left.typed}, {right.ref}", left)
    floored = fn.intrinsic("floor", left.dtype, left.lanes, (quotient,))
    if op == "//":
        return floored
    product = instruction(fn, f"fmul {floored.typed}, {right.ref}", left)
    return instruction(fn, f"fsub {left.typed}, {product.ref}", left)


# ------------------------------------------------------------------ conversions
def cast(fn: FunctionWriter, v: Value, dtype: str) -> Value:
    """`v` as another element type, by C's rules."""
    source = v.dtype
    if source == dtype:
        return v
    if source == "bf16":
        return cast(fn, _from_bfloat(fn, v), dtype)
    if source == "f64" and dtype in ("f16", "bf16"):
        return cast(fn, _to_odd_single(fn, v), dtype)
    if dtype == "bf16":
        exact = is_float(source) or bits(source) <= 16
        return _to_bfloat(fn, cast(fn, v, "f32") if exact else _to_odd_single(fn, _to_odd_double(fn, v)))
    if dtype == "bool":
        return compare(fn, "!=", v, constant(0, source, v.lanes))
    return Value(fn.pure(f"{_conversion(source, dtype)} {v.typed} to {type_of(dtype, v.lanes)}"), dtype, v.lanes)


def _conversion(source: str, dtype: str) -> str:
    match is_float(source), is_float(dtype):
        case True, True:
            return "fpext" if bits(dtype) > bits(source) else "fptrunc"
        case True, False:
            return "fptoui" if is_unsigned(dtype) else "fptosi"
        case False, True:
            return "uitofp" if is_unsigned(source) or source == "bool" else "sitofp"
    if bits(dtype) == bits(source):
        return "bitcast"
    if bits(dtype) < bits(source):
        return "trunc"
    return "zext" if is_unsigned(source) or source == "bool" else "sext"


def bitcast(fn: FunctionWriter, v: Value, dtype: str) -> Value:
    """The same bits as another type of the same width."""
    if v.type == type_of(dtype, v.lanes):
        return v._replace(dtype=dtype)
    return Value(fn.pure(f"bitcast {v.typed} to {type_of(dtype, v.lanes)}"), dtype, v.lanes)


def _to_odd_single(fn: FunctionWriter, v: Value) -> Value:
    """f64 as f32 rounded to odd, so that rounding once more to a half type rounds as if once."""
    near = cast(fn, v, "f32")
    back = cast(fn, near, "f64")
    exact = Value(fn.pure(f"fcmp ueq {back.typed}, {v.ref}"), "bool", v.lanes)
    sizes = [fn.intrinsic("fabs", "f64", v.lanes, (x,)) for x in (back, v)]
    word = bitcast(fn, near, "u32")
    one = constant(1, "u32", v.lanes)
    below = choose(fn, compare(fn, ">", sizes[0], sizes[1]), binary(fn, "-", word, one), word)
    return choose(fn, exact, near, bitcast(fn, binary(fn, "|", below, one), "f32"))


def _to_odd_double(fn: FunctionWriter, v: Value) -> Value:
    """An integer as f64; one of 64 bits, which f64 may not hold, rounded to odd."""
    if bits(v.dtype) <= 32:
        return cast(fn, v, "f64")

    def known(n: int) -> Value:
        return constant(n, v.dtype, v.lanes)

    whole = cast(fn, v, "f64")
    dropped = compare(fn, "!=", binary(fn, "&", v, known(0xFFFF)), known(0))
    kept = binary(fn, "|", _shift(fn, ">>", v, known(16)), choose(fn, dropped, known(1), known(0)))
    odd = binary(fn, "*", cast(fn, kept, "f64"), constant(65536.0, "f64", v.lanes))
    size = fn.intrinsic("fabs", "f64", v.lanes, (whole,))
    return choose(fn, compare(fn, "<", size, constant(2.0**53, "f64", v.lanes)), whole, odd)


def _from_bfloat(fn: FunctionWriter, v: Value) -> Value:
    word = cast(fn, bitcast(fn, v, "u16"), "u32")
    return bitcast(fn, _shift(fn, "<<", word, constant(16, "u32", v.lanes)), "f32")


def _exactly_halved(fn: FunctionWriter, v: Value, dtype: str) -> Value:
    """An f32 that `dtype`, f16 or bf16, holds exactly (or a NaN made from one of its NaNs) in that type."""
    if dtype == "f16":
        return cast(fn, v, "f16")
    word = bitcast(fn, v, "u32")
    upper = Value(fn.pure(f"lshr {word.typed}, {constant(16, 'u32', v.lanes).ref}"), "u32", v.lanes)
    return bitcast(fn, cast(fn, upper, "u16"), "bf16")


def _to_bfloat(fn: FunctionWriter, v: Value) -> Value:
    """An f32 rounded to bf16, to nearest, ties to even; a NaN stays one.

    By integers, eight instructions a vector of AVX-512, also where the processor has AVX512-BF16: its `vcvtneps2bf16`
    takes denormals as zeros. With those that find, round and join denormals it would be six: too little is gained for
    a second way to round.
    """
    word = bitcast(fn, v, "u32")
    high = Value(fn.pure(f"lshr {word.typed}, {constant(16, 'u32', v.lanes).ref}"), "u32", v.lanes)
    odd = binary(fn, "&", high, constant(1, "u32", v.lanes))
    rounded = binary(fn, "+", binary(fn, "+", word, constant(0x7FFF, "u32", v.lanes)), odd)
    nan = Value(fn.pure(f"fcmp uno {v.typed}, {v.ref}"), "bool", v.lanes)
    quiet = binary(fn, "|", word, constant(0x400000, "u32", v.lanes))
    chosen = choose(fn, nan, quiet, rounded)
    upper = Value(fn.pure(f"lshr {chosen.typed}, {constant(16, 'u32', v.lanes).ref}"), "u32", v.lanes)
    return bitcast(fn, cast(fn, upper, "u16"), "bf16")
