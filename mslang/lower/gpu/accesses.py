"""What statements of a kernel access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mslang.ir.expr import Call, Expr, Load, MaskedLoad
from mslang.ir.visit import walk_expr
from mslang.kernel import Atomic, Body, Evaluate, Invoke, Stmt, Store
from mslang.kernel.visit import expressions, walk

CP_ASYNC = "cp_async"
"""The call that copies to shared memory while the thread goes on: to, from, bytes."""


CP_ASYNC_WAIT = "cp_async_wait"
"""The call that waits until at most so many groups of copies are under way."""


class Access(NamedTuple):
    """One access as it is written. `atomic` ones do not exclude one another; `later` ones happen when copies are
    waited for."""

    buffer: str
    indices: tuple[Expr, ...]
    write: bool
    atomic: bool = False
    later: bool = False


def direct(s: Stmt) -> Iterator[Access]:
    """The accesses in a statement itself, not in its bodies; those of an instruction are in its meaning."""
    match s:
        case Invoke():
            return
        case Evaluate(value=Call(name=name, args=(Load() as to, *rest))) if name == CP_ASYNC:
            yield Access(to.buffer, to.indices, True, later=True)
            for e in (*to.indices, *rest):
                yield from reads(e)
            return
        case Store(buffer=b, indices=xs):
            yield Access(b, xs, True)
        case Atomic(buffer=b, indices=xs):
            yield Access(b, xs, True, atomic=True)
    for e in expressions(s):
        yield from reads(e)


def reads(e: Expr) -> Iterator[Access]:
    """The loads of an expression."""
    for x in walk_expr(e):
        if isinstance(x, Load | MaskedLoad):
            yield Access(x.buffer, x.indices, False)


def touched(body: Body) -> frozenset[str]:
    """The buffers that statements access, operands of instructions too."""
    found = {a.buffer for s in walk(body) for a in direct(s)}
    for s in walk(body):
        if isinstance(s, Invoke):
            found.update(a.buffer for e in s.operands for a in reads(e))
    return frozenset(found)


def collective(s: Invoke, scopes: Mapping[str, str]) -> bool:
    """Do the lanes of a warp run an instruction together? Those do that work on fragments."""
    return any(scopes.get(n, "").startswith(("wmma", "mma", "wgmma")) for n in touched((s,)))
