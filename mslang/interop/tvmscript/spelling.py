"""Names and expressions of a program in TVMScript."""

from __future__ import annotations

import json
import keyword
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping

from mslang.diagnostics import MsError, problem
from mslang.interop.annotations import BUFFERS, buffers_of
from mslang.interop.tvmscript.names import THEIR_FUNCTIONS, their_type
from mslang.ir.dtype import INDEX, is_float, parts
from mslang.ir.expr import (
    COMPARISONS,
    ONE,
    Binary,
    Call,
    Cast,
    Const,
    DynamicRange,
    Expr,
    Load,
    Select,
    Symbol,
    Unary,
    Var,
    dtype_of,
)
from mslang.ir.program import AttrValue, Range, Region

_RESERVED = frozenset({"T", "I", "range", "tvm", *keyword.kwlist})
_OR, _AND, _NOT, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND, _SUM, _TERM, _UNARY, _ATOM = range(11)
_LEVELS = {
    "or": _OR,
    "and": _AND,
    "|": _BIT_OR,
    "^": _BIT_XOR,
    "&": _BIT_AND,
    "+": _SUM,
    "-": _SUM,
    "*": _TERM,
    "/": _TERM,
    "//": _TERM,
    "%": _TERM,
}
_CALLED = {"min": "T.min", "max": "T.max", "<<": "T.shift_left", ">>": "T.shift_right"}

Names = Mapping[str, str]
"""The Python name of each variable, buffer and size in scope."""


def text(value: str) -> str:
    """A Python string literal."""
    return json.dumps(value, ensure_ascii=False)


def refused(message: str, why: str | None = None, help: str | None = None) -> MsError:
    """The error of a feature that TVMScript cannot express."""
    return MsError(problem("MS737", message, why=why, help=help))


class Identifiers:
    """Allocates unique Python names."""

    def __init__(self) -> None:
        self._taken = set(_RESERVED)

    def inside(self, name: str, visible: Iterable[str]) -> str:
        """A Python name like `name` for a while: others may take it where this one is not seen."""
        before = set(self._taken)
        self._taken |= set(visible)
        found = self.take(name)
        self._taken = before
        return found

    def take(self, name: str) -> str:
        """A Python name like `name`; `name` itself if it is valid and free."""
        found = unicodedata.normalize("NFKC", name)
        if not found.isidentifier():
            found = re.sub(r"\W", "_", found)
            found = found if found.isidentifier() else f"_{found}"
        base, k = found, 1
        while found in self._taken:
            found, k = f"{base}_{k}", k + 1
        self._taken.add(found)
        return found


# ------------------------------------------------------------------ expressions
def expression(e: Expr, names: Names) -> str:
    """An expression, with the parentheses it needs."""
    return _expr(e, names)[0]


def listed(xs: Iterable[Expr], names: Names) -> str:
    """Expressions, comma between."""
    return ", ".join(expression(x, names) for x in xs)


def tuple_of(xs: tuple[Expr, ...], names: Names) -> str:
    """A Python tuple of expressions."""
    return f"({listed(xs, names)}{',' if len(xs) == 1 else ''})"


def element(buffer: str, indices: tuple[Expr, ...], names: Names) -> str:
    """`A[i, j]`; `A[()]` of a buffer without dimensions."""
    return f"{names[buffer]}[{listed(indices, names) or '()'}]"


def _expr(e: Expr, names: Names) -> tuple[str, int]:
    match e:
        case Const():
            literal = constant(e)
            return literal, _UNARY if literal.startswith("-") else _ATOM
        case Var(name=n) | Symbol(name=n, domain=DynamicRange()):
            return names[n], _ATOM
        case Symbol():
            raise refused(
                f"`{e.text}` has no value yet",
                "TVMScript has numbers for the sizes that a schedule decides",
                "give the decisions values first",
            )
        case Load(buffer=b, indices=xs):
            return element(b, xs, names), _ATOM
        case Select(condition=c, then=t, otherwise=o):
            return f"T.if_then_else({listed((c, t, o), names)})", _ATOM
        case Cast(dtype=d, operand=x):
            return f'T.Cast("{their_type(d)}", {expression(x, names)})', _ATOM
        case Unary(op="not", operand=x):
            return f"not {_at_least(_expr(x, names), _NOT)}", _NOT
        case Unary(operand=Const(value=v, dtype=d)) if d == INDEX:
            return f"-T.int64({v})", _UNARY
        case Unary(operand=x):
            return f"-{_at_least(_expr(x, names), _ATOM)}", _UNARY
        case Binary(op=op, left=a, right=b) if op in _CALLED:
            return f"{_CALLED[op]}({listed((a, b), names)})", _ATOM
        case Binary(op="==" | "!=" as op, left=a, right=b):
            return _equality(op, a, b, names), _COMPARE
        case Binary(op=op, left=a, right=b) if op in COMPARISONS:
            return f"{_at_least(_expr(a, names), _BIT_OR)} {op} {_at_least(_expr(b, names), _BIT_OR)}", _COMPARE
        case Binary(op=op, left=a, right=b):
            level = _LEVELS[op]
            return f"{_at_least(_expr(a, names), level)} {op} {_at_least(_expr(b, names), level + 1)}", level
        case Call(name=n, args=xs, dtype=d):
            return _call(n, xs, d, names), _ATOM
    raise TypeError(f"not an expression: {e!r}")


