"""The functions of programs: arity, types, and what they give for numbers in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from mslang.ir.dtype import bits, is_float, is_integer, parts


class Domain(StrEnum):
    """The element types that a function takes."""

    FLOAT = "a floating-point number"
    INTEGER = "an integer"
    NUMBER = "a number"


class Function(msgspec.Struct, frozen=True):
    """A function of programs. All arguments have one type, which is the result's unless `truth`: then it is bool.

    `evaluate` takes and gives Python numbers; of floats it never raises. For an integer function the first argument is
    the width of the type.
    """

    name: str
    arity: int
    summary: str
    evaluate: Callable[..., float]
    domain: Domain = Domain.FLOAT
    truth: bool = False

    def takes(self, dtype: str) -> bool:
        """Whether arguments may be of type `dtype`, a vector type too."""
        found = parts(dtype)
        scalar = dtype if found is None else found.scalar
        return (self.domain is not Domain.INTEGER and is_float(scalar)) or (
            self.domain is not Domain.FLOAT and is_integer(scalar)
        )

    def result(self, dtype: str) -> str:
        """The type of the result for arguments of type `dtype`."""
        return "bool" if self.truth else dtype


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _rsqrt(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    return 1 / math.sqrt(x) if x > 0 else math.nan


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return (e := math.exp(x)) / (1 + e)


def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        if x != 0:
            return math.nan
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf


def _whole(f: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(f(x)), x) if math.isfinite(x) else x


def _or_nan(f: Callable[..., float]) -> Callable[..., float]:
    """`f`, with NaN for arguments outside of its domain."""

    def found(*xs: float) -> float:
        try:
            return f(*xs)
        except ValueError:
            return math.nan

    return found


def _or_infinity(f: Callable[[float], float], odd: bool = False) -> Callable[[float], float]:
    """`f`, with infinity, of the argument's sign if `odd`, for results that are too large."""

    def found(x: float) -> float:
        try:
            return f(x)
        except OverflowError:
            return math.copysign(math.inf, x) if odd else math.inf

    return found


def _log2(x: float) -> float:
    return math.log2(x) if x > 0 else -math.inf if x == 0 else math.nan


def _log1p(x: float) -> float:
    return math.log1p(x) if x > -1 else -math.inf if x == -1 else math.nan


def _population(width: int, x: int) -> int:
    return (x & ((1 << width) - 1)).bit_count()


def _leading_zeros(width: int, x: int) -> int:
    return width - (x & ((1 << width) - 1)).bit_length()


def minimum(a: float, b: float) -> float:
    """The lesser of two; NaN if either is, and -0 of two zeros if either is -0."""
    if a < b:
        return a
    if b < a:
        return b
    if a == b:
        return b if a != 0 or math.copysign(1.0, a) > 0 else a
    return math.nan


def maximum(a: float, b: float) -> float:
    """The greater of two; NaN if either is, and +0 of two zeros if either is +0."""
    if a > b:
        return a
    if b > a:
        return b
    if a == b:
        return b if a != 0 or math.copysign(1.0, a) < 0 else a
    return math.nan


_TABLE = (
    Function("exp", 1, "`e**x`", _exp),
    Function("exp2", 1, "`2**x`", _or_infinity(math.exp2)),
    Function("expm1", 1, "`e**x - 1`, exact to the last places near 0", _or_infinity(math.expm1)),
    Function("log", 1, "the natural logarithm; NaN below 0", _log),
    Function("log2", 1, "the logarithm to base 2; NaN below 0", _log2),
    Function("log1p", 1, "`log(1 + x)`, exact to the last places near 0; NaN below -1", _log1p),
    Function("pow", 2, "`x**y`, as C's `pow`", _pow),
    Function("sqrt", 1, "the square root; NaN below 0", _sqrt),
    Function("rsqrt", 1, "`1 / sqrt(x)`", _rsqrt),
    Function("cbrt", 1, "the cube root, of negative numbers too", math.cbrt),
    Function("sin", 1, "the sine of an angle in radians", _or_nan(math.sin)),
    Function("cos", 1, "the cosine of an angle in radians", _or_nan(math.cos)),
    Function("tan", 1, "the tangent of an angle in radians", _or_nan(math.tan)),
    Function("asin", 1, "the angle from -π/2 to π/2 of a sine; NaN beyond -1 to 1", _or_nan(math.asin)),
    Function("acos", 1, "the angle from 0 to π of a cosine; NaN beyond -1 to 1", _or_nan(math.acos)),
    Function("atan", 1, "the angle from -π/2 to π/2 of a tangent", math.atan),
    Function("atan2", 2, "`atan2(y, x)`: the angle from -π to π of the point (x, y)", math.atan2),
    Function("sinh", 1, "the hyperbolic sine", _or_infinity(math.sinh, odd=True)),
    Function("cosh", 1, "the hyperbolic cosine", _or_infinity(math.cosh)),
    Function("tanh", 1, "the hyperbolic tangent", math.tanh),
    Function("sigmoid", 1, "`1 / (1 + e**-x)`", _sigmoid),
    Function("erf", 1, "the error function", math.erf),
    Function("fmod", 2, "the remainder of `x / y` rounded towards 0, of the sign of `x`; exact", _or_nan(math.fmod)),
    Function("floor", 1, "rounded down", _whole(math.floor)),
    Function("ceil", 1, "rounded up", _whole(math.ceil)),
    Function("round", 1, "rounded to the nearest integer, halves to the even one", _whole(round)),
    Function("trunc", 1, "rounded towards 0", _whole(math.trunc)),
    Function("abs", 1, "the magnitude", abs, Domain.NUMBER),
    Function("isnan", 1, "whether it is NaN", math.isnan, truth=True),
    Function("isinf", 1, "whether it is infinite", math.isinf, truth=True),
    Function("popcount", 1, "the number of set bits", _population, Domain.INTEGER),
    Function(
        "clz",
        1,
        "the number of zero bits above the highest set one",
        _leading_zeros,
        Domain.INTEGER,
    ),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({f.name: f for f in _TABLE})
"""The functions that a `Call` may name. `min`, `max`, shifts and bits are binary operators, `select` is `Select`."""


def evaluated(name: str, args: tuple[float, ...], dtype: str) -> float:
    """The value of a function for arguments of type `dtype`, before it is rounded to the result's type."""
    f = FUNCTIONS[name]
    return f.evaluate(bits(dtype), *args) if f.domain is Domain.INTEGER else f.evaluate(*args)


def of_c_library(name: str) -> str | None:
    """The function that C's library calls `name`: `sin` for `sin` and `sinf`; None if there is none."""
    for stem in (name, name.removesuffix("f")):
        found = _C_NAMES.get(stem, stem)
        if found in FUNCTIONS and FUNCTIONS[found].domain is not Domain.INTEGER and found not in _NOT_IN_C:
            return found
    return None


_C_NAMES: Mapping[str, str] = MappingProxyType(
    {"fabs": "abs", "nearbyint": "round", "rint": "round", "roundeven": "round", "round": "", "abs": ""}
)
"""What C calls otherwise; its `round` rounds halves away from 0, and its `abs` is of integers."""

_NOT_IN_C = frozenset({"rsqrt", "sigmoid"})
