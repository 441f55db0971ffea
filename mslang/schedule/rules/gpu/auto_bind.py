"""Binding of the loops that no other rule has bound: fused, split, and bound to blocks and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import Expr
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import free_vars
from mslang.schedule.handles import Handle
from mslang.schedule.rules.gpu.machine import most_threads
from mslang.schedule.rules.gpu.steps import fused
from mslang.schedule.rules.nests import block_handle, do, draw, handle, loops_around
from mslang.schedule.session import Session
from mslang.transform.analysis.legality import loops_by_kind

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

EXTENTS = (32, 64, 128, 256, 512, 1024)
BLOCKS = 256
"""Blocks of threads beyond which each thread takes several elements in turn."""

Factor = Callable[[int], int | Expr]
"""Chooses how many threads share a loop, given the most that make sense."""


class AutoBind(msgspec.Struct, frozen=True):
    """Fuse the outer spatial loops of a nest that no rule has bound; bind them to blocks and a drawn number of threads.

    A loop of more than `max_threadblocks` times the machine's threads is split in three: each thread takes several
    elements.

    Decisions: `auto_bind:block/threads`.

    Source: MetaSchedule, `AutoBind`.
    """

    name: str = "auto_bind"
    max_threadblocks: int = BLOCKS
    thread_extents: tuple[int, ...] = EXTENTS

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether a loop around a block is still to be bound to blocks or threads."""
        return is_outermost(it.session.program, block) and needs_binding(it.session.program, block)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One way."""
        return ("bound",)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Bind the loops."""
        session = it.session

        def factor(most: int) -> int | Expr:
            sizes = tuple(x for x in self.thread_extents if x <= most)
            if len(sizes) < 2:
                return sizes[0] if sizes else most
            drawn = draw(session, "choose", sizes, address=f"{self.name}:{block.name}/threads")
            assert isinstance(drawn, Expr | int)
            return drawn

        bind_loops(session, block, factor, self.max_threadblocks, most_threads(it.machine))


def is_outermost(program: Program, block: Block) -> bool:
    """Whether no block contains a block."""
    path = path_to_block(program, block.name) or ()
    return not any(isinstance(s, Block) for s in path[:-1])


def needs_binding(program: Program, block: Block) -> bool:
    """Whether the loops around a block lack one bound to `blockIdx` or one bound to `threadIdx`."""
    kinds = [s.kind for s in loops_around(program, block)]
    return not (any("blockIdx" in k for k in kinds) and any("threadIdx" in k for k in kinds))


def bind_loops(session: Session, block: Block, factor: Factor, blocks: int, threads: int) -> None:
    """Bind the outer spatial loops around a block.

    If an inner loop is bound to threads, the loops outside it are bound to blocks; otherwise they are split.

    Args:
        session: the running schedule.
        block: the block.
        factor: gives the threads of a block, at most those that are given to it.
        blocks: blocks beyond which a thread takes several elements.
        threads: the most threads of a block.
    """
    around = list(loops_around(session.program, block))
    free = _free(session.program, block, around)
    if not free:
        made = _unit_loop(session, block, around)
        free = [made]
    kinds = [s.kind for s in around]
    has_threads = any("threadIdx" in k for k in kinds)
    has_blocks = any("blockIdx" in k for k in kinds)
    loops = [handle(session, v) for v in free]
    loop = fused(session, loops)
    if has_threads:
        do(session, "bind", loop, "blockIdx.x")
        return
    if has_blocks:
        _, inner = do(session, "split", loop, (None, factor(threads)))
        do(session, "bind", inner, "threadIdx.x")
        return
    _share(session, loop, factor, blocks, threads)


def _share(session: Session, loop: Handle, factor: Factor, blocks: int, threads: int) -> None:
    extent = session.get("extent", {"loop": loop})
    size = extent if isinstance(extent, int) else None
    if size is None or size <= blocks * threads:
        most = threads if size is None else min(size, threads)
        outer, inner = do(session, "split", loop, (None, factor(most)))
    else:
        rest, outer, inner = do(session, "split", loop, (None, blocks, threads))
        do(session, "reorder", outer, inner, rest)
    do(session, "bind", outer, "blockIdx.x")
    do(session, "bind", inner, "threadIdx.x")


def _free(program: Program, block: Block, around: list[For]) -> list[str]:
    """The outermost loops that may be fused: serial, of spatial axes, and each alone in the one before."""
    path = path_to_block(program, block.name) or ()
    spatial = {s.var for s in loops_by_kind(path, "spatial")}
    found: list[str] = []
    for s in around:
        if "blockIdx" in s.kind:
            continue
        if s.kind != "serial" or s.var not in spatial or _varies(s, found):
            break
        found.append(s.var)
        if len(s.body) != 1:
            break
    return found


def _varies(loop: For, outer: list[str]) -> bool:
    return bool(free_vars(loop.extent) & set(outer))


def _unit_loop(session: Session, block: Block, around: list[For]) -> str:
    """A loop of one iteration around everything that an outermost loop, or a block without loops, contains."""
    target = handle(session, around[0].var) if around else block_handle(session, block.name)
    (made,) = do(session, "add_unit_loop", target)
    return session.handles.resolve(made).name


def unbound_blocks(program: Program) -> tuple[Block, ...]:
    """The outermost blocks of which a loop is still to be bound."""
    outermost = blocks_of(program.body, into_blocks=False)
    return tuple(b for b in outermost if needs_binding(program, b))
