"""Expressions of ours as nodes of TVM's object graphs.

Our loops and axes are `i64` and TVM's `int32`. An index expression is written in `int32`; where its value is
stored or computed with, conversions that TVM needs are inserted, and those it does not need are omitted. A `let` of
64-bit data, or of a number that 32 bits do not hold, has 64 bits there, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mslang.interop.tvm import words
from mslang.interop.tvm.expressions_in import unsupported
from mslang.interop.tvm.graph import GraphWriter
from mslang.ir.dtype import INDEX, is_float, is_integer
from mslang.ir.expr import COMPARISONS, LOGICAL, Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, dtype_of

_NODES = {op: kind for kind, op in words.OPERATORS.items()}
_FUNCTIONS = {ours: theirs for theirs, ours in words.CALLS.items() if theirs not in ("abs",)}
_COUNTS = "i32"
"""The type of TVM's loop variables in our output."""


class ExpressionsOut:
    """Writes expressions; `buffers` are the nodes of buffers by name."""

    def __init__(self, graph: GraphWriter) -> None:
        self.graph = graph
        self.buffers: dict[str, int] = {}
        self._variables: dict[str, tuple[int, str]] = {}

    def type(self, dtype: str) -> int:
        """The node of an element type."""
        return self.graph.share("ir.PrimType", {"span": 0, "dtype": words.dtype_out(dtype)})

    def bind(self, name: str, dtype: str = _COUNTS, known: int | None = None) -> int:
        """Bind `name` to a new variable of TVM's type `dtype` (or to the existing `known`)."""
        if known is None:
            known = self.graph.add("ir.Var", {"span": 0, "ty": self.type(dtype), "name": self.graph.string(name)})
        self._variables[name] = (known, dtype)
        return known

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Restore the bindings of names at the end of a scope."""
        before = dict(self._variables)
        yield
        self._variables = before

    def literal(self, value: float, dtype: str) -> int:
        """A literal."""
        g, ty = self.graph, self.type(dtype)
        if is_float(dtype):
            return g.add("ir.FloatImm", {"span": 0, "ty": ty, "value": float(value)})
        return g.add("ir.IntImm", {"span": 0, "ty": ty, "value": g.share("int", int(value))})

    # ------------------------------------------------------------------ indices
    def index(self, e: Expr) -> int:
        """An `i64` index of ours, as an `int32`."""
        match e:
            case Const(value=v) if _is_narrow(v):
                return self.literal(v, _COUNTS)
            case Const(value=v):
                raise unsupported(f"the index {v}, where TVM's have 32 bits,")
            case Var(name=n) if self.counts(e):
                return self._variables[n][0]
            case Binary(op=op, left=a, right=b) if op in _NODES:
                return self._node(_NODES[op], _COUNTS, a=self.index(a), b=self.index(b))
            case Unary(op="-", operand=x):
                return self._node("Mul", _COUNTS, a=self.literal(-1, _COUNTS), b=self.index(x))
            case Select(condition=c, then=t, otherwise=o):
                return self._if(self.condition(c), self.index(t), self.index(o), _COUNTS)
            case Cast(operand=x) if dtype_of(x) == _COUNTS:
                return self.value(x)
        return self._cast(_COUNTS, self.value(e))

    # ------------------------------------------------------------------ values
    def condition(self, e: Expr) -> int:
        """A condition."""
        return self.value(e)

    def value(self, e: Expr) -> int:
        """An expression in its own type."""
        g = self.graph
        dtype = dtype_of(e)
        match e:
            case Const(value=v):
                return self.literal(v, dtype)
            case Var(name=n):
                known, _ = self._variables[n]
                return self._cast("i64", known) if self.counts(e) else known
            case Load(buffer=b, indices=xs):
                indices = g.array([self.index(x) for x in xs])
                return g.add(
                    "ir.TensorLoad",
                    {"span": 0, "ty": self.type(dtype), "source": self.buffers[b], "indices": indices},
                )
            case Cast(operand=x) if self.counts(x):
                # An index is already an int32 in TVM.
                made = self.index(x)
                return made if dtype == _COUNTS else self._cast(dtype, made)
            case Cast(operand=x):
                return self._cast(dtype, self.value(x))
            case Unary(op="not", operand=x):
                return self._node("Not", "bool", a=self.value(x))
            case Unary(operand=x):
                return self._node("Mul", dtype, a=self.literal(-1, dtype), b=self.value(x))
            case Select(condition=c, then=t, otherwise=o):
                return self._if(self.condition(c), self.value(t), self.value(o), dtype)
            case Binary(op=op, left=a, right=b) if op in COMPARISONS and self.counts(a) and self.counts(b):
                return self._node(_NODES[op], "bool", a=self.index(a), b=self.index(b))
            case Binary(op=op, left=a, right=b) if op in _NODES:
                of = "bool" if op in COMPARISONS | LOGICAL else dtype
                return self._node(_NODES[op], of, a=self.value(a), b=self.value(b))
            case Call(name="abs", args=(x,)) if is_integer(dtype):
                zero = Const(0, dtype)
                return self.value(Select(Binary(">=", x, zero), x, Binary("-", zero, x)))
            case Call(name="clz", args=(x,)) if dtype != "i32":
                return self._cast(dtype, self._call("clz", [self.value(x)], "i32"))
            case Call(name=n, args=xs) if n in _FUNCTIONS:
                return self._call(_FUNCTIONS[n], [self.value(x) for x in xs], dtype)
        what = f"the function `{e.name}`" if isinstance(e, Call) else f"a `{type(e).__name__}`"
        raise unsupported(f"{what}, in what is written for TVM,")

    def counts(self, e: Expr) -> bool:
        """Whether an expression is an index made of loops, axes and literals: it has 32 bits in TVM."""
        match e:
            case Const(value=v, dtype=d):
                return d == INDEX and _is_narrow(v)
            case Var(name=n, dtype=d):
                return d == INDEX and self._variables[n][1] == _COUNTS
            case Binary(op=op, left=a, right=b):
                return op not in COMPARISONS | LOGICAL and op in _NODES and self.counts(a) and self.counts(b)
            case Unary(op="-", operand=x):
                return self.counts(x)
            case Select(then=t, otherwise=o):
                return self.counts(t) and self.counts(o)
        return False

    def _node(self, kind: str, dtype: str, **operands: int) -> int:
        return self.graph.add(f"prim.{kind}", {"span": 0, "ty": self.type(dtype), **operands})

    def _cast(self, dtype: str, operand: int) -> int:
        return self.graph.add("prim.Cast", {"span": 0, "ty": self.type(dtype), "value": operand})

    def _if(self, condition: int, then: int, otherwise: int, dtype: str) -> int:
        return self._call("if_then_else", [condition, then, otherwise], dtype)

    def _call(self, name: str, args: list[int], dtype: str) -> int:
        g = self.graph
        op = g.share("ir.Op", f"{_HOMES.get(name, 'tirx')}.{name}")
        fields = {"op": op, "args": g.array(args), "attrs": 0, "ty_args": g.array([])}
        return g.add("ir.Call", {"span": 0, "ty": self.type(dtype), **fields})


_HOMES = {"if_then_else": "prim"}


def _is_narrow(value: float) -> bool:
    return -(2**31) <= value < 2**31
