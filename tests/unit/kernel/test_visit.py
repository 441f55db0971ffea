"""One child table: every traversal knows every statement, and an unknown node is refused everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mslang.ir.expr as ir_expr
from mslang.ir import program as ir
from mslang.ir import visit as ir_visit
from mslang.ir.expr import TRUE, ZERO, Broadcast, Const, Expr, Load, MaskedLoad, Ramp, Shuffle, Var, children
from mslang.ir.program import Buffer
from mslang.ir.visit import substitute
from mslang.kernel import nodes
from mslang.kernel.nodes import (
    Allocate,
    Atomic,
    Barrier,
    Evaluate,
    For,
    If,
    Invoke,
    Let,
    Prefetch,
    Stmt,
    Store,
    While,
    Within,
)
from mslang.kernel.visit import CHILDREN, bodies, expressions, map_deep, map_expressions, walk, with_bodies

X = Var("i")
LEAF = Store("A", (X,), X)
OTHER = Evaluate(X)
EXAMPLES: tuple[Stmt, ...] = (
    LEAF,
    Store("A", (Ramp(X, 1, 4),), X, mask=Broadcast(TRUE, 4)),
    Let("x", X, (LEAF,)),
    If(X, (LEAF,), (OTHER,)),
    While(X, (LEAF,)),
    Evaluate(X),
    For("j", X, (LEAF,), start=X),
    Allocate(Buffer("T", "f32", ()), (LEAF,)),
    Invoke("x", "", (), (), (X,), (LEAF,)),
    Within("b", ("v",), (X,), (LEAF,)),
    Barrier(),
    Atomic("+", "A", (X,), X),
    Prefetch("A", (X,)),
)


class Foreign(Stmt, frozen=True):
    body: nodes.Body


class ForeignExpr(Expr, frozen=True):
    inside: Expr


def test_the_table_has_every_statement() -> None:
    classes = {x for x in vars(nodes).values() if isinstance(x, type) and issubclass(x, Stmt) and x is not Stmt}
    assert set(CHILDREN) == classes
    assert {type(s) for s in EXAMPLES} == classes


def test_statements_of_programs_are_none_of_kernels() -> None:
    assert not any(issubclass(x, ir.Stmt) for x in CHILDREN)
    with pytest.raises(TypeError, match="not a statement of a kernel"):
        bodies(ir.Evaluate(X))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a statement"):
        ir_visit.bodies(LEAF)  # type: ignore[arg-type]


@pytest.mark.parametrize("s", EXAMPLES, ids=lambda s: type(s).__name__)
def test_every_field_that_holds_a_node_is_in_the_table(s: Stmt) -> None:
    held = {
        f
        for f in s.__struct_fields__
        for v in [getattr(s, f)]
        if isinstance(v, Stmt | Expr) or (isinstance(v, tuple) and any(isinstance(x, Stmt | Expr) for x in v))
    }
    known = CHILDREN[type(s)]
    assert held <= {*known.bodies, *known.expressions}


@pytest.mark.parametrize("s", EXAMPLES, ids=lambda s: type(s).__name__)
def test_rebuilding_reaches_everything_and_shares_what_stays(s: Stmt) -> None:
    assert with_bodies(s, bodies(s)) is s
    assert map_expressions(s, lambda e: e) is s
    (renamed,) = map_deep((s,), lambda e: substitute(e, {"i": Var("k")}))
    left = {
        x.name for t in walk((renamed,)) for e in expressions(t) for x in ir_visit.walk_expr(e) if isinstance(x, Var)
    }
    assert "i" not in left
    assert [type(t) for t in walk((renamed,))] == [type(t) for t in walk((s,))]
    emptied = with_bodies(s, tuple(() for _ in bodies(s)))
    assert list(walk((emptied,))) == [emptied]


@pytest.mark.parametrize("visit", [bodies, expressions, lambda s: list(walk((s,)))])
def test_an_unknown_statement_is_refused(visit: Callable[[Stmt], object]) -> None:
    with pytest.raises(TypeError, match="Foreign"):
        visit(Foreign((LEAF,)))


def test_an_unknown_expression_is_refused() -> None:
    with pytest.raises(TypeError, match="ForeignExpr"):
        children(ForeignExpr(X))
    with pytest.raises(TypeError, match="ForeignExpr"):
        ir_visit.free_vars(ForeignExpr(X))


@pytest.mark.parametrize(
    "e",
    [
        Ramp(X, 2, 4),
        Broadcast(X, 4),
        Shuffle((Ramp(X, 1, 4), Broadcast(X, 4)), (0, 4)),
        MaskedLoad("A", (Ramp(X, 1, 4),), "f32", Broadcast(TRUE, 4)),
        Load("A", (Ramp(X, 1, 4),), "f32"),
    ],
)
def test_vectors_are_expressions(e: Expr) -> None:
    assert ir_expr.with_children(e, children(e)) is e
    assert ir_visit.free_vars(e) == {"i"}
    assert ir_visit.free_vars(substitute(e, {"i": ZERO})) == set()
    assert ir_expr.dtype_of(e) in ("i64", "f32")
    assert substitute(e, {"i": Const(1)}) != substitute(e, {"i": Const(2)})
