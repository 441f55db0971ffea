"""Cases in which TVM's `reindex` omits axes that ours keeps by default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mslang.ir.expr import ONE, Expr, Var
from mslang.ir.find import path_to_block
from mslang.ir.program import Block, Store
from mslang.ir.visit import free_vars, loads_of, stmt_exprs, walk
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session


def units_in_sums(session: Session, arguments: Mapping[str, object]) -> bool:
    """Whether the block indexes the buffer by sums that contain axes of extent 1."""
    block, buffer = arguments["block"], arguments["buffer"]
    assert isinstance(block, Handle) and isinstance(buffer, Handle)
    path = path_to_block(session.program, session.handles.resolve(block).name)
    if path is None or not isinstance(path[-1], Block):
        return False
    units = {a.name for a in path[-1].axes if a.extent == ONE}
    indices = _indices(path[-1], session.handles.resolve(buffer).name)
    return any(free_vars(e) & units for e in indices if not isinstance(e, Var))


def _indices(block: Block, buffer: str) -> Iterator[Expr]:
    """All indices at which a block loads or stores a buffer."""
    for s in walk(block.body):
        if isinstance(s, Store) and s.buffer == buffer:
            yield from s.indices
        for e in stmt_exprs(s):
            yield from (i for x in loads_of(e) if x.buffer == buffer for i in x.indices)