def is_wide(e: Expr) -> bool:
    """Whether an expression of the index type has 64 bits in TVM: variables and small numbers have 32 there.

    >>> is_wide(Var("i")), is_wide(Load("A", (Var("i"),), "i64"))
    (False, True)
    """
    match e:
        case Load(dtype=d) | Cast(dtype=d) | Call(dtype=d):
            return d == INDEX
        case Const(dtype=d):
            return d == INDEX and not _fits_32_bits(e)
        case Unary(op="-", operand=Const(dtype=d)):
            return d == INDEX
        case Unary(operand=x):
            return is_wide(x)
        case Select(then=a, otherwise=b):
            return is_wide(a) or is_wide(b)
        case Binary(op=op, left=a, right=b) if op not in COMPARISONS:
            return is_wide(a) or is_wide(b)
    return False


def _equality(op: str, a: Expr, b: Expr, names: Names) -> str:
    """`a == b` or `a != b`, which TVM, unlike all other operations, refuses of operands of different widths."""
    mixed = dtype_of(a) == INDEX and is_wide(a) != is_wide(b)
    left, right = (
        f"T.{their_type(INDEX)}({expression(x, names)})"
        if mixed and not is_wide(x) and not isinstance(x, Const)
        else _at_least(_expr(x, names), _BIT_OR)
        for x in (a, b)
    )
    return f"{left} {op} {right}"


def _at_least(written: tuple[str, int], level: int) -> str:
    return written[0] if written[1] >= level else f"({written[0]})"


_OF_C = frozenset({"cbrt", "expm1"})
"""Functions without an operation in TVM: written as calls of the C library."""


def _call(name: str, args: tuple[Expr, ...], dtype: str, names: Names) -> str:
    if name in _OF_C:
        if dtype not in ("f32", "f64"):
            raise refused(f"`{name}` of `{dtype}` has no counterpart in TVM", help="convert to f32 around it")
        called = name if dtype == "f64" else f"{name}f"
        return f"T.call_extern({text(their_type(dtype))}, {text(called)}, {listed(args, names)})"
    written = f"T.{THEIR_FUNCTIONS.get(name, name)}({listed(args, names)})"
    if name == "clz" and dtype != "i32":
        return f"T.Cast({text(their_type(dtype))}, {written})"
    return written


def constant(c: Const) -> str:
    """A literal, with its type unless it is an index."""
    found = parts(c.dtype)
    if found is None or found.lanes > 1:
        raise refused(f"a constant of type `{c.dtype}` cannot be written")
    if c.dtype == INDEX and _fits_32_bits(c):
        return str(int(c.value))
    return f"T.{their_type(c.dtype)}({_number(c.value, c.dtype)})"


def _fits_32_bits(c: Const) -> bool:
    return -(2**31) <= c.value < 2**31


def _number(value: int | float | bool, dtype: str) -> str:
    if dtype == "bool":
        return str(bool(value))
    if not is_float(dtype):
        return str(int(value))
    v = float(value)
    if math.isnan(v):
        return '"nan"'
    return repr(v) if math.isfinite(v) else ('"inf"' if v > 0 else '"-inf"')


# ------------------------------------------------------------------ regions, annotations
def region(r: Region, names: Names) -> str:
    """A region as `A[i, j:j + 4]`."""
    return f"{names[r.buffer]}[{', '.join(_range(d, names) for d in r.ranges) or '()'}]"


def _range(r: Range, names: Names) -> str:
    if r.extent == ONE:
        return expression(r.start, names)
    return f"{expression(r.start, names)}:{expression(r.stop, names)}"


def annotation(value: AttrValue, names: Names) -> str:
    """The value of an annotation."""
    match value:
        case bool() | int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else f'T.float64("{value}")'
        case str():
            return text(value)
        case tuple():
            return f"[{', '.join(annotation(x, names) for x in value)}]"
        case Const(value=v, dtype=d):
            return f"T.{their_type(d)}({_number(v, d)})"
    return expression(value, names)


def notes_text(notes: Iterable[tuple[str, AttrValue]], names: Names) -> str:
    """A dictionary of annotations."""
    written = ((k, f"[{', '.join(buffers_of(v, names))}]" if k == BUFFERS else annotation(v, names)) for k, v in notes)
    return f"{{{', '.join(f'{text(k)}: {v}' for k, v in written)}}}"
