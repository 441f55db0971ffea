"""Lowering a program whose decisions may have no values: what its summary is computed from.

Extents, shapes and indices are expressions over the decisions. Putting numbers in gives what these passes make of the
program with the numbers put in.
"""

from __future__ import annotations

from mslang.ir.program import Program
from mslang.kernel.nodes import Module
from mslang.lower.auto_unroll import auto_unrolled
from mslang.lower.flatten import flatten
from mslang.lower.instructions import InstructionTexts
from mslang.lower.passes import SYMBOLIC, check_types
from mslang.target.description import Target


def lower_symbolic(program: Program, target: Target) -> Module:
    """What a program does, predicates not resolved, loops bound to threads still loops.

    For a target with threads, the memory in which these combine the parts of reductions is allocated, too.

    Raises:
        MsError, TargetError: as `lower`, without MS406.
    """
    check_types(program)
    if target.has_threads:
        from mslang.lower.gpu.symbolic import lower_for_threads

        return lower_for_threads(program, target)
    # Nothing is printed of it, so that it does not matter whose text an instruction is.
    module = flatten(auto_unrolled(program), target, texts=InstructionTexts())
    for p in SYMBOLIC:
        module = p.run(module, target)
    return module
