"""Reductions: which stores update, with what operator, and what that starts from."""

from __future__ import annotations

import math

import msgspec

from mslang.ir.dtype import bits, is_float, is_unsigned
from mslang.ir.expr import FALSE, Binary, Const, Expr, Load
from mslang.ir.nodes import Block, Store

OPERATORS = frozenset({"+", "*", "min", "max"})
"""The operators whose identity is known."""


class Update(msgspec.Struct, frozen=True):
    """`x[..] = x[..] op value`."""

    op: str
    value: Expr
    dtype: str


def update_of(s: Store) -> Update | None:
    """How a store updates what it writes: `x = x op e` (or `e op x` where `op` commutes), else None."""
    match s.value:
        case Binary(op=op, left=left, right=right) if op in OPERATORS:
            for target, value in ((left, right), (right, left)):
                if isinstance(target, Load) and (target.buffer, target.indices) == (s.buffer, s.indices):
                    return Update(op, value, target.dtype)
    return None


def is_maximum(block: Block) -> bool:
    """Whether a block reduces to the maximum of some values, and does nothing else."""
    found = [update_of(s) for s in block.body if isinstance(s, Store)]
    return block.init is not None and len(found) == 1 and found[0] is not None and found[0].op == "max"


def lowest(dtype: str) -> Const:
    """The least value of a type (`-inf` for a floating one)."""
    if is_float(dtype):
        return Const(-math.inf, dtype)
    if dtype == "bool":
        return FALSE
    return Const(0 if is_unsigned(dtype) else -(1 << (bits(dtype) - 1)), dtype)


def highest(dtype: str) -> Const:
    """The largest value of a type (`inf` for a floating one)."""
    if is_float(dtype):
        return Const(math.inf, dtype)
    if dtype == "bool":
        return Const(True, "bool")
    return Const((1 << (bits(dtype) - (0 if is_unsigned(dtype) else 1))) - 1, dtype)


def identity(op: str, dtype: str) -> Const:
    """What `op` leaves as it is: 0 for `+`, 1 for `*`, the highest for `min`, the lowest for `max`."""
    match op:
        case "+":
            return Const(0.0 if is_float(dtype) else 0, dtype)
        case "*":
            return Const(1.0 if is_float(dtype) else 1, dtype)
        case "min":
            return highest(dtype)
        case "max":
            return lowest(dtype)
    raise ValueError(f"no identity is known for {op}")
