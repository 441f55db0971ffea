"""Expressions in CUDA C. An index is an `int` wherever its values provably fit in 32 bits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.backend.cuda import arithmetic, math
from mslang.backend.cuda.arithmetic import Used
from mslang.backend.cuda.scope import Place, Scope
from mslang.backend.cuda.types import HEADERS, INT, Level, Value, constant, fits
from mslang.diagnostics import MsError, problem
from mslang.ir.arith import simplify
from mslang.ir.arith.data import may_overflow
from mslang.ir.dtype import INDEX, bits, is_float
from mslang.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Shuffle,
    Symbol,
    Unary,
    Var,
    dtype_of,
)
from mslang.ir.visit import walk_expr
from mslang.kernel.names import key_of

COUNTED = ("clz", "popcount")
"""Functions of all bits of an integer: an index must have its 64."""

EXCHANGES: Mapping[str, str] = MappingProxyType(
    {
        "shuffle": "__shfl_sync",
        "shuffle_xor": "__shfl_xor_sync",
        "shuffle_down": "__shfl_down_sync",
        "shuffle_up": "__shfl_up_sync",
    }
)
"""Exchanges between the threads of a warp: of a value, with the thread at a number or a distance."""

ALL_LANES = "0xffffffff"


class ExpressionPrinter:
    """Prints expressions of one source; `used` collects what they need."""

    def __init__(self, used: Used) -> None:
        self.used = used

    def value(self, e: Expr, scope: Scope) -> Value:
        """A scalar expression.

        Raises:
            MsError: MS440, CUDA C has no such operation.
        """
        match e:
            case Const(value=v, dtype=d):
                return constant(v, self.typed(d))
            case Var() | Symbol():
                return scope.variables[key_of(e)]
            case Binary(op=op, left=left, right=right):
                dtype = dtype_of(left)
                exact = dtype == INDEX and not reads(e) and not may_overflow(e)
                return arithmetic.binary(self.used, op, self.value(left, scope), self.value(right, scope), dtype, exact)
            case Unary(op="not", operand=x):
                return arithmetic.invert(self.value(x, scope))
            case Unary(operand=x):
                return self._negated(x, scope)
            case Select(condition=c, then=t, otherwise=o):
                return arithmetic.choose(self.value(c, scope), self.value(t, scope), self.value(o, scope))
            case Cast(dtype=d, operand=x):
                return self._cast(self.value(x, scope), self.typed(d))
            case Call(name=name, args=args):
                return self._call(name, args, scope)
            case Load():
                return self.load(e, scope)
            case Shuffle(operands=(Var(lanes=n) as x,), order=(k,)) if n > 1:
                return _from_memory(f"{scope.variables[key_of(x)].text}.lane[{k}]", x.dtype)
        raise MsError(problem("MS440", f"{type(e).__name__} cannot be written in CUDA C"))

    def typed(self, dtype: str) -> str:
        """The type, of which the header is noted."""
        if dtype in HEADERS:
            self.used.headers.add(HEADERS[dtype])
        return dtype

    def _negated(self, e: Expr, scope: Scope) -> Value:
        v = self.value(e, scope)
        if dtype_of(e) == INDEX:
            return arithmetic.binary(self.used, "-", constant(0, INDEX), v, INDEX, not reads(e))
        return arithmetic.negate(self.used, v)

    def _cast(self, v: Value, dtype: str) -> Value:
        if dtype == INDEX and not is_float(v.dtype) and v.dtype != "u32" and bits(v.dtype) <= 32:
            # Every number of the type is an `int`.
            known = v.bounds or arithmetic.integer_limits(v.dtype)
            return arithmetic.cast(self.used, v, INT)._replace(bounds=known)
        return arithmetic.cast(self.used, v, dtype)

    def _call(self, name: str, args: tuple[Expr, ...], scope: Scope) -> Value:
        values = tuple(self.value(x, scope) for x in args)
        if name in COUNTED and dtype_of(args[0]) == INDEX:
            values = tuple(map(arithmetic.widened, values))
        if name not in EXCHANGES:
            return math.call(self.used, name, values)
        v, lane = values
        if dtype_of(args[0]) == INDEX:
            v = arithmetic.widened(v)
        # Types that have no exchange of their own go as an `int`.
        carrier = INT if not is_float(v.dtype) and bits(v.dtype) < 32 else v.dtype
        sent = arithmetic.cast(self.used, v, carrier)
        got = Value(f"{EXCHANGES[name]}({ALL_LANES}, {sent.text}, {lane.text})", carrier)
        return arithmetic.cast(self.used, got, v.dtype)

    # -------------------------------------------------------------- memory
    def load(self, e: Load, scope: Scope) -> Value:
        """`buffer[indices]`."""
        self.typed(e.dtype)
        return _from_memory(self.element(e.buffer, e.indices, scope), e.dtype)

    def place(self, buffer: str, scope: Scope) -> Place:
        """Where a buffer is.

        Raises:
            MsError: MS441, it is a fragment, the elements of which have no addresses.
        """
        if buffer in scope.fragments:
            raise MsError(
                problem(
                    "MS441",
                    f"an element of the fragment `{buffer}` is accessed outside of an instruction",
                    why="the registers of several threads hold a fragment; only instructions know where elements are",
                    help="tensorize the block that accesses it",
                )
            )
        return scope.memory[buffer]

    def element(self, buffer: str, indices: tuple[Expr, ...], scope: Scope) -> str:
        """An element in memory, as it is named in an expression or assigned."""
        return f"{self.place(buffer, scope).pointer}[{self.offset(buffer, indices, scope).text}]"

    def address(self, buffer: str, indices: tuple[Expr, ...], scope: Scope) -> str:
        """The address of an element, in parentheses where it is a sum."""
        pointer = self.place(buffer, scope).pointer
        at = self.offset(buffer, indices, scope)
        return pointer if at.literal == 0 else f"({pointer} + {at.at(Level.PRODUCT)})"

    def offset(self, buffer: str, indices: tuple[Expr, ...], scope: Scope) -> Value:
        """The number of an element, counted from the buffer's address."""
        return self.value(simplify(flattened(self.place(buffer, scope), indices), scope.ranges), scope)


def flattened(place: Place, indices: tuple[Expr, ...]) -> Expr:
    """The number of an element as an expression."""
    total: Expr = Const(0) if place.buffer.offset is None else place.buffer.offset
    for e, stride in zip(indices, place.strides, strict=True):
        total = Binary("+", total, Binary("*", e, stride))
    return total


def reads(e: Expr) -> bool:
    """Whether an expression depends on data: then integers may overflow in it."""
    return any(isinstance(x, Load | Call | Shuffle) for x in walk_expr(e))


def narrow(v: Value) -> str:
    """The type of a variable that holds the value."""
    return INT if v.dtype == INDEX and fits(v.bounds) else v.dtype


def _from_memory(text: str, dtype: str) -> Value:
    return Value(f"{text} != 0", dtype, Level.EQUAL) if dtype == "bool" else Value(text, dtype)
