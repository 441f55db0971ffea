"""Blocks of TVMScript and their axes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslang.diagnostics import MsError
from mslang.interop.block_names import other_name
from mslang.interop.closed import Loop, closed, size_bound
from mslang.interop.tvmscript.call_arguments import bound, dotted, needed
from mslang.interop.tvmscript.frame import Frame
from mslang.interop.tvmscript.names import AXES
from mslang.interop.tvmscript.scope import Scope
from mslang.interop.tvmscript.source import refuse, refusing, text_of
from mslang.interop.tvmscript.values import Number, as_index, index, promoted
from mslang.ir.arith import Verdict, covers, simplify
from mslang.ir.expr import TRUE, ZERO, Binary, Expr, Var
from mslang.ir.program import Annotations, Axis, Block, Buffer, Range, Region
from mslang.ir.region import Regions, infer_regions, range_between, resolved
from mslang.transform.rewriting.rewrite import substitute_loops

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements


def block(made: Statements, s: ast.With, call: ast.Call, inside: list[ast.stmt], scope: Scope) -> Block:
    """`with T.sblock("name"): …`."""
    given = bound(call, "name", "**").get("name")
    text = "block" if given is None else made.read.value(given, scope)
    if not isinstance(text, str):
        raise refuse("MS733", call, "the name of a block is a text")
    name = made.names.declared(text, other_name(text) if text in made.declared.buffers else None)
    if made.block_names.setdefault(text, name) != name:
        made.shared_names.add(text)
    frame = Frame()
    inner = scope.inner()
    body = made.body(inside, inner, frame)
    if frame.instruction is not None and body != frame.instruction:
        raise refuse("MS731", s, f"`{text}` does more than its instruction", help="put the instruction into a block")
    if frame.init:
        # The init runs where all reduction axes are 0.
        first: dict[str, Expr] = {a.name: ZERO for a in frame.axes if a.kind == "reduce"}
        frame.init = substitute_loops(frame.init, first, None)
    whole = Block(
        name,
        tuple(frame.axes),
        frame.reads or (),
        frame.writes or (),
        body,
        frame.init or None,
        TRUE if frame.predicate is None else frame.predicate,
        tuple(frame.allocs),
        tuple(frame.views),
        frame.notes,
    )
    with refusing(s):
        whole = closed(whole, scope.outer, lambda n: made.names.inside(n, (*scope.outer, *made.names.local)))
    try:
        return _with_regions(whole, frame, made)
    except MsError as error:
        d = error.diagnostic
        raise refuse(
            d.code, s, f"cannot determine what the block `{name}` accesses: {d.message}", d.why, d.help
        ) from None


def around(
    made: Statements, at: ast.Call, name: str, notes: Annotations, inside: list[ast.stmt], scope: Scope
) -> Block:
    """A block without axes of its own around statements, to carry annotations."""
    frame = Frame()
    body = made.body(inside, scope.inner(), frame)
    if frame.axes or frame.init is not None or frame.predicate is not None:
        raise refuse("MS731", at, f"`{text_of(at)}` tears a block apart", help="put it around the block")
    own = made.names.declared(name, f"{name}_block")
    whole = Block(own, (), (), (), body, None, TRUE, tuple(frame.allocs), tuple(frame.views), notes)
    with refusing(at):
        whole = closed(whole, scope.outer, lambda n: made.names.inside(n, (*scope.outer, *made.names.local)))
        return _with_regions(whole, frame, made)


def _with_regions(b: Block, frame: Frame, made: Statements) -> Block:
    """The block with its missing regions inferred. TVM trusts a block's declarations; here they are completed by the
    accesses of its body."""
    buffers = made.declared.buffers
    reads, writes = infer_regions(b, buffers)
    return replace(
        b,
        reads=reads if frame.reads is None else _completed(b.reads, reads, b, buffers),
        writes=writes if frame.writes is None else _completed(b.writes, writes, b, buffers),
    )


def _completed(said: Regions, found: Regions, b: Block, buffers: Mapping[str, Buffer]) -> Regions:
    ranges = {a.name: Range(ZERO, a.extent) for a in b.axes}
    said = tuple(Region(r.buffer, resolved(r.ranges, buffers.get(r.buffer))) for r in said)
    missing = (
        r
        for r in found
        if all(d.buffer != r.buffer or covers(d.ranges, r.ranges, ranges) is Verdict.REFUTED for d in said)
    )
    return (*said, *missing)


def declare_axes(made: Statements, target: ast.expr, call: ast.Call, scope: Scope, frame: Frame) -> None:
    """`vi = T.axis.spatial(16, i)`, `vi, vj = T.axis.remap("SR", [i, j])`."""
    if frame.function:
        raise refuse("MS733", call, "an axis stands in a block")
    name = (dotted(call.func, made.read.aliases) or "").removeprefix("axis.")
    if name == "remap":
        _remap(made, target, call, scope, frame)
        return
    found = bound(call, "dom", "binding", "dtype")
    if name not in AXES or not isinstance(target, ast.Name) or "dom" not in found or "binding" not in found:
        raise refuse("MS733", call, f"`{text_of(call)}` is not an axis")
    over, dtype = _domain(made, found["dom"], scope)
    binding = made.read.number(found["binding"], scope)
    _axis(made, target, over, AXES[name], binding, dtype, call, scope, frame)


def _domain(made: Statements, e: ast.expr, scope: Scope) -> tuple[Range, str]:
    if isinstance(e, ast.Call) and dotted(e.func, made.read.aliases) == "Range":
        e = ast.copy_location(ast.Tuple(e.args, ast.Load()), e)
    match made.read.value(e, scope):
        case Number() as n:
            return Range(ZERO, as_index(n, e)), n.dtype
        case (Number() as a, Number() as b):
            return range_between(as_index(a, e), as_index(b, e)), promoted(a.dtype, b.dtype, e)
    raise refuse("MS733", e, f"`{text_of(e)}` is not a range of an axis")


def _remap(made: Statements, target: ast.expr, call: ast.Call, scope: Scope, frame: Frame) -> None:
    found = bound(call, "kinds", "bindings", "dtype")
    kinds = made.read.value(needed(call, found, "kinds"), scope)
    bindings = made.read.value(needed(call, found, "bindings"), scope)
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if not isinstance(kinds, str) or not isinstance(bindings, tuple) or len(kinds) != len(bindings):
        raise refuse("MS733", call, f"`{text_of(call)}` has not one kind for each binding")
    if len(targets) != len(kinds) or set(kinds) - {"S", "R"}:
        raise refuse("MS733", call, f"`{text_of(target)}` does not name {len(kinds)} axes of kinds S and R")
    for t, kind, n in zip(targets, kinds, bindings, strict=True):
        loop = scope.outer.get(n.expr.name) if isinstance(n, Number) and isinstance(n.expr, Var) else None
        if not isinstance(n, Number) or not isinstance(loop, Loop) or not isinstance(t, ast.Name):
            raise refuse("MS733", call, "`remap` binds axes to loops", help="use `T.axis.spatial(extent, binding)`")
        _axis(made, t, Range(loop.start, loop.extent), AXES[kind], n, n.dtype, call, scope, frame)


def _axis(
    made: Statements,
    target: ast.Name,
    over: Range,
    kind: str,
    binding: Number,
    dtype: str,
    at: ast.AST,
    scope: Scope,
    frame: Frame,
) -> None:
    """Our axes start at 0; if TVM's does not, its name denotes the sum of axis and start."""
    name = made.names.inside(target.id, scope.outer)
    with refusing(at):
        extent = size_bound(scope.expanded(over.extent), scope.ranges())
    bound_to = as_index(binding, at)
    value: Expr = Var(name)
    if over.start != ZERO:
        bound_to = simplify(Binary("-", bound_to, over.start), scope.ranges())
        value = Binary("+", value, over.start)
    frame.axes.append(Axis(name, extent, kind, bound_to))
    scope.outer[name] = Loop(ZERO, extent, kind)
    scope.bind(target.id, index(value, _width(dtype, binding.dtype, at)))


def _width(a: str, b: str, at: ast.AST) -> str:
    return "i64" if "i64" in (a, b) else "i32"
