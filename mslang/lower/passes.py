"""The passes of lowering: a table of pure functions from module to module, in the order in which they run.

A pass is one function and one line of `PASSES`; `mslang show FILE:NAME --stage PASS` prints the module after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import parts
from mslang.ir.expr import DynamicRange, Expr, Symbol
from mslang.ir.find import all_buffers
from mslang.ir.program import Program
from mslang.ir.visit import map_program_exprs, walk_expr
from mslang.kernel.nodes import Module
from mslang.kernel.visit import map_functions
from mslang.lower.align import align
from mslang.lower.atomics import plain
from mslang.lower.auto_unroll import auto_unrolled
from mslang.lower.flatten import flatten
from mslang.lower.init import hoist
from mslang.lower.instructions import LLVM, InstructionTexts
from mslang.lower.pipeline import pipelined
from mslang.lower.place import place
from mslang.lower.predicates import resolve
from mslang.lower.ranks import rank
from mslang.lower.registers import pad_rows, place_on_stack
from mslang.lower.unroll import unroll
from mslang.lower.vectorize import vectorize
from mslang.target.description import Target

FLATTEN = "flatten"
"""The name of the module before all passes: the program's statements without blocks."""


class Pass(msgspec.Struct, frozen=True):
    """A step of lowering: its name, what it does, and a line about that.

    >>> same = Pass("same", lambda module, target: module, "nothing changes")
    """

    name: str
    run: Callable[[Module, Target], Module]
    about: str


LOOPS = (
    Pass(
        "atomics",
        lambda m, _: map_functions(m, plain),
        "atomic updates are loads and stores: the iterations of one kernel of a CPU do not share elements",
    ),
    Pass(
        "place",
        lambda m, _: map_functions(m, lambda body: place(body, compact=not m.checked)),
        "buffers are allocated around their accesses, no larger than what is accessed there",
    ),
    Pass("align", lambda m, _: map_functions(m, align), "strides are what `storage_align` asked for"),
    Pass("init", lambda m, _: map_functions(m, hoist), "work of the first iteration alone is moved before the loop"),
    Pass(
        "pipeline",
        # Reports of accesses name dimensions of the program: buffers with versions have one more.
        lambda m, _: m if m.checked else map_functions(m, pipelined),
        "copies of later iterations run ahead",
    ),
    Pass(
        "predicates",
        lambda m, _: map_functions(m, resolve),
        "predicates are proved and dropped, end loops, or loops are cut so that inner loops have none",
    ),
)
"""The passes after which a kernel has the loops of its schedule: what `--stage loops` prints."""

PASSES = (
    *LOOPS,
    Pass("stack", place_on_stack, "small local buffers go on the stack, all others into the workspace"),
    Pass("vectorize", vectorize, "vectorized loops become vector statements; lanes that must not act are masked"),
    Pass(
        "unroll",
        unroll,
        "unrolled loops, and those over registers, are written out, with prefetches; indices are in normal form",
    ),
    Pass("registers", pad_rows, "rows on the stack are as long as vectors, so that their tails need no masks"),
    Pass("ranks", rank, "running minima and maxima of floating numbers are kept as integers of the same order"),
)
"""The passes for a CPU, in order."""

SYMBOLIC = LOOPS[:-1]
"""The passes that take decisions without values: those before predicates are resolved."""


def lower(
    program: Program,
    target: Target,
    *,
    checked: bool = False,
    passes: Sequence[Pass] = PASSES,
    texts: InstructionTexts = LLVM,
) -> Module:
    """What a concrete program does, as functions of loops over placed buffers.

    Args:
        program: the program, all decisions numbers.
        target: the machine to compile for.
        checked: for a build that compares accesses with the shapes of buffers: these stay whole, and statements know
            their block and its axes, so that a report names them.
        passes: what is done to the program's statements once they are free of blocks.
        texts: those that implement instructions.

    Raises:
        MsError: MS406, a decision of the program has no value; MS405, a view is accessed with too many indices; MS409,
            a buffer's elements are vectors.
        TargetError: MS417, MS418, the target lacks an instruction of the program.
    """
    module = _start(program, target, checked, texts)
    for p in passes:
        module = p.run(module, target)
    return module


def stages(
    program: Program, target: Target, passes: Sequence[Pass] = PASSES, texts: InstructionTexts = LLVM
) -> Iterator[tuple[str, Module]]:
    """The module before all passes, as `flatten`, and after each, with the name of the pass.

    Raises:
        MsError, TargetError: as `lower`.
    """
    module = _start(program, target, False, texts)
    yield FLATTEN, module
    for p in passes:
        module = p.run(module, target)
        yield p.name, module


def _start(program: Program, target: Target, checked: bool, texts: InstructionTexts) -> Module:
    _check_decided(program)
    check_types(program)
    return flatten(auto_unrolled(program), target, checked, texts)


def check_types(program: Program) -> None:
    """Check that the elements of a program's buffers are scalars.

    Raises:
        MsError: MS409, those of a buffer are vectors.
    """
    for buffer in all_buffers(program).values():
        found = parts(buffer.dtype)
        if found is None or found.lanes > 1:
            raise MsError(
                problem(
                    "MS409",
                    f"{buffer.name} has elements of type {buffer.dtype}",
                    why="only scalar elements are compiled",
                    help="add a dimension to the buffer, and vectorize the loop over it",
                )
            )


def _check_decided(program: Program) -> None:
    def look(e: Expr) -> Expr:
        for x in walk_expr(e):
            if isinstance(x, Symbol) and not isinstance(x.domain, DynamicRange):
                raise MsError(
                    problem(
                        "MS406",
                        f"the decision {x.text} has no value",
                        why="only a concrete program can be compiled",
                        help="pin the decision, or sample a candidate",
                    )
                )
        return e

    map_program_exprs(program, look)
