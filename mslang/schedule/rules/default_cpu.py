"""A good schedule for a CPU without a search: the choices that hand-written schedules have in common, with fixed sizes.

A reduction that reuses what it reads keeps a tile of results in registers: some rows by some vectors, unrolled. Blocks
that only combine elements are computed where their results are needed, or on the tile that they read; stages that share
rows are computed row by row; loops outside are parallel, inner contiguous ones vectors. Results larger than the last
cache bypass the caches. Constant operands are packed ahead of time. A step that a primitive refuses is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mslang.ir.expr import Call, Choice, Const, Select
from mslang.ir.find import path_to_block
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import free_vars, stmt_exprs, walk, walk_expr
from mslang.schedule.decisions import Decision
from mslang.schedule.handles import Handle
from mslang.schedule.interpret import Interpreter, World
from mslang.schedule.rules.cpu.contraction import contraction
from mslang.schedule.rules.cpu.dot import DotProducts
from mslang.schedule.rules.cpu.groups import group_of
from mslang.schedule.rules.cpu.matrix_tiles import MatrixTiles
from mslang.schedule.rules.cpu.packing import pack_ahead, packed_ahead
from mslang.schedule.rules.cpu.rows import RowFusion
from mslang.schedule.rules.cpu.streamed import bypass, large_results
from mslang.schedule.rules.multi_level import needs_tiling
from mslang.schedule.rules.nests import (
    attempt,
    block_handle,
    block_of,
    block_under,
    chain_below,
    do,
    handle,
    leaf_blocks,
    loops_around,
    roots,
)
from mslang.schedule.rules.rule import Rule
from mslang.schedule.session import Session
from mslang.schedule.space import Candidate, Space
from mslang.target.description import Target
from mslang.transform.analysis.position import leaves
from mslang.transform.getters import consumers, is_output
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef

NAME = "default"
"""The space's name; it has one candidate."""

ACCUMULATORS = 4
"""Vectors in which a reduction along a row keeps its parts."""

JOBS = 4
"""Iterations for each core from which on one parallel loop gives all cores work, so that producers may be put in it."""

UNROLLED = 32
"""Copies of a reduction's body that the reduction loop around the register tile is unrolled to."""

INSTRUCTIONS: tuple[Rule, ...] = (MatrixTiles(), DotProducts())
"""The rules for products that have instructions of their own, the fastest first."""

CACHED = 8
"""Register tiles along each axis of a tile for a cache."""

BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4}


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
    fixed = {d.address: _fixed(d, machine) for d in drawn.sketch.decisions}
    return space.sample(0, fixed) if fixed else drawn


