"""Text of the parts of programs: names, expressions, ranges, buffers, annotations, domains.

A literal stands bare where what it meets gives it its type (the other operand, the buffer stored to) or where it is
an `i64`; otherwise it is a typed literal, `f16(1.5)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from mslang.ir.dtype import INDEX, is_float, parts
from mslang.ir.expr import (
    COMPARISONS,
    LOGICAL,
    ONE,
    Binary,
    Broadcast,
    Call,
    Cast,
    Choice,
    Const,
    Domain,
    DynamicRange,
    Expr,
    FreeTile,
    Load,
    MaskedLoad,
    PartitionedTile,
    PerfectTile,
    Ramp,
    Select,
    Shuffle,
    Symbol,
    Unary,
    Uniform,
    Var,
    dtype_of,
)
from mslang.ir.functions import FUNCTIONS
from mslang.ir.nodes import Annotations, AttrValue, Buffer, Param, Range, Region, Stmt, View, Within
from mslang.syntax.literals import quote

PACKED = "packed"
"""The word of a parameter whose layout differs from that of the caller's array."""

KEYWORDS = frozenset(
    {
        "use",
        "as",
        "const",
        "target",
        "program",
        "schedule",
        "rule",
        "fn",
        "space",
        "intrin",
        "test",
        "for",
        "on",
        "when",
        "desc",
        "impl",
        "block",
        "out",
        "inout",
        "let",
        "alloc",
        "view",
        "attr",
        "in",
        "where",
        "init",
        "reads",
        "writes",
        "if",
        "else",
        "while",
        "fork",
        "case",
        "require",
        "check",
        "snapshot",
        "return",
        "with",
        "and",
        "or",
        "not",
        "true",
        "false",
    }
)
"""The words of the grammar; a name that is one of them is written in backticks."""

_NAME = re.compile(r"[A-Za-z]\w*|_\w+")

CALLED = {
    "min": "min",
    "max": "max",
    "<<": "shift_left",
    ">>": "shift_right",
    "&": "bit_and",
    "|": "bit_or",
    "^": "bit_xor",
}
"""Operators of the IR that are written as calls of functions."""

