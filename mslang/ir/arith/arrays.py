"""Index expressions over whole arrays: many expressions of many rows at once, in NumPy (loaded when used).

Expressions are compiled to a list of array operations, equal subexpressions once. Rows are computed a few thousand at a
time in buffers that are used again, so that what is computed stays in the cache and no memory is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mslang.diagnostics import MsError, problem
from mslang.ir.arith.convert import read_size
from mslang.ir.arith.domain import limits
from mslang.ir.arith.evaluate import UndefinedResult, evaluate, unknown
from mslang.ir.arith.operations import DIVIDING, OPERATIONS
from mslang.ir.dtype import INDEX, is_float, is_integer
from mslang.ir.expr import Binary, Cast, Expr, Select, Symbol, Unary, Var, dtype_of
from mslang.ir.visit import walk_expr

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = Mapping[str, "NDArray[Any] | int"]
"""The values of variables by name and of symbols by `symbol.text`: arrays of one shape, or that broadcast to one."""

ROWS = 4096
"""So many rows are computed at a time."""


def compile_arrays(exprs: Sequence[Expr]) -> Compiled:
    """A function that evaluates index expressions over arrays, element by element.

    Args:
        exprs: expressions over variables and symbols, without loads and function calls.

    Returns:
        A function of columns that gives an array for each expression, equal to `evaluate` element by element. Where
        `evaluate` divides by zero, a condition is false and a number 0.

    Raises:
        MsError: MS391, an expression cannot be computed of arrays; or, where the function is called, a variable or
            symbol has no column.

    Example:
        >>> area = compile_arrays([Binary("*", Var("i"), Const(4))])
        >>> area({"i": np.array([1, 2, 3])})
        [array([ 4,  8, 12])]
    """
    code = _Code()
    results = tuple(code.result(e) for e in exprs)
    return Compiled(code.columns, code.constants, code.steps, results)


# ------------------------------------------------------------------ running
class _Step(NamedTuple):
    """An operation of arrays: the values that it takes, by number, the one that it makes, and its type in NumPy."""

    function: str
    args: tuple[int, ...]
    target: int
    dtype: str


class Compiled:
    """Compiled expressions; `compile_arrays` makes them."""

    def __init__(
        self,
        columns: Mapping[str, int],
        constants: Mapping[int, int | float | bool],
        steps: Sequence[_Step],
        results: tuple[int, ...],
    ) -> None:
        self._columns, self._constants, self._results = columns, constants, results
        functions = {s.function: _function(s.function) for s in steps}
        self._steps = [(functions[s.function], s.args, s.target) for s in steps]
        self._types = {s.target: s.dtype for s in steps}
        self._registers = _registers(steps, frozenset(results))

    def __call__(self, columns: Columns) -> list[NDArray[Any]]:
        """An array for each expression, of the shape that all columns broadcast to."""
        import numpy as np

        shape = np.broadcast_shapes(*(np.shape(c) for c in columns.values()))
        values = self._values(columns)
        with np.errstate(divide="ignore", invalid="ignore"):
            for function, args, target in self._steps:
                values[target] = function(*(values[a] for a in args), out=None)
        return [np.broadcast_to(values[r], shape) for r in self._results]

    def rows(self, columns: Columns, n: int) -> list[NDArray[Any]]:
        """An array of `n` rows for each expression, for columns of one dimension; do not write to them, since equal
        expressions share one."""
        import numpy as np

        made = {r: np.empty(n, self._types[r]) for r in self._results if r in self._types}
        scratch = {r: np.empty(min(n, ROWS), r[0]) for r in self._registers.values()}
        with np.errstate(divide="ignore", invalid="ignore"):
            for start in range(0, n, ROWS):
                part = slice(start, min(start + ROWS, n))
                outs = {r: x[: part.stop - start] for r, x in scratch.items()}
                targets = {t: outs[r] for t, r in self._registers.items()} | {r: x[part] for r, x in made.items()}
                values = self._values({c: x if isinstance(x, int) else x[part] for c, x in columns.items()})
                values.update(targets)
                for function, args, target in self._steps:
                    function(*[values[a] for a in args], out=targets[target])
        whole = self._values(columns)
        return [made[r] if r in made else np.broadcast_to(whole[r], (n,)) for r in self._results]

    def _values(self, columns: Columns) -> dict[int, Any]:
        for name in self._columns.keys() - columns.keys():
            raise unknown(name)
        return {number: columns[name] for name, number in self._columns.items()} | dict(self._constants)


Register = tuple[str, int]
"""A buffer that values use in turn: its type and its number."""


def _registers(steps: Sequence[_Step], results: frozenset[int]) -> dict[int, Register]:
    """A register for each value that is not a result, free again after its last use."""
    last = {a: k for k, s in enumerate(steps) for a in s.args}
    free: dict[str, list[int]] = {}
    count: dict[str, int] = {}
    taken: dict[int, Register] = {}
    for k, s in enumerate(steps):
        if s.target not in results:
            waiting = free.setdefault(s.dtype, [])
            number = waiting.pop() if waiting else count.get(s.dtype, 0)
            count[s.dtype] = max(count.get(s.dtype, 0), number + 1)
            taken[s.target] = s.dtype, number
        for a in dict.fromkeys(s.args):
            if a in taken and last[a] == k:
                free[taken[a][0]].append(taken[a][1])
    return taken


def _function(name: str) -> Callable[..., Any]:
    import numpy as np

    if name == "where":
        return _where
    if name.startswith("wrap "):
        return _wrapping(name.removeprefix("wrap "))
    function: Callable[..., Any] = getattr(np, name)
    return function


def _where(condition: Any, then: Any, otherwise: Any, out: Any) -> Any:
    import numpy as np

    if out is None:
        return np.where(condition, then, otherwise)
    np.copyto(out, otherwise)
    np.copyto(out, then, where=np.asarray(condition, np.bool_))
    return out


def _wrapping(dtype: str) -> Callable[..., Any]:
    """Conversion to a type, integers to 64 bits with the value that the type holds."""

    def wrapped(x: Any, out: Any) -> Any:
        import numpy as np

        found = np.asarray(x).astype(dtype)
        found = found.astype(np.int64) if found.dtype.kind in "iu" else found
        if out is None:
            return found
        np.copyto(out, found)
        return out

    return wrapped


# ------------------------------------------------------------------ compiling
Value = tuple[int, int | None]
"""The number of a value, and that of the condition under which it is undefined (None: it is defined everywhere)."""


class _Code:
    """Expressions to steps. Columns, constants and the results of steps are values with numbers of one count."""

    def __init__(self) -> None:
        self.columns: dict[str, int] = {}
        self.constants: dict[int, int | float | bool] = {}
        self.steps: list[_Step] = []
        self._count = 0
        self._values: dict[Expr, Value] = {}
        self._numbers: dict[tuple[object, ...], int] = {}

    def result(self, e: Expr) -> int:
        """The value of a whole expression: false or 0 where it is undefined."""
        value, undefined = self.value(e)
        if undefined is None:
            return value
        return self._step("where", (undefined, self._constant(_zero(e)), value), _array_type(e))

    def value(self, e: Expr) -> Value:
        """The value of an expression, and where it is undefined."""
        found = self._values.get(e)
        if found is None:
            found = self._values[e] = self._computed(e)
        return found

    def _new(self, *key: object) -> tuple[int, bool]:
        """The number of what the key names, and whether it is new."""
        if key in self._numbers:
            return self._numbers[key], False
        self._count += 1
        self._numbers[key] = self._count
        return self._count, True

    def _step(self, function: str, args: tuple[int, ...], dtype: str) -> int:
        target, new = self._new(function, args)
        if new:
            self.steps.append(_Step(function, args, target, dtype))
        return target

    def _constant(self, value: int | float | bool) -> int:
        number, _ = self._new(type(value), repr(value))
        self.constants[number] = value
        return number

    def _computed(self, e: Expr) -> Value:
        match e:
            case Var(name=text) | Symbol(text=text):
                return self.columns.setdefault(text, self._new(text)[0]), None
        if not any(isinstance(x, Var | Symbol) for x in walk_expr(e)):
            return self._folded(e)
        dtype = _array_type(e)
        match e:
            case Binary(op="and" | "or" as op, left=left, right=right):
                return self._connected(op, left, right)
            case Binary(op=op, left=left, right=right):
                (a, no_a), (b, no_b) = self.value(left), self.value(right)
                undefined = self._either(no_a, no_b)
                if op in DIVIDING and not _never_zero(right):
                    undefined = self._either(undefined, self._step("equal", (b, self._constant(0)), "bool"))
                return self._wrapped(self._step(OPERATIONS[op].array, (a, b), dtype), e), undefined
            case Unary(op="not", operand=x):
                a, undefined = self.value(x)
                return self._step("logical_not", (a,), "bool"), undefined
            case Unary(operand=x):
                a, undefined = self.value(x)
                return self._wrapped(self._step("negative", (a,), dtype), e), undefined
            case Select(condition=c, then=t, otherwise=o):
                (k, no_k), (a, no_a), (b, no_b) = self.value(c), self.value(t), self.value(o)
                taken = None
                if no_a is not None or no_b is not None:
                    never = self._constant(False)
                    sides = (never if no_a is None else no_a, never if no_b is None else no_b)
                    taken = self._step("where", (k, *sides), "bool")
                return self._step("where", (k, a, b), dtype), self._either(no_k, taken)
            case Cast(dtype=to, operand=x):
                a, undefined = self.value(x)
                return self._step(f"wrap {_storage(to, e)}", (a,), dtype), undefined
        raise _not_arrays(e)

    def _folded(self, e: Expr) -> Value:
        try:
            return self._constant(evaluate(e, {})), None
        except UndefinedResult:
            return self._constant(_zero(e)), self._constant(True)

    def _connected(self, op: str, left: Expr, right: Expr) -> Value:
        """`and` and `or`, whose right side does not count where the left one decides."""
        (a, no_a), (b, no_b) = self.value(left), self.value(right)
        if no_b is not None:
            asked = a if op == "and" else self._step("logical_not", (a,), "bool")
            no_b = self._step("logical_and", (asked, no_b), "bool")
        return self._step(OPERATIONS[op].array, (a, b), "bool"), self._either(no_a, no_b)

    def _either(self, a: int | None, b: int | None) -> int | None:
        return a if b is None else b if a is None else self._step("logical_or", (a, b), "bool")

    def _wrapped(self, value: int, e: Expr) -> int:
        """A result of integers narrower than 64 bits, wrapped round at their width."""
        dtype = dtype_of(e)
        if not is_integer(dtype) or dtype == INDEX:
            return value
        return self._step(f"wrap {_storage(dtype, e)}", (value,), "int64")


def _zero(e: Expr) -> int | bool:
    return False if dtype_of(e) == "bool" else 0


def _never_zero(e: Expr) -> bool:
    if any(isinstance(x, Var) for x in walk_expr(e)) or dtype_of(e) != INDEX:
        return False
    low, high = limits(read_size(e))
    return (low is not None and low > 0) or (high is not None and high < 0)


def _array_type(e: Expr) -> str:
    """NumPy's type of the arrays that hold an expression's values: integers have 64 bits."""
    dtype = dtype_of(e)
    return "float64" if is_float(dtype) else "bool" if dtype == "bool" else "int64"


def _storage(dtype: str, e: Expr) -> str:
    """NumPy's name of a type that results are converted to."""
    if dtype in ("bool", "f64"):
        return {"bool": "bool", "f64": "float64"}[dtype]
    if dtype in ("i8", "i16", "i32", "i64", "u8", "u16", "u32"):
        return {"i": "int", "u": "uint"}[dtype[0]] + dtype[1:]
    raise _not_arrays(e)


def _not_arrays(e: Expr) -> MsError:
    return MsError(
        problem(
            "MS391",
            f"a {type(e).__name__.lower()} of type `{dtype_of(e)}` cannot be computed of whole arrays",
            why="only arithmetic, comparisons and `select` of sizes and indices can",
        )
    )
