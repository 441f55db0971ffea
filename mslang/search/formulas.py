"""Formulas over decisions in single precision: features and estimates of thousands of candidates at once.

Counts of a nest summary are whole numbers, exact to 2**24 and accurate to 7 digits beyond; single precision is twice as
fast as 64-bit integers, and a rank or a tree needs no more. `ir.arith.arrays` computes exactly what has to be exact:
constraints and values of decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mslang.ir.arith import compile_arrays, evaluate, substitute_symbols
from mslang.ir.arith.operations import OPERATIONS, SCALAR
from mslang.ir.expr import COMPARISONS, LOGICAL, Binary, Const, DynamicRange, Expr, Select, Symbol, Unary, Var
from mslang.ir.visit import free_vars, substitute, walk_expr

SIZE = 512
"""What a variable, such as a size read from data, is taken to be."""


class Formula:
    """A number, or a condition, of each candidate; `Formulas` makes them, operators combine them.

    Equal formulas are one, so that a value used twice is computed once. `constant` is set if it is the same for all.
    """

    __slots__ = ("constant", "of", "truth")

    def __init__(self, of: Formulas, constant: float | None, truth: bool) -> None:
        self.of, self.constant, self.truth = of, constant, truth

    def __add__(self, other: Operand) -> Formula:
        return self.of.combined("+", self, other)

    def __sub__(self, other: Operand) -> Formula:
        return self.of.combined("-", self, other)

    def __mul__(self, other: Operand) -> Formula:
        return self.of.combined("*", self, other)

    def __truediv__(self, other: Operand) -> Formula:
        return self.of.combined("/", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Formula:
        return self.of.number(other) - self

    def __rtruediv__(self, other: float) -> Formula:
        return self.of.number(other) / self

    def least(self, other: Operand) -> Formula:
        """The smaller of two."""
        return self.of.combined("min", self, other)

    def most(self, other: Operand) -> Formula:
        """The larger of two."""
        return self.of.combined("max", self, other)

    def at_most(self, other: Operand) -> Formula:
        """The condition `self <= other`."""
        return self.of.combined("<=", self, other)

    def above(self, other: Operand) -> Formula:
        """The condition `self > other`."""
        return self.of.combined(">", self, other)

    def choose(self, then: Operand, otherwise: Operand) -> Formula:
        """`then` where this condition holds, else `otherwise`."""
        return self.of.chosen(self, then, otherwise)

    def floor(self) -> Formula:
        """Rounded down."""
        return self.of.applied("floor", self)

    def ceil(self) -> Formula:
        """Rounded up."""
        return self.of.applied("ceil", self)

    def log2(self) -> Formula:
        """The logarithm to base 2."""
        return self.of.applied("log2", self)

    def slog(self) -> Formula:
        """`log2(1 + x)` of an `x` that is not negative: 0 at 0, and equal steps for equal ratios.

        Source: Ansor, OSDI 2020, appendix B
        """
        return (self + 1.0).log2()


Operand = Formula | float

_FUNCTIONS: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "floor": math.floor,
        "ceil": math.ceil,
        "log2": lambda x: math.log2(x) if x > 0 else -math.inf,
        "logical_not": lambda x: not x,
    }
)
"""NumPy's functions of one number; the operators of two are those of `ir.arith.operations`."""

_NEUTRAL = {"+": 0.0, "*": 1.0}
_RIGHT_NEUTRAL = {"-": 0.0, "/": 1.0}
_CONDITIONS = COMPARISONS | LOGICAL
_OPERATORS = OPERATIONS.keys() - {"//", "%", "<<", ">>", "&", "|", "^"}
"""Operators that single precision has. `//` and `%` round a quotient; those of bits are computed exactly."""


def _greatest(sizes: DynamicRange) -> int:
    return sizes.hi // sizes.multiple * sizes.multiple


class Step(NamedTuple):
    """An operation of arrays, by NumPy's name of it, and the formula that it computes."""

    function: str
    args: tuple[Formula, ...]
    made: Formula


