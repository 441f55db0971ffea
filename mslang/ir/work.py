"""How much a program computes: its arithmetic operations, for GFLOP/s."""

from __future__ import annotations

from mslang.ir.expr import ARITHMETIC, Binary, Call, Const, Expr, Load, Select, children
from mslang.ir.program import Block, For, Program, Stmt, Store
from mslang.ir.visit import bodies


def operations(program: Program) -> int | None:
    """Arithmetic operations on data (a multiply-add is two; a math function is one; index arithmetic is none).

    Both sides of a `select` count as the dearer one. None if a loop's extent is not a number.
    """
    counts = [_count(s, 1) for s in program.body]
    return None if any(c is None for c in counts) else sum(c for c in counts if c is not None)


def _count(s: Stmt, times: int) -> int | None:
    match s:
        case Store(value=v):
            return times * _of(v)
        case For(extent=Const(value=n)):
            times *= int(n)
        case For():
            return None
    # A block's init runs once for each output, not for each step of the reduction: it computes next to nothing.
    inner = (s.body,) if isinstance(s, Block) else bodies(s)
    counts = [_count(x, times) for body in inner for x in body]
    return None if any(c is None for c in counts) else sum(c for c in counts if c is not None)


def _of(e: Expr) -> int:
    match e:
        case Load():
            return 0
        case Binary(op=op, left=a, right=b):
            return (op in ARITHMETIC) + _of(a) + _of(b)
        case Call(args=args):
            return 1 + sum(map(_of, args))
        case Select(then=a, otherwise=b):
            return max(_of(a), _of(b))
    return sum(map(_of, children(e)))
