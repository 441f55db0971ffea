"""Exponentials, logarithms, hyperbolic functions and roots as polynomials, for scalars and vectors of any width alike.

The largest errors are stated in `docs/language.md` and held by `tests/unit/llvm/test_functions.py`. Special values
are those of C: NaN propagates, infinities and zeros give exact limits, subnormal results are kept. Functions marked
f64 serve f32 too, through f64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.number import Integer, Number


class _Format(NamedTuple):
    """What the algorithms need to know of a floating type."""

    fraction: int
    bias: int
    tiny: float
    root_half: int
    exp_range: tuple[float, float]
    ln2: tuple[float, float]


_FORMATS: Mapping[str, _Format] = {
    "f32": _Format(23, 127, 2.0**-126, 0x3F3504F3, (-104.0, 89.0), (0.693359375, -2.12194440e-4)),
    "f64": _Format(
        52,
        1023,
        2.0**-1022,
        0x3FE6A09E667F3BCD,
        (-746.0, 710.0),
        (6.93147180369123816490e-01, 1.90821492927058770002e-10),
    ),
}

_EXP32 = (
    0.5,
    0.1666666567325592,
    0.04166629537940025,
    0.008333497680723667,
    0.0013944690581411123,
    0.0001979032385861501,
)
_EXP64 = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
_LOG32 = (
    0.3333331346511841,
    -0.25000008940696716,
    0.2000211924314499,
    -0.16667994856834412,
    0.14219549298286438,
    -0.12405594438314438,
    0.11888190358877182,
    -0.11675628274679184,
    0.06746552139520645,
)
_LOG64 = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
_TANH32 = (
    -0.3333333134651184,
    0.13333210349082947,
    -0.05394720286130905,
    0.021702965721488,
    -0.008182669058442116,
    0.0021475329995155334,
)
_TANH64_P = (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1)
_TANH64_Q = (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)
_ERF32 = (
    1.128379225730896,
    -0.37612637877464294,
    0.11283782869577408,
    -0.02686544507741928,
    0.005221074912697077,
    -0.00084847112884745,
    0.00011270542745478451,
    -9.680132279754616e-06,
)
_ERFC32 = (
    0.00018803559942170978,
    -1.1295783519744873,
    -0.6332198977470398,
    -0.1084185466170311,
    0.0252082422375679,
    -0.004204557277262211,
    0.0004413356364239007,
    -2.168680111935828e-05,
)

_CBRT = (0.554936, 0.551181, -0.106297)


def exp(x: Number) -> Number:
    """`e**x`."""
    form = _FORMATS[x.value.dtype]
    low, high = form.exp_range
    x = x.at_most(high).at_least(low)
    n, count = _nearest(x.times(1 / math.log(2)), form)
    return _raised(x.minus(n.times(form.ln2[0])).minus(n.times(form.ln2[1])), n, count, form)


def exp2(x: Number) -> Number:
    """`2**x`."""
    form = _FORMATS[x.value.dtype]
    low, high = form.exp_range
    x = x.at_most(math.ceil(high / math.log(2)) + 1.0).at_least(math.floor(low / math.log(2)) - 1.0)
    n, count = _nearest(x, form)
    return _raised(x.minus(n).times(math.log(2)), n, count, form)


def _nearest(x: Number, form: _Format) -> tuple[Number, Integer]:
    """The nearest integer, as a number and as an integer."""
    # Adding 1.5·2**fraction leaves the nearest integer in the low bits, for NaN too without a conversion.
    magic = 1.5 * 2.0**form.fraction
    shifted = x.plus(magic)
    return shifted.minus(magic), shifted.word().op("-", x.of(magic).word())


def _raised(r: Number, n: Number, count: Integer, form: _Format) -> Number:
    """`e**r · 2**n` for a small `r`; `count` is `n` as an integer."""
    square = r.times(r)
    if r.value.dtype == "f32":
        y = square.times(r.polynomial(_EXP32)).plus(r).plus(1.0)
    else:
        c = r.minus(square.times(square.polynomial(_EXP64)))
        y = r.times(c).over(r.of(2.0).minus(c)).plus(r).plus(1.0)
    if y.scales:
        return y.scaled(n)
    # In two steps, so that subnormal and barely finite results come out. The second overflows where the result does.
    half = count.op(">>", 1)
    return y.times(_power_of_2(half, form)).times_rounded(_power_of_2(count.op("-", half), form))


def expm1(x: Number) -> Number:
    """`e**x - 1` (f64)."""
    u = exp(x)
    # What rounding makes `e**x` stand for is its logarithm: the same error is in both, and falls out of the quotient.
    result = u.minus(1.0).times(x.over(log(u)))
    result = x.where(u.is_("==", 1.0), result)
    result = u.where(u.is_("==", math.inf), result)
    return x.of(-1.0).where(x.is_("<", -40.0), result)


def log(x: Number) -> Number:
    """The natural logarithm."""
    form = _FORMATS[x.value.dtype]
    m, e = _split(x, form)
    if x.value.dtype == "f32":
        square = m.times(m)
        tail = square.times(m).times(m.polynomial(_LOG32)).plus(e.times(form.ln2[1]))
        y = tail.minus(square.times(0.5)).plus(m).plus(e.times(form.ln2[0]))
    else:
        half, inner = _series(m)
        y = e.times(form.ln2[0]).minus(half.minus(inner.plus(e.times(form.ln2[1]))).minus(m))
    return _of_positive(x, y)


def log2(x: Number) -> Number:
    """The logarithm to base 2 (f64)."""
    m, e = _split(x, _FORMATS["f64"])
    half, inner = _series(m)
    return _of_positive(x, m.minus(half.minus(inner)).times(1 / math.log(2)).plus(e))


def log1p(x: Number) -> Number:
    """`log(1 + x)` (f64)."""
    u = x.plus(1.0)
    result = log(u).times(x.over(u.minus(1.0)))
    result = x.where(u.is_("==", 1.0), result)
    return u.where(u.is_("==", math.inf), result)


def _split(x: Number, form: _Format) -> tuple[Number, Number]:
    """`x = (1 + m) · 2**e` with `1 + m` from √½ to √2."""
    small = x.is_("<", form.tiny)
    word = x.times(2.0**form.fraction).where(small, x).word()
    exponent = word.op("-", form.root_half).op(">>", form.fraction)
    m = word.op("-", exponent.op("<<", form.fraction)).as_float().minus(1.0)
    e = exponent.converted()
    return m, e.minus(float(form.fraction)).where(small, e)


def _series(m: Number) -> tuple[Number, Number]:
    """`h` and `i` such that the logarithm of `1 + m` is `m - (h - i)` (f64)."""
    s = m.over(m.plus(2.0))
    z = s.times(s)
    half = m.times(m).times(0.5)
    return half, s.times(half.plus(z.times(z.polynomial(_LOG64))))


def _of_positive(x: Number, y: Number) -> Number:
    """A logarithm `y` of `x`, with the limits at 0 and infinity, and NaN below 0."""
    y = x.where(x.is_("==", math.inf), y)
    y = x.of(-math.inf).where(x.is_("==", 0.0), y)
    return y.where(x.is_(">=", 0.0), math.nan)


def sinh(x: Number) -> Number:
    """The hyperbolic sine (f64)."""
    a = x.magnitude()
    small = a.is_("<", 40.0)
    u = expm1(a.where(small, a.times(0.5)))
    near = u.plus(u.over(u.plus(1.0))).times(0.5)
    root = u.plus(1.0)
    return near.where(small, root.times(0.5).times(root)).signed_as(x)


def cosh(x: Number) -> Number:
    """The hyperbolic cosine (f64)."""
    a = x.magnitude()
    small = a.is_("<", 40.0)
    e = exp(a.where(small, a.times(0.5)))
    half = e.times(0.5)
    return half.plus(e.of(0.5).over(e)).where(small, half.times(e))


def cbrt(x: Number) -> Number:
    """The cube root (f64)."""
    form = _FORMATS["f64"]
    a = x.magnitude()
    m, e = _split(a, form)
    m = m.plus(1.0)
    third, count = _nearest(e.times(1 / 3), form)
    rest = e.minus(third.times(3.0))
    # The rest of the exponent is -1, 0 or 1.
    low, high = rest.is_("<", -0.5), rest.is_(">", 0.5)
    wide = m.times(0.5).where(low, m.times(2.0).where(high, m))
    t = m.polynomial(_CBRT)
    t = t.times(2 ** (-1 / 3)).where(low, t.times(2 ** (1 / 3)).where(high, t))
    for _ in range(2):
        cube = t.times(t).times(t)
        t = t.plus(t.times(wide.minus(cube)).over(cube.times(2.0).plus(wide)))
    scaled = t.times(_power_of_2(count, form))
    scaled = a.where(a.is_("==", 0.0), scaled)
    return scaled.where(a.is_("<", math.inf), a).signed_as(x)


def fmod(x: Number, y: Number) -> Number:
    """The remainder of a division rounded towards 0 (f64), for a quotient below 2**52."""
    a, b = x.magnitude(), y.magnitude()
    q = a.over(b).truncated()
    r = q.negated().fused(b, a)
    # The quotient may have been rounded up to the next integer.
    r = r.plus(b).where(r.is_("<", 0.0), r)
    r = r.minus(b).where(r.is_(">=", b), r)
    r = a.where(b.is_("==", math.inf), r)
    return r.where(a.is_("<", math.inf), math.nan).signed_as(x)


def tanh(x: Number) -> Number:
    """The hyperbolic tangent."""
    a = x.magnitude()
    square = x.times(x)
    if x.value.dtype == "f32":
        near = a.times(square).times(square.polynomial(_TANH32)).plus(a)
    else:
        ratio = square.polynomial(_TANH64_P).over(square.polynomial(_TANH64_Q))
        near = a.times(square).times(ratio).plus(a)
    far = x.of(1.0).minus(x.of(2.0).over(exp(a.times(2.0)).plus(1.0)))
    return near.where(a.is_("<", 0.625), far).signed_as(x)


def sigmoid(x: Number) -> Number:
    """`1 / (1 + e**-x)`."""
    e = exp(x.magnitude().negated())
    return x.of(1.0).where(x.is_(">=", 0.0), e).over(e.plus(1.0))


def erf(x: Number) -> Number:
    """The error function (f32)."""
    a = x.magnitude()
    square = x.times(x)
    near = a.times(square.polynomial(_ERF32))
    capped = a.at_most(4.0)
    far = x.of(1.0).minus(exp(capped.polynomial(_ERFC32)))
    return near.where(a.is_("<", 1.0), far).signed_as(x)


def power(x: Number, y: Number) -> Number:
    """`x**y` (f64, with enough digits for f32): by the logarithm of the magnitude, special cases apart."""
    a = x.magnitude()
    result = exp(y.times(log(a)))
    one = x.of(1.0)
    whole = y.rounded().is_("==", y)
    half = y.times(0.5)
    even = half.rounded().is_("==", half)
    negative = x.is_("<", 0.0)
    fn = x.fn
    odd = arithmetic.binary(fn, "and", whole, arithmetic.invert(fn, even))
    # The sign of -0 counts too.
    result = result.signed_as(x).where(odd, result)
    broken = arithmetic.binary(fn, "and", negative, arithmetic.invert(fn, whole))
    finite = arithmetic.binary(fn, "and", broken, a.is_("<", math.inf))
    result = x.of(math.nan).where(finite, result)
    unit = a.is_("==", 1.0)
    sure = arithmetic.binary(fn, "and", unit, y.magnitude().is_("==", math.inf))
    result = one.where(sure, result)
    result = one.where(y.is_("==", 0.0), result)
    return one.where(x.is_("==", 1.0), result)


def _power_of_2(k: Integer, form: _Format) -> Number:
    return k.op("+", form.bias).op("<<", form.fraction).as_float()
