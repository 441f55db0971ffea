"""How far an index gets on from one iteration to the next."""

import pytest

from mslang.ir.expr import Binary, Const, Var
from mslang.transform.analysis.stride import pace

X, Y = Var("i"), Var("j")


def times(e, n):
    return Binary("*", e, Const(n))


@pytest.mark.parametrize(
    ("index", "least", "most"),
    [
        (Y, 0, 0),
        (X, 1, 1),
        (Binary("+", times(X, 3), Y), 3, 3),
        (Binary("-", times(X, 3), X), 2, 2),
        (Binary("//", times(X, 5), Const(2)), 2, 3),
        (Binary("+", X, Binary("//", Binary("+", X, Y), Const(4))), 1, 2),
        (Binary("//", times(Binary("//", X, Const(2)), 3), Const(2)), 0, 2),
        (Binary("-", X, Binary("//", X, Const(2))), 0, 1),
    ],
)
def test_pace(index, least, most):
    found = pace(index, "i")
    assert (found.least, found.most) == (Const(least), Const(most))


@pytest.mark.parametrize(
    "index", [Binary("%", X, Const(3)), times(X, -1), Binary("*", X, X), Binary("//", Const(9), X)]
)
def test_other_indices_have_none(index):
    assert pace(index, "i") is None


@pytest.mark.parametrize("by", [2, 3, 4])
@pytest.mark.parametrize("scale", [1, 3, 5, 8])
def test_every_step_is_within(scale, by):
    found = pace(Binary("//", Binary("+", times(X, scale), Const(1)), Const(by)), "i")
    steps = [(scale * (i + 1) + 1) // by - (scale * i + 1) // by for i in range(-12, 12)]
    assert (found.least, found.most) == (Const(min(steps)), Const(max(steps)))
