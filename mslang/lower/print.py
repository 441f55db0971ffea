"""Kernels as text (`--stage loops`): a program after lowering."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ir.expr import Binary
from mslang.ir.program import Buffer, Evaluate, For, If, Let, Stmt, Store, While
from mslang.ir.text import print_expr
from mslang.lower.fold import fold
from mslang.lower.kernel import Allocate, Body, Invoke, Kernel, Within

_INDENT = "    "


def print_kernel(kernel: Kernel) -> str:
    """The kernel's loops and statements; ends with a newline."""
    params = ", ".join(("" if p.direction == "in" else p.direction + " ") + _declared(p.buffer) for p in kernel.params)
    sizes = f"[{', '.join(s.text for s in kernel.dynamic)}]" if kernel.dynamic else ""
    lines = [f"kernel {kernel.name}{sizes}({params}) {{", *_indented(kernel.body), "}"]
    return "\n".join(lines) + "\n"


def _declared(b: Buffer) -> str:
    strides = "" if b.strides is None else f"(strides = [{', '.join(map(print_expr, b.strides))}])"
    scope = "" if b.scope == "global" and not strides else f" @ {b.scope}{strides}"
    return f"{b.name}: {b.dtype}[{', '.join(map(print_expr, b.shape))}]{scope}"


def _indented(body: Body) -> list[str]:
    return [_INDENT + line for s in body for line in _lines(s)]


def _lines(s: Stmt) -> Iterator[str]:
    match s:
        case Store(buffer=b, indices=xs, value=v):
            yield f"{b}[{', '.join(map(print_expr, xs))}] = {print_expr(v)}"
        case For(var=v, start=start, extent=extent, kind=kind, body=body):
            place = "" if kind == "serial" else f" @ {kind}"
            yield f"for {v} in {print_expr(start)}..{print_expr(fold(Binary('+', start, extent)))}{place} {{"
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
            yield f"alloc {_declared(b)}"
            for x in body:
                yield from _lines(x)
        case Evaluate(value=v):
            yield print_expr(v)
        case Within(body=body):
            for x in body:
                yield from _lines(x)
        case Invoke(name=n, operands=xs):
            yield f"{n}({', '.join(map(print_expr, xs))})"
