"""exp, log, tanh, sigmoid, erf and pow as polynomials, the same for scalars and vectors of any width.

Greatest errors against the correctly rounded result, held by `tests/unit/llvm/test_math.py` (units in the last
place): f32 exp 2, log 2, tanh 3, sigmoid 3, erf 3, pow 2; f64 exp 2, log 2, tanh 3, sigmoid 4. Special values are
those of C: NaN stays, infinities and zeros give exact limits, subnormal results are kept.
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


def exp(x: Number) -> Number:
    """`e**x`."""
    form = _FORMATS[x.value.dtype]
    low, high = form.exp_range
    x = x.at_most(high).at_least(low)
    # Adding 1.5·2**fraction leaves the nearest integer in the low bits, for NaN too without a conversion.
    magic = 1.5 * 2.0**form.fraction
    shifted = x.times(1 / math.log(2)).plus(magic)
    n = shifted.minus(magic)
    count = shifted.word().op("-", x.of(magic).word())
    r = x.minus(n.times(form.ln2[0])).minus(n.times(form.ln2[1]))
    square = r.times(r)
    if x.value.dtype == "f32":
        y = square.times(r.polynomial(_EXP32)).plus(r).plus(1.0)
    else:
        c = r.minus(square.times(square.polynomial(_EXP64)))
        y = r.times(c).over(x.of(2.0).minus(c)).plus(r).plus(1.0)
    # In two steps, so that subnormal and barely finite results come out.
    half = count.op(">>", 1)
    return y.times(_power_of_2(half, form)).times(_power_of_2(count.op("-", half), form))


def log(x: Number) -> Number:
    """The natural logarithm."""
    form = _FORMATS[x.value.dtype]
    small = x.is_("<", form.tiny)
    scaled = x.times(2.0**form.fraction).where(small, x)
    word = scaled.word()
    exponent = word.op("-", form.root_half).op(">>", form.fraction)
    m = word.op("-", exponent.op("<<", form.fraction)).as_float().minus(1.0)
    e = exponent.converted()
    e = e.minus(float(form.fraction)).where(small, e)
    square = m.times(m)
    if x.value.dtype == "f32":
        tail = square.times(m).times(m.polynomial(_LOG32)).plus(e.times(form.ln2[1]))
        y = tail.minus(square.times(0.5)).plus(m).plus(e.times(form.ln2[0]))
    else:
        s = m.over(m.plus(2.0))
        z = s.times(s)
        series = z.times(z.polynomial(_LOG64))
        half = square.times(0.5)
        inner = s.times(half.plus(series)).plus(e.times(form.ln2[1]))
        y = e.times(form.ln2[0]).minus(half.minus(inner).minus(m))
    y = x.where(x.is_("==", math.inf), y)
    y = x.of(-math.inf).where(x.is_("==", 0.0), y)
    return y.where(x.is_(">=", 0.0), math.nan)


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
