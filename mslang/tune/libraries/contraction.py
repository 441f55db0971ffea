"""Sums of products, and the calls of NumPy and torch that compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mslang.ir.expr import Load, Var
from mslang.tune.libraries.array_operations import Stage, factors_of, is_product


class Contraction(msgspec.Struct, frozen=True):
    """`output = sum of products of operands`, as Einstein's notation has it: a letter for each axis.

    >>> Contraction("ik,kj->ij", ("A", "B"), "C").operands
    ('A', 'B')
    """

    text: str
    operands: tuple[str, ...]
    output: str


def contraction_of(stage: Stage) -> Contraction | None:
    """The sum of products that a stage computes: of two or more loads; None if it is another.

    >>> contraction_of(operations_of(gemm).stages[0]).text
    'ac,cb->ab'
    """
    loads = tuple(x for x in factors_of(stage.value) if isinstance(x, Load))
    if stage.op != "+" or len(stage.axes) > 26 or not is_product(stage.value, {*stage.axes}):
        return None
    letters = {axis: chr(ord("a") + k) for k, axis in enumerate(stage.axes)}
    terms = ["".join(letters[x.name] for x in load.indices if isinstance(x, Var)) for load in loads]
    result = "".join(letters[axis] for axis in stage.kept)
    return Contraction(f"{','.join(terms)}->{result}", tuple(x.buffer for x in loads), stage.output)


# ------------------------------------------------------------------ calls
def call_of(library: str, made: Contraction) -> Callable[..., Callable[[], object]]:
    """What takes the arrays by name and gives a function that writes the output.

    Args:
        library: `"numpy"`, or `"torch"`, which must be installed.
        made: what is computed.
    """
    return _by_numpy(made) if library == "numpy" else _by_torch(made)


def _by_numpy(made: Contraction) -> Callable[..., Callable[[], object]]:
    import numpy as np

    def prepared(**arrays: Any) -> Callable[[], object]:
        operands, out = [arrays[n] for n in made.operands], arrays[made.output]
        product = _as_product(made, operands, out)
        if product is not None:
            left, right, into = product
            return lambda: np.matmul(left, right, out=into) is None or None
        path = np.einsum_path(made.text, *operands, optimize="optimal")[0]
        return lambda: np.einsum(made.text, *operands, out=out, optimize=path) is None or None

    return prepared


def _by_torch(made: Contraction) -> Callable[..., Callable[[], object]]:
    import torch

    def prepared(**arrays: Any) -> Callable[[], object]:
        operands, out = [torch.from_numpy(arrays[n]) for n in made.operands], torch.from_numpy(arrays[made.output])
        product = _as_product(made, operands, out)
        if product is not None:
            left, right, into = product
            return lambda: torch.matmul(left, right, out=into) is None or None
        return lambda: out.copy_(torch.einsum(made.text, *operands)) is None or None

    return prepared


def _as_product(made: Contraction, operands: list[Any], out: Any) -> tuple[Any, Any, Any] | None:
    """The operands and the output of a batch of matrix products, as views; None if it is none."""
    terms, _, result = made.text.partition("->")
    if len(operands) != 2 or len(result) < 2:
        return None
    left, right = terms.split(",")
    batch, rows, columns = result[:-2], result[-2], result[-1]
    inner = "".join({*left} & {*right} - {*result})
    if rows in right:
        rows, columns, out = columns, rows, out.swapaxes(-1, -2)
    views = _in_order(operands[0], left, batch, rows + inner), _in_order(operands[1], right, batch, inner + columns)
    return None if views[0] is None or views[1] is None else (*views, out)


def _in_order(array: Any, text: str, batch: str, order: str) -> Any | None:
    """A view of an array whose last two axes are in an order; None if these are not its axes."""
    if text == batch + order:
        return array
    return array.swapaxes(-1, -2) if len(order) == 2 and text == batch + order[::-1] else None
