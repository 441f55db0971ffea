"""Assignments: which element of a buffer is written, and what it gets."""

from __future__ import annotations

from mslang.diagnostics import MsError
from mslang.ir.program import Store
from mslang.sema.adapt import adapted
from mslang.sema.expressions import access, infer
from mslang.sema.names import buffer_names, called_buffer
from mslang.sema.report import failure, unknown
from mslang.sema.scope import Broken, BufferName, Scope
from mslang.syntax import tree


def assignment(s: tree.Assign, scope: Scope, *, anywhere: bool) -> Store:
    """The store that an assignment makes; it stands in a block, or `anywhere`.

    Raises:
        MsError: one diagnostic at the faulty node.
    """
    if scope.block is None and not anywhere:
        raise failure(
            "MS110",
            s,
            "an assignment stands in a block only",
            help="enclose it in `block name[i: N] { … }`, with the indices as axes",
        )
    match s.target:
        case tree.Index(base=tree.Ref(name=name)) as target:
            pass
        case other:
            raise _no_element(other, scope)
    meaning = scope.get(name.text)
    if not isinstance(meaning, BufferName):
        if isinstance(meaning, Broken):
            raise MsError
        if meaning is None:
            raise MsError(unknown("MS101", name, "buffer", name.text, buffer_names(scope)))
        raise failure("MS125", name, f"`{name.text}` is not a buffer")
    if meaning.direction == "in":
        raise failure(
            "MS111",
            target,
            f"`{meaning.root}` is an input and cannot be written",
            help=f"declare it `out {meaning.root}`, or `inout {meaning.root}` if it is read before",
        )
    indices = access(target, scope)
    value = s.value if s.op == "=" else tree.Binary(s.span, s.op[:-1], target, s.value)
    return Store(name.text, indices, adapted(infer(value, scope), meaning.buffer.dtype, s.value))


def _no_element(target: tree.Expr, scope: Scope) -> MsError:
    called = None if not isinstance(target, tree.Call) else called_buffer(target, scope)
    if called is not None:
        return called
    if isinstance(target, tree.Ref) and isinstance(scope.get(target.name.text), BufferName):
        infer(target, scope)
    return failure(
        "MS125",
        target,
        "only an element of a buffer can be assigned to",
        help="name a value by `let x = …`; it cannot change",
    )
