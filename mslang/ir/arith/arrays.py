"""Index expressions over whole arrays: one NumPy function for many expressions and many rows (loaded when used)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mslang.diagnostics import MsError, problem
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.arith.evaluate import UndefinedResult, evaluate
from mslang.ir.arith.operations import DIVIDING, OPERATIONS
from mslang.ir.dtype import INDEX, is_float, is_integer
from mslang.ir.expr import Binary, Cast, Const, Expr, Select, Symbol, Unary, Var, dtype_of
from mslang.ir.visit import walk_expr

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = Mapping[str, "NDArray[Any] | int"]
"""The values of variables by name and of symbols by `symbol.text`: arrays of one shape, or that broadcast to one."""

Compiled = Callable[[Columns], "list[NDArray[Any]]"]


def compile_arrays(exprs: Sequence[Expr]) -> Compiled:
    """A function that evaluates index expressions over arrays, element by element; equal subexpressions once.

    Args:
        exprs: expressions over variables and symbols, without loads and function calls.

    Returns:
        A function of columns that gives an array for each expression, equal to `evaluate` element by element, of the
        shape that all columns broadcast to. Where `evaluate` divides by zero, a condition is false and a number 0.

    Raises:
        MsError: MS391, an expression cannot be computed of arrays.

    Example:
        >>> area = compile_arrays([Binary("*", Var("i"), Const(4))])
        >>> area({"i": np.array([1, 2, 3])})
        [array([ 4,  8, 12])]
    """
    code = _Code()
    outs = [code.result(e) for e in exprs]
    lines = [f"{name} = columns[{text!r}]" for text, name in code.names.items()]
    lines += [*code.lines, "return (" + "".join(f"{o}, " for o in outs) + ")"]
    return _function("\n    ".join(["def compute(columns):", *lines]))


def _function(source: str) -> Compiled:
    import numpy as np

    names: dict[str, Any] = {o.array: getattr(np, o.array) for o in OPERATIONS.values()}
    names |= {n: getattr(np, n) for n in (*_MORE, *_TYPES)} | {"inf": np.inf, "nan": np.nan}
    exec(compile(source, "<index expressions>", "exec"), names)  # source made from checked expressions only
    compute = names["compute"]

    def run(columns: Columns) -> list[NDArray[Any]]:
        shape = np.broadcast_shapes(*(np.shape(c) for c in columns.values()))
        with np.errstate(divide="ignore", invalid="ignore"):
            return [np.broadcast_to(x, shape) for x in compute(columns)]

    return run


_MORE = ("where", "negative", "logical_not", "asarray")
_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float64")


class _Code:
    """Straight-line NumPy code; a subexpression is one line, made once.

    A value is the name of an array or a literal. Beside it stands the name of the array that says where it is
    undefined (a division by zero in it), or None where it is defined everywhere.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.lines: list[str] = []
        self._values: dict[Expr, tuple[str, str | None]] = {}
        self._known: dict[str, str] = {}

    def result(self, e: Expr) -> str:
        """The value of a whole expression: false or 0 where it is undefined."""
        value, undefined = self.value(e)
        return value if undefined is None else self._line(f"where({undefined}, {_zero(e)}, {value})")

    def value(self, e: Expr) -> tuple[str, str | None]:
        """The value of `e`, and where it is undefined."""
        found = self._values.get(e)
        if found is None:
            found = self._values[e] = self._computed(e)
        return found

    def _line(self, text: str) -> str:
        if text not in self._known:
            self._known[text] = name = f"v{len(self.lines)}"
            self.lines.append(f"{name} = {text}")
        return self._known[text]

    def _computed(self, e: Expr) -> tuple[str, str | None]:
        match e:
            case Var(name=text) | Symbol(text=text):
                return self.names.setdefault(text, f"c{len(self.names)}"), None
            case Const(value=v, dtype=d) if d == "bool" or is_float(d) or is_integer(d):
                return repr(v), None
        if not any(isinstance(x, Var | Symbol) for x in walk_expr(e)):
            return _constant(e)
        match e:
            case Binary(op="and" | "or" as op, left=left, right=right):
                return self._connected(op, left, right)
            case Binary(op=op, left=left, right=right):
                (a, no_a), (b, no_b) = self.value(left), self.value(right)
                undefined = self._either(no_a, no_b)
                if op in DIVIDING and not _never_zero(right):
                    undefined = self._either(undefined, self._line(f"equal({b}, 0)"))
                return self._line(_wrapped(f"{OPERATIONS[op].array}({a}, {b})", e)), undefined
            case Unary(op=op, operand=x):
                a, undefined = self.value(x)
                return self._line(f"logical_not({a})" if op == "not" else _wrapped(f"negative({a})", e)), undefined
            case Select(condition=c, then=t, otherwise=o):
                (k, no_k), (a, no_a), (b, no_b) = self.value(c), self.value(t), self.value(o)
                taken = no_a or no_b
                if taken is not None:
                    taken = self._line(f"where({k}, {no_a or False}, {no_b or False})")
                return self._line(f"where({k}, {a}, {b})"), self._either(no_k, taken)
            case Cast(dtype=d, operand=x) if d == "bool" or d == "f64" or is_integer(d):
                a, undefined = self.value(x)
                return self._line(_cast(a, e)), undefined
        raise _not_arrays(e)

    def _connected(self, op: str, left: Expr, right: Expr) -> tuple[str, str | None]:
        """`and` and `or`, whose right side does not count where the left one decides."""
        (a, no_a), (b, no_b) = self.value(left), self.value(right)
        if no_b is not None:
            asked = a if op == "and" else self._line(f"logical_not({a})")
            no_b = self._line(f"logical_and({asked}, {no_b})")
        return self._line(f"{OPERATIONS[op].array}({a}, {b})"), self._either(no_a, no_b)

    def _either(self, a: str | None, b: str | None) -> str | None:
        return a if b is None else b if a is None else self._line(f"logical_or({a}, {b})")


def _constant(e: Expr) -> tuple[str, str | None]:
    try:
        return repr(evaluate(e, {})), None
    except UndefinedResult:
        return _zero(e), "True"


def _zero(e: Expr) -> str:
    return "False" if dtype_of(e) == "bool" else "0"


def _never_zero(e: Expr) -> bool:
    if any(isinstance(x, Var) for x in walk_expr(e)) or dtype_of(e) != INDEX:
        return False
    low, high = limits(read_size(e))
    return (low is not None and low > 0) or (high is not None and high < 0)


def _wrapped(text: str, e: Expr) -> str:
    """An integer result in the width of its type; arrays hold 64 bits."""
    dtype = dtype_of(e)
    if not is_integer(dtype) or dtype == INDEX:
        return text
    if _name(dtype) not in _TYPES:
        raise _not_arrays(e)
    return f"asarray({text}).astype({_name(dtype)}).astype(int64)"


def _cast(text: str, e: Cast) -> str:
    match e.dtype:
        case "bool":
            return f"not_equal({text}, 0)"
        case "f64":
            return f"asarray({text}).astype(float64)"
    return _wrapped(f"asarray({text}).astype(int64)", e)


def _name(dtype: str) -> str:
    return {"i": "int", "u": "uint"}[dtype[0]] + dtype[1:]


def _not_arrays(e: Expr) -> MsError:
    return MsError(
        problem(
            "MS391",
            f"a {type(e).__name__.lower()} of type `{dtype_of(e)}` cannot be computed of whole arrays",
            why="only arithmetic, comparisons and `select` of sizes and indices can",
        )
    )
