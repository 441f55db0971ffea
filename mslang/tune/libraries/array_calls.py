"""Operations on whole arrays, computed by NumPy or torch.

All views, temporaries and calls are made once, ahead of time, and each operation writes into an array that is there
already: what is timed is the operations alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from mslang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, children, dtype_of
from mslang.runtime.arrays import empty, numpy_name
from mslang.tune.libraries.array_operations import Operations, Stage, loaded
from mslang.tune.libraries.contraction import call_of, contraction_of

Array = Any
"""An array of NumPy."""

_NUMPY_NAMES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "min": "minimum",
    "max": "maximum",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "and": "logical_and",
    "or": "logical_or",
    "not": "logical_not",
    "neg": "negative",
    "pow": "power",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "round": "rint",
}
"""What NumPy calls operators, and functions that have another name in programs."""

_TORCH_NAMES = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "min": "minimum",
    "max": "maximum",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "and": "logical_and",
    "or": "logical_or",
    "not": "logical_not",
    "select": "where",
}
"""And torch."""


class Library(NamedTuple):
    """What is called: `elementwise` functions by the names that programs have for them, which take arrays and `out`;
    `reductions` by operators, which take an array, axes and `out`; `lift` gives a library its own view of an array."""

    name: str
    lift: Callable[[Array], Any]
    elementwise: Callable[[str], Callable[..., Any]]
    reductions: Mapping[str, Callable[..., Any]]


def prepared_operations(library: str, made: Operations) -> Callable[..., Callable[[], None]]:
    """What takes the arrays by name and gives a function that writes the outputs.

    Args:
        library: `"numpy"`, or `"torch"`, which must be installed.
        made: what is computed.
    """
    import numpy as np

    calling = _numpy() if library == "numpy" else _torch()

    def prepared(**arrays: Array) -> Callable[[], None]:
        held = arrays | {b.name: empty(b.shape, b.dtype) for b in made.between}
        calls = [call for stage in made.stages for call in _calls(calling, stage, held)]

        def run() -> None:
            with np.errstate(all="ignore"):
                for call in calls:
                    call()

        return run

    return prepared


# ------------------------------------------------------------------ libraries
def _numpy() -> Library:
    import numpy as np

    own: dict[str, Callable[..., Any]] = {
        "select": _numpy_select,
        "copy": _numpy_copy,
        "rsqrt": _numpy_rsqrt,
        "sigmoid": _numpy_sigmoid,
    }

    def elementwise(name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = own.get(name) or getattr(np, _NUMPY_NAMES.get(name, name))
        return found

    def summed(values: Array, axes: tuple[int, ...], out: Array) -> None:
        np.sum(values, axis=axes, out=out, dtype=out.dtype)

    reductions: dict[str, Callable[..., Any]] = {"+": summed, "max": np.max, "min": np.min}
    return Library("numpy", lambda array: array, elementwise, reductions)


def _numpy_select(condition: Array, then: Array, otherwise: Array, out: Array) -> None:
    import numpy as np

    if out is then:
        np.copyto(out, otherwise, where=~condition)
        return
    if out is not otherwise:
        np.copyto(out, otherwise)
    np.copyto(out, then, where=condition)


def _numpy_copy(values: Array, out: Array) -> None:
    import numpy as np

    np.copyto(out, values, casting="unsafe")


def _numpy_rsqrt(x: Array, out: Array) -> None:
    import numpy as np

    np.reciprocal(np.sqrt(x, out=out), out=out)


def _numpy_sigmoid(x: Array, out: Array) -> None:
    import numpy as np

    np.exp(np.negative(x, out=out), out=out)
    np.reciprocal(np.add(out, 1, out=out), out=out)


def _torch() -> Library:
    import torch

    def elementwise(name: str) -> Callable[..., Any]:
        return _torch_copy if name == "copy" else getattr(torch, _TORCH_NAMES.get(name, name))

    def summed(values: Any, axes: tuple[int, ...], out: Any) -> None:
        torch.sum(values, axes, out=out, dtype=out.dtype)

    def largest(values: Any, axes: tuple[int, ...], out: Any) -> None:
        torch.amax(values, axes, out=out)

    def least(values: Any, axes: tuple[int, ...], out: Any) -> None:
        torch.amin(values, axes, out=out)

    return Library("torch", torch.from_numpy, elementwise, {"+": summed, "max": largest, "min": least})


def _torch_copy(values: Any, out: Any) -> None:
    out.copy_(values)


# ------------------------------------------------------------------ stages
def _calls(library: Library, stage: Stage, held: Mapping[str, Array]) -> list[Callable[[], object]]:
    """The calls that compute a stage."""
    product = contraction_of(stage)
    if product is not None:
        return [call_of(library.name, product)(**held)]
    out = held[stage.output]
    values, calls = _elementwise(library, stage, held, None if stage.reduced else out)
    if stage.reduced:
        axes = tuple(range(len(stage.kept), len(stage.axes)))
        calls.append(partial(library.reductions[stage.op], library.lift(values), axes, out=library.lift(out)))
    elif values is not out:
        calls.append(partial(library.elementwise("copy"), library.lift(values), out=library.lift(out)))
    return calls


def _elementwise(
    library: Library, stage: Stage, held: Mapping[str, Array], out: Array | None
) -> tuple[Array, list[Callable[[], object]]]:
    """The array of a stage's values, and the calls that compute them, in `out` if it has their shape.

    Equal subexpressions are computed once. A temporary is used again once its value is no longer needed, and `out` is
    one of them until the last operation.
    """
    import numpy as np

    order = _in_order(stage.value)
    last = {x: k for k, e in enumerate(order) for x in children_of(e)}
    arrays: dict[Expr, Array] = {}
    free: list[Array] = [] if out is None else [out]
    own: set[Expr] = set()
    calls: list[Callable[[], object]] = []
    for k, e in enumerate(order):
        match e:
            case Load():
                arrays[e] = _view(held[e.buffer], e, stage.axes)
                continue
            case Const(value=value, dtype=dtype):
                arrays[e] = np.array(value, numpy_name(dtype))
                continue
        operands = [arrays[x] for x in children_of(e)]
        free += [arrays[x] for x in dict.fromkeys(children_of(e)) if x in own and last[x] == k]
        shape, dtype = np.broadcast_shapes(*(a.shape for a in operands)), numpy_name(dtype_of(e))
        fitting = [a for a in free if a.shape == shape and a.dtype == dtype]
        if fitting:
            # The last operation writes the output, if it can.
            chosen = next((a for a in fitting if k + 1 == len(order) and a is out), fitting[-1])
            free = [a for a in free if a is not chosen]
        else:
            chosen = empty(shape, dtype_of(e))
        if k + 1 == len(order) and out is not None and out.shape == shape:
            chosen = out
        call = partial(library.elementwise(_name(e)), *map(library.lift, operands), out=library.lift(chosen))
        arrays[e] = chosen
        if loaded(e):
            calls.append(call)
            own.add(e)
        else:
            call()
    return arrays[stage.value], calls


def _in_order(e: Expr) -> tuple[Expr, ...]:
    """The different subexpressions, operands first."""
    return tuple(dict.fromkeys((*(y for x in children_of(e) for y in _in_order(x)), e)))


def children_of(e: Expr) -> tuple[Expr, ...]:
    """The operands that are arrays: not the indices of a load."""
    return () if isinstance(e, Load) else children(e)


def _name(e: Expr) -> str:
    match e:
        case Binary(op=op):
            return op
        case Unary(op=op):
            return "neg" if op == "-" else op
        case Call(name=name):
            return name
        case Select():
            return "select"
        case Cast():
            return "copy"
    raise TypeError(f"no array operation: {e!r}")


def _view(array: Array, load: Load, axes: tuple[str, ...]) -> Array:
    """An array with its dimensions in the order of the axes, of one element for those that it is not indexed by."""
    names = [x.name for x in load.indices if isinstance(x, Var)]
    turned = array.transpose([names.index(a) for a in axes if a in names])
    return turned[tuple(slice(None) if a in names else None for a in axes)]
