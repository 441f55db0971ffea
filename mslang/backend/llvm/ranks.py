"""Ranks of floating numbers (`lower/ranks.py`): from bits to integers of the same order, and back.

The bits of a number that is not negative, as an integer, have the order of the numbers already; those of a negative
one have it once all but the sign are turned round. -0 becomes -1, and 0 stays 0.
"""

from __future__ import annotations

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.types import Value, constant
from mslang.ir.dtype import bits
from mslang.lower.ranks import RANKS, UNRANK

_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80}
"""The bits of infinity where comparing numbers would convert them first: what is above is NaN."""


def is_conversion(name: str) -> bool:
    """Whether a function of a kernel converts to ranks or from them."""
    return name == UNRANK or name in RANKS.values()


def converted(fn: FunctionWriter, name: str, v: Value, dtype: str) -> Value:
    """A number's rank, of which NaN has the largest or the smallest, or the number, of type `dtype`, of a rank."""
    if name == UNRANK:
        return arithmetic.bitcast(fn, _turned(fn, v), dtype)
    word = arithmetic.bitcast(fn, v, dtype)
    greatest = (1 << (bits(dtype) - 1)) - 1
    nan = constant(greatest if name == RANKS["max"] else -greatest - 1, dtype, v.lanes)
    return arithmetic.choose(fn, _is_nan(fn, v, word), nan, _turned(fn, word))


def _turned(fn: FunctionWriter, word: Value) -> Value:
    """The word with all bits but the sign turned round if it is negative, which undoes itself."""
    width = bits(word.dtype)
    sign = arithmetic.instruction(fn, f"ashr {word.typed}, {constant(width - 1, word.dtype, word.lanes).ref}", word)
    below = constant((1 << (width - 1)) - 1, word.dtype, word.lanes)
    return arithmetic.binary(fn, "^", word, arithmetic.binary(fn, "&", sign, below))


def _is_nan(fn: FunctionWriter, v: Value, word: Value) -> Value:
    infinity = _INFINITY.get(v.dtype)
    if infinity is None:
        return Value(fn.pure(f"fcmp uno {v.typed}, {v.ref}"), "bool", v.lanes)
    magnitude = arithmetic.binary(fn, "&", word, constant(0x7FFF, word.dtype, v.lanes))
    return arithmetic.compare(fn, ">", magnitude, constant(infinity, word.dtype, v.lanes))
