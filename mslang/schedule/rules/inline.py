"""Inlining: scalars that are constant, and elementwise blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mslang.ir.expr import ONE, Call, Const, Expr, Load
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block, Program, Region, Store
from mslang.ir.visit import free_vars, loads_of, stmt_exprs, walk, walk_expr
from mslang.schedule.rules.nests import allows, block_handle, do
from mslang.schedule.session import Session
from mslang.transform.getters import consumers, has_branch, is_output, producers
from mslang.transform.outcome import BlockRef
from mslang.transform.rewriting.layout_filling import trivial_nest

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

FUNCTIONS = ("exp", "exp2", "expm1", "log", "log2", "log1p", "pow", "tanh", "sinh", "cosh", "erf", "sin", "cos", "tan")
"""Functions that cost as much as ten additions or more, and so are not computed twice."""

CONSUMER = "into_consumer"
PRODUCER = "into_producer"
DISABLE = "inline_rule"
"""The annotation that, with the value "disable", keeps `AutoInline` away from a block."""


class InlineConstantScalars(msgspec.Struct, frozen=True):
    """Puts scalars that are computed from nothing into the blocks that read them.

    >>> InlineConstantScalars().name
    'inline_constants'

    Source: MetaSchedule's `InlineConstantScalars`.
    """

    name: str = "inline_constants"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block computes one element and reads none."""
        return not block.reads and all(a.extent == ONE for a in block.axes) and _inlines(it.session, block)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One."""
        return (CONSUMER,)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Inline the block."""
        do(it.session, "compute_inline", block_handle(it.session, block.name))


class AutoInline(msgspec.Struct, frozen=True):
    """Puts elementwise blocks into the blocks that read them, or into the one that computes what they read.

    A block is inlined if it writes one buffer, its loops are its axes, and it is not annotated
    `inline_rule = "disable"`, and further: it calls none of the functions `no_calls` unless each element is read once;
    it decides nothing where `no_branches`; no dimension of the result is two of what is read where `injective`
    (`A[i, i]`); and dimensions keep their order where `ordered` (in a transposition they do not). The last four are
    waived if the program has no reduction. Arithmetic is not put into a block that reads several of its results at a
    time, as a stencil does: where that is computed is for `RandomComputeLocation` to draw. A block that reads nothing
    is inlined at once where `constants`.

    Args:
        into_consumers: try `compute_inline`.
        into_producer: try `reverse_compute_inline`, where a block reads the result of one block.

    Source: MetaSchedule's `AutoInline`.
    """

    into_consumers: bool = True
    into_producer: bool = False
    constants: bool = True
    no_branches: bool = True
    injective: bool = True
    ordered: bool = True
    no_calls: tuple[str, ...] = FUNCTIONS
    name: str = "auto_inline"

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the conditions hold."""
        if len(block.writes) != 1 or dict(block.annotations).get(DISABLE) == "disable" or blocks_of(block.body):
            return False
        if trivial_nest(path_to_block(it.session.program, block.name) or ()) is None:
            return False  # It was put where it is on purpose, as copies into shared memory are.
        if self.constants and not block.reads:
            return True
        program = it.session.program
        return (_is_spatial(program) and not _read_in_places(program, block)) or self._suits(program, block)

    def _suits(self, program: Program, block: Block) -> bool:
        if self.no_branches and has_branch(program, BlockRef(block.name)):
            return False
        if _calls(block) & set(self.no_calls) and not _read_once(program, block):
            return False
        places = [_place(r, block) for r in block.reads]
        if not _is_copy(block) and _read_in_places(program, block):
            return False
        if self.injective and any(len(set(p)) != len(p) for p in places):
            return False
        return not self.ordered or all(list(p) == sorted(p) for p in places)

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """The first way that is legal, if any."""
        session = it.session
        if self.into_consumers and _inlines(session, block):
            return (CONSUMER,)
        if self.into_producer and _inlines_into_producer(session, block):
            return (PRODUCER,)
        return ()

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Inline the block."""
        op = "compute_inline" if alternative == CONSUMER else "reverse_compute_inline"
        do(it.session, op, block_handle(it.session, block.name))


def _inlines(session: Session, block: Block) -> bool:
    ref = BlockRef(block.name)
    if is_output(session.program, ref) or not consumers(session.program, ref):
        return False
    return allows(session, "compute_inline", block_handle(session, block.name))


def _inlines_into_producer(session: Session, block: Block) -> bool:
    if len(producers(session.program, BlockRef(block.name))) != 1:
        return False
    return allows(session, "reverse_compute_inline", block_handle(session, block.name))


def _is_spatial(program: Program) -> bool:
    return all(a.kind == "spatial" for b in blocks_of(program.body) for a in b.axes)


def _expressions(block: Block) -> Iterator[Expr]:
    for s in walk(block.body):
        for e in stmt_exprs(s):
            yield from walk_expr(e)


def _calls(block: Block) -> set[str]:
    return {e.name for e in _expressions(block) if isinstance(e, Call)}


def _loads(block: Block) -> Iterator[Load]:
    for s in walk(block.body):
        for e in stmt_exprs(s):
            yield from loads_of(e)


def _read_once(program: Program, block: Block) -> bool:
    """Whether each element that a block computes is read by at most one instance of one block."""
    buffer = block.writes[0].buffer
    readers = [b for b in blocks_of(program.body) if any(r.buffer == buffer for r in b.reads)]
    uses = [(b, x) for b in readers for x in _loads(b) if x.buffer == buffer]
    return len(uses) == 1 and all(
        {a.name for a in b.axes if a.extent != ONE} <= {v for i in x.indices for v in free_vars(i)} for b, x in uses
    )


def _read_in_places(program: Program, block: Block) -> bool:
    """Whether an instance of some block reads several elements that a block computes, by several loads."""
    buffer = block.writes[0].buffer
    readers = [b for b in blocks_of(program.body) if any(r.buffer == buffer for r in b.reads)]
    return any(len({x.indices for x in _loads(b) if x.buffer == buffer}) > 1 for b in readers)


def _is_copy(block: Block) -> bool:
    """Whether a block does no arithmetic on elements."""
    return all(isinstance(s, Store) and isinstance(s.value, Load | Const) for s in block.body)


def _place(read: Region, block: Block) -> list[int]:
    """The dimensions of the result, in the order of the dimensions of a buffer that is read, which they come from."""
    written = [free_vars(r.start) for r in block.writes[0].ranges]
    found = []
    for r in read.ranges:
        names = free_vars(r.start)
        found += [k for k, w in enumerate(written) if w & names]
    return found
