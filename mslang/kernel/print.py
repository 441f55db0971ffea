"""Kernels as text: what `mslang show --stage` prints of a program while it is lowered."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ir.expr import ZERO, Binary, Const, Expr
from mslang.ir.text import declared, print_expr
from mslang.kernel.nodes import (
    Allocate,
    Atomic,
    Barrier,
    Body,
    Evaluate,
    For,
    Function,
    If,
    Invoke,
    Let,
    Module,
    Prefetch,
    Stmt,
    Store,
    While,
    Within,
)

_INDENT = "    "


def print_module(module: Module) -> str:
    """The module's functions; ends with a newline."""
    params = ", ".join(("" if p.direction == "in" else p.direction + " ") + declared(p.buffer) for p in module.params)
    sizes = f"[{', '.join(s.text for s in module.dynamic)}]" if module.dynamic else ""
    lines = [f"kernel {module.name}{sizes}({params}) {{"]
    lines += [f"{_INDENT}workspace {declared(b)}" for b in module.workspaces]
    if len(module.functions) == 1 and module.functions[0].launch is None:
        lines += _indented(module.functions[0].body)
    else:
        lines += [_INDENT + line for f in module.functions for line in _function(f)]
    return "\n".join((*lines, "}")) + "\n"


def print_body(body: Body) -> str:
    """Statements as they stand in a function; ends with a newline."""
    return "".join(f"{line}\n" for s in body for line in _lines(s))


def _function(f: Function) -> Iterator[str]:
    where = ""
    if f.launch is not None:
        grid, block = (f"({', '.join(map(print_expr, x))})" for x in (f.launch.grid, f.launch.block))
        shared = f", {print_expr(f.launch.dynamic_shared)} bytes" if f.launch.dynamic_shared != ZERO else ""
        where = f" @ launch(grid {grid}, block {block}{shared})"
    yield f"function {f.name}({', '.join(b.name for b in f.params)}){where} {{"
    yield from _indented(f.body)
    yield "}"


def _indented(body: Body) -> list[str]:
    return [_INDENT + line for s in body for line in _lines(s)]


def _element(buffer: str, indices: tuple[Expr, ...]) -> str:
    return f"{buffer}[{', '.join(map(print_expr, indices))}]"


def _end(s: For) -> Expr:
    match s.start, s.extent:
        case Const(value=a), Const(value=n):
            return Const(int(a) + int(n))
        case start, Binary(op="-", left=end, right=other) if other == start:
            return end
    return s.extent if s.start == ZERO else Binary("+", s.start, s.extent)


def _lines(s: Stmt) -> Iterator[str]:
    match s:
        case Store(buffer=b, indices=xs, value=v, mask=mask, stream=stream):
            where = "" if mask is None else f" where {print_expr(mask)}"
            how = "stream " if isinstance(stream, Const) and stream.value > 0 else ""
            yield f"{how}{_element(b, xs)} = {print_expr(v)}{where}"
        case For(var=v, start=start, kind=kind, body=body):
            place = "" if kind == "serial" else f" @ {kind}"
            yield f"for {v} in {print_expr(start)}..{print_expr(_end(s))}{place} {{"
            yield from _indented(body)
            yield "}"
        case If(condition=c, then=then, otherwise=otherwise):
            yield f"if {print_expr(c)} {{"
            yield from _indented(then)
            if otherwise:
                yield "} else {"
                yield from _indented(otherwise)
            yield "}"
        case While(condition=c, body=body):
            yield f"while {print_expr(c)} {{"
            yield from _indented(body)
            yield "}"
        case Let(name=n, value=v, body=body):
            yield f"let {n} = {print_expr(v)}"
            for x in body:
                yield from _lines(x)
        case Allocate(buffer=b, body=body):
            yield f"alloc {declared(b)}"
            for x in body:
                yield from _lines(x)
        case Evaluate(value=v):
            yield print_expr(v)
        case Within(body=body):
            for x in body:
                yield from _lines(x)
        case Invoke(name=n, operands=xs):
            yield f"{n}({', '.join(map(print_expr, xs))})"
        case Barrier(scope=scope):
            yield f"barrier({scope})"
        case Atomic(op=op, buffer=b, indices=xs, value=v):
            yield f"atomic {_element(b, xs)} {op}= {print_expr(v)}"
        case Prefetch(buffer=b, indices=xs):
            yield f"prefetch {_element(b, xs)}"
        case _:
            raise TypeError(f"not a statement of a kernel: {s!r}")