def _fixed(decision: Decision, machine: Target) -> int:
    """The value of what a rule draws: of weighted ones the most likely; parts of a row, and the next row fetched; or
    tiles of a cache, fewer of them where cores would have no work."""
    if not isinstance(decision.domain, Choice):
        return ACCUMULATORS
    if decision.address.startswith(f"{RowFusion().name}:"):
        return int(max(decision.domain.values)) if decision.address.endswith("/prefetch") else ACCUMULATORS
    values = [int(v) for v in decision.domain.values]
    if decision.domain.weights:
        return max(zip(decision.domain.weights, values, strict=True))[1]
    most = min(CACHED, max(values) // (2 * machine.cores))
    return max((v for v in values if v <= most), default=min(values))


def schedule_by_default(it: Interpreter, machine: Target) -> None:
    """Take the steps on a running schedule."""
    session = it.session
    _inline(session)
    _fuse_rows(it)
    tiled = {b.name for b in leaf_blocks(session.program) if needs_tiling(session.program, b)}
    for name in sorted(tiled):
        if not _on_instructions(it, name):
            _tile(session, block_handle(session, name), machine)
    finish(session)
    for block in leaf_blocks(session.program) if not session.program.dynamic else ():
        # What outgrows the last cache would be read from memory next in any case; of an open size that is not known.
        bypass(session, block, large_results(session.program, block, machine, machine.l3))


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
    plain = [root for root in roots(session.program) if all(s.kind == "serial" for s in _loops(root))]
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
            if cheap and attempt(session.program, "compute_inline", BlockRef(name)) is not None:
                do(session, "compute_inline", block_handle(session, name))


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
        if not group.products:
            rule.apply(it, block, "fused")
            done.update(group.stages)


# ------------------------------------------------------------------ tiles
def tile_sizes(rows: int, columns: int, lanes: int, registers: int) -> tuple[int, int]:
    """Rows and columns of a tile of results in registers: least work on padding, then fewest loads a product.

    Args:
        rows: iterations of the loop over rows.
        columns: iterations of the loop over contiguous elements.
        lanes: elements of a vector.
        registers: vector registers.

    >>> tile_sizes(512, 512, 8, 16)
    (4, 24)
    >>> tile_sizes(512, 512, 16, 32)
    (6, 64)
    """
    if columns < lanes:
        return min(rows, registers // 2), columns
    found = []
    for vectors in range(1, 5):
        for r in range(1, registers):
            if r * vectors + vectors + 1 > registers or r > rows or (vectors - 1) * lanes >= columns:
                continue
            work = -(-rows // r) * r / rows * (-(-columns // (vectors * lanes)) * vectors * lanes) / columns
            found.append((work * (1 + 1 / r + 1 / vectors), -r * vectors, r, vectors * lanes))
    _, _, r, c = min(found)
    return r, c


def _tile(session: Session, b: Handle, machine: Target) -> None:
    """Split off a tile of rows by columns, put the reduction around it, and keep it in registers."""
    _pack_ahead(session, block_of(session, b), machine)
    block = block_of(session, b)
    spatial = [a.name for a in block.axes if a.kind == "spatial"]
    written = [v for r in block.writes[0].ranges for v in free_vars(r.start)]
    columns = next((v for v in reversed(written) if v in spatial), None)
    if columns is None:
        return
    extents = {a.name: a.extent.value for a in block.axes if isinstance(a.extent, Const)}
    rows = _rows(block, columns, extents)
    dtype = session.program.params[0].buffer.dtype
    lanes = max(1, machine.vector_bits // 8 // BYTES.get(dtype, 4))
    size = tile_sizes(int(extents[rows]) if rows else 1, int(extents[columns]), lanes, machine.registers)
    outer: list[Handle] = []
    inner: list[Handle] = []
    outer += (session.axis(b, a) for a in spatial if a not in (rows, columns))
    for axis, n in ((columns, size[1]), (rows, size[0])):
        if axis is not None:
            loops = do(session, "split", session.axis(b, axis), (None, n), names=[f"{axis}0", f"{axis}1"])
            outer.append(loops[0])
            inner.insert(0, loops[1])
    reduced = [session.axis(b, a.name) for a in block.axes if a.kind == "reduce"]
    # Columns outside rows: a panel of the second operand stays in the cache.
    do(session, "reorder", *outer, *reduced, *inner)
    place = outer[-1]
    _results(session, b, place)
    if _iterations(session, b, outer[0]) >= JOBS * machine.cores:
        _producers(session, b, outer[0])
    shared = outer[: max(1, len(outer) - 1)] if len(outer) > 2 else outer
    _parallel(session, shared)
    do_all(session, "vectorize", inner[-1])
    for loop in inner[:-1]:
        do_all(session, "unroll", loop)
    begun = attempt(session.program, "decompose_reduction", _block(session, b), _loop(session, reduced[0]))
    if begun is not None:
        (zero,) = do(session, "decompose_reduction", b, reduced[0])
        for around in loops_around(session.program, block_of(session, zero))[-len(inner) : -1]:
            do_all(session, "unroll", handle(session, around.var))
    _unroll_reduction(session, b, reduced[-1], size[0] * max(1, size[1] // lanes))


def _pack_ahead(session: Session, block: Block, machine: Target) -> None:
    """Lay the operand that is read along the columns out in panels, if it is constant."""
    found = contraction(session.program, block, machine)
    name = None if found is None else packed_ahead(session.program, block, found)
    if found is not None and name is not None:
        pack_ahead(session, block, found, name)


def _rows(block: Block, columns: str, extents: dict[str, int | float | bool]) -> str | None:
    """The axis whose iterations read the same elements along the columns: the widest, of equal ones the last."""
    names = [a.name for a in block.axes if a.kind == "spatial" and a.name != columns]
    along = [r for r in block.reads if any(columns in free_vars(x.start) for x in r.ranges)]
    used = {v for r in along for x in r.ranges for v in free_vars(x.start)}
    reusing = [n for n in names if n not in used and extents[n] > 1] or [n for n in names if extents[n] > 1]
    last = [n for n in reversed(reusing) if extents[n] >= 4] or list(reversed(reusing))
    return last[0] if last else None


def _results(session: Session, b: Handle, place: Handle) -> None:
    """Keep the tile in registers: its only reader works on it there, or a copy takes it out."""
    buffer = block_of(session, b).writes[0].buffer
    user = _only_reader(session.program, _block(session, b).name)
    if user is not None and attempt(session.program, "reverse_compute_at", BlockRef(user), _loop(session, place)):
        reader = block_handle(session, user)
        do(session, "reverse_compute_at", reader, place)
        if attempt(session.program, "set_scope", _block(session, b), BufferRef(buffer), "local") is not None:
            do(session, "set_scope", b, session.handles.handle(BufferRef(buffer)), "local")
        return
    made = attempt(session.program, "cache_write", _block(session, b), BufferRef(buffer), "local")
    if made is None:
        return
    (copy,) = do(session, "cache_write", b, session.handles.handle(BufferRef(buffer)), "local")
    do(session, "reverse_compute_at", copy, place)


def _only_reader(program: Program, block: str) -> str | None:
    found = consumers(program, BlockRef(block))
    if len(found) != 1 or is_output(program, BlockRef(block)):
        return None
    reader = next(b for b in leaf_blocks(program) if b.name == found[0].name)
    return reader.name if all(a.kind == "spatial" for a in reader.axes) else None


def _producers(session: Session, b: Handle, place: Handle) -> None:
    """Compute what only this block reads next to it, where each iteration reads another part."""
    block, var = block_of(session, b), _loop(session, place).name
    along = {a.name for a in block.axes if var in free_vars(a.binding)}
    read = {r.buffer for r in block.reads if any(along & free_vars(x.start) for x in r.ranges)}
    for producer in leaf_blocks(session.program):
        ref = BlockRef(producer.name)
        if producer.name == block.name or not read.intersection(r.buffer for r in producer.writes):
            continue
        if attempt(session.program, "compute_at", ref, LoopRef(var)) is not None:
            do(session, "compute_at", block_handle(session, producer.name), place)


def _iterations(session: Session, b: Handle, loop: Handle) -> float:
    """Those of a loop around a block; infinite if known only at the call."""
    name = _loop(session, loop).name
    extent = next(s.extent for s in loops_around(session.program, block_of(session, b)) if s.var == name)
    return extent.value if isinstance(extent, Const) else math.inf


def _unroll_reduction(session: Session, b: Handle, loop: Handle, copies: int) -> None:
    """Unroll a few iterations of the innermost reduction loop."""
    extent = _iterations(session, b, loop)
    fits = [n for n in (4, 2) if n * copies <= UNROLLED and extent % n == 0]
    if fits:
        _, inner = do(session, "split", loop, (None, fits[0]))
        do_all(session, "unroll", inner)


# ------------------------------------------------------------------ loops
def _parallel(session: Session, loops: list[Handle]) -> None:
    """Fuse the outermost loops as far as that is legal and make the result parallel."""
    for n in range(len(loops), 0, -1):
        refs = [_loop(session, x) for x in loops[:n]]
        fused = attempt(session.program, "fuse", refs) if n > 1 else None
        if n > 1 and fused is None:
            continue
        program, loop = (session.program, refs[0]) if fused is None else (fused.program, fused.handles[0])
        if attempt(program, "parallel", loop) is not None:
            done = loops[0]
            if n > 1:
                (done,) = do(session, "fuse", *loops[:n])
            do(session, "parallel", done)
            return


def _share(session: Session, root: For) -> None:
    """Make the outermost loops over spatial axes parallel, all but the innermost loop."""
    chain = chain_below(root)
    spatial = sum(a.kind == "spatial" for a in block_under(root).axes)
    outer = chain[: min(spatial, max(1, len(chain) - 1))]
    if len(chain) > 1:
        _parallel(session, [handle(session, s.var) for s in outer])


def _begin_apart(session: Session, block: Block) -> None:
    """Make the init of a reduction a block of its own, before its outermost reduction loop."""
    reduced = {v for a in block.axes if a.kind == "reduce" for v in free_vars(a.binding)}
    loop = next((s for s in loops_around(session.program, block) if s.var in reduced), None)
    if block.init is None or loop is None:
        return
    if attempt(session.program, "decompose_reduction", BlockRef(block.name), LoopRef(loop.var)) is not None:
        do(session, "decompose_reduction", block_handle(session, block.name), handle(session, loop.var))


def _vectorize(session: Session, name: str) -> None:
    """Make the innermost loop a vector if what the block writes is contiguous along it."""
    block = block_of(session, block_handle(session, name))
    loops = loops_around(session.program, block)
    if not loops or not block.writes or loops[-1].kind != "serial":
        return
    along = {v for r in block.writes[0].ranges[-1:] for v in free_vars(r.start)}
    inner = loops[-1].var
    if any(inner in free_vars(a.binding) for a in block.axes if a.name in along):
        do_all(session, "vectorize", handle(session, inner))


def do_all(session: Session, op: str, loop: Handle) -> None:
    """Apply a primitive to a loop unless it refuses."""
    if attempt(session.program, op, _loop(session, loop)) is not None:
        do(session, op, loop)


def _loop(session: Session, loop: Handle) -> LoopRef:
    return LoopRef(session.handles.resolve(loop).name)


def _block(session: Session, block: Handle) -> BlockRef:
    return BlockRef(session.handles.resolve(block).name)
