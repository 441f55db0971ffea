"""Lowering for GPUs while decisions have no values: loops bound to threads stay loops, memory is that of threads."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mslang.diagnostics import TargetError
from mslang.ir.program import Buffer, Program
from mslang.kernel import Allocate, Body, For, Module, Stmt
from mslang.kernel.visit import bodies, map_functions, walk, with_bodies
from mslang.lower.auto_unroll import auto_unrolled
from mslang.lower.flatten import flatten
from mslang.lower.gpu.axes import axis_ranges, bound_threads
from mslang.lower.gpu.cross_thread import exchanged
from mslang.lower.gpu.launches import scratch_by_loop
from mslang.lower.gpu.lower import shared_out
from mslang.lower.instructions import InstructionTexts
from mslang.lower.passes import SYMBOLIC, Pass
from mslang.lower.place import place
from mslang.target.description import Target

_PLACE = Pass(
    "place",
    lambda m, _: map_functions(m, lambda body: place(body, threads=axis_ranges(bound_threads(walk(body))))),
    "buffers are allocated around their accesses; those of a thread hold what it accesses",
)
PASSES: Sequence[Pass] = tuple(_PLACE if p.name == _PLACE.name else p for p in SYMBOLIC)
"""The passes that take decisions without values, where the iterations of some loops are threads."""


def lower_for_threads(program: Program, target: Target) -> Module:
    """What a program does, with the memory in which threads combine the parts of reductions, and that which
    instructions need beside their operands.

    Raises:
        MsError, TargetError: as of `mslang.lower.symbolic.lower_symbolic`.
    """
    program = _shared_out(program)
    made = {s.var: buffers for s, buffers in exchanged(program)}
    module = flatten(auto_unrolled(program), target, texts=InstructionTexts())
    for var, buffers in scratch_by_loop(module).items():
        made[var] = (*made.get(var, ()), *buffers)
    for p in PASSES:
        module = p.run(module, target)
    return map_functions(module, lambda body: _allocating(body, dict(made)))


def _shared_out(program: Program) -> Program:
    try:
        return shared_out(program)
    except TargetError:
        return program  # lowering refuses it


def _allocating(body: Body, left: dict[str, tuple[Buffer, ...]]) -> Body:
    """Statements with memory allocated in the first loop of each variable."""
    return tuple([_with_memory(s, left) for s in body]) if left else body


def _with_memory(s: Stmt, left: dict[str, tuple[Buffer, ...]]) -> Stmt:
    own = left.pop(s.var, ()) if isinstance(s, For) else ()
    made = with_bodies(s, tuple([_allocating(b, left) for b in bodies(s)]))
    if not isinstance(made, For):
        return made
    for b in reversed(own):
        made = replace(made, body=(Allocate(b, made.body),))
    return made
