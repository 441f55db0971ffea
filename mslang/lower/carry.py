"""Which buffers carry values from one iteration of a loop to the next, so that they must outlive an iteration."""

from __future__ import annotations

from mslang.ir.find import block_paths, leaf_paths
from mslang.ir.program import Block, Buffer, For, Program, Stmt
from mslang.ir.visit import Path
from mslang.transform.analysis.carried_dependence import touching_paths, why_not_private
from mslang.transform.analysis.dependence import paths_touching
from mslang.transform.analysis.position import block_at, common_path

_IN_TURN = ("serial", "unrolled")


def carried_between(program: Program) -> frozenset[tuple[str, str]]:
    """Pairs of an allocated buffer and a loop around all of its uses, of which an iteration does not surely write
    itself what it reads.

    Concurrent loops are not among them: they carry nothing.
    """
    found: set[tuple[str, str]] = set()
    blocks = [q for q in block_paths(program.body) if block_at(q).allocs]
    for buffers, above in ((program.allocs, ()), *((block_at(q).allocs, q) for q in blocks)):
        for buffer in buffers:
            found.update((buffer.name, loop) for loop in _carrying(program, buffer, above))
    return frozenset(found)


def _carrying(program: Program, buffer: Buffer, above: Path) -> list[str]:
    """From the innermost loop around all uses outwards, up to the first that leaves nothing to the next iteration."""
    users = [q[:-1] for q in paths_touching(program, buffer.name) if len(q) > len(above)]
    if not users:
        return []
    common = common_path(*users)
    carrying: list[str] = []
    # Only loops whose iterations follow one another carry anything: the question ends at the outermost of these.
    in_turn = (k for k in range(len(above), len(common)) if _runs_in_turn(common[k]))
    for k in range(len(common), next(in_turn, len(common)), -1):
        loop = common[k - 1]
        if isinstance(loop, Block):
            break
        if not isinstance(loop, For):
            continue
        path = common[:k]
        inside = touching_paths(program, leaf_paths(path), buffer.name)
        if why_not_private(program, inside, buffer.name, path) is None:
            break
        if _runs_in_turn(loop):
            carrying.append(loop.var)
    return carrying


def _runs_in_turn(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind in _IN_TURN
