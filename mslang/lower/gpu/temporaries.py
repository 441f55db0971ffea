"""Memory of one instance of a block: each thread that runs instances has its own.

A buffer that a block allocates holds what one of its instances works with. In global memory, all threads would share
it.
"""

from __future__ import annotations

from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir.program import Block, Buffer, For, Program, Stmt
from mslang.ir.visit import map_bodies, walk
from mslang.lower.gpu.axes import AXES
from mslang.lower.gpu.vthreads import VTHREADS


def private(program: Program) -> Program:
    """The program with what blocks under bound loops allocate in global memory in that of the threads that run them.

    Raises:
        TargetError: MS437, several threads run one instance.
    """
    body = _body(program.body)
    return program if body is program.body else replace(program, body=body)


def _body(body: tuple[Stmt, ...], bound: bool = False) -> tuple[Stmt, ...]:
    made = tuple([_statement(s, bound) for s in body])
    return body if all(a is b for a, b in zip(made, body, strict=True)) else made


def _statement(s: Stmt, bound: bool) -> Stmt:
    bound = bound or _is_bound(s)
    s = map_bodies(s, lambda body: _body(body, bound))
    if not bound or not isinstance(s, Block) or all(b.scope != "global" for b in s.allocs):
        return s
    return replace(s, allocs=tuple([_own(b, s) if b.scope == "global" else b for b in s.allocs]))


def _is_bound(s: Stmt) -> bool:
    return isinstance(s, For) and (s.kind in AXES or s.kind in VTHREADS)


def _own(b: Buffer, block: Block) -> Buffer:
    shared = next((x for x in walk(block.body) if isinstance(x, For) and _is_bound(x)), None)
    if shared is not None:
        raise TargetError(
            problem(
                "MS437",
                f"buffer `{b.name}` of block `{block.name}` is in global memory, and loop `{shared.var}` inside is "
                f"bound to {shared.kind}",
                why="each instance of the block has memory of its own, which several threads would share",
                help='`set_scope` the buffer to "shared"',
            )
        )
    return replace(b, scope="local")


__all__ = ["private"]
