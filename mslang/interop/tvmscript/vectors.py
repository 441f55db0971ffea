"""Stores of vectors in TVMScript: `B[T.Ramp(0, 1, 4)] = A[0:4] * T.Broadcast(2.0, 4)`.

Here a loop is vectorized, not an expression: such a store is a vectorized loop over the lanes. In its body a ramp
is the number of its lane, a broadcast its operand, and a slice one element.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mslang.interop.closed import Loop
from mslang.interop.tvmscript.call_arguments import bound, dotted, needed
from mslang.interop.tvmscript.scope import Array, Lane, Scope
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import Number, binary, condition, constant, index, literal
from mslang.ir.arith import simplify
from mslang.ir.dtype import parts
from mslang.ir.expr import TRUE, ZERO, Binary, Const, Expr, Var
from mslang.ir.program import For, If, Stmt, Store
from mslang.ir.visit import loads_of

if TYPE_CHECKING:
    from mslang.interop.tvmscript.expressions import Expressions
    from mslang.interop.tvmscript.statements import Statements

RAMPS = frozenset({"Ramp", "ramp"})


def stored(
    made: Statements, target: ast.Subscript, value: ast.expr, scope: Scope, predicate: ast.expr | None = None
) -> tuple[Stmt, ...]:
    """`A[i] = value`, of a single element or of a vector; a vector's lanes only where a predicate holds."""
    if isinstance(value, ast.Call) and dotted(value.func, made.read.aliases) == "undef":
        # The element may have any value from here on: also the one that it has.
        return ()
    lanes = _lanes(made.read, target, scope)
    if lanes is None and predicate is not None:
        raise refuse("MS731", predicate, "a predicate is for stores of vectors")
    if lanes is None:
        return (made.store(target, made.read.number(value, scope), scope),)
    if lanes > 1 and not any(_is_vector(x) for x in ast.walk(value)):
        raise refuse("MS731", target, f"`{text_of(target)}` is a vector", f"`{text_of(value)}` is a number")
    inner = scope.inner()
    var = made.names.loop("lane", inner.outer)
    inner.outer[var] = Loop(ZERO, Const(lanes), "opaque")
    inner.lane = Lane(Var(var), lanes)
    store = made.store(target, made.read.number(value, inner), inner)
    assert isinstance(store, Store)
    others = (x for e in (store.value, *store.indices) for x in loads_of(e) if x.buffer == store.buffer)
    if any(x.indices != store.indices for x in others):
        raise refuse(
            "MS731", target, f"the vector stored to `{store.buffer}` is made of other elements of it",
            "all lanes are read before one is written; here a lane is written before the next one is read",
        )  # fmt: skip
    body: tuple[Stmt, ...] = (store,)
    if predicate is not None and (when := condition(made.read.number(predicate, inner), predicate)) != TRUE:
        body = (If(when, body),)
    return (For(var, Const(lanes), body, "vectorized"),)


def _is_vector(e: ast.AST) -> bool:
    match e:
        case ast.Slice() | ast.Call(func=ast.Attribute(attr="Broadcast" | "broadcast" | "vload")):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in RAMPS
    return False


def _lanes(read: Expressions, target: ast.Subscript, scope: Scope) -> int | None:
    """The number of elements that a store writes; None for one."""
    if not isinstance(read.value(target.value, scope), Array):
        return None
    found: set[int | None] = set()
    for x in target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]:
        match x:
            case ast.Call(func=ast.Attribute(attr=name)) if name in RAMPS:
                found.add(_constant(read, needed(x, bound(x, "base", "stride", "lanes"), "lanes"), scope))
            case ast.Slice(lower=ast.expr() as a, upper=ast.expr() as b):
                size = simplify(Binary("-", read.index(b, scope), read.index(a, scope)))
                found.add(size.value if isinstance(size, Const) and isinstance(size.value, int) else None)
    match sorted(n or 0 for n in found):
        case []:
            return None
        case [int() as n] if n > 1:
            return n
        case [1] if not any(isinstance(x, ast.Call) for x in ast.walk(target.slice)):
            return 1
    raise refuse("MS731", target, f"`{text_of(target)}` is a vector", "its number of lanes is not a constant above 1")


