"""What the times of a record are worth: operations of the program, and the limits of what ran it."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec

from mslang.backend.backend import BackEnd
from mslang.backend.registry import back_end, back_end_names, serving
from mslang.diagnostics import MsError
from mslang.ir.expr import Const
from mslang.ir.program import Program
from mslang.ir.work import operations
from mslang.sema.program import parse_program
from mslang.target.description import Target
from mslang.target.detect import host
from mslang.target.limits import measured_limits
from mslang.target.machine import this_machine
from mslang.target.named import named_target
from mslang.tune.database import machine_for
from mslang.tune.roofline import rated_dtype
from mslang.tune.scale import Scale


class Roof(msgspec.Struct, frozen=True):
    """The most operations a second of an element type, and the most bytes a second of memory (None: not known)."""

    peak: float
    bandwidth: float | None


class Rated(msgspec.Struct, frozen=True):
    """The program's operations, the bytes of its parameters, and the limits of what ran it, as far as they are known.

    `dtype` is the type of the operations and of the limits, `core` the rate of the yardstick on one core at the limit;
    `elsewhere`: the run was made on another machine.
    """

    operations: int
    bytes: int
    limits: Roof | None
    core: float | None = None
    elsewhere: bool = False
    dtype: str = "f32"

    @property
    def intensity(self) -> float:
        """Operations for each byte of the parameters."""
        return self.operations / max(self.bytes, 1)

    @property
    def scale(self) -> Scale:
        """What a time is worth."""
        return Scale(self.operations, None if self.limits is None else self.limits.peak, self.core, self.dtype)


def rated(text: str, target: str, machine: str, here: Collection[str]) -> Rated | None:
    """What a program does, if it is of numbers that are rated, with sizes that are known.

    Args:
        text: the program.
        target: the name of the target that it was compiled for.
        machine: the key of the machine that ran it.
        here: the keys of this machine.
    """
    try:
        program = parse_program(text)
    except MsError:
        return None
    dtype, count = rated_dtype(program), operations(program)
    size = _bytes(program)
    if dtype is None or not count or size is None:
        return None
    if machine not in here:
        return Rated(count, size, None, elsewhere=True, dtype=dtype)
    core = measured_limits().peak_core if machine == this_machine().key else None
    return Rated(count, size, _roof(target, machine, dtype), core, dtype=dtype)


def _roof(target: str, machine: str, dtype: str) -> Roof | None:
    """The limits of what ran code for a target: this processor, or a device of this machine."""
    bounds = _target(target) or host()
    made_by = serving(bounds) if machine == this_machine().key else _of_device(machine)
    if made_by is None or made_by.peak is None:
        return None
    peak = made_by.peak(bounds, dtype, False)
    bandwidth = None if made_by.bandwidth is None else made_by.bandwidth(bounds)
    return None if peak is None else Roof(peak, bandwidth)


def _of_device(machine: str) -> BackEnd[Any] | None:
    """The back end whose code a device of this machine runs, by the key of both."""
    for name in back_end_names():
        with suppress(MsError):
            found = back_end(name)
            if found.device is not None and machine_for(found).key == machine:
                return found
    return None


def _target(name: str) -> Target | None:
    """The target of a run, whose instructions bound it; None if only the file that was tuned tells what it is."""
    try:
        return named_target(name)
    except MsError:
        return None


def _bytes(program: Program) -> int | None:
    total = 0
    for p in program.params:
        extents = [e.value for e in p.buffer.shape if isinstance(e, Const)]
        if len(extents) < len(p.buffer.shape):
            return None
        width = "".join(c for c in p.buffer.dtype if c.isdigit())
        total += math.prod(map(int, extents)) * (int(width or 8) // 8)
    return total
