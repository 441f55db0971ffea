"""Sums of products, and the calls of NumPy and torch that compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mslang.ir.expr import TRUE, Binary, Const, Expr, Load, Var
from mslang.ir.find import blocks_of
from mslang.ir.program import Block, Program, Store
from mslang.ir.reduction import update_of

_SUMMED = {"f32", "f64", "i32", "i64"}
"""Element types whose products the libraries add up in the type itself."""


class Contraction(msgspec.Struct, frozen=True):
    """`output = sum of products of operands`, as Einstein's notation has it: a letter for each axis.

    >>> Contraction("ik,kj->ij", ("A", "B"), "C").operands
    ('A', 'B')
    """

    text: str
    operands: tuple[str, ...]
    output: str


def contraction_of(program: Program) -> Contraction | None:
    """The sum of products that a program computes: one block that adds up products of elements; None if it is another.

    >>> contraction_of(gemm).text
    'ac,cb->ab'
    """
    blocks = blocks_of(program.body)
    if len(blocks) != 1 or program.dynamic:
        return None
    (block,) = blocks
    dtypes = {p.buffer.dtype for p in program.params}
    shapes = {p.buffer.name: p.buffer.shape for p in program.params if p.packing is None}
    letters = {a.name: chr(ord("a") + k) for k, a in enumerate(block.axes)}
    extents = {a.name: a.extent for a in block.axes}
    (store,) = block.body if len(block.body) == 1 else (None,)
    if not isinstance(store, Store) or len(letters) > 26 or len(dtypes) > 1 or not dtypes <= _SUMMED:
        return None
    if block.predicate != TRUE or not _starts_at_zero(block, store):
        return None
    update = update_of(store)
    factors = () if update is None or update.op != "+" else tuple(_factors(update.value))
    loads = tuple(x for x in factors if isinstance(x, Load))
    if not loads or len(loads) < len(factors):
        return None

    def named(buffer: str, indices: tuple[Expr, ...]) -> str | None:
        names = [x.name for x in indices if isinstance(x, Var)]
        whole = tuple(extents.get(n) for n in names) == shapes.get(buffer)
        return "".join(letters[n] for n in names) if whole and len(set(names)) == len(indices) else None

    terms = [named(x.buffer, x.indices) for x in loads]
    result = named(store.buffer, store.indices)
    if result is None or None in terms or {*letters.values()} != {*"".join(map(str, terms))}:
        return None
    return Contraction(f"{','.join(map(str, terms))}->{result}", tuple(x.buffer for x in loads), store.buffer)


def _starts_at_zero(block: Block, store: Store) -> bool:
    match block.init:
        case (Store(buffer=buffer, indices=indices, value=Const(value=0)),):
            return (buffer, indices) == (store.buffer, store.indices)
    return False


def _factors(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "*":
        yield from _factors(e.left)
        yield from _factors(e.right)
    else:
        yield e


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