def _constant(read: Expressions, e: ast.expr, scope: Scope) -> int | None:
    n = constant(read.number(e, scope))
    return n if isinstance(n, int) else None


def elements(e: ast.Call, of: ast.expr, kind: ast.Load | ast.Store) -> ast.Subscript:
    """`A[i, j]` for `A.vload([i, j], "float32x4")` and `A.vstore([i, j], value)`."""
    at = needed(e, bound(e, "indices", "dtype" if isinstance(kind, ast.Load) else "value", "predicate"), "indices")
    indices = ast.copy_location(ast.Tuple(at.elts, ast.Load()), at) if isinstance(at, ast.List | ast.Tuple) else at
    return ast.copy_location(ast.Subscript(of, indices, kind), e)


def loaded(read: Expressions, e: ast.Call, of: ast.expr, array: Array, scope: Scope) -> Number:
    """A lane of `A.vload([T.Ramp(i, 1, 4)], "float32x4")`."""
    predicate = bound(e, "indices", "dtype", "predicate").get("predicate")
    if predicate is not None and condition(read.number(predicate, scope), predicate) != TRUE:
        raise refuse("MS731", predicate, "a load under a predicate leaves the other lanes undefined")
    return read.loaded(array, read.indices(elements(e, of, ast.Load()), array.buffer, scope), scope)


def ramp(read: Expressions, e: ast.Call, scope: Scope) -> Number:
    """A lane of `T.Ramp(base, stride, lanes)`."""
    found = bound(e, "base", "stride", "lanes")
    lane = _lane(read, e, needed(e, found, "lanes"), scope)
    step = binary("*", index(lane.var), read.number(needed(e, found, "stride"), scope), e)
    return binary("+", read.number(needed(e, found, "base"), scope), step, e)


def broadcast(read: Expressions, e: ast.Call, scope: Scope) -> Number:
    """A lane of `T.Broadcast(value, lanes)`."""
    found = bound(e, "value", "lanes")
    _lane(read, e, needed(e, found, "lanes"), scope)
    return read.number(needed(e, found, "value"), scope)


def _lane(read: Expressions, e: ast.Call, lanes: ast.expr, scope: Scope) -> Lane:
    if scope.lane is None:
        raise refuse("MS731", e, f"`{text_of(e)}` is a vector", "a loop is vectorized here, not an expression")
    if _constant(read, lanes, scope) != scope.lane.lanes:
        raise refuse("MS731", e, f"`{text_of(e)}` has not {scope.lane.lanes} lanes as the vector that is stored")
    return scope.lane


def lane_mask(read: Expressions, e: ast.Call, scope: Scope) -> Number:
    """A lane of `T.get_active_lane_mask("uint1x4", base, limit)`: whether it is before the limit."""
    found = bound(e, "dtype", "base", "limit")
    if scope.lane is None:
        raise refuse("MS731", e, f"`{text_of(e)}` is a vector", "a loop is vectorized here, not an expression")
    at = binary("+", read.number(needed(e, found, "base"), scope), index(scope.lane.var), e)
    return binary("<", at, read.number(needed(e, found, "limit"), scope), e)


def sliced(read: Expressions, x: ast.Slice, scope: Scope) -> Expr | None:
    """The index of a lane of a slice; None outside of stores of vectors."""
    if scope.lane is None or x.lower is None or x.upper is None:
        return None
    start = read.number(x.lower, scope)
    step = literal(1) if x.step is None else read.number(x.step, scope)
    size = simplify(Binary("-", read.index(x.upper, scope), start.expr))
    if constant(step) != 1 or size != Const(scope.lane.lanes):
        raise refuse("MS731", x, f"the slice has not {scope.lane.lanes} elements as the vector that is stored")
    return Binary("+", start.expr, scope.lane.var)


def element_of(dtype: str, at: ast.AST, scope: Scope) -> str:
    """The element type of a vector of as many lanes as are stored."""
    found = parts(dtype)
    if scope.lane is None or found is None or found.lanes == 1:
        return dtype
    if found.lanes != scope.lane.lanes:
        raise refuse("MS731", at, f"`{dtype}` has not {scope.lane.lanes} lanes as the vector that is stored")
    return found.scalar
