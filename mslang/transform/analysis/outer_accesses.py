"""What a scope accesses outside of its blocks: bounds of loops, conditions, bindings, stores next to blocks."""

from __future__ import annotations

from collections.abc import Iterable

from mslang.ir.expr import Expr
from mslang.ir.program import Block, Program, Stmt, Store
from mslang.ir.visit import loads_of, stmt_exprs, walk
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.outcome import refuse


def require_in_blocks(
    program: Program,
    body: tuple[Stmt, ...],
    primitive: str,
    *,
    read: Iterable[str] = (),
    written: Iterable[str] = (),
    predicates: bool = True,
) -> None:
    """Nothing outside of the blocks of a scope may load the memory of `read`, or store to that of `written` (MS352).

    `predicates`: those of the blocks are outside, too.
    """
    readers, writers = ({storage_of(program, b) for b in several} for several in (read, written))
    for s in walk(body, into_blocks=False):
        loaded = {storage_of(program, x.buffer) for e in _outside(s, predicates) for x in loads_of(e)} & readers
        stored = {storage_of(program, s.buffer)} & writers if isinstance(s, Store) else set()
        for found, how in ((loaded, "read"), (stored, "written")):
            if found:
                raise refuse(
                    "MS352",
                    primitive,
                    f"`{min(found)}` is {how} outside of blocks",
                    why="only blocks say what they read and write, and when",
                )


def _outside(s: Stmt, predicates: bool) -> tuple[Expr, ...]:
    """The expressions of a statement that are evaluated outside of blocks."""
    if not isinstance(s, Block):
        return stmt_exprs(s)
    return (*(a.binding for a in s.axes), *((s.predicate,) if predicates else ()))
