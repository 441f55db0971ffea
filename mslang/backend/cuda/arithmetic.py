"""Operators and conversions in CUDA C, with the language's meaning.

Integers wrap, and C's narrow ones are computed as `int`: results are converted back, and 32 and 64 bits are computed
unsigned where they may overflow. f16 has sums, differences and products of its own; everything else of f16, and all of
bf16, is computed in f32 and rounded, which gives the same as rounding once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.backend.cuda.types import INT, NAMES, Bounds, Level, Value, constant, fits, integer
from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import INDEX, bits, is_float, is_unsigned
from mslang.ir.expr import BITS, COMPARISONS

HALVES = frozenset({"f16", "bf16"})
"""The types that are computed in f32."""

_LEVELS: Mapping[str, int] = MappingProxyType(
    {
        "*": Level.PRODUCT,
        "/": Level.PRODUCT,
        "%": Level.PRODUCT,
        "+": Level.SUM,
        "-": Level.SUM,
        "<<": Level.SHIFT,
        ">>": Level.SHIFT,
        "&": Level.BIT_AND,
        "^": Level.BIT_XOR,
        "|": Level.BIT_OR,
        "<": Level.ORDER,
        "<=": Level.ORDER,
        ">": Level.ORDER,
        ">=": Level.ORDER,
        "==": Level.EQUAL,
        "!=": Level.EQUAL,
        "&&": Level.AND,
        "||": Level.OR,
    }
)

_OF_BOOLS = BITS | {"min", "max"}
_FLOATING = frozenset({"+", "-", "*", "/", "//", "%", "min", "max"})
_HALF_FUNCTIONS = {"+": "__hadd", "-": "__hsub", "*": "__hmul"}


class Used:
    """The device functions and headers that a source needs, collected while it is printed."""

    def __init__(self, nan_free: bool = False) -> None:
        self.functions: set[str] = set()
        self.headers: set[str] = set()
        self.nan_free = nan_free

    def call(self, name: str, *args: str) -> str:
        """A call of a function of the prelude."""
        self.functions.add(name)
        return f"{name}({', '.join(args)})"


def operation(op: str, left: Value, right: Value, dtype: str, bounds: Bounds | None = None) -> Value:
    """`left op right` as C has it, with the parentheses that it needs."""
    level = _LEVELS[op]
    # `a & b == c` and `a << b + c` are read wrongly, by people too.
    tight = level if level in (Level.PRODUCT, Level.SUM, Level.AND, Level.OR) else Level.UNARY
    if Level.EQUAL <= level <= Level.ORDER:
        tight = Level.SHIFT
    return Value(f"{left.at(tight)} {op} {right.at(tight + 1)}", dtype, level, bounds)


# ------------------------------------------------------------------ operators
def binary(used: Used, op: str, left: Value, right: Value, dtype: str, exact: bool = False) -> Value:
    """`left op right`, whose operands have the type `dtype` in the kernel.

    Args:
        used: collects what the text needs.
        op: an operator of expressions.
        left, right: the operands; an index may be an `int`.
        dtype: their type in the kernel.
        exact: the result fits in `dtype`, as that of index arithmetic does.

    Raises:
        MsError: MS440, there is no such operation of this type.
    """
    if op in ("and", "or"):
        return operation("&&" if op == "and" else "||", left, right, "bool")
    if op in COMPARISONS:
        if dtype in HALVES:
            left, right = cast(used, left, "f32"), cast(used, right, "f32")
        return operation(op, *_levelled(left, right), "bool")
    if is_float(dtype):
        return _floating(used, op, left, right)
    if op == "/" or (dtype == "bool" and op not in _OF_BOOLS):
        raise MsError(problem("MS440", f"`{op}` of {dtype} is unknown to the CUDA back end"))
    if dtype == INDEX:
        narrow = left.dtype == right.dtype == INT and fits(_bounds(op, left, right))
        left, right = (left, right) if narrow else (widened(left), widened(right))
    match op:
        case "min" | "max":
            return Value(used.call(f"ms_{op}", left.text, right.text), left.dtype, bounds=_bounds(op, left, right))
        case "//" | "%":
            return _divided(used, op, left, right)
        case "<<" | ">>":
            return _shifted(used, op, left, right)
        case "&" | "|" | "^":
            return _narrow(operation(op, left, right, left.dtype, _bounds(op, left, right)))
    return _wrapping(op, left, right, exact)


def _wrapping(op: str, left: Value, right: Value, exact: bool) -> Value:
    """A sum, difference or product modulo two to the width, unless it fits."""
    dtype, bounds = left.dtype, _bounds(op, left, right)
    if exact or bounds is not None or is_unsigned(dtype):
        return _narrow(operation(op, left, right, dtype, bounds))
    if bits(dtype) < 32:
        return _narrow(operation(op, left, right, dtype))
    return _signed(operation(op, unsigned(left), unsigned(right), _UNSIGNED[dtype]), dtype)


_UNSIGNED = {"i32": "u32", "i64": "u64"}


def unsigned(v: Value) -> Value:
    """A signed number in the unsigned type of its width."""
    name = _UNSIGNED[v.dtype]
    if v.modular is not None:
        return Value(v.modular, name)
    if v.literal is not None and v.literal >= 0:
        return integer(v.literal, name)
    return Value(f"({NAMES[name]}){v.at(Level.UNARY)}", name, Level.UNARY)


def _signed(v: Value, dtype: str) -> Value:
    return Value(f"({NAMES[dtype]})({v.text})", dtype, Level.UNARY, modular=f"({v.text})")


def _narrow(v: Value) -> Value:
    """The value of an operation that C computes as `int`, in its own type."""
    if bits(v.dtype) >= 32 and v.dtype != "bool":
        return v
    return Value(f"({NAMES[v.dtype]})({v.text})", v.dtype, Level.UNARY, v.bounds)


def _levelled(left: Value, right: Value) -> tuple[Value, Value]:
    """Two operands of one type: an `int` index is widened if the other is not an `int`."""
    if left.dtype == right.dtype:
        return left, right
    return widened(left), widened(right)


def widened(v: Value) -> Value:
    """An index as `long long`."""
    if v.dtype == INDEX:
        return v
    if v.literal is not None:
        return integer(v.literal, INDEX)
    return Value(f"({NAMES[INDEX]}){v.at(Level.UNARY)}", INDEX, Level.UNARY, v.bounds)


def _floating(used: Used, op: str, left: Value, right: Value) -> Value:
    dtype = left.dtype
    if op not in _FLOATING:
        raise MsError(problem("MS440", f"`{op}` of {dtype} is unknown to the CUDA back end"))
    if dtype == "f16" and op in _HALF_FUNCTIONS:
        return Value(f"{_HALF_FUNCTIONS[op]}({left.text}, {right.text})", dtype)
    if dtype in HALVES and not (dtype == "f16" and op in ("//", "%")):
        return cast(used, _floating(used, op, cast(used, left, "f32"), cast(used, right, "f32")), dtype)
    if op in ("min", "max"):
        return _extreme(used, op, left, right)
    if op in ("//", "%"):
        return _floored(used, op, left, right)
    return operation(op, left, right, dtype)


def _floored(used: Used, op: str, left: Value, right: Value) -> Value:
    """The quotient rounded down, or what is left of the dividend; each step rounds."""
    quotient = cast(used, _floating(used, "/", left, right), "f64" if left.dtype == "f64" else "f32")
    floor = "floor" if left.dtype == "f64" else "floorf"
    floored = cast(used, Value(f"{floor}({quotient.text})", quotient.dtype), left.dtype)
    if op == "//":
        return floored
    return _floating(used, "-", left, _floating(used, "*", floored, right))


def _extreme(used: Used, op: str, left: Value, right: Value) -> Value:
    """`minimum` or `maximum` of floats; one instruction where NaN and signs of zeros do not matter."""
    name = f"ms_{op}" if used.nan_free else f"ms_{op}imum"
    return Value(used.call(name, left.text, right.text), left.dtype)


def _divided(used: Used, op: str, left: Value, right: Value) -> Value:
    dtype = left.dtype
    bounds = _bounds(op, left, right)
    never_negative = is_unsigned(dtype) or _at_least(left, 0)
    if never_negative and _at_least(right, 1):
        return _narrow(operation("/" if op == "//" else "%", left, right, dtype, bounds))
    name = f"ms_{'u' if is_unsigned(dtype) else ''}{'divide' if op == '//' else 'modulo'}"
    return Value(used.call(name, left.text, right.text), dtype, bounds=bounds)


def _at_least(v: Value, n: int) -> bool:
    return v.bounds is not None and v.bounds[0] >= n


def _shifted(used: Used, op: str, left: Value, right: Value) -> Value:
    dtype, width = left.dtype, bits(left.dtype)
    n = right.literal
    if n is None or not 0 <= n < width:
        name = "ms_shl" if op == "<<" else "ms_ushr" if is_unsigned(dtype) else "ms_shr"
        return Value(used.call(name, left.text, right.text, str(width)), dtype)
    count = integer(n, INT)
    if op == ">>" or is_unsigned(dtype):
        return _narrow(operation(op, left, count, dtype))
    if dtype in _UNSIGNED:
        return _signed(operation(op, unsigned(left), count, _UNSIGNED[dtype]), dtype)
    return _narrow(operation(op, Value(f"(unsigned int){left.at(Level.UNARY)}", dtype, Level.UNARY), count, dtype))


def negate(used: Used, v: Value) -> Value:
    """`-v`."""
    if v.dtype in HALVES:
        return Value(f"__hneg({v.text})", v.dtype)
    if is_float(v.dtype):
        return Value(f"-{v.at(Level.ATOM)}", v.dtype, Level.UNARY)
    return _wrapping("-", integer(0, v.dtype), v, exact=False)


def invert(v: Value) -> Value:
    """`not v` of a bool."""
    return Value(f"!{v.at(Level.UNARY)}", "bool", Level.UNARY)


def choose(condition: Value, then: Value, otherwise: Value) -> Value:
    """`condition ? then : otherwise`: only the side chosen is evaluated."""
    if then.dtype != otherwise.dtype:
        then, otherwise = widened(then), widened(otherwise)
    a, b = then.bounds, otherwise.bounds
    bounds = None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
    text = f"{condition.at(Level.OR)} ? {then.at(Level.OR)} : {otherwise.at(Level.TERNARY)}"
    return Value(text, then.dtype, Level.TERNARY, bounds)


# ------------------------------------------------------------------ conversions
def cast(used: Used, v: Value, dtype: str) -> Value:
    """`v` as another element type, by C's rules."""
    source = v.dtype
    if source == dtype:
        return v
    if source in HALVES:
        name = "__half2float" if source == "f16" else "__bfloat162float"
        return cast(used, Value(f"{name}({v.text})", "f32"), dtype)
    if dtype in HALVES:
        return _halved(used, v, dtype)
    if dtype == "bool":
        return operation("!=", v, constant(0, source), "bool")
    if not is_float(source) and not is_float(dtype):
        return _resized(v, dtype)
    return Value(f"({NAMES[dtype]}){v.at(Level.UNARY)}", dtype, Level.UNARY)


