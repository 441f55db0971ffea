"""What a program computes as a single expression of its inputs: intermediate arrays replaced by what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mslang.ir.expr import Call, Expr, Load, Var, dtype_of
from mslang.ir.visit import map_expr, substitute
from mslang.tune.libraries.array_operations import Operations, Stage, loaded

MOST_STAGES = 8
"""Programs of more stages are not looked at: the expression may grow with each of them."""


class Result(msgspec.Struct, frozen=True):
    """`value` over `axes`, from 0 to `extents`.

    A reduction is a call of `reduce +`, `reduce max` or `reduce min` of the values and the variables of the reduced
    axes. These are named after the array that held the reduction, so that equal reductions are equal expressions.
    """

    output: str
    axes: tuple[str, ...]
    extents: Mapping[str, int]
    value: Expr


def whole_result(made: Operations) -> Result | None:
    """The expression of the last stage's output; None where there are several outputs, too many stages,
    or an output that is read, too."""
    between = {b.name for b in made.between}
    outputs = [s.output for s in made.stages if s.output not in between]
    if len(made.stages) > MOST_STAGES or outputs != [made.stages[-1].output]:
        return None
    held: dict[str, tuple[tuple[str, ...], Expr]] = {}
    extents: dict[str, int] = {}
    for s in made.stages:
        names = tuple(f"{s.output}.{k}" for k in range(len(s.axes)))
        extents |= zip(names, s.extents, strict=True)
        held[s.output] = names[: len(s.kept)], _value(s, names, held)
    axes, value = held[outputs[0]]
    if outputs[0] in loaded(value):
        return None
    return Result(outputs[0], axes, extents, value)


def _value(stage: Stage, names: Sequence[str], held: Mapping[str, tuple[tuple[str, ...], Expr]]) -> Expr:
    own = substitute(stage.value, {a: Var(n) for a, n in zip(stage.axes, names, strict=True)})

    def replaced(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in held:
            return None
        axes, value = held[e.buffer]
        return substitute(value, dict(zip(axes, e.indices, strict=True)))

    value = map_expr(own, replaced)
    if not stage.reduced:
        return value
    reduced = variables(*names[len(stage.kept) :])
    return Call(f"reduce {stage.op}", (value, *reduced), dtype_of(value))


def variables(*names: str) -> tuple[Var, ...]:
    """Indices that are axes."""
    return tuple(Var(n) for n in names)


def moved(e: Expr, axis: str, to: str) -> Expr:
    """An expression at another position along an axis."""
    return substitute(e, {axis: Var(to)})
