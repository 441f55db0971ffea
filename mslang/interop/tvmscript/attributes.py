"""Attributes of statements in TVMScript (`T.attr(node, key, value)`), and threads named before they are launched."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mslang.interop.tvmscript.blocks import around
from mslang.interop.tvmscript.call_arguments import bound, dotted, needed
from mslang.interop.tvmscript.frame import Frame, annotation, check_closed
from mslang.interop.tvmscript.loops import launched
from mslang.interop.tvmscript.scope import Array, Pointer, Scope, Thread
from mslang.interop.tvmscript.source import refuse, text_of
from mslang.interop.tvmscript.values import Number
from mslang.ir.expr import Const
from mslang.ir.program import Annotations, AttrValue, For, Stmt

if TYPE_CHECKING:
    from mslang.interop.tvmscript.statements import Statements

_SEQUENTIAL = (
    "async_scope",
    "async_commit_queue_scope",
    "async_wait_queue_scope",
    "async_wait_inflight_count",
    "double_buffer_scope",
    "double_buffer_write",
    "device_id",
    "device_scope",
    "device_type",
    "target",
)
"""Attributes that say where or when statements run, which does not change what they compute in order."""
_HINTS = "pragma_"
LAUNCHES = frozenset({"attr", "launch_thread"})
"""Calls that apply to the remainder of a body, unless they stand in a `with`."""


def applies_to_rest(s: ast.stmt, aliases: frozenset[str]) -> ast.Call | None:
    """The call of a statement that applies to the statements after it."""
    match s:
        case ast.Expr(value=ast.Call(func=func) as call) if dotted(func, aliases) in LAUNCHES:
            return call
    return None


def attributed(made: Statements, call: ast.Call, inside: list[ast.stmt], scope: Scope, frame: Frame) -> Stmt:
    """Statements under an attribute: a loop for the extent of a thread, otherwise a block that carries it as an
    annotation.

    Raises:
        MsError: MS731, the attribute changes what is computed, or is unknown.
    """
    found = bound(call, "node", "attr_key", "value", "**")
    key = made.read.value(needed(call, found, "attr_key"), scope)
    node, value = needed(call, found, "node"), needed(call, found, "value")
    if key == "thread_extent":
        return launch(made, node, value, call, inside, scope, frame)
    if not isinstance(key, str) or not (key in _SEQUENTIAL or key.startswith(_HINTS)):
        raise refuse("MS731", call, f"the attribute {text_of(needed(call, found, 'attr_key'))} has no counterpart here")
    return around(made, call, key, _notes(made, key, node, value, scope), inside, scope)


def launch(
    made: Statements,
    thread: ast.expr,
    extent: ast.expr,
    at: ast.Call,
    inside: list[ast.stmt],
    scope: Scope,
    frame: Frame,
    target: ast.expr | None = None,
) -> For:
    """The loop of a thread: of a tag (`"threadIdx.x"`), or of a name that `T.env_thread` gave it."""
    inner = scope.inner()
    tag = made.read.value(thread, inner)
    named = next((e.id for e in (target, thread) if isinstance(e, ast.Name)), str(tag).replace(".", "_"))
    loop = launched(made, named, tag.tag if isinstance(tag, Thread) else tag, extent, at, inner)
    if isinstance(tag, Thread) and tag.var is not None:
        inner.bind(tag.var, inner.names[named])
    return replace(loop, body=made.body(inside, inner, frame))


def _notes(made: Statements, key: str, node: ast.expr, value: ast.expr, scope: Scope) -> Annotations:
    said = annotation(made.read, value, scope)
    of = _node(made, node, scope)
    notes: Annotations = ((key, said if of is None else (of, said)),)
    check_closed(notes, value)
    return notes


def _node(made: Statements, e: ast.expr, scope: Scope) -> AttrValue | None:
    """What an attribute is about: a buffer, or a text; None for the number 0, which stands for nothing."""
    if isinstance(e, ast.Call) and dotted(e.func, made.read.aliases) == "target":
        return annotation(made.read, e, scope)
    match made.read.value(e, scope):
        case Pointer(array=Array(buffer=b, memory=held)) | Array(buffer=b, memory=held):
            return (held or b).name
        case str() as text:
            return text
        case Number(expr=Const()):
            return None
    raise refuse("MS731", e, f"an annotation cannot hold `{text_of(e)}`")
