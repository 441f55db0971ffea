"""The long form: text of everything the IR can hold, which `mslang.sema.program.parse_program` reads back.

Regions are left out of blocks that are a single plain store; `init {}` says that an update starts from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mslang.diagnostics import bounded_depth
from mslang.ir.dtype import INDEX
from mslang.ir.expr import TRUE, ZERO, Binary, Load, dtype_of
from mslang.ir.find import all_buffers
from mslang.ir.initial import inferred_init
from mslang.ir.nodes import Axis, Block, Buffer, Evaluate, For, If, Let, Range, Stmt, Store, While
from mslang.ir.reduction import update_of
from mslang.ir.region import infer_regions
from mslang.ir.symbols import symbols_of
from mslang.ir.text import (
    attr_value,
    attrs,
    between,
    declared,
    domain_text,
    expr_list,
    name_text,
    param_text,
    print_expr,
    region_text,
    view_text,
)
from mslang.ir.visit import free_vars, walk
from mslang.syntax.literals import quote

if TYPE_CHECKING:
    from mslang.ir.program import Program

WIDTH = 100
INDENT = "    "


def print_program(p: Program) -> str:
    """The long form of a program, with a header for its symbols; ends with a newline.

    Raises:
        MsError: MS705, it is nested so deeply that it has no text.
    """
    with bounded_depth(f"program `{p.name}`"):
        return _program(p)


def _program(p: Program) -> str:
    sizes = [f"{name_text(s.name)}: {domain_text(s.domain)}" for s in symbols_of(p)]
    params = [param_text(q) for q in p.params]
    head = f"program {name_text(p.name)}"
    if sizes:
        head = _listed(head, "[", sizes, "]")
    buffers = all_buffers(p)
    body = [*(f"alloc {declared(b)}" for b in p.allocs), *attrs(p.annotations), *_lines(p.body, buffers)]
    return "\n".join((_listed(head, "(", params, ") {"), *_indented(body), "}", ""))


def _listed(head: str, opening: str, items: list[str], closing: str) -> str:
    """`head(a, b)`, or an item a line if that is too long."""
    short = f"{head}{opening}{', '.join(items)}{closing}"
    if len(short) - short.rfind("\n") - 1 <= WIDTH or not items:
        return short
    return "\n".join((head + opening, *(f"{INDENT}{x}," for x in items), closing))


def print_stmt(s: Stmt, buffers: Mapping[str, Buffer] | None = None) -> str:
    """The long form of one statement and what is in it.

    Args:
        s: the statement.
        buffers: the buffers by name; they decide which regions go without saying.
    """
    return "\n".join(_statement(s, buffers or {}))


# ------------------------------------------------------------------ statements
def _indented(lines: Iterable[str]) -> list[str]:
    return [INDENT + line for line in lines]


def _lines(body: tuple[Stmt, ...], buffers: Mapping[str, Buffer]) -> list[str]:
    return [line for s in body for line in _statement(s, buffers)]


def _braced(head: str, body: list[str], one_line: bool = False) -> list[str]:
    """`head { body }`, on one line if that is requested and fits."""
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
    target = f"{name_text(s.buffer)}[{expr_list(s.indices, INDEX)}]"
    match s.value:
        case Binary(op="+" | "*" as op, left=Load(buffer=b, indices=xs, dtype=d), right=value) if (b, xs) == (
            s.buffer,
            s.indices,
        ):
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
    domain = print_expr(s.extent, INDEX) if s.start == ZERO else between(Range(s.start, s.extent))
    notes = ", ".join(f"{quote(key)} = {attr_value(v)}" for key, v in s.annotations)
    place = "" if s.kind == "serial" and not notes else f" @ {s.kind}" + (f"({notes})" if notes else "")
    return f"{name_text(s.var)} in {domain}{place}"


def _block(b: Block, buffers: Mapping[str, Buffer]) -> list[str]:
    inside: list[str] = [f"alloc {declared(x)}" for x in b.allocs]
    inside += [view_text(v, buffers) for v in b.views]
    if not _goes_without_saying(b, buffers):
        inside += _wrapped("reads", [region_text(r) for r in b.reads])
        inside += _wrapped("writes", [region_text(r) for r in b.writes])
    if b.predicate != TRUE:
        inside.append(f"where {print_expr(b.predicate)}")
    inside += attrs(b.annotations)
    if b.init is not None:
        inside += _braced("init", _lines(b.init, buffers), one_line=True)
    elif _seems_to_start(b):
        inside.append("init {}")
    plain = len(b.body) == 1 and isinstance(b.body[0], Store)
    return _braced(f"block {name_text(b.name)}{_axes(b.axes)}", [*inside, *_lines(b.body, buffers)], one_line=plain)


def _seems_to_start(b: Block) -> bool:
    """Whether an init would be inferred, or required, if there were none."""
    if not any(a.kind == "reduce" for a in b.axes):
        return False
    updates = any(isinstance(s, Store) and update_of(s) is not None for s in walk(b.body))
    return updates or inferred_init(b.body, b.axes, frozenset()) is not None


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


__all__ = ["print_expr", "print_program", "print_stmt"]
