"""Whether a time is possible: no program exceeds the peak of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mslang.ir.program import Program, Store
from mslang.ir.visit import walk
from mslang.ir.work import operations

_WHOLE = {"f32", "f64"}
"""The types whose peak is measured, so that times can be checked against it; that of others follows from f32's."""

MARGIN = 1.25
"""Rates above this multiple of the peak are rejected. The margin allows for errors of the peak itself."""

_NOT_NUMBERS = {"i32", "i64", "u32", "u64", "bool"}
"""Types of indices and flags: they take part in no arithmetic that counts."""

_NARROW: Mapping[str, tuple[frozenset[str], frozenset[str]]] = MappingProxyType(
    {
        "i8": (frozenset({"i8", "u8"}), frozenset({"i32"})),
        "bf16": (frozenset({"bf16"}), frozenset({"f32", "bf16"})),
        "f16": (frozenset({"f16"}), frozenset({"f32", "f16"})),
    }
)
"""The types whose products have instructions of their own: those of the operands, and of the sums and results."""


def rated_dtype(program: Program) -> str | None:
    """The element type whose peak bounds a program, or None where no peak is known.

    It is `"f32"` or `"f64"` where all numbers are, or a narrow type (`"i8"`, `"bf16"`, `"f16"`) where operands are and
    only sums and results are wider. Programs that store other integers are not rated.
    """
    buffers = {b.name: b.dtype for b in (*(p.buffer for p in program.params), *program.allocs)}
    stored = {buffers.get(s.buffer, "") for s in walk(program.body) if isinstance(s, Store)}
    numbers = set(buffers.values()) - _NOT_NUMBERS
    if len(numbers) == 1 and numbers <= _WHOLE and stored == numbers:
        return numbers.pop()
    for dtype, (operands, results) in _NARROW.items():
        if numbers & operands and numbers <= operands | results and stored <= results:
            return dtype
    return None


class Roofline:
    """The most operations a second that a program can reach.

    Args:
        program: the unscheduled program, whose operations count.
        peak: this machine's operations a second of the program's type; `peak(True)` measures it again. None, of it or
            from it: not known.
    """

    def __init__(self, program: Program, peak: Callable[[bool], float | None] | None) -> None:
        self._operations = operations(program) if rated_dtype(program) in _WHOLE else None
        self._measure = peak
        self._peak: float | None = None
        self._again = True

    def broken_by(self, seconds: float) -> str | None:
        """Why a time is impossible, or None. The peak is measured again before the first time is rejected."""
        if not self._operations or self._measure is None:
            return None
        if self._peak is None:
            self._peak = self._measure(False)
        if self._peak is None:
            return None
        rate = self._operations / seconds
        if rate > MARGIN * self._peak and self._again:
            self._again = False
            self._peak = max(self._peak, self._measure(True) or 0.0)
        if rate <= MARGIN * self._peak:
            return None
        return (
            f"{rate / 1e9:.4g} GFLOP/s is more than this machine's peak allows ({self._peak / 1e9:.4g}): "
            "not all of the work was done, or the clock is wrong"
        )
