"""Loops of TVMScript."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import msgspec

from mslang.interop.closed import Loop
from mslang.interop.sizes import iterations
from mslang.interop.tvmscript.call_arguments import bound, dotted
from mslang.interop.tvmscript.frame import Frame, notes_of
from mslang.interop.tvmscript.jumps import breaks
from mslang.interop.tvmscript.names import LOOPS
from mslang.interop.tvmscript.scope import Scope, Value
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import Number, as_index, constant, index, literal, promoted
from mslang.ir.expr import FALSE, Binary, Const, Expr, Var
from mslang.ir.program import LOOP_KINDS, Annotations, For, Stmt, Store
from mslang.ir.region import range_between

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements


class _Header(msgspec.Struct, frozen=True):
    """One loop before it is named: `start`, `start + step`, … (`extent` of them)."""

    start: Expr
    extent: Expr
    dtype: str
    kind: str = "serial"
    step: int = 1
    annotations: Annotations = ()


def loops(made: Statements, s: ast.For, scope: Scope, frame: Frame) -> tuple[Stmt, ...]:
    """A `for` statement: one loop, or several with `T.grid`."""
    headers = _headers(made, s.iter, scope)
    inner = scope.inner()
    variables = _variables(s.target, len(headers))
    bound_loops: list[tuple[str, _Header]] = []
    values: list[Value] = []
    for name, h in zip(variables, headers, strict=True):
        var = made.names.loop(name, inner.outer)
        stepped = h.step != 1
        value: Expr = Var(var)
        if stepped:
            value = Binary("+", h.start, Binary("*", Var(var), Const(h.step)))
        start = Const(0) if stepped else h.start
        inner.outer[var] = Loop(scope.expanded(start), scope.expanded(h.extent), "opaque")
        values.append(index(value, h.dtype))
        bound_loops.append((var, h))
    match s.target:
        case ast.Name(id=name) if len(headers) == 1:
            inner.bind(name, values[0])
        case ast.Name(id=name):
            inner.bind(name, tuple(values))
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for t, v in zip(targets, values, strict=True):
                assert isinstance(t, ast.Name)
                inner.bind(t.id, v)
    stop = breaks(s.body)
    if stop is not None and (len(bound_loops) > 1 or headers[0].kind != "serial"):
        raise refuse("MS731", stop, "`break` ends a single serial loop here")
    body, flag = made.stopping(s.body, inner, frame)
    for var, h in reversed(bound_loops):
        body = (For(var, h.extent, body, h.kind, Const(0) if h.step != 1 else h.start, h.annotations),)
    return body if flag is None else (Store(flag.name, (), FALSE), *body)


def launched(made: Statements, name: str, tag: Value, size: ast.expr, call: ast.Call, scope: Scope) -> For:
    """`x = T.launch_thread("threadIdx.x", 32)`: a loop of threads, without its body."""
    kind = {"vthread": "vthread.x"}.get(tag, tag) if isinstance(tag, str) else ""
    if kind not in LOOP_KINDS:
        raise refuse("MS731", call, f"there is no thread {tag!r} here", f"there are {', '.join(sorted(LOOP_KINDS))}")
    n = made.read.number(size, scope)
    extent = as_index(n, call)
    var = made.names.loop(name, scope.outer)
    scope.outer[var] = Loop(Const(0), scope.expanded(extent), "opaque")
    scope.bind(name, index(Var(var), _width(n.dtype, "i32", call)))
    return For(var, extent, (), kind)


def _variables(target: ast.expr, number: int) -> list[str]:
    match target:
        case ast.Name(id=name) if number == 1:
            return [name]
        case ast.Name(id=name):
            return [f"{name}_{k}" for k in range(number)]
        case ast.Tuple(elts=targets) | ast.List(elts=targets) if len(targets) == number:
            names = [t.id for t in targets if isinstance(t, ast.Name)]
            if len(names) == number:
                return names
    raise refuse("MS733", target, f"`{text_of(target)}` does not name {number} loops")


def _headers(made: Statements, e: ast.expr, scope: Scope) -> list[_Header]:
    read = made.read
    if not isinstance(e, ast.Call):
        raise refuse("MS731", e, f"a loop does not run over `{text_of(e)}` here")
    if isinstance(e.func, ast.Name) and e.func.id == "range":
        return [_counted(made, e, e.args, "serial", scope)]
    name = dotted(e.func, read.aliases)
    if name == "grid":
        return [_extent(v, e) for v in read.values(e.args, scope)]
    if name == "thread_binding":
        found = bound(e, "start", "stop", "thread", "annotations", "dtype")
        if isinstance(found.get("stop"), ast.Constant) and "thread" not in found:
            found["thread"] = found.pop("stop")
        tag = read.value(found["thread"], scope) if "thread" in found else None
        kind = {"vthread": "vthread.x"}.get(tag, tag) if isinstance(tag, str) else ""
        if kind not in LOOP_KINDS or "start" not in found:
            raise refuse("MS731", e, f"there is no thread {tag!r} here", f"there are {', '.join(sorted(LOOP_KINDS))}")
        between = [found["start"], *([found["stop"]] if "stop" in found else [])]
        return [_counted(made, e, between, kind, scope, found.get("annotations"))]
    if name is not None and name in LOOPS:
        found = bound(e, "start", "stop", "annotations", "step", "dtype")
        between = [found[k] for k in ("start", "stop") if k in found]
        if "step" in found:
            between = [*between, found["step"]] if len(between) == 2 else []
        return [_counted(made, e, between, LOOPS[name], scope, found.get("annotations"))]
    raise refuse("MS731", e, f"a loop does not run over `{text_of(e)}` here")


def _extent(value: Value, at: ast.expr) -> _Header:
    match value:
        case Number():
            return _Header(Const(0), iterations(as_index(value, at)), _width(value.dtype, "i32", at))
        case (Number() as a, Number() as b):
            return _between(a, b, 1, "serial", (), at)
    raise refuse("MS733", at, f"`{text_of(at)}` has an extent that is not a number")


def _counted(
    made: Statements, e: ast.Call, given: list[ast.expr], kind: str, scope: Scope, notes: ast.expr | None = None
) -> _Header:
    numbers = [made.read.number(x, scope) for x in given]
    held = () if notes is None or isinstance(notes, ast.Constant) else notes_of(made.read, notes, scope)
    match numbers:
        case [stop]:
            return _between(literal(0), stop, 1, kind, held, e)
        case [start, stop]:
            return _between(start, stop, 1, kind, held, e)
        case [start, stop, by]:
            step = constant(by)
            if isinstance(step, int) and step > 0:
                return _between(start, stop, step, kind, held, e)
            raise refuse("MS731", e, "a loop counts up by a constant")
    raise refuse("MS733", e, f"`{text_of(e)}` does not say from where to where the loop runs")


def _between(a: Number, b: Number, step: int, kind: str, notes: Annotations, at: ast.expr) -> _Header:
    over = range_between(as_index(a, at), as_index(b, at))
    extent = iterations(over.extent)
    if step != 1:
        rounded = Binary("+", extent, Const(step - 1))
        extent = Const(-(-extent.value // step)) if isinstance(extent, Const) else Binary("//", rounded, Const(step))
    return _Header(over.start, extent, _width(a.dtype, b.dtype, at), kind, step, notes)


def _width(a: str, b: str, at: ast.expr) -> str:
    found = promoted(a, b, at)
    return "i64" if found in ("i64", "u64") else "i32"
