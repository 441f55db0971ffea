"""Queries on programs for rules, and steps with named decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mslang.diagnostics import MsError
from mslang.ir.expr import Const
from mslang.ir.find import blocks_of, path_to_block
from mslang.ir.program import Block, For, Program
from mslang.schedule.arguments import bind
from mslang.schedule.decisions import Drawing
from mslang.schedule.handles import Handle
from mslang.schedule.session import Session
from mslang.transform.analysis.axes import axis_loops
from mslang.transform.analysis.position import block_at, leaves, loops_above
from mslang.transform.outcome import BlockRef, LoopRef, Outcome
from mslang.transform.outcome import Handle as Ref
from mslang.transform.registry import IMPLEMENTATIONS, OPERATIONS


def leaf_blocks(program: Program) -> tuple[Block, ...]:
    """The blocks without nested blocks, in program order."""
    return tuple(b for b in blocks_of(program.body) if not blocks_of(b.body))


def loops_around(program: Program, block: Block) -> tuple[For, ...]:
    """The enclosing loops of a block, outermost first."""
    return loops_above(path_to_block(program, block.name) or ())


def own_loop(program: Program, block: Block, axis: str, dynamic: bool = False) -> For | None:
    """The single loop of constant (or `dynamic`) extent that an axis, and no other, is bound to; None without one."""
    loops = axis_loops(path_to_block(program, block.name) or (), axis)
    return loops[0] if len(loops) == 1 and (dynamic or isinstance(loops[0].extent, Const)) else None


def chain_below(loop: For) -> tuple[For, ...]:
    """A loop and the perfectly nested loops in it."""
    chain = [loop]
    while len(chain[-1].body) == 1 and isinstance(inner := chain[-1].body[0], For):
        chain.append(inner)
    return tuple(chain)


def roots(program: Program) -> tuple[For, ...]:
    """The outermost loops."""
    return tuple(s for s in program.body if isinstance(s, For))


def block_under(loop: For) -> Block:
    """The first block under a loop."""
    return leaves(loop)[0]


def attempt(program: Program, op: str, *args: object, **named: object) -> Outcome | None:
    """The outcome of a primitive; None if it refuses. Refusals never depend on drawn values."""
    try:
        return IMPLEMENTATIONS[op](program, *args, **named)
    except MsError:
        return None


def handle(session: Session, ref: Ref | str) -> Handle:
    """The handle of a loop or block; of a loop by its variable."""
    return session.handles.handle(LoopRef(ref) if isinstance(ref, str) else ref)


def block_handle(session: Session, name: str) -> Handle:
    """The handle of a block by its name."""
    return session.handles.handle(BlockRef(name))


def do(
    session: Session,
    op: str,
    *args: object,
    names: Sequence[str | None] = (),
    **named: object,
) -> tuple[Handle, ...]:
    """Apply a primitive."""
    return session.apply(op, bind(session.registry.signature(op), args, named), names=names)


def allows(session: Session, op: str, *args: object, **named: object) -> bool:
    """Whether a primitive accepts these arguments now; nothing changes."""
    return session.allows(op, bind(session.registry.signature(op), args, named))


def do_if_legal(session: Session, op: str, *args: object, **named: object) -> tuple[Handle, ...] | None:
    """Apply a primitive if it accepts these arguments; None, with nothing changed, if it refuses."""
    bound = bind(session.registry.signature(op), args, named)
    return session.apply(op, bound) if session.allows(op, bound) else None


def goes_through(session: Session, steps: Callable[[Session], object]) -> bool:
    """Whether some steps can all be taken; they are tried on a session of their own, and nothing changes."""
    try:
        steps(Session(session.program, Drawing(0), session.registry))
    except MsError:
        return False
    return True


def draw(session: Session, op: str, *args: object, address: str, **named: object) -> object:
    """Draw a decision at an address, named by its last part."""
    name = address.rpartition("/")[2]
    return session.sample(op, bind(OPERATIONS[op], args, named), address=address, name=name)


def stands_alone(program: Program, block: Block) -> bool:
    """Whether a block has loops at the top of the program, and nothing else stands under them."""
    loops = loops_around(program, block)
    return bool(loops) and loops[0] in program.body and chain_below(loops[0]) == loops and len(leaves(loops[0])) == 1


def untiled(program: Program, block: Block) -> bool:
    """Whether each loop around a block is serial and of one axis, and each axis of one loop of constant extent."""
    if any(s.kind != "serial" for s in loops_around(program, block)):
        return False
    own = [own_loop(program, block, a.name) for a in block.axes]
    return None not in own and {s.var for s in own if s} == {s.var for s in loops_around(program, block)}


def block_of(session: Session, block: Handle) -> Block:
    """The current block of a handle."""
    return block_at(path_to_block(session.program, session.handles.resolve(block).name) or ())
