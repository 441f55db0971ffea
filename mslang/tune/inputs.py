"""Random arrays within the ranges that parameters declare: `at: i32[N] in 0..V sorted`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mslang.diagnostics import MsError, problem
from mslang.ir import arith
from mslang.ir.dtype import bits, is_float, is_unsigned
from mslang.ir.expr import Const
from mslang.ir.program import Buffer, Within
from mslang.runtime.ranges import Bounds

if TYPE_CHECKING:
    import numpy as np


_GREATEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 2.0**1022}
"""The largest numbers that are drawn: the largest of each type, but of f64 one whose double is finite, too."""

_EXACT = {"f16": 1 << 11, "bf16": 1 << 8, "f32": 1 << 24, "f64": 1 << 53}
"""Up to here a type holds every integer."""

_USUAL = 64.0
"""How far from 0 numbers are drawn where a range has no end."""


def bounds_of(buffer: Buffer, within: Within) -> Bounds:
    """The declared range of a buffer's elements as numbers, no further than the type goes.

    Raises:
        MsError: MS129, no value of the type is in the range; MS112, a bound is a size known only at the call.
    """
    low, high = (arith.simplify(e) for e in (within.low, within.high))
    if not isinstance(low, Const) or not isinstance(high, Const):
        raise MsError(
            problem(
                "MS112",
                f"the range of `{buffer.name}` is known only when the kernel is called",
                help="give the sizes: `--set N=…`",
            )
        )
    if is_float(buffer.dtype):
        least, most = _finite(float(low.value), float(high.value), buffer.dtype)
    else:
        width, signed = bits(buffer.dtype), not is_unsigned(buffer.dtype)
        least = max(int(low.value), -(1 << (width - 1)) if signed else 0)
        most = min(int(high.value), 1 << (width - signed))
    if not least < most:
        raise _nothing(f"`{buffer.name}`", f"no `{buffer.dtype}` is at least {low.value} and less than {high.value}")
    return Bounds(least, most, within.sorted, within.unique)


def _finite(low: float, high: float, dtype: str) -> tuple[float, float]:
    """A range of floats with finite ends; one that is infinite lies at the usual numbers, or beyond the other end."""
    if high == math.inf:
        high = max(2 * low, _USUAL)
    if low == -math.inf:
        low = min(2 * high, -_USUAL)
    return max(low, -_GREATEST[dtype]), min(high, _GREATEST[dtype])


def drawn(shape: tuple[int, ...], dtype: str, bounds: Bounds, whole: bool, seed: int) -> np.ndarray:
    """An array of random numbers within bounds, with the smallest and the largest among them; `whole`: integers, most
    of them 0 where that is allowed, as far as there are any.

    Raises:
        MsError: MS129, so many different integers are not in the range.
    """
    import numpy as np

    from mslang.runtime.arrays import empty

    random = np.random.default_rng(seed)
    out = empty(shape, dtype)
    low, high = bounds.low, bounds.high
    if is_float(dtype):
        low, high = max(math.ceil(low), -_EXACT[dtype]), min(math.ceil(high), _EXACT[dtype])
        whole = whole and high - low >= (out.size if bounds.unique else 1)
    made: np.ndarray
    if is_float(dtype) and not whole:
        # A little below the end, which half types would round to.
        ends = bounds.low, bounds.high - (bounds.high - bounds.low) / 128
        different = bounds.unique and out.size > 1
        made = random.permutation(np.linspace(*ends, out.size)) if different else random.uniform(*ends, out.size)
        made = made.reshape(shape)
    elif bounds.unique:
        made = _different(random, int(low), int(high), out.size).reshape(shape)
    else:
        made = random.integers(int(low), int(high), shape)
        if is_float(dtype) and low <= 0 < high:
            made = made * (random.random(shape) < 0.25)
        if made.ndim and made.shape[-1] > 1:
            made[..., 0], made[..., -1] = int(low), int(high) - 1
    if bounds.sorted and made.ndim:
        made = np.sort(made, axis=-1)
    out[...] = made.astype(np.float32).view(np.uint32) >> 16 if dtype == "bf16" else made
    return out


def _different(random: np.random.Generator, low: int, high: int, count: int) -> np.ndarray:
    import numpy as np

    if high - low < count:
        raise _nothing("an array", f"{count} different integers are not in {low}..{high}")
    if high - low <= 4 * count:
        return random.permutation(np.arange(low, high))[:count]
    found = np.unique(random.integers(low, high, 2 * count))
    while found.size < count:
        found = np.unique(np.concatenate([found, random.integers(low, high, count)]))
    return random.permutation(found)[:count]


def _nothing(what: str, why: str) -> MsError:
    return MsError(problem("MS129", f"nothing can be given for {what}", why=why, help="widen its range"))
