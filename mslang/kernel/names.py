"""The keys of what a kernel's expressions refer to, where back ends keep what is visible."""

from __future__ import annotations

from mslang.ir.expr import Symbol, Var


def key_of(e: Var | Symbol) -> str:
    """The key of a variable or a size: a variable that a pass made may have the name of a size.

    >>> key_of(Var("mask"))
    'mask'
    """
    return e.name if isinstance(e, Var) else f"%{e.text}"
