"""Ranks of floating numbers (`lower/ranks.py`): from bits to integers of the same order, and back.

The bits of a number that is not negative, as an integer, have the order of the numbers already; those of a negative
one have it once all but the sign are turned round. -0 becomes -1, and 0 stays 0. The integers beyond those of the two
infinities are NaN: those beyond the one that are to stand with the others are moved there, by a sum that wraps round.
"""

from __future__ import annotations

from mslang.backend.llvm import arithmetic
from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.types import Value, constant
from mslang.ir.dtype import DIGITS, bits
from mslang.lower.ranks import RANKS, UNRANKS


def is_conversion(name: str) -> bool:
    """Whether a function of a kernel converts to ranks or from them."""
    return name in RANKS.values() or name in UNRANKS.values()


def converted(fn: FunctionWriter, name: str, v: Value, dtype: str) -> Value:
    """A number's rank, of which NaN has the largest or the smallest, or the number, of type `dtype`, of a rank."""
    if name in UNRANKS.values():
        step = "add" if name == UNRANKS["max"] else "sub"
        return arithmetic.bitcast(fn, _turned(fn, _moved(fn, step, v, dtype)), dtype)
    step = "sub" if name == RANKS["max"] else "add"
    return _moved(fn, step, _turned(fn, arithmetic.bitcast(fn, v, dtype)), v.dtype)


def _moved(fn: FunctionWriter, step: str, word: Value, number: str) -> Value:
    """The word moved by the number of NaNs of one sign."""
    count = (1 << (DIGITS[number] - 1)) - 1
    return arithmetic.instruction(fn, f"{step} {word.typed}, {constant(count, word.dtype, word.lanes).ref}", word)


def _turned(fn: FunctionWriter, word: Value) -> Value:
    """The word with all bits but the sign turned round if it is negative, which undoes itself."""
    width = bits(word.dtype)
    sign = arithmetic.instruction(fn, f"ashr {word.typed}, {constant(width - 1, word.dtype, word.lanes).ref}", word)
    below = constant((1 << (width - 1)) - 1, word.dtype, word.lanes)
    return arithmetic.binary(fn, "^", word, arithmetic.binary(fn, "&", sign, below))
