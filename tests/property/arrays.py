"""Inputs for programs, and comparison of results."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from mslang.ir.arith import simplify, substitute_symbols
from mslang.ir.dtype import is_unsigned
from mslang.ir.expr import Const, Expr
from mslang.ir.program import Buffer, Program

INPUT_BOUND = 3
"""The greatest magnitude of an input's elements."""

NUMPY = {
    "bool": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": np.float32,
    "f32": np.float32,
    "f64": np.float64,
}


def concrete_shape(shape: Sequence[Expr], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A buffer's shape as numbers, dynamic sizes taken from `sizes`."""

    def number(e: Expr) -> int:
        if isinstance(e, Const):
            return int(e.value)
        found = simplify(substitute_symbols(e, sizes))
        assert isinstance(found, Const)
        return int(found.value)

    return tuple(number(e) for e in shape)


def strided(buffer: Buffer, rng: random.Random) -> Buffer:
    """The buffer with gaps between its elements, its dimensions in some order, perhaps at an offset."""
    extents = [int(n.value) for n in buffer.shape if isinstance(n, Const)]
    if len(extents) < len(buffer.shape):
        return buffer
    order = list(range(len(extents)))
    if rng.random() < 0.3:
        rng.shuffle(order)
    strides, step = [1] * len(extents), rng.choice([1, 1, 1, 2, 3])
    for d in reversed(order):
        strides[d] = step
        step = step * extents[d] + rng.choice([0, 0, 1, 4])
    offset = rng.choice([None, None, 0, 1, 5])
    return replace(buffer, strides=tuple(map(Const, strides)), offset=None if offset is None else Const(offset))


def random_inputs(program: Program, seed: int, sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """Small integers for every `in` and `inout` parameter, the same for the same seed."""
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for p in program.params:
        if p.direction == "out":
            continue
        shape = concrete_shape(p.given.shape, sizes or {})
        low = 0 if is_unsigned(p.buffer.dtype) else -2
        values = rng.integers(0, 2, shape) if p.buffer.dtype == "bool" else rng.integers(low, INPUT_BOUND + 1, shape)
        found[p.buffer.name] = np.asarray(values).astype(NUMPY[p.buffer.dtype])
    return found


def outputs_equal(expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> bool:
    """Whether two runs gave the same arrays, bit for bit but for the sign of zero (nan equals nan)."""
    if expected.keys() != found.keys():
        return False
    return all(
        a.shape == found[name].shape
        and a.dtype == found[name].dtype
        and np.array_equal(a, found[name], equal_nan=a.dtype.kind == "f")
        for name, a in expected.items()
    )


def difference(expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> str:
    """Where two runs differ first, for messages."""
    for name, a in expected.items():
        b = found.get(name)
        if b is None or a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{list(a.shape)} expected"
        same = (a == b) | ((a != a) & (b != b))
        if not same.all():
            at = tuple(int(x) for x in np.argwhere(~same)[0])
            return f"{name}[{', '.join(map(str, at))}]: {a[at]} expected, {b[at]} found"
    return "nothing"
