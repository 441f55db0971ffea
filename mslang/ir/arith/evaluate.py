"""Concrete values: evaluation of expressions, and substitution of numbers for symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.arith.operations import DIVIDING, SCALAR, Number
from mslang.ir.dtype import bits, is_float, is_integer, is_unsigned, parts, size_of
from mslang.ir.expr import (
    SHIFTS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Symbol,
    Unary,
    Var,
    children,
    dtype_of,
    with_children,
)
from mslang.ir.functions import FUNCTIONS, evaluated
from mslang.ir.visit import walk_expr

SymbolValues = Mapping[str, int | Sequence[int]]
"""Symbol name -> its value, or the values of all factors of a tile."""

NO_VALUES: SymbolValues = MappingProxyType({})


class UndefinedResult(MsError):
    """An operation without a result: a division by zero, a shift by a number that is not below the width."""


def _no_value(what: str) -> Diagnostic:
    return problem(
        "MS391",
        f"`{what}` has no value here",
        why="a number was needed before the program runs",
        help="give it a value, or write a constant",
    )


def unknown(what: str) -> MsError:
    """The error of a name, or an operation, that has no value before the program runs."""
    return MsError(_no_value(what))


def symbol_value(s: Symbol, symbols: SymbolValues) -> int | None:
    """The value of a symbol, or None if it has none. A scalar decision may also be given as its text (`ti[2]`)."""
    given = symbols.get(s.name)
    if given is None:
        given = symbols.get(s.text)
        return given if isinstance(given, int) else None
    if isinstance(given, int):
        return given if s.position is None else None
    return given[0 if s.position is None else s.position]


def evaluate(e: Expr, env: Mapping[str, int | float], symbols: SymbolValues = NO_VALUES) -> Number:
    """The value of an expression with variables from `env` and symbols from `symbols`.

    Raises MsError (MS391) for a variable or symbol without a value, a load, an unknown function or an operation
    without a result (`UndefinedResult`).
    """
    match e:
        case Const(value=v):
            return v
        case Var(name=n):
            if n not in env:
                raise unknown(n)
            return env[n]
        case Symbol():
            value = symbol_value(e, symbols)
            if value is None:
                raise unknown(e.text)
            return value
        case Binary(op="and", left=a, right=b):
            return bool(evaluate(a, env, symbols)) and bool(evaluate(b, env, symbols))
        case Binary(op="or", left=a, right=b):
            return bool(evaluate(a, env, symbols)) or bool(evaluate(b, env, symbols))
        case Binary(op=op, left=a, right=b):
            x, y = evaluate(a, env, symbols), evaluate(b, env, symbols)
            if y == 0 and op in DIVIDING:
                raise UndefinedResult(_no_value("x " + op + " 0"))
            if op in SHIFTS and not 0 <= y < bits(dtype_of(e)):
                raise UndefinedResult(_no_value(f"x {op} {y}"))
            return wrap(SCALAR[op](x, y), dtype_of(e))
        case Unary(op="not", operand=x):
            return not evaluate(x, env, symbols)
        case Unary(operand=x):
            return wrap(-evaluate(x, env, symbols), dtype_of(e))
        case Select(condition=c, then=t, otherwise=o):
            return evaluate(t if evaluate(c, env, symbols) else o, env, symbols)
        case Cast(dtype=d, operand=x):
            return convert(evaluate(x, env, symbols), d)
        case Call(name=n, args=xs, dtype=d) if n in FUNCTIONS:
            return convert(evaluated(n, tuple(evaluate(x, env, symbols) for x in xs), dtype_of(xs[0])), d)
        case Load(buffer=b):
            raise unknown(b + "[...]")
        case Call(name=n):
            raise unknown(n + "(...)")
    raise TypeError(f"not an expression: {e!r}")


def is_exact(e: Expr) -> bool:
    """Whether code computes what `evaluate` gives: floats, which are evaluated in double precision, are no part."""
    return not any(is_float(dtype_of(x)) for x in walk_expr(e))


def wrap(v: Number, dtype: str) -> Number:
    """A result in the type it is computed in: integers wrap round at their width."""
    if isinstance(v, bool) or not isinstance(v, int) or not is_integer(dtype):
        return v
    width = 8 * size_of(dtype)
    v &= (1 << width) - 1
    return v if is_unsigned(dtype) or v < 1 << (width - 1) else v - (1 << width)


def convert(v: Number, dtype: str) -> Number:
    """A cast by C's rules."""
    if dtype == "bool":
        return bool(v)
    if is_float(dtype):
        return float(v)
    return wrap(int(v), dtype) if parts(dtype) is not None else v


def substitute_symbols(e: Expr, values: SymbolValues) -> Expr:
    """Numbers in place of symbols. What then holds numbers only is evaluated; nothing else changes, so the structure
    is that of the parametric expression. Symbols without a value stay."""
    return _substituted(e, values)[0] if values else e


def _substituted(e: Expr, values: SymbolValues) -> tuple[Expr, bool]:
    """The expression, and whether a symbol in it was replaced."""
    if isinstance(e, Symbol):
        v = symbol_value(e, values)
        return (e, False) if v is None else (Const(v), True)
    parts_of = children(e)
    if not parts_of:
        return e, False
    done = [_substituted(x, values) for x in parts_of]
    if not any(changed for _, changed in done):
        return e, False
    out = with_children(e, tuple(x for x, _ in done))
    if isinstance(out, (Binary, Unary, Select)) and all(isinstance(x, Const) for x in children(out)):
        return _constant(out), True
    return out, True


def _constant(e: Expr) -> Expr:
    """The value of an operation on constants; what has no result stays as it is."""
    match e:
        case Binary(op="//" | "%" | "/", right=Const(value=0)):
            return e
        case Binary(op="<<" | ">>", right=Const(value=n)) if not 0 <= n < bits(dtype_of(e)):
            return e
    return Const(evaluate(e, {}), dtype_of(e))