def _resized(v: Value, dtype: str) -> Value:
    """An integer as another one."""
    if v.literal is not None and integer_limits(dtype)[0] <= v.literal <= integer_limits(dtype)[1]:
        return integer(v.literal, dtype)
    known = integer_limits(v.dtype) if v.bounds is None and v.dtype != INDEX else v.bounds
    low, high = integer_limits(dtype)
    held = known if known is not None and low <= known[0] and known[1] <= high else None
    return Value(f"({NAMES[dtype]}){v.at(Level.UNARY)}", dtype, Level.UNARY, held)


def _halved(used: Used, v: Value, dtype: str) -> Value:
    short = "half" if dtype == "f16" else "bfloat16"
    wide = v.dtype == "f64" or (not is_float(v.dtype) and bits(v.dtype) >= 32 and dtype == "bf16")
    if wide:
        # Rounded once: f64 holds a number of 32 bits, which f32 does not; one of 64 bits is rounded to odd.
        name = "__double2half" if dtype == "f16" else "__double2bfloat16"
        large = not is_float(v.dtype) and bits(v.dtype) == 64
        return Value(f"{name}({used.call('ms_to_odd', v.text) if large else cast(used, v, 'f64').text})", dtype)
    return Value(f"__float2{short}_rn({cast(used, v, 'f32').text})", dtype)


