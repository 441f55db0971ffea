"""A good schedule for a CPU without a search: the choices that hand-written schedules have in common, with fixed sizes.

A reduction that reuses what it reads keeps a tile of results in registers: some rows by some vectors, unrolled. Blocks
that only combine elements are computed where their results are needed, or on the tile that they read; stages that share
rows are computed row by row; loops outside are parallel, inner contiguous ones vectors. Results larger than the last
cache bypass the caches. Constant operands are packed ahead of time, others are copied where many tiles share them. A
step that a primitive refuses is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ir.expr import Call, Select
from mslang.ir.find import path_to_block
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import free_vars, stmt_exprs, walk, walk_expr
from mslang.schedule.decisions import Decision
from mslang.schedule.distribution import Number
from mslang.schedule.interpret import Interpreter, World
from mslang.schedule.rules.cpu.contraction import is_dot_of_rows
from mslang.schedule.rules.cpu.dot import DotProducts
from mslang.schedule.rules.cpu.groups import group_of
from mslang.schedule.rules.cpu.lanes import run_in_parallel
from mslang.schedule.rules.cpu.matrix_tiles import MatrixTiles
from mslang.schedule.rules.cpu.rows import FUSED, RowFusion
from mslang.schedule.rules.cpu.streamed import bypass, large_results
from mslang.schedule.rules.default_tiles import tile
from mslang.schedule.rules.few_decisions import usual
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import (
    block_handle,
    block_of,
    block_under,
    chain_below,
    do_if_legal,
    goes_through,
    handle,
    leaf_blocks,
    loops_around,
    roots,
)
from mslang.schedule.rules.rule import Rule, legal
from mslang.schedule.session import Session
from mslang.schedule.space import Candidate, Space
from mslang.target.description import Target
from mslang.transform.analysis.position import leaves
from mslang.transform.getters import is_output
from mslang.transform.outcome import BlockRef

NAME = "default"
"""The space's name; it has one candidate."""

INSTRUCTIONS: tuple[Rule, ...] = (MatrixTiles(), DotProducts())
"""The rules for products that have instructions of their own, the fastest first."""


def default_schedule(program: Program, machine: Target) -> Candidate:
    """The schedule of a program that needs no tuning.

    Args:
        program: a program without schedule.
        machine: the CPU: its vectors and registers give the tiles.

    Returns the candidate; what its rules draw is fixed.

    >>> from mslang.sema.program import parse_program
    >>> from mslang.target.description import AVX2
    >>> p = parse_program("program p(A: f32[64], out B: f32[64]) { block b[i: 64] { B[i] = A[i] + 1.0 } }")
    >>> print(default_schedule(p, AVX2).trace.as_ms("s"))
    schedule s for p {
        b.i.vectorize()
    }
    <BLANKLINE>
    """
    world = World(machine=machine)

    def recipe(session: Session) -> None:
        schedule_by_default(Interpreter(session, world), machine)

    space = Space(program, recipe, name=NAME, item=False)
    drawn = space.sample(0)
    fixed = {d.address: v for d in drawn.sketch.decisions if (v := _fixed(d, machine)) is not None}
    return space.sample(0, fixed) if fixed else drawn


def _fixed(decision: Decision, machine: Target) -> Number | None:
    """The value of what a rule draws: rows fetch the next one; else what suits most programs."""
    return 1 if decision.address.endswith("/prefetch") else usual(decision.domain, machine.cores)


def schedule_by_default(it: Interpreter, machine: Target) -> None:
    """Take the steps on a running schedule."""
    session = it.session
    _inline(session)
    _fuse_rows(it)
    program = session.program
    products = [b for b in leaf_blocks(program) if needs_tiling(program, b, dynamic=True)]
    tiled = {b.name for b in products if not is_dot_of_rows(program, b)}
    for name in sorted(tiled):
        if not _on_instructions(it, name):
            _tile(session, name, machine)
    finish(session)
    for block in leaf_blocks(session.program) if not session.program.dynamic else ():
        # What outgrows the last cache would be read from memory next in any case; of an open size that is not known.
        bypass(session, block, large_results(session.program, block, machine, machine.l3))