class Formulas:
    """Formulas over the decisions of one sketch. A size known only at the call counts as its greatest value: a task has
    the sizes of one bucket.

    Example:
        >>> f = Formulas()
        >>> tile = f.expr(summary.statements[0].lanes)
        >>> lanes = FloatEvaluator(f, [tile, (tile / 16.0).ceil()])
        >>> lanes.rows(batch)  # float32 of shape (candidates, 2)
    """

    def __init__(self) -> None:
        self.columns: dict[str, Formula] = {}
        self.exact: dict[Expr, Formula] = {}
        self.steps: list[Step] = []
        self._known: dict[tuple[object, ...], Formula] = {}
        self._exprs: dict[Expr, Formula] = {}

    # ------------------------------------------------------------------ leaves
    def number(self, value: float) -> Formula:
        """A constant."""
        key = ("number", value)
        if key not in self._known:
            self._known[key] = Formula(self, float(value), False)
        return self._known[key]

    def condition(self, value: bool) -> Formula:
        """A constant condition."""
        key = ("condition", value)
        if key not in self._known:
            self._known[key] = Formula(self, float(value), True)
        return self._known[key]

    def expr(self, e: Expr) -> Formula:
        """An expression over decisions and sizes.

        Raises:
            MsError: MS391, it cannot be computed of arrays.
        """
        found = self._exprs.get(e)
        if found is None:
            found = self._exprs[e] = self._read(e)
        return found

    def _read(self, e: Expr) -> Formula:
        match e:
            case Const(value=bool() as v):
                return self.condition(v)
            case Const(value=int() | float() as v):
                return self.number(v)
            case Var():
                return self.number(SIZE)
            case Symbol(domain=DynamicRange() as sizes):
                return self.number(_greatest(sizes))
            case Symbol(text=text):
                return self.columns.setdefault(text, Formula(self, None, False))
            case Binary(op=op, left=a, right=b) if op in _OPERATORS:
                return self.combined(op, self.expr(a), self.expr(b))
            case Binary(op="//", left=a, right=b):
                return (self.expr(a) / self.expr(b)).floor()
            case Binary(op="%", left=a, right=b):
                x, y = self.expr(a), self.expr(b)
                return x - (x / y).floor() * y
            case Unary(op="not", operand=x):
                return self.applied("logical_not", self.expr(x))
            case Select(condition=c, then=t, otherwise=o):
                return self.chosen(self.expr(c), self.expr(t), self.expr(o))
        return self._exactly(e)

    def _exactly(self, e: Expr) -> Formula:
        """An expression with operators of whole numbers alone, such as shifts: computed as such."""
        symbols = [x for x in walk_expr(e) if isinstance(x, Symbol)]
        e = substitute_symbols(e, {x.text: _greatest(x.domain) for x in symbols if isinstance(x.domain, DynamicRange)})
        e = substitute(e, {v: Const(SIZE) for v in free_vars(e)})
        if all(isinstance(x.domain, DynamicRange) for x in symbols):
            return self.number(evaluate(e, {}))
        compile_arrays([e])
        return self.exact.setdefault(e, Formula(self, None, False))

    # ------------------------------------------------------------------ operations
    def _value(self, x: Operand) -> Formula:
        return x if isinstance(x, Formula) else self.number(x)

    def applied(self, function: str, x: Formula) -> Formula:
        """A function of NumPy of one number or condition."""
        if x.constant is None:
            return self._step(function, function == "logical_not", (x,))
        folded = _FUNCTIONS[function](x.constant)
        return self.condition(folded) if isinstance(folded, bool) else self.number(folded)

    def combined(self, op: str, a: Operand, b: Operand) -> Formula:
        """An operator of two numbers or conditions; constants and neutral elements are folded."""
        a, b = self._value(a), self._value(b)
        if a.constant is not None and b.constant is not None:
            return self._folded(op, a.constant, b.constant)
        if _NEUTRAL.get(op) == a.constant and a.constant is not None:
            return b
        if b.constant is not None and b.constant in (_NEUTRAL.get(op), _RIGHT_NEUTRAL.get(op)):
            return a
        if op == "*" and 0.0 in (a.constant, b.constant):
            return self.number(0.0)
        if op in LOGICAL:
            return self._connected(op, a, b)
        if a is b and op in ("min", "max"):
            return a
        return self._operation(op, a, b)

    def _folded(self, op: str, a: float, b: float) -> Formula:
        if op == "/" and not b:
            return self.number(0.0)
        folded = SCALAR[op](a, b)
        return self.condition(folded) if op in _CONDITIONS else self.number(folded)

    def _operation(self, op: str, a: Formula, b: Formula) -> Formula:
        return self._step(OPERATIONS[op].array, op in _CONDITIONS, (a, b))

    def _connected(self, op: str, a: Formula, b: Formula) -> Formula:
        known, other = (a, b) if a.constant is not None else (b, a)
        if known.constant is None:
            return self._operation(op, a, b)
        decides = bool(known.constant) == (op == "or")
        return known if decides else other

    def chosen(self, condition: Formula, then: Operand, otherwise: Operand) -> Formula:
        """`then` where a condition holds, else `otherwise`."""
        then, otherwise = self._value(then), self._value(otherwise)
        if condition.constant is not None:
            return then if condition.constant else otherwise
        if then is otherwise:
            return then
        return self._step("where", then.truth and otherwise.truth, (condition, then, otherwise))

    def total(self, xs: Sequence[Operand]) -> Formula:
        """The sum."""
        out = self.number(0.0)
        for x in xs:
            out = out + x
        return out

    def product(self, xs: Sequence[Operand]) -> Formula:
        """The product."""
        out = self.number(1.0)
        for x in xs:
            out = out * x
        return out

    def _step(self, function: str, truth: bool, args: tuple[Formula, ...]) -> Formula:
        key = (function, *map(id, args))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Formula(self, None, truth)
            self.steps.append(Step(function, args, found))
        return found
