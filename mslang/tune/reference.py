"""The expected results: from the unscheduled program compiled plainly, which is itself held against the interpreter."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.expr import Const, DynamicRange, Symbol
from mslang.ir.program import Program
from mslang.sema.module import Found, Module
from mslang.sema.program import instantiate
from mslang.syntax import tree
from mslang.target.description import Target
from mslang.tune.verification import DENSE, SPARSE, Difference, compare, make_arguments, make_inputs

SMALL_SIZES = (6, 9, 13)
"""Sizes are cut down to the first of these for which the program can be made."""


def small_program(module: Module, name: str, sizes: Mapping[str, int]) -> Program | None:
    """The program that a name means in a module, with its sizes cut down, so that the interpreter is quick; None if
    that cannot be done."""
    found = module.find(name)
    if not isinstance(found, Found) or not isinstance(found.item, tree.Program):
        return None
    written = {
        s.name.text: s.default.value
        for s in found.item.sizes
        if isinstance(s.default, tree.Number) and isinstance(s.default.value, int)
    }
    full = {**written, **sizes}
    for bound in SMALL_SIZES:
        try:
            cut = {n: min(v, bound) for n, v in full.items()}
            small = instantiate(module, name, cut)
            small = instantiate(module, name, cut | _chosen(small, bound)) if small.dynamic else small
        except MsError:
            continue
        if all(isinstance(x, Const) and x.value > 0 for p in small.params for x in p.given.shape):
            return small
    return None


def _chosen(program: Program, bound: int) -> dict[str, int]:
    """A value for each dynamic size: the largest allowed up to `bound`, or the smallest."""
    chosen = {}
    for size in program.dynamic:
        if isinstance(size, Symbol) and isinstance(size.domain, DynamicRange):
            d = size.domain
            least = -(-d.lo // d.multiple) * d.multiple
            chosen[size.text] = max(least, min(bound, d.hi) // d.multiple * d.multiple)
    return chosen


def check_plain_compiler(program: Program, target: Target, allow_native: bool = False) -> Diagnostic | None:
    """Hold the plainly compiled program against the interpreter; a difference is MS501, a fault of the compiler.

    The program must be small: the interpreter runs it twice.
    """
    from mslang.backend.llvm.compile import compile
    from mslang.backend.reference.interpret import run
    from mslang.lower.lower import lower
    from mslang.runtime.kernel import load

    executable = compile(lower(program, target), target, allow_native=allow_native)
    kernel = load(executable.object, executable.signature)
    for kind in (SPARSE, DENSE):
        inputs = make_inputs(program, kind, seed=1)
        # The interpreter first: it names an access out of bounds, of which compiled code may die.
        expected = run(program, inputs, bits=True)
        arrays = make_arguments(program, inputs)
        kernel.bind(**arrays).run()
        found = compare(program, expected, arrays, kind)
        if isinstance(found, Difference):
            return problem(
                "MS501",
                f"the plainly compiled {program.name} differs from the interpreter",
                why=found.text,
                help="this is a fault of mslang: please report it with the program",
            )
    return None
