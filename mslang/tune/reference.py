"""The expected results: those of the unscheduled program, compiled plainly and compared with the interpreter first."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.backend.backend import Options
from mslang.backend.registry import serving
from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.expr import Const, DynamicRange, Symbol
from mslang.ir.find import all_buffers
from mslang.ir.program import Program
from mslang.lower.trim import iterations
from mslang.sema.consteval import evaluate
from mslang.sema.module import Found, Module
from mslang.sema.program import instantiate
from mslang.sema.values import const_value
from mslang.syntax import tree
from mslang.target.description import Target
from mslang.tune.memory_order import in_memory_order
from mslang.tune.verification import DENSE, SPARSE, Difference, compare, computed_indices, make_arguments, make_inputs

AFFORDABLE = 1_000_000
"""Iterations that the interpreter can run: a program whose sizes are written as numbers cannot be cut."""

SMALL_SIZES = (6, 9, 13)
"""Sizes are cut down to the first of these for which the program can be made."""


def small_program(module: Module, name: str, sizes: Mapping[str, int]) -> Program | None:
    """The program that a name means in a module, with its sizes cut down, so that the interpreter is quick; None if
    that cannot be done."""
    found = module.find(name)
    if not isinstance(found, Found) or not isinstance(found.item, tree.Program):
        return None
    full = {**_defaults(found.module, found.item), **sizes}
    kept = _indexing_sizes(module, name, full)
    for bound in SMALL_SIZES:
        small = _instance(module, name, {n: v if n in kept else min(v, bound) for n, v in full.items()}, bound)
        if small is not None and _is_quick(small, unknown=bool(full)):
            return small
    # One size after the other, as far as the program lets each be cut.
    cut = dict(full)
    for size in full.keys() - kept:
        for bound in SMALL_SIZES:
            tried = cut | {size: min(full[size], bound)}
            if _instance(module, name, tried, bound) is not None:
                cut = tried
                break
    small = _instance(module, name, cut, SMALL_SIZES[0])
    return small if small is not None and _is_quick(small) else None


def _is_quick(program: Program, unknown: bool = False) -> bool:
    """Whether the interpreter can run a program; `unknown` where data decide how long that takes."""
    found = iterations(program)
    return unknown if found is None else found <= AFFORDABLE


def _defaults(module: Module, item: tree.Program) -> dict[str, int]:
    """The sizes of a program whose defaults are numbers, or consts."""
    found = {}
    for s in item.sizes:
        if s.default is None:
            continue
        try:
            value = evaluate(s.default, lambda n: const_value(module, n), tuple(module.consts))
        except MsError:
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            found[s.name.text] = value
    return found


def _instance(module: Module, name: str, sizes: Mapping[str, int], bound: int) -> Program | None:
    try:
        made = instantiate(module, name, sizes)
        made = instantiate(module, name, {**sizes, **_chosen(made, bound)}) if made.dynamic else made
    except MsError:
        return None
    return made if all(isinstance(x, Const) and x.value > 0 for p in made.params for x in p.given.shape) else None


def _indexing_sizes(module: Module, name: str, full: Mapping[str, int]) -> frozenset[str]:
    """The sizes of dimensions that are indexed by numbers computed from data: cut down, they would be indexed beyond
    their ends, and nothing says what to draw instead."""
    whole = _instance(module, name, full, SMALL_SIZES[0])
    places = frozenset() if whole is None else computed_indices(whole)
    if whole is None or not places:
        return frozenset()
    kept = set()
    for size, value in full.items():
        cut = _instance(module, name, {**full, size: min(value, SMALL_SIZES[0])}, SMALL_SIZES[0])
        before, after = all_buffers(whole), {} if cut is None else all_buffers(cut)
        if any(b not in after or before[b].shape[d] != after[b].shape[d] for b, d in places):
            kept.add(size)
    return frozenset(kept)


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
    """Compare the plainly compiled program with the interpreter; a difference is MS501, a fault of the compiler.

    The program must be small: the interpreter runs it twice.
    """
    from mslang.backend.reference.interpret import run

    kernel = serving(target).loaded(in_memory_order(program), target, Options(allow_native=allow_native))
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
                help="this is a bug in mslang: please report it with the program",
            )
    return None