_OR, _AND, _NOT, _COMPARE, _SUM, _TERM, _UNARY, _ATOM = range(8)
_LEVELS = {"or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _TERM, "/": _TERM, "//": _TERM, "%": _TERM}


def print_expr(e: Expr, dtype: str | None = None) -> str:
    """An expression, with the parentheses it needs.

    Args:
        e: the expression.
        dtype: the type that its surroundings give to a bare literal; None for none.
    """
    return _expr(e, dtype)[0]


def name_text(name: str) -> str:
    """A name as it is written: in backticks if it is a keyword or holds other characters than names do."""
    return name if _NAME.fullmatch(name) and name not in KEYWORDS else f"`{name}`"


# ------------------------------------------------------------------ expressions
def _expr(e: Expr, want: str | None) -> tuple[str, int]:
    """The text of an expression and how tightly it binds."""
    match e:
        case Const():
            return _const(e, want)
        case Var(name=n):
            return name_text(n), _ATOM
        case Symbol(name=n, position=k):
            return name_text(n) + ("" if k is None else f"[{k}]"), _ATOM
        case Load(buffer=b, indices=xs):
            return f"{name_text(b)}[{expr_list(xs, INDEX)}]", _ATOM
        case Select(condition=c, then=t, otherwise=o):
            then, otherwise = _operands(t, o, want)
            return f"select({print_expr(c)}, {then[0]}, {otherwise[0]})", _ATOM
        case Cast(dtype=d, operand=Const() as x):
            return f"{d}({_typed(x)})", _ATOM
        case Cast(dtype=d, operand=x):
            return f"{d}({print_expr(x)})", _ATOM
        case Unary(op="not", operand=x):
            return f"not {_at_least(_expr(x, 'bool'), _NOT)}", _NOT
        case Unary(operand=x):
            inner = _expr(x, want)
            return (f"-({inner[0]})" if isinstance(x, Const) else f"-{_at_least(inner, _UNARY)}"), _UNARY
        case Binary():
            return _binary(e, want)
        case Call(name=n, args=xs, dtype=d):
            return _call(n, xs, d, want), _ATOM
        case Ramp() | Broadcast() | Shuffle() | MaskedLoad():
            return _vector(e, want), _ATOM
    raise TypeError(f"not an expression: {e!r}")


def _vector(e: Ramp | Broadcast | Shuffle | MaskedLoad, want: str | None) -> str:
    match e:
        case Ramp(base=x, stride=k, lanes=n):
            return f"ramp({print_expr(x)}, {k}, {n})"
        case Broadcast(value=x, lanes=n):
            return f"broadcast({print_expr(x, want)}, {n})"
        case Shuffle(operands=xs, order=order):
            return f"shuffle({expr_list(xs, want)}, [{', '.join(map(str, order))}])"
        case MaskedLoad(buffer=b, indices=xs, mask=m):
            return f"masked({name_text(b)}[{expr_list(xs, INDEX)}], {print_expr(m)})"


def _at_least(text: tuple[str, int], level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def expr_list(xs: Iterable[Expr], dtype: str | None) -> str:
    """Expressions, comma between."""
    return ", ".join(print_expr(x, dtype) for x in xs)


def _const(c: Const, want: str | None) -> tuple[str, int]:
    if c.dtype == "bool":
        return ("true" if c.value else "false"), _ATOM
    if c.dtype == (want or INDEX):
        text = _number(c.value, c.dtype)
        return text, _UNARY if text.startswith("-") else _ATOM
    return _typed(c), _ATOM


def _typed(c: Const) -> str:
    return f"{c.dtype}({_number(c.value, c.dtype)})"


def _number(value: int | float | bool, dtype: str) -> str:
    found = parts(dtype)
    scalar = dtype if found is None else found.scalar
    if scalar == "bool":
        return "true" if value else "false"
    return _float(float(value)) if is_float(scalar) else str(int(value))


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return ("-inf" if value < 0 else "inf") if math.isinf(value) else repr(value)


def _is_literal(e: Expr) -> bool:
    """Whether nothing in an expression gives its literals a type."""
    match e:
        case Const(dtype=d):
            return d != "bool"
        case Unary(op="-", operand=x):
            return _is_literal(x)
        case Binary(op=op, left=a, right=b):
            return op not in COMPARISONS | LOGICAL and _is_literal(a) and _is_literal(b)
        case Select(then=a, otherwise=b):
            return _is_literal(a) and _is_literal(b)
        case Call(name=n, args=xs):
            return n in FUNCTIONS and not FUNCTIONS[n].truth and all(_is_literal(x) for x in xs)
    return False


def _operands(a: Expr, b: Expr, want: str | None) -> tuple[tuple[str, int], tuple[str, int]]:
    """Two operands of one type: where only one of them is made of literals, the other gives it its type."""
    if want is None and _is_literal(a) != _is_literal(b):
        return _expr(a, dtype_of(b) if _is_literal(a) else None), _expr(b, dtype_of(a) if _is_literal(b) else None)
    return _expr(a, want), _expr(b, want)


def _binary(e: Binary, want: str | None) -> tuple[str, int]:
    op = e.op
    if op in LOGICAL:
        level = _LEVELS[op]
        return (f"{_at_least(_expr(e.left, 'bool'), level)} {op} {_at_least(_expr(e.right, 'bool'), level + 1)}"), level
    a, b = _operands(e.left, e.right, None if op in COMPARISONS else want)
    if op in COMPARISONS:
        return f"{_at_least(a, _SUM)} {op} {_at_least(b, _SUM)}", _COMPARE
    if op in CALLED:
        return f"{CALLED[op]}({a[0]}, {b[0]})", _ATOM
    level = _LEVELS[op]
    return f"{_at_least(a, level)} {op} {_at_least(b, level + 1)}", level


def _call(name: str, args: tuple[Expr, ...], dtype: str, want: str | None) -> str:
    if not args:
        return f"{name}()"
    given = dtype_of(args[0])
    if len(args) == 2:
        a, b = _operands(args[0], args[1], want if given == dtype else None)
        return f"{name}({a[0]}, {b[0]})"
    return f"{name}({expr_list(args, want if given == dtype else None)})"


# ------------------------------------------------------------------ ranges, buffers, annotations
def between(r: Range) -> str:
    """A range as `start..stop`."""
    start, stop = _expr(r.start, INDEX), _expr(r.stop, INDEX)
    return f"{start[0]}..{stop[0]}" if start[1] == stop[1] == _ATOM else f"{start[0]} .. {stop[0]}"


def region_text(r: Region) -> str:
    """A region as `A[i, j .. j + 4]`."""
    dims = (print_expr(d.start, INDEX) if d.extent == ONE else between(d) for d in r.ranges)
    return f"{name_text(r.buffer)}[{', '.join(dims)}]"


def declared(b: Buffer, default_scope: str = "global") -> str:
    """A buffer as it is declared: `A: f32[4, 8] @ local`."""
    extras = []
    if b.strides is not None:
        extras.append(f"strides = [{expr_list(b.strides, INDEX)}]")
    if b.offset is not None:
        extras.append(f"offset = {print_expr(b.offset, INDEX)}")
    if b.align is not None:
        extras.append(f"align = {b.align}")
    arguments = f"({', '.join(extras)})" if extras else ""
    place = "" if b.scope == default_scope and not extras else f" @ {b.scope}{arguments}"
    return f"{name_text(b.name)}: {b.dtype}[{expr_list(b.shape, INDEX)}]{place}"


def param_text(q: Param) -> str:
    """A parameter as it is declared: `out C: f32[4]`, `at: i32[8] in 0..64 sorted`, `const W: f32[4]`,
    `W: f32[4, 2] = packed([8], fn (i) -> [i // 2, i % 2])`."""
    word = "const" if q.constant else "" if q.direction == "in" else q.direction
    text = f"{word} {declared(q.buffer)}".lstrip()
    text += "" if q.within is None else within_text(q.within, q.buffer.dtype)
    if q.packing is None:
        return text
    names = ", ".join(map(name_text, q.packing.params))
    pad = "" if q.packing.pad is None else f", pad = {print_expr(q.packing.pad, q.buffer.dtype)}"
    shape, results = expr_list(q.packing.shape, INDEX), expr_list(q.packing.results, INDEX)
    return f"{text} = {PACKED}([{shape}], fn ({names}) -> [{results}]{pad})"


def within_text(w: Within, dtype: str) -> str:
    """The range of a parameter's elements: ` in 0..N sorted`."""
    want = dtype if is_float(dtype) else INDEX
    low, high = _expr(w.low, want), _expr(w.high, want)
    dots = ".." if low[1] == high[1] == _ATOM else " .. "
    words = f"{' sorted' if w.sorted else ''}{' unique' if w.unique else ''}"
    return f" in {low[0]}{dots}{high[0]}{words}"


def kind_text(s: Stmt) -> str:
    """The kind of a statement, with its article: ``an `if```, ``a `store```."""
    name = type(s).__name__.lower()
    return f"{'an' if name[0] in 'aeiou' else 'a'} `{name}`"


def view_text(v: View, buffers: Mapping[str, Buffer]) -> str:
    """A `view` declaration; the scope stands there unless it is that of what is viewed."""
    source = buffers.get(v.source.buffer)
    return f"view {declared(v.buffer, 'none' if source is None else source.scope)} = {region_text(v.source)}"


def attr_value(v: AttrValue) -> str:
    """The value of an annotation. A number is the Python number, a typed literal the constant expression."""
    match v:
        case bool():
            return "true" if v else "false"
        case int():
            return str(v)
        case float():
            return _float(v)
        case str():
            return quote(v)
        case tuple():
            return f"[{', '.join(attr_value(x) for x in v)}]"
        case Const():
            return _typed(v)
    return print_expr(v)


def attrs(notes: Annotations) -> list[str]:
    """`attr` statements, one a line."""
    return [f"attr {quote(key)} = {attr_value(v)}" for key, v in notes]


def domain_text(d: Domain) -> str:
    """A domain as it is written in the header of a program."""

    def tile(kind: str, extent: Expr, *more: tuple[str, int | None]) -> str:
        given = (f"{name} = {v}" for name, v in more if v is not None)
        return f"{kind}({', '.join((print_expr(extent, INDEX), *given))})"

    match d:
        case DynamicRange(lo=lo, hi=hi, multiple=m, buckets=buckets):
            parts = [f"{lo}..{hi}", *([f"multiple = {m}"] if m != 1 else [])]
            parts += [f"buckets = [{', '.join(map(str, buckets))}]"] if buckets else []
            return f"dyn({', '.join(parts)})"
        case PerfectTile(extent=e, n=n, max_inner=cap):
            return tile("perfect_tile", e, ("n", n), ("max_inner", cap))
        case FreeTile(extent=e, n=n, max_inner=cap):
            return tile("tile", e, ("n", n), ("max_inner", cap))
        case PartitionedTile(extent=e, n=n, at=at, factor=f):
            return tile("partitioned_tile", e, ("n", n), ("at", at), ("factor", f))
        case Choice(values=vs, weights=ws):
            weights = "" if ws is None else f", [{', '.join(map(_float, ws))}]"
            return f"choose([{', '.join(map(str, vs))}]{weights})"
        case Uniform(lo=lo, hi=hi):
            return f"uniform({lo}, {hi})"
    raise TypeError(f"not a domain: {d!r}")
