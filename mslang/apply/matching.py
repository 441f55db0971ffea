"""Whether a program is an instance of a pattern, which is a program with sizes: for which sizes, or why it is not.

They match if they are the same workload for some sizes, so names do not count and everything else does. Sizes are read
off the shapes of the parameters; those that no shape gives take their default or a small number.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from mslang.diagnostics import MsError
from mslang.ir.equal import correspondence
from mslang.ir.expr import Const, Expr
from mslang.ir.print import print_expr
from mslang.ir.program import Program
from mslang.sema.module import Module
from mslang.sema.program import instantiate
from mslang.syntax import tree

SMALL = (0, 1, 2, 3)
"""What is tried for a size that no shape gives, such as a stride, after its default."""

UNSAID = 2
"""Patterns with more such sizes take their defaults alone."""


def sizes_of_match(module: Module, name: str, program: Program) -> Mapping[str, int] | str:
    """The sizes for which a pattern is a program, or why there are none.

    Args:
        module: the module of the pattern.
        name: its program.
        program: what is to match.

    >>> from mslang.sema.modules import load
    >>> from mslang.sema.program import parse_program
    >>> text = "program p[N = 4](A: {0}[{1}], out B: {0}[{1}]) {{ block b[i: {1}] {{ B[i] = A[i] + 1.0 }} }}"
    >>> pattern = load("own.ms", text.format("f32", "N"))
    >>> dict(sizes_of_match(pattern, "p", parse_program(text.format("f32", "8"))))
    {'N': 8}
    >>> sizes_of_match(pattern, "p", parse_program(text.format("f64", "8")))
    '`A` is f64, in the pattern f32'
    """
    item = module.programs[name]
    said = _said(item, program)
    if isinstance(said, str):
        return said
    unsaid = [s.name.text for s in item.sizes if s.name.text not in said]
    tried: list[tuple[int | None, ...]] = (
        [(None, *SMALL)] * len(unsaid) if len(unsaid) <= UNSAID else [(None,)] * len(unsaid)
    )
    why: str | None = None
    for values in product(*tried):
        sizes = {**said, **{n: v for n, v in zip(unsaid, values, strict=True) if v is not None}}
        try:
            made = instantiate(module, name, sizes)
        except MsError as error:
            why = why or f"the pattern has no such sizes: {error.diagnostic.message}"
            continue
        differs = _difference(made, program)
        if differs is None:
            return sizes
        why = why or differs
    return why or "it computes something else"


def _said(item: tree.Program, program: Program) -> dict[str, int] | str:
    """The sizes that the shapes of a program's parameters give those of a pattern, or why it cannot match."""
    if len(item.params) != len(program.params):
        return f"it has {len(program.params)} parameters, the pattern {len(item.params)}"
    known = {s.name.text for s in item.sizes}
    found: dict[str, int] = {}
    for mine, theirs in zip(item.params, program.params, strict=True):
        shape = mine.type.shape or ()
        buffer = theirs.buffer
        compared: tuple[tuple[str, str | int, str | int], ...] = (
            ("", theirs.direction, mine.direction),
            ("", buffer.dtype, mine.type.name.text),
            ("of rank ", len(buffer.shape), len(shape)),
        )
        for what, here, there in compared:
            if here != there:
                return f"`{buffer.name}` is {what}{here}, in the pattern {there}"
        for written, extent in zip(shape, buffer.shape, strict=True):
            match written, extent:
                case tree.Ref(name=tree.Name(text=name)), Const(value=int() as value) if name in known:
                    if found.setdefault(name, value) != value:
                        return f"the shapes give `{name}` of the pattern as {found[name]} and as {value}"
    return found


def _difference(pattern: Program, program: Program) -> str | None:
    """What tells a program from a pattern with its sizes; None if they are one workload."""
    for mine, theirs in zip(pattern.params, program.params, strict=True):
        name = theirs.buffer.name
        if mine.buffer.shape != theirs.buffer.shape:
            return f"`{name}` has the shape {_shape(theirs.buffer.shape)}, the pattern {_shape(mine.buffer.shape)}"
    if correspondence(pattern, program) is not None:
        return None
    for mine, theirs in zip(pattern.params, program.params, strict=True):
        here, there = theirs.buffer, mine.buffer
        if theirs.constant != mine.constant:
            return f"`{here.name}` is {'' if theirs.constant else 'not '}a constant, unlike in the pattern"
        if (here.strides, here.scope, here.align) != (there.strides, there.scope, there.align):
            return f"`{here.name}` has another layout than in the pattern"
    return "it computes something else"


def _shape(shape: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(print_expr, shape))}]"
