"""Circular functions and their inverses in double precision, the same for scalars and vectors of any width.

Angles are reduced by three parts of π/2 up to `_MEDIUM`; beyond that, which is rare, the C library reduces, lane by
lane, behind a branch. The largest errors are stated in `docs/language.md` and held by
`tests/unit/llvm/test_functions.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mslang.backend.llvm import arithmetic, library
from mslang.backend.llvm.number import Integer, Number
from mslang.backend.llvm.types import Value

_MEDIUM = 2.0**20
"""Angles up to here have multiples of π/2 that 20 bits count, so that their products with the parts are exact."""

_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624871116645580e-21)
_REST = 8.47842766036889956997e-32
"""π/2 in parts of 33 bits, and what is left."""

_SIN = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COS = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
_ASIN_P = (
    1.66666666666666657415e-01,
    -3.25565818622400915405e-01,
    2.01212532134862925881e-01,
    -4.00555345006794114027e-02,
    7.91534994289814532176e-04,
    3.47933107596021167570e-05,
)
_ASIN_Q = (
    1.0,
    -2.40339491173441421878e00,
    2.02094576023350569471e00,
    -6.88283971605453293030e-01,
    7.70381505559019352791e-02,
)
_ATAN = (
    3.33333333333329318027e-01,
    -1.99999999998764832476e-01,
    1.42857142725034663711e-01,
    -1.11111104054623557880e-01,
    9.09088713343650656196e-02,
    -7.69187620504482999495e-02,
    6.66107313738753120669e-02,
    -5.83357013379057348645e-02,
    4.97687799461593236017e-02,
    -3.65315727442169155270e-02,
    1.62858201153657823623e-02,
)
_PI_LOW = 1.22464679914735317720e-16
"""What π is greater by than `math.pi`."""


class _Reduced(NamedTuple):
    """An angle less a multiple of π/2: `high + low`, from -π/4 to π/4, and the multiple as an integer."""

    high: Number
    low: Number
    quadrant: Integer


def sin(x: Number) -> Number:
    """The sine (f64)."""
    return _of_any_angle(x, "sin", _turned(_reduced(x), 0).where(x.is_("!=", 0.0), x))


def cos(x: Number) -> Number:
    """The cosine (f64)."""
    return _of_any_angle(x, "cos", _turned(_reduced(x), 1))


def tan(x: Number) -> Number:
    """The tangent (f64)."""
    a = _reduced(x)
    s, c = _sine(a), _cosine(a)
    odd = _is_set(a.quadrant, 1)
    quotient = c.negated().where(odd, s).over(s.where(odd, c))
    return _of_any_angle(x, "tan", quotient.where(x.is_("!=", 0.0), x))


def _of_any_angle(x: Number, name: str, near: Number) -> Number:
    return library.where(x.magnitude().is_(">", _MEDIUM), name, (x,), near)


def _reduced(x: Number) -> _Reduced:
    magic = 1.5 * 2.0**52
    shifted = x.times(2 / math.pi).plus(magic)
    n = shifted.minus(magic)
    high, lost = x.minus(n.times(_HALF_PI[0])), x.of(0.0)
    for part in _HALF_PI[1:]:
        before, product = high, n.times(part)
        high = before.minus(product)
        lost = before.minus(high).minus(product).plus(lost)
    low = n.times(_REST).minus(lost)
    near = high.minus(low)
    return _Reduced(near, high.minus(near).minus(low), shifted.word())


def _turned(a: _Reduced, quarters: int) -> Number:
    """The sine of a reduced angle and so many quarter turns more."""
    quadrant = a.quadrant.op("+", quarters)
    value = _cosine(a).where(_is_set(quadrant, 1), _sine(a))
    return value.negated().where(_is_set(quadrant, 2), value)


def _is_set(n: Integer, bit: int) -> Value:
    masked = n.op("&", bit)
    return arithmetic.compare(n.fn, "!=", masked.value, masked.op("-", masked).value)


def _sine(a: _Reduced) -> Number:
    x, y = a.high, a.low
    z = x.times(x)
    v = z.times(x)
    r = z.polynomial(_SIN[1:])
    inner = z.times(y.times(0.5).minus(v.times(r))).minus(y).minus(v.times(_SIN[0]))
    # -0 and what is too small for a square to count stay.
    return x.minus(inner).where(x.magnitude().is_(">", 2.0**-27), x.plus(y))


def _cosine(a: _Reduced) -> Number:
    x, y = a.high, a.low
    z = x.times(x)
    half = z.times(0.5)
    w = x.of(1.0).minus(half)
    tail = z.times(z.times(z.polynomial(_COS))).minus(x.times(y))
    return w.plus(x.of(1.0).minus(w).minus(half).plus(tail))


# ------------------------------------------------------------------ inverse
def asin(x: Number) -> Number:
    """The arc sine (f64)."""
    a = x.magnitude()
    small = a.is_("<", 0.5)
    z = x.times(x).where(small, x.of(1.0).minus(a).times(0.5))
    r = _asin_series(z)
    near = a.plus(a.times(r))
    s = z.root()
    head, rest = _split_root(s, z)
    inner = s.times(2.0).times(r).minus(x.of(_PI_LOW / 2).minus(rest.times(2.0)))
    far = x.of(math.pi / 4).minus(inner.minus(x.of(math.pi / 4).minus(head.times(2.0))))
    return near.where(small, far).signed_as(x)


def acos(x: Number) -> Number:
    """The arc cosine (f64)."""
    a = x.magnitude()
    small = a.is_("<", 0.5)
    z = x.times(x).where(small, x.of(1.0).minus(a).times(0.5))
    r = _asin_series(z)
    middle = x.of(math.pi / 2).minus(x.minus(x.of(_PI_LOW / 2).minus(x.times(r))))
    s = z.root()
    head, rest = _split_root(s, z)
    right = head.plus(r.times(s).plus(rest)).times(2.0)
    left = x.of(math.pi).minus(s.plus(r.times(s).minus(_PI_LOW / 2)).times(2.0))
    return middle.where(small, right.where(x.is_(">", 0.0), left))


def _asin_series(z: Number) -> Number:
    return z.times(z.polynomial(_ASIN_P)).over(z.polynomial(_ASIN_Q))


def _split_root(s: Number, z: Number) -> tuple[Number, Number]:
    """The root `s` of `z` as a head of few bits and what is left; 0 and 0 for 0."""
    head = s.word().op("&", -(1 << 32)).as_float()
    rest = z.minus(head.times(head)).over(s.plus(head))
    return head, rest.where(s.is_("!=", 0.0), 0.0)


def atan(x: Number) -> Number:
    """The arc tangent (f64)."""
    a = x.magnitude()
    over, under = a, a.of(1.0)
    high, low = a.of(0.0), a.of(0.0)
    steps = (
        (7 / 16, a.times(2.0).minus(1.0), a.plus(2.0), 4.63647609000806093515e-01, 2.26987774529616870924e-17),
        (11 / 16, a.minus(1.0), a.plus(1.0), 7.85398163397448278999e-01, 3.06161699786838301793e-17),
        (19 / 16, a.minus(1.5), a.times(1.5).plus(1.0), 9.82793723247329054082e-01, 1.39033110312309984516e-17),
        (39 / 16, a.of(-1.0), a, 1.57079632679489655800e00, 6.12323399573676603587e-17),
    )
    for start, top, bottom, head, rest in steps:
        further = a.is_(">=", start)
        over, under = top.where(further, over), bottom.where(further, under)
        high, low = a.of(head).where(further, high), a.of(rest).where(further, low)
    t = over.over(under)
    z = t.times(t)
    result = high.minus(t.times(z.times(z.polynomial(_ATAN))).minus(low).minus(t))
    return result.where(a.is_("==", a), x).signed_as(x)


def atan2(y: Number, x: Number) -> Number:
    """The angle of the point (x, y) (f64)."""
    fn = x.fn
    ay, ax = y.magnitude(), x.magnitude()
    zeros = arithmetic.binary(fn, "and", ay.is_("==", 0.0), ax.is_("==", 0.0))
    infinities = arithmetic.binary(fn, "and", ay.is_("==", math.inf), ax.is_("==", math.inf))
    ratio = x.of(0.0).where(zeros, x.of(1.0).where(infinities, ay.over(ax)))
    angle = atan(ratio)
    # A zero's sign counts: behind (-0) is an angle of π.
    behind = arithmetic.compare(fn, "<", x.word().value, x.word().op("-", x.word()).value)
    turned = angle.where(ratio.is_("==", math.inf), x.of(math.pi).minus(angle.minus(_PI_LOW)))
    return turned.where(behind, angle).signed_as(y)
