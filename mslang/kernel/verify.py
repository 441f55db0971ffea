"""What a well-formed kernel is, for tests of passes and for those who write one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mslang.diagnostics import MsError, problem
from mslang.ir.dtype import INDEX
from mslang.ir.expr import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Expr,
    Load,
    MaskedLoad,
    Ramp,
    Select,
    Symbol,
    Unary,
    Var,
    children,
    dtype_of,
)
from mslang.ir.program import LOOP_KINDS, Buffer
from mslang.ir.text import print_expr
from mslang.kernel.lanes import lanes_of
from mslang.kernel.nodes import Allocate, Atomic, Barrier, Body, For, If, Let, Module, Prefetch, Stmt, Store, While
from mslang.kernel.visit import bodies, expressions

THREADS = frozenset(f"{a}.{d}" for a in ("blockIdx", "threadIdx") for d in "xyz")
"""The variables of a function that is launched."""


def verify(module: Module) -> None:
    """Check a module: names are bound, ranks, types and lanes agree.

    Raises:
        MsError: MS424, it is not well-formed; the first fault is named.
        TypeError: something in it is not a node of the kernel IR.
    """
    for fault in faults(module):
        raise MsError(problem("MS424", f"the kernel {module.name} is not well-formed", why=fault))


def faults(module: Module) -> Iterator[str]:
    """Everything that is wrong with a module, in words."""
    known = {p.buffer.name: p.buffer for p in module.params} | {b.name: b for b in module.workspaces}
    sizes = {s.text: INDEX for s in module.dynamic}
    if len({f.name for f in module.functions}) < len(module.functions):
        yield "two functions have one name"
    for f in module.functions:
        yield from (f"{f.name} takes {b.name}, which the module does not have" for b in f.params if b.name not in known)
        names = dict(sizes) if f.launch is None else sizes | dict.fromkeys(THREADS, INDEX)
        yield from _body(f.body, names, {b.name: b for b in f.params})


def _body(body: Body, names: Mapping[str, str], buffers: Mapping[str, Buffer]) -> Iterator[str]:
    for s in body:
        inside, around = dict(names), dict(buffers)
        for e in expressions(s):
            yield from _expression(e, names, buffers)
        yield from _statement(s, buffers)
        match s:
            case For(var=n):
                inside[n] = INDEX
            case Let(name=n, value=v):
                inside[n] = _spelled(dtype_of(v), _lanes_or_one(v))
            case Allocate(buffer=b):
                around[b.name] = b
        for part in bodies(s):
            yield from _body(part, inside, around)


def _statement(s: Stmt, buffers: Mapping[str, Buffer]) -> Iterator[str]:
    match s:
        case Store(buffer=b, indices=xs, value=v, mask=mask):
            yield from _access(b, xs, dtype_of(v), buffers)
            yield from _lanes(*xs, v, *(() if mask is None else (mask,)))
            if mask is not None and dtype_of(mask) != "bool":
                yield f"the mask `{print_expr(mask)}` is {dtype_of(mask)}"
        case Atomic(op=op, buffer=b, indices=xs, value=v):
            yield from _access(b, xs, dtype_of(v), buffers)
            if op not in ("+", "min", "max", "&", "|", "^"):
                yield f"`{op}` is not atomic"
        case For(var=v, start=start, extent=extent, kind=kind):
            yield from (f"the bounds of `{v}` are not indices" for e in (start, extent) if dtype_of(e) != INDEX)
            if kind not in LOOP_KINDS:
                yield f"the loop `{v}` is of the unknown kind `{kind}`"
        case If(condition=c) | While(condition=c):
            if dtype_of(c) != "bool" or lanes_of(c) > 1:
                yield f"the condition `{print_expr(c)}` is not one bool"
        case Prefetch(buffer=b, indices=xs):
            known = buffers.get(b)
            yield from _access(b, xs, "" if known is None else known.dtype, buffers)
        case Barrier(scope=scope):
            if scope not in ("block", "warp"):
                yield f"a barrier of the unknown scope `{scope}`"


def _expression(e: Expr, names: Mapping[str, str], buffers: Mapping[str, Buffer]) -> Iterator[str]:
    for x in children(e):
        yield from _expression(x, names, buffers)
    match e:
        case Var(name=n, dtype=d, lanes=lanes):
            if n not in names:
                yield f"`{n}` is not bound here"
            elif names[n] != _spelled(d, lanes):
                yield f"`{n}` is {names[n]}, not {_spelled(d, lanes)}"
        case Symbol():
            if e.text not in names:
                yield f"`{e.text}` is not a size of the kernel"
        case Load(buffer=b, indices=xs, dtype=d) | MaskedLoad(buffer=b, indices=xs, dtype=d):
            yield from _access(b, xs, d, buffers)
            yield from _lanes(*children(e))
        case Ramp(base=x) | Broadcast(value=x):
            if lanes_of(x) > 1:
                yield f"`{print_expr(e)}` is made of a vector"
        case Binary() | Unary() | Select() | Cast() | Call():
            yield from _lanes(*children(e))


def _access(buffer: str, indices: tuple[Expr, ...], dtype: str, buffers: Mapping[str, Buffer]) -> Iterator[str]:
    known = buffers.get(buffer)
    if known is None:
        yield f"there is no buffer `{buffer}` here"
    elif len(indices) != len(known.shape):
        yield f"`{buffer}` has {len(known.shape)} dimensions and is accessed with {len(indices)} indices"
    elif dtype != known.dtype:
        yield f"`{buffer}` holds {known.dtype} and is accessed as {dtype}"


def _spelled(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{lanes} lanes of {dtype}"


def _lanes_or_one(e: Expr) -> int:
    try:
        return lanes_of(e)
    except ValueError:
        return 1  # reported where it stands


def _lanes(*parts: Expr) -> Iterator[str]:
    try:
        found = {n for x in parts if (n := lanes_of(x)) > 1}
    except ValueError as error:
        yield str(error)
        return
    if len(found) > 1:
        yield f"vectors of {' and '.join(map(str, sorted(found)))} lanes meet: " + ", ".join(map(print_expr, parts))
