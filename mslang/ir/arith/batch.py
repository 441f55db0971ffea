"""Sizes over arrays of decisions: many candidates at once, in NumPy (loaded when used)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from mslang.diagnostics import MsError, problem
from mslang.ir.arith.size import Factor, Poly
from mslang.ir.expr import Binary, Cast, Const, Expr, Select, Symbol, Unary
from mslang.ir.visit import walk_expr

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = Mapping[str, "NDArray[Any]"]
"""`symbol.text` -> its value in each candidate."""


def compile_symbols(exprs: Sequence[Expr], symbols: Sequence[Symbol]) -> Callable[[Columns], list[NDArray[Any]]]:
    """A function that evaluates size expressions over arrays of decisions, one row a candidate.

    `exprs` are expressions over `symbols`, without variables and loads; equal subexpressions are computed once. The
    function takes a column for each symbol's text and gives one array for each expression, equal to `evaluate` row by
    row. Integers are 64 bits wide.

    Raises MsError (MS391) for an expression that is not over these symbols.
    """
    code = _Code({s.text: f"s{k}" for k, s in enumerate(symbols)})
    outs = [code.value(e) for e in exprs]
    lines = [f"    s{k} = np.asarray(columns[{s.text!r}])" for k, s in enumerate(symbols)]
    lines += [f"    {line}" for line in code.lines]
    shape = "np.broadcast_shapes(" + ", ".join(f"s{k}.shape" for k in range(len(symbols))) + ")"
    lines.append(f"    shape = {shape}")
    lines.append("    return [np.broadcast_to(x, shape) for x in (" + "".join(f"{o}, " for o in outs) + ")]")
    return _function("\n".join(["def batch(np, columns):", *lines]))


def _function(source: str) -> Callable[[Columns], list[NDArray[Any]]]:
    names: dict[str, Any] = {}
    exec(compile(source, "<sizes>", "exec"), names)  # source made from checked expressions only

    def run(columns: Columns) -> list[NDArray[Any]]:
        import numpy as np

        with np.errstate(divide="ignore", invalid="ignore"):
            out: list[NDArray[Any]] = names["batch"](np, columns)
        return out

    return run


_INFIX = frozenset({"+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">=", "<<", ">>", "&", "|", "^", "/"})
_CALLS = {"min": "np.minimum", "max": "np.maximum", "and": "np.logical_and", "or": "np.logical_or"}


class _Code:
    """Straight-line NumPy code; a subexpression is one line, made once."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names, self.lines = names, list[str]()
        self.memo: dict[Expr, str] = {}

    def value(self, e: Expr) -> str:
        """The name (or literal) that holds the value of `e`."""
        if isinstance(e, Const):
            return repr(e.value)
        if isinstance(e, Symbol) and e.text in self.names:
            return self.names[e.text]
        if e not in self.memo:
            line = self._line(e)
            self.memo[e] = name = f"v{len(self.lines)}"
            self.lines.append(f"{name} = {line}")
        return self.memo[e]

    def _line(self, e: Expr) -> str:
        match e:
            case Binary(op=op, left=a, right=b) if op in _INFIX:
                return f"{self.value(a)} {op} {self.value(b)}"
            case Binary(op=op, left=a, right=b):
                return f"{_CALLS[op]}({self.value(a)}, {self.value(b)})"
            case Unary(op="not", operand=x):
                return f"np.logical_not({self.value(x)})"
            case Unary(operand=x):
                return f"-{self.value(x)}"
            case Select(condition=c, then=t, otherwise=o):
                return f"np.where({self.value(c)}, {self.value(t)}, {self.value(o)})"
            case Cast(dtype=("f64" | "f32" | "i64" | "i32") as d, operand=x):
                return f"np.asarray({self.value(x)}).astype(np.{ {'f': 'float', 'i': 'int'}[d[0]] }{d[1:]})"
        fault = next((x for x in walk_expr(e) if not isinstance(x, (Binary, Unary, Select, Const))), e)
        raise MsError(
            problem(
                "MS391",
                f"not a size of these decisions: {type(fault).__name__.lower()}",
                why="a batch of candidates is evaluated before any program runs",
            )
        )


# ------------------------------------------------------------------ polynomials, for exhaustive proofs
def poly_values(p: Poly, columns: Columns) -> NDArray[Any]:
    """A size at each row of the columns."""
    import numpy as np

    with np.errstate(divide="ignore"):
        return np.asarray(_value(p, columns, {}))


def _value(p: Poly, columns: Columns, memo: dict[Factor, Any]) -> Any:
    out: Any = 0
    for m, c in p.terms.items():
        term: Any = c
        for f in m:
            term = term * _factor(f, columns, memo)
        out = out + term
    return out


def _factor(f: Factor, columns: Columns, memo: dict[Factor, Any]) -> Any:
    import numpy as np

    if f in memo:
        return memo[f]
    if f.symbol is not None:
        memo[f] = columns[f.symbol.text]
        return memo[f]
    args = [_value(a, columns, memo) for a in f.args]
    match f.op:
        case "//":
            memo[f] = args[0] // args[1]
        case "%":
            memo[f] = args[0] % args[1]
        case "min":
            memo[f] = reduce(np.minimum, args)
        case "max":
            memo[f] = reduce(np.maximum, args)
        case _:
            raise ValueError(f"not a size: {f.key}")
    return memo[f]
