"""Atomic updates where nothing runs at the same time: a load, the operation, and a store."""

from __future__ import annotations

from mslang.ir.expr import Binary, Load, dtype_of
from mslang.kernel.nodes import Atomic, Body, Stmt, Store
from mslang.kernel.visit import bodies, with_bodies


def plain(body: Body) -> Body:
    """Statements with every atomic update as a store.

    Example: `atomic S[0] += A[i]` becomes `S[0] = S[0] + A[i]`.
    """
    return tuple(_plain(s) for s in body)


def _plain(s: Stmt) -> Stmt:
    if isinstance(s, Atomic):
        before = Load(s.buffer, s.indices, dtype_of(s.value))
        return Store(s.buffer, s.indices, Binary(s.op, before, s.value))
    return with_bodies(s, tuple(plain(b) for b in bodies(s)))