def _tile(session: Session, name: str, machine: Target) -> None:
    """Tile a product; one of which a primitive refuses that is left to the steps that follow."""

    def steps(s: Session) -> None:
        tile(s, block_handle(s, name), machine)

    if goes_through(session, steps):
        steps(session)


def _on_instructions(it: Interpreter, name: str) -> bool:
    """Compute a product of bytes or bf16 by instructions for it, in the first form that is legal; whether there are."""
    for rule in INSTRUCTIONS:
        block = block_of(it.session, block_handle(it.session, name))
        if rule.applies(it, block):
            rule.apply(it, block, rule.alternatives(it, block)[0])
            return True
    return False


def finish(session: Session) -> None:
    """Schedule what is as the program has it: nests whose loops are all serial, and innermost contiguous loops."""
    filled = [root for root in roots(session.program) if leaves(root)]
    plain = [root for root in filled if all(s.kind == "serial" for s in _loops(root))]
    names = [b.name for root in plain for b in leaves(root)]
    for root in plain:
        _share(session, root)
    for name in names:
        _begin_apart(session, block_of(session, block_handle(session, name)))
    for block in leaf_blocks(session.program):
        _vectorize(session, block.name)


def _loops(root: For) -> Iterator[For]:
    return (s for s in walk((root,)) if isinstance(s, For))


# ------------------------------------------------------------------ inlining
def _inline(session: Session) -> None:
    """Compute elementwise blocks where their results are read, unless that repeats something expensive."""
    for name in [b.name for b in leaf_blocks(session.program)]:
        block = block_of(session, block_handle(session, name))
        if all(a.kind == "spatial" for a in block.axes) and not is_output(session.program, BlockRef(name)):
            cheap = not any(isinstance(e, Call | Select) for e in _expressions(block))
            if cheap:
                do_if_legal(session, "compute_inline", block_handle(session, name))


def _expressions(block: Block) -> Iterator[object]:
    for s in walk(block.body):
        for e in stmt_exprs(s):
            yield from walk_expr(e)


# ------------------------------------------------------------------ rows
def _fuse_rows(it: Interpreter) -> None:
    """Compute stages that share rows, as those of a softmax, row by row; not those with a product among them."""
    rule = RowFusion()
    done: set[str] = set()
    # The last stage first: a stage of its group is fused with it, not by itself.
    for name in reversed([b.name for b in leaf_blocks(it.session.program)]):
        if name in done or path_to_block(it.session.program, name) is None:
            continue
        block = block_of(it.session, block_handle(it.session, name))
        group = group_of(it.session.program, block)
        if group is None:
            continue
        if not group.products and legal(it, rule, block, (FUSED,)):
            rule.apply(it, block, FUSED)
            done.update(group.stages)


# ------------------------------------------------------------------ loops
def _share(session: Session, root: For) -> None:
    """Make the outermost loops over spatial axes parallel, all but the innermost loop."""
    chain = chain_below(root)
    spatial = sum(a.kind == "spatial" for a in block_under(root).axes)
    outer = chain[: min(spatial, max(1, len(chain) - 1))]
    if outer and len(chain) > 1:
        run_in_parallel(session, [handle(session, s.var) for s in outer])


def _begin_apart(session: Session, block: Block) -> None:
    """Make the init of a reduction a block of its own, before its outermost reduction loop."""
    reduced = {v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding)}
    loop = next((s for s in loops_around(session.program, block) if s.var in reduced), None)
    if block.init is None or loop is None:
        return
    do_if_legal(session, "decompose_reduction", block_handle(session, block.name), handle(session, loop.var))


def _vectorize(session: Session, name: str) -> None:
    """Make the innermost loop a vector if what the block writes is contiguous along it."""
    block = block_of(session, block_handle(session, name))
    loops = loops_around(session.program, block)
    if not loops or not block.writes or loops[-1].kind != "serial":
        return
    along = {v for r in block.writes[0].ranges[-1:] for v in free_vars(r.start)}
    inner = loops[-1].var
    if any(inner in free_vars(a.binding) for a in block.axes if a.name in along):
        do_if_legal(session, "vectorize", handle(session, inner))
