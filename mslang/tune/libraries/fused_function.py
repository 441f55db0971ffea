"""Functions of torch that compute whole programs: softmax, layer normalisation, attention.

They are recognised by what the program computes, not by its names or its stages.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from mslang.ir.expr import Binary, Call, Const, Expr, Load, Var
from mslang.tune.libraries.array_operations import Operations, factors_of
from mslang.tune.libraries.whole_result import Result, moved, variables, whole_result


class Softmax(msgspec.Struct, frozen=True):
    """Softmax along the last axis."""

    operand: str
    output: str

    label = "softmax"
    allocates = False

    def __call__(self, **arrays: Any) -> Any:
        """Compute it by torch, given its tensors, into the output."""
        import torch

        torch.softmax(arrays[self.operand], -1, out=arrays[self.output])


class LayerNorm(msgspec.Struct, frozen=True):
    """Layer normalisation along the last axis."""

    operand: str
    scale: str
    offset: str
    epsilon: float

    label = "layer_norm"
    allocates = True

    def __call__(self, **arrays: Any) -> Any:
        """Compute it by torch, given its tensors."""
        from torch.nn.functional import layer_norm

        x = arrays[self.operand]
        return layer_norm(x, x.shape[-1:], arrays[self.scale], arrays[self.offset], self.epsilon)


class Attention(msgspec.Struct, frozen=True):
    """softmax(Q · Kᵀ · factor) · V for each batch."""

    query: str
    key: str
    value: str
    factor: float

    label = "scaled_dot_product_attention"
    allocates = True

    def __call__(self, **arrays: Any) -> Any:
        """Compute it by torch, given its tensors, of which it takes batches of heads."""
        from torch.nn.functional import scaled_dot_product_attention

        q, k, v = (arrays[n].reshape(1, -1, *arrays[n].shape[-2:]) for n in (self.query, self.key, self.value))
        return scaled_dot_product_attention(q, k, v, scale=self.factor).reshape(
            arrays[self.query].shape[:-1] + v.shape[-1:]
        )


FusedFunction = Softmax | LayerNorm | Attention


def fused_function_of(made: Operations) -> FusedFunction | None:
    """The function that computes a program as a whole.

    >>> fused_function_of(operations_of(softmax))
    Softmax(operand='X', output='Y')
    """
    found = whole_result(made)
    if found is None or not found.axes:
        return None
    return _softmax(found) or _layer_norm(found) or _attention(found)


def _softmax(r: Result) -> Softmax | None:
    match r.value:
        case Binary(op="/", left=Call(name="exp") as top, right=total) if _is_sum(total, top, r.axes[-1]):
            x = _less_largest(top.args[0], r.axes[-1])
            if isinstance(x, Load) and x.indices == variables(*r.axes):
                return Softmax(x.buffer, r.output)
    return None


def _less_largest(e: Expr, axis: str) -> Expr | None:
    """`x` of an expression `x - (the maximum of x along an axis)`."""
    match e:
        case Binary(op="-", left=x, right=Call(name="reduce max", args=(y, Var(name=k)))) if y == moved(x, axis, k):
            return x
    return None


def _is_sum(e: Expr, of: Expr, axis: str) -> bool:
    """Whether an expression is the sum of another one along an axis."""
    match e:
        case Call(name="reduce +", args=(body, Var(name=k))):
            return body == moved(of, axis, k)
    return False


def _layer_norm(r: Result) -> LayerNorm | None:
    last = r.axes[-1]
    match r.value:
        case Binary(op="+", left=product, right=Load(buffer=offset, indices=at)) if at == variables(last):
            pass
        case _:
            return None
    factors = factors_of(product)
    scales = [x for x in factors if isinstance(x, Load) and x.indices == variables(last)]
    centred = [x for x in factors if _operand_less_mean(x, r) is not None]
    if len(factors) != 3 or len(scales) != 1 or len(centred) != 1:
        return None
    operand = _operand_less_mean(centred[0], r)
    (inverse,) = [x for x in factors if x is not scales[0] and x is not centred[0]]
    match inverse:
        case Call(name="rsqrt", args=(Binary(op="+", left=variance, right=Const(value=epsilon)),)):
            square = Binary("*", centred[0], centred[0])
            if operand is not None and _is_mean(variance, square, r):
                return LayerNorm(operand, scales[0].buffer, offset, float(epsilon))
    return None


def _operand_less_mean(e: Expr, r: Result) -> str | None:
    match e:
        case Binary(op="-", left=Load(buffer=x, indices=at) as load, right=mean) if at == variables(*r.axes):
            return x if _is_mean(mean, load, r) else None
    return None


def _is_mean(e: Expr, of: Expr, r: Result) -> bool:
    match e:
        case Binary(op="/", left=total, right=Const(value=n)):
            return n == r.extents[r.axes[-1]] and _is_sum(total, of, r.axes[-1])
    return False


def _attention(r: Result) -> Attention | None:
    """The sum of weights times values over the sum of weights, or of normalised weights times values."""
    *outer, feature = r.axes
    match r.value:
        case Binary(
            op="/",
            left=Call(name="reduce +", args=(Binary(op="*", left=weight, right=Load() as v), Var(name=j))),
            right=total,
        ) if _is_sum(total, weight, j):
            pass
        case Call(
            name="reduce +",
            args=(
                Binary(op="*", left=Binary(op="/", left=weight, right=total), right=Load() as v),
                Var(name=j),
            ),
        ) if _is_sum(total, weight, j):
            pass
        case _:
            return None
    found = _weight(weight, j)
    if found is None or len(r.axes) < 2:
        return None
    score, factor = found
    *batch, row = outer
    match score:
        case Call(name="reduce +", args=(Binary(op="*", left=Load() as q, right=Load() as k), Var(name=inner))):
            wanted = variables(*batch, row, inner), variables(*batch, j, inner), variables(*batch, j, feature)
            if (q.indices, k.indices, v.indices) == wanted:
                return Attention(q.buffer, k.buffer, v.buffer, factor)
    return None


def _weight(e: Expr, axis: str) -> tuple[Expr, float] | None:
    """The score and the factor of a weight, `exp` of both multiplied, less the largest along an axis."""
    if not isinstance(e, Call) or e.name != "exp":
        return None
    (exponent,) = e.args
    match exponent:
        case Binary(op="*", left=difference, right=by) if (factor := _number(by)) is not None and factor > 0:
            score = _less_largest(difference, axis)
            return None if score is None else (score, factor)
    score = _less_largest(exponent, axis)
    match score:
        case None:
            return None
        case Binary(op="*", left=x, right=by) if (factor := _number(by)) is not None:
            return x, factor
        case Binary(op="/", left=x, right=by) if (factor := _number(by)) is not None and factor != 0:
            return x, 1 / factor
    return score, 1.0


def _number(e: Expr) -> float | None:
    """The value of a constant, or of a root of one."""
    match e:
        case Const(value=value):
            return float(value)
        case Call(name="rsqrt", args=(Const(value=value),)) if value > 0:
            return 1 / math.sqrt(value)
        case Call(name="sqrt", args=(Const(value=value),)) if value >= 0:
            return math.sqrt(value)
    return None
