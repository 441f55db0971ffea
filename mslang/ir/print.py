"""The long form: text of everything the IR can hold, which `mslang.sema.program.parse_program` reads back.

A literal stands bare where what it meets gives it its type (the other operand, the buffer stored to) or where it is
an `i64`; otherwise it is a typed literal, `f16(1.5)`. A function that is not the language's is written
`extern("name", f32, x)`. Regions are left out of blocks that are a single plain store.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from mslang.ir.dtype import INDEX, is_float, parts
from mslang.ir.expr import (
    COMPARISONS, FUNCTIONS, LOGICAL, ONE, TRUE, ZERO, Binary, Call, Cast, Choice, Const, Domain, DynamicRange, Expr,
    FreeTile, Load, PartitionedTile, PerfectTile, Select, Symbol, Unary, Uniform, Var, dtype_of,
)
from mslang.ir.program import (
    Annotations, AttrValue, Axis, Block, Buffer, Evaluate, For, If, Let, Program, Range, Region, Stmt, Store, View,
    While,
)
from mslang.ir.reduction import update_of
from mslang.ir.region import infer_regions, stop_of
from mslang.ir.symbols import symbols_of
from mslang.ir.visit import all_buffers, free_vars, walk
from mslang.syntax.literals import quote

WIDTH = 100
INDENT = "    "

KEYWORDS = frozenset({
    "use", "as", "const", "target", "program", "schedule", "rule", "fn", "space", "intrin", "test", "for", "on",
    "when", "desc", "impl", "block", "out", "inout", "let", "alloc", "view", "attr", "in", "where", "init",
    "reads", "writes", "if", "else", "while", "fork", "case", "require", "check", "snapshot", "return", "with",
    "and", "or", "not", "true", "false",
})
"""The words of the grammar; a name that is one of them is written in backticks."""

_NAME = re.compile(r"[A-Za-z]\w*|_\w+")

_CALLED = {"min": "min", "max": "max", "<<": "shift_left", ">>": "shift_right", "&": "bit_and", "|": "bit_or",
           "^": "bit_xor"}
_OR, _AND, _NOT, _COMPARE, _SUM, _TERM, _UNARY, _ATOM = range(8)
_LEVELS = {"or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _TERM, "/": _TERM, "//": _TERM, "%": _TERM}


def print_program(p: Program) -> str:
    """The long form of a program, with a header for its symbols; ends with a newline."""
    sizes = [f"{name_text(s.name)}: {_domain(s.domain)}" for s in symbols_of(p)]
    params = [("" if q.direction == "in" else q.direction + " ") + _declared(q.buffer) for q in p.params]
    head = f"program {name_text(p.name)}" + (f"[{', '.join(sizes)}]" if sizes else "")
    buffers = all_buffers(p)
    body = [*(f"alloc {_declared(b)}" for b in p.allocs), *_attrs(p.annotations), *_lines(p.body, buffers)]
    first = f"{head}({', '.join(params)}) {{"
    if len(first) > WIDTH and params:
        return "\n".join((f"{head}(", *(f"{INDENT}{q}," for q in params), ") {", *_indented(body), "}", ""))
    return "\n".join((first, *_indented(body), "}", ""))


def print_stmt(s: Stmt, buffers: Mapping[str, Buffer] | None = None) -> str:
    """The long form of one statement and what is in it.

    Args:
        s: the statement.
        buffers: the buffers by name; they decide which regions go without saying.
    """
    return "\n".join(_statement(s, buffers or {}))


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
            return f"{name_text(b)}[{_list(xs, INDEX)}]", _ATOM
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
    raise TypeError(f"not an expression: {e!r}")


def _at_least(text: tuple[str, int], level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def _list(xs: Iterable[Expr], dtype: str | None) -> str:
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
            return n in FUNCTIONS and all(_is_literal(x) for x in xs)
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
    if op in _CALLED:
        return f"{_CALLED[op]}({a[0]}, {b[0]})", _ATOM
    level = _LEVELS[op]
    return f"{_at_least(a, level)} {op} {_at_least(b, level + 1)}", level


def _call(name: str, args: tuple[Expr, ...], dtype: str, want: str | None) -> str:
    if FUNCTIONS.get(name) != len(args) or any(dtype_of(x) != dtype for x in args):
        return f"extern({', '.join((quote(name), dtype, *(print_expr(x) for x in args)))})"
    if len(args) == 2:
        a, b = _operands(args[0], args[1], want)
        return f"{name}({a[0]}, {b[0]})"
    return f"{name}({_list(args, want)})"


# ------------------------------------------------------------------ ranges, buffers, annotations
def _between(r: Range) -> str:
    start, stop = _expr(r.start, INDEX), _expr(stop_of(r), INDEX)
    return f"{start[0]}..{stop[0]}" if start[1] == stop[1] == _ATOM else f"{start[0]} .. {stop[0]}"


def _region(r: Region) -> str:
    dims = (print_expr(d.start, INDEX) if d.extent == ONE else _between(d) for d in r.ranges)
    return f"{name_text(r.buffer)}[{', '.join(dims)}]"


def _declared(b: Buffer, default_scope: str = "global") -> str:
    extras = []
    if b.strides is not None:
        extras.append(f"strides = [{_list(b.strides, INDEX)}]")
    if b.offset is not None:
        extras.append(f"offset = {print_expr(b.offset, INDEX)}")
    if b.align is not None:
        extras.append(f"align = {b.align}")
    arguments = f"({', '.join(extras)})" if extras else ""
    place = "" if b.scope == default_scope and not extras else f" @ {b.scope}{arguments}"
    return f"{name_text(b.name)}: {b.dtype}[{_list(b.shape, INDEX)}]{place}"


def _view(v: View, buffers: Mapping[str, Buffer]) -> str:
    source = buffers.get(v.source.buffer)
    return f"view {_declared(v.buffer, 'none' if source is None else source.scope)} = {_region(v.source)}"


def _attr_value(v: AttrValue) -> str:
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
            return f"[{', '.join(_attr_value(x) for x in v)}]"
        case Const():
            return _typed(v)
    return print_expr(v)


def _attrs(notes: Annotations) -> list[str]:
    return [f"attr {quote(key)} = {_attr_value(v)}" for key, v in notes]


def _domain(d: Domain) -> str:
    def tile(kind: str, extent: Expr, *more: tuple[str, int | None]) -> str:
        given = (f"{name} = {v}" for name, v in more if v is not None)
        return f"{kind}({', '.join((print_expr(extent, INDEX), *given))})"

    match d:
        case DynamicRange(lo=lo, hi=hi, multiple=m):
            return f"dyn({lo}..{hi}" + (f", multiple = {m})" if m != 1 else ")")
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


# ------------------------------------------------------------------ statements
def _indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line for line in lines]


def _lines(body: tuple[Stmt, ...], buffers: Mapping[str, Buffer]) -> list[str]:
    return [line for s in body for line in _statement(s, buffers)]


def _braced(head: str, body: list[str], one_line: bool = False) -> list[str]:
    """`head { body }`, on one line where that is asked for and fits."""
    if not body:
        return [head + " {}"]
    if one_line and len(body) == 1 and len(head) + len(body[0]) + 5 <= WIDTH:
        return [f"{head} {{ {body[0]} }}"]
    return [head + " {", *_indented(body), "}"]


def _statement(s: Stmt, buffers: Mapping[str, Buffer]) -> list[str]:
    match s:
        case Store():
            return [_store(s)]
        case Let(name=n, value=v, body=b):
            return [f"let {name_text(n)} = {print_expr(v)}", *_lines(b, buffers)]
        case If():
            return _if(s, buffers)
        case While(condition=c, body=b):
            return _braced(f"while {print_expr(c)}", _lines(b, buffers))
        case Evaluate(value=v):
            return [print_expr(v)]
        case For():
            return _for(s, buffers)
        case Block():
            return _block(s, buffers)
    raise TypeError(f"not a statement: {s!r}")


def _store(s: Store) -> str:
    target = f"{name_text(s.buffer)}[{_list(s.indices, INDEX)}]"
    match s.value:
        case Binary(op="+" | "*" as op, left=Load(buffer=b, indices=xs, dtype=d), right=value) if (
                (b, xs) == (s.buffer, s.indices)):
            return f"{target} {op}= {print_expr(value, d)}"
    return f"{target} = {print_expr(s.value, dtype_of(s.value))}"


def _if(s: If, buffers: Mapping[str, Buffer]) -> list[str]:
    lines = _braced(f"if {print_expr(s.condition)}", _lines(s.then, buffers))
    if not s.otherwise:
        return lines
    match s.otherwise:
        case (If() as chained,):
            first, *rest = _if(chained, buffers)
        case _:
            first, *rest = _braced("", _lines(s.otherwise, buffers))
            first = first.lstrip()
    return [*lines[:-1], f"{lines[-1]} else {first}", *rest]


def _for(s: For, buffers: Mapping[str, Buffer]) -> list[str]:
    """A loop and the loops it alone holds, on one line as far as they fit and do not depend on one another."""
    parts = [_loop(s)]
    outer = {s.var}
    while len(s.body) == 1 and isinstance(inner := s.body[0], For):
        text = _loop(inner)
        width = sum(map(len, parts)) + 2 * len(parts) + len(text) + 6
        if width > WIDTH or (free_vars(inner.start) | free_vars(inner.extent)) & outer:
            break
        parts.append(text)
        outer.add(inner.var)
        s = inner
    return _braced(f"for {', '.join(parts)}", _lines(s.body, buffers))


def _loop(s: For) -> str:
    domain = print_expr(s.extent, INDEX) if s.start == ZERO else _between(Range(s.start, s.extent))
    notes = ", ".join(f"{quote(key)} = {_attr_value(v)}" for key, v in s.annotations)
    place = "" if s.kind == "serial" and not notes else f" @ {s.kind}" + (f"({notes})" if notes else "")
    return f"{name_text(s.var)} in {domain}{place}"


def _block(b: Block, buffers: Mapping[str, Buffer]) -> list[str]:
    inside: list[str] = [f"alloc {_declared(x)}" for x in b.allocs]
    inside += [_view(v, buffers) for v in b.views]
    if not _goes_without_saying(b, buffers):
        inside += _wrapped("reads", [_region(r) for r in b.reads])
        inside += _wrapped("writes", [_region(r) for r in b.writes])
    if b.predicate != TRUE:
        inside.append(f"where {print_expr(b.predicate)}")
    inside += _attrs(b.annotations)
    if b.init is not None:
        inside += _braced("init", _lines(b.init, buffers), one_line=True)
    elif any(a.kind == "reduce" for a in b.axes) and any(
            isinstance(s, Store) and update_of(s) is not None for s in walk(b.body)):
        inside.append("init {}")
    plain = len(b.body) == 1 and isinstance(b.body[0], Store)
    return _braced(f"block {name_text(b.name)}{_axes(b.axes)}", [*inside, *_lines(b.body, buffers)], one_line=plain)


def _goes_without_saying(b: Block, buffers: Mapping[str, Buffer]) -> bool:
    plain = len(b.body) == 1 and isinstance(b.body[0], Store) and b.init is None
    return plain and infer_regions(b, buffers) == (b.reads, b.writes)


def _wrapped(head: str, items: list[str]) -> list[str]:
    """`head a, b, c` on as many lines as it takes."""
    if not items:
        return [f"{head} []"]
    lines = [head]
    for k, item in enumerate(items):
        text = item + ("," if k < len(items) - 1 else "")
        if len(lines[-1]) + len(text) + 1 > WIDTH and k > 0:
            lines.append(INDENT + text)
        else:
            lines[-1] += f" {text}"
    return lines


def _axes(axes: tuple[Axis, ...]) -> str:
    if not axes:
        return ""
    kinds = [a.kind for a in axes]
    split = kinds.index("reduce") if "reduce" in kinds else len(kinds)
    if any(k != "reduce" for k in kinds[split:]):
        split = len(kinds)
        shown = [_axis(a, "spatial") for a in axes]
    else:
        shown = [_axis(a, "spatial" if k < split else "reduce") for k, a in enumerate(axes)]
    front, back = ", ".join(shown[:split]), ", ".join(shown[split:])
    return f"[{front}{' | ' if front else '| '}{back}]" if back else f"[{front}]"


def _axis(a: Axis, default: str) -> str:
    place = "" if a.kind == default else f" @ {a.kind}"
    return f"{name_text(a.name)}: {print_expr(a.extent, INDEX)}{place} = {print_expr(a.binding, INDEX)}"
