"""Which buffers carry values from one iteration of a loop to the next, so that they must outlive an iteration."""

from __future__ import annotations

from typing import NamedTuple

from mslang.ir.find import block_paths, leaf_paths
from mslang.ir.program import Block, Buffer, For, Program, Stmt
from mslang.ir.visit import Path
from mslang.transform.analysis.carried_dependence import touching_paths, why_not_private
from mslang.transform.analysis.dependence import paths_touching
from mslang.transform.analysis.position import block_at, common_path

_IN_TURN = ("serial", "unrolled")


class Carried(NamedTuple):
    """Pairs of an allocated buffer and a loop around all of its uses.

    `between`: of which an iteration does not surely write itself what it reads. Concurrent loops are not among them:
    they carry nothing. `never`: of which each iteration does, or in which the buffer is a block's own.
    """

    between: frozenset[tuple[str, str]]
    never: frozenset[tuple[str, str]]


def carried_by(program: Program) -> Carried:
    """The loops over which buffers carry values, and those over which they do not."""
    between: set[tuple[str, str]] = set()
    never: set[tuple[str, str]] = set()
    blocks = [q for q in block_paths(program.body) if block_at(q).allocs]
    for buffers, above in ((program.allocs, ()), *((block_at(q).allocs, q) for q in blocks)):
        for buffer in buffers:
            carrying, own = _carrying(program, buffer, above)
            between.update((buffer.name, loop) for loop in carrying)
            never.update((buffer.name, s.var) for s in own if isinstance(s, For))
    return Carried(frozenset(between), frozenset(never))


def _carrying(program: Program, buffer: Buffer, above: Path) -> tuple[list[str], Path]:
    """From the innermost loop around all uses outwards, up to the first that leaves nothing to the next iteration; and
    that one with what is around it."""
    users = [q[:-1] for q in paths_touching(program, buffer.name) if len(q) > len(above)]
    if not users:
        return [], above
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
            return carrying, path
        if _runs_in_turn(loop):
            carrying.append(loop.var)
    return carrying, above


def _runs_in_turn(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind in _IN_TURN
