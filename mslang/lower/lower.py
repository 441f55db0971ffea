"""From a program to a kernel: the passes in order."""

from __future__ import annotations

from mslang.ir.program import Program
from mslang.lower.blocks import flatten
from mslang.lower.kernel import Allocate, Body, Kernel
from mslang.target.description import Target


def lower(program: Program, target: Target) -> Kernel:
    """What the program does, as loops over placed buffers."""
    flat = flatten(program)
    body: Body = flat.body
    for b in flat.buffers:
        body = (Allocate(b, body),)
    return Kernel(program.name, program.params, body, program.dynamic)