# ------------------------------------------------------------------ bounds
def integer_limits(dtype: str) -> Bounds:
    """The smallest and the largest value of an integer type."""
    if dtype == "bool":
        return (0, 1)
    n = bits(dtype)
    return (0, (1 << n) - 1) if is_unsigned(dtype) else (-(1 << (n - 1)), (1 << (n - 1)) - 1)


def _bounds(op: str, left: Value, right: Value) -> Bounds | None:
    """The bounds of a result that does not wrap."""
    a, b = left.bounds, right.bounds
    if op == "%" and b is not None and b[0] > 0:
        return (0, b[1] - 1) if a is None or a[0] < 0 or a[1] >= b[1] else (0, min(a[1], b[1] - 1))
    if op == "&":
        ends = [x[1] for x in (a, b) if x is not None and x[0] >= 0]
        return (0, min(ends)) if ends else integer_limits(left.dtype)
    if op in ("|", "^"):
        return integer_limits(left.dtype)
    if a is None or b is None:
        return None
    match op:
        case "+":
            found = (a[0] + b[0], a[1] + b[1])
        case "-":
            found = (a[0] - b[1], a[1] - b[0])
        case "*":
            ends = [x * y for x in a for y in b]
            found = (min(ends), max(ends))
        case "//" if b[0] > 0:
            ends = [x // y for x in a for y in b]
            found = (min(ends), max(ends))
        case "min":
            found = (min(a[0], b[0]), min(a[1], b[1]))
        case "max":
            found = (max(a[0], b[0]), max(a[1], b[1]))
        case _:
            return None
    low, high = integer_limits(left.dtype)
    return found if low <= found[0] and found[1] <= high else None
