"""Primitives that put an instruction in the place of what it means: tensorize."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import ScheduleError
from mslang.ir import arith
from mslang.ir.expr import ONE, ZERO, Binary, Expr, Var
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.intrin import KEY, Intrin, intrin_of, with_record
from mslang.ir.program import Block, For, Program, Range, Region, Stmt, Store, View
from mslang.ir.region import infer_regions
from mslang.ir.visit import fresh, map_bodies, map_expr, map_stmt_exprs, walk
from mslang.transform.analysis.alignment import alignment_entries, alignments, with_alignments
from mslang.transform.analysis.dependence import storage_of
from mslang.transform.analysis.position import axis_ranges, block_at, block_path, taken_names
from mslang.transform.analysis.unify import Mismatch, Operand, side, unify
from mslang.transform.description import described
from mslang.transform.outcome import BlockRef, Gone, Handle, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.primitives.blockize import blockize
from mslang.transform.rename import renamed
from mslang.transform.rewriting.rewrite import put
from mslang.transform.tensorize_mapping import tiled


@primitive(family="blocks")
def tensorize(program: Program, target: LoopRef | BlockRef, intrin: Intrin) -> Outcome:
    """Let an instruction do what a block of blocks, or what stands under a loop, does.

    What stands under a loop is made a block first (`blockize`); a block that holds no other is tiled first, as
    `tensorize_mapping` tiles it. What the block does must then be what the description of the intrinsic says: the same
    statements, over the same kinds and numbers of iterations (in any order where it is one nest), of elements of the
    same types, in the scopes and with the strides that the description asks for. Each of its parameters becomes a view
    of the part of the buffer that stands in its place.

    An implementation as a program takes the place of the body. Of implementations as text the program keeps the text,
    and the block the description as its body, which is what it means: so it is interpreted, and so it runs wherever
    the text is not for. An init of the block stays.

    Before:
        for i0 in 0..4 {
            block b_o[i_o: 4 = i0] {
                reads A[i_o * 16 .. i_o * 16 + 16]
                writes B[i_o * 16 .. i_o * 16 + 16]
                for i1 in 0..16 {
                    block b[i: 64 = i_o * 16 + i1] { B[i] = A[i] }
                }
            }
        }

    After:
        # b_o.tensorize(copy_16), which is a program; of a text the block would say attr "intrin" = "copy_16"
        for i0 in 0..4 {
            block b_o[i_o: 4 = i0] {
                view src: f32[16] = A[i_o * 16 .. i_o * 16 + 16]
                view dst: f32[16] = B[i_o * 16 .. i_o * 16 + 16]
                reads A[i_o * 16 .. i_o * 16 + 16]
                writes B[i_o * 16 .. i_o * 16 + 16]
                for x in 0..16 {
                    block copy[x: 16 = x] { dst[x] = src[x] }
                }
            }
        }

    Rejects:
        - a loop that `blockize` rejects, a block that cannot be tiled
        - a block that is an instruction already
        - whatever is not as described: the number of statements, the number or the kind of iterations, an operation, an
          element type, a scope, a stride, an alignment, an index, an init, a guard inside the tile (`why` says what
          was expected and what was found)
        - an operand that is written and may share elements with another one

    Source: TVM tensorize
    """
    primitive = "tensorize"
    outcome = _as_tile(program, target, intrin, primitive)
    done = outcome.program
    path = block_path(done, BlockRef(outcome.handles[0].name), primitive)
    block = block_at(path)
    if intrin_of(block) is not None:
        raise refuse(
            "MS381",
            primitive,
            f"block `{block.name}` is the instruction `{intrin_of(block)}` already",
            help="an instruction stays what it is; tensorize another block",
        )
    try:
        match_ = _matched(done, block, intrin)
    except Mismatch as found:
        raise refuse(
            "MS380",
            primitive,
            f"block `{block.name}` is not what `{intrin.name}` does",
            why=str(found),
            help=f"the `desc` of `{intrin.name}` says what is expected",
        ) from None
    made = _with_alignments_of(block, _instruction(done, block, intrin, match_))
    if intrin.texts:
        done, name = with_record(done, intrin)
        made = replace(made, annotations=(*made.annotations, (KEY, name)))
    done = put(done, path, made)
    return Outcome(done, (), {**outcome.forward, **_gone(program, done, primitive, BlockRef(made.name))})


def as_instruction(intrin: Intrin) -> Program:
    """An intrinsic's description as a program that is the instruction and nothing else."""
    desc = intrin.desc
    block = Block(fresh(f"{intrin.name}_o", taken_names(desc)), (), (), (), desc.body)
    operands = {p.buffer.name: Operand(p.buffer.name, (ZERO,) * len(p.buffer.shape)) for p in desc.params}
    made = _instruction(desc, block, intrin, _Match(operands, True))
    reads, writes = infer_regions(made, all_buffers(desc))
    program = desc
    if intrin.texts:
        program, name = with_record(desc, intrin)
        made = replace(made, annotations=((KEY, name),))
    return replace(program, allocs=(), body=(replace(made, reads=reads, writes=writes),))


# ------------------------------------------------------------------ what is replaced
def _as_tile(program: Program, target: LoopRef | BlockRef, intrin: Intrin, primitive: str) -> Outcome:
    """The program with a block of blocks to be replaced."""
    if isinstance(target, LoopRef):
        return _blockized(program, target, primitive)
    block = block_at(block_path(program, target, primitive))
    if any(isinstance(s, Block) for s in walk(block.body)) or intrin_of(block) is not None:
        return Outcome(program, (target,))
    outcome = tiled(program, target, intrin, primitive)
    return _blockized(outcome.program, LoopRef(outcome.handles[0].name), primitive)


def _blockized(program: Program, loop: LoopRef, primitive: str) -> Outcome:
    try:
        return blockize(program, loop)
    except ScheduleError as error:
        found = error.diagnostic
        raise ScheduleError(replace(found, message=found.message.replace("blockize: ", f"{primitive}: ", 1))) from None


def _gone(before: Program, after: Program, by: str, into: BlockRef) -> dict[Handle, Gone]:
    """What happened to the handles of loops and blocks that are not there any more."""
    left = _handles(after)
    return {h: Gone(by, (into,)) for h in _handles(before) if h not in left}


def _handles(program: Program) -> dict[Handle, None]:
    found: dict[Handle, None] = {}
    for s in walk(program.body):
        match s:
            case For(var=v):
                found[LoopRef(v)] = None
            case Block(name=n):
                found[BlockRef(n)] = None
    return found


# ------------------------------------------------------------------ matching
class _Match(msgspec.Struct, frozen=True):
    """The operands by parameter; whether the instruction does the init, too."""

    operands: Mapping[str, Operand]
    starts: bool


def _matched(program: Program, block: Block, intrin: Intrin) -> _Match:
    ranges, buffers = axis_ranges(block), all_buffers(program)
    desc = described(intrin)
    known: Mapping[str, Operand] = {}
    if desc.init is not None:
        if block.init is None:
            raise Mismatch("the description starts the reduction, the block has no init")
        later = next((a for a in block.axes if a.kind == "reduce" and not arith.equal(a.extent, ONE)), None)
        if later is not None:
            raise Mismatch(f"the description starts the reduction, which goes on over axis `{later.name}` of the block")
        known = unify(side(block.init, buffers, ranges, "tile"), desc.init, ranges, known)
    known = unify(side(block.body, buffers, ranges, "tile"), desc.body, ranges, known)
    missing = [p.buffer.name for p in intrin.desc.params if p.buffer.name not in known]
    if missing:
        raise Mismatch(f"the description does not use its parameter `{missing[0]}`, so it cannot be determined")
    apart = alignments(program) if intrin.program is None else {}
    for operand in known.values():
        last = len(operand.starts) - 1
        if any(a.axis == last and (a.offset - 1) % a.factor for a in apart.get(operand.buffer, ())):
            raise Mismatch(f"the elements of the rows of `{operand.buffer}` do not lie side by side")
    _require_apart(program, intrin.desc, known, ranges)
    return _Match(known, desc.init is not None)


def _require_apart(
    program: Program, desc: Program, operands: Mapping[str, Operand], ranges: Mapping[str, Range]
) -> None:
    """Refuse an operand that is written where another one may be: an instruction may read all before it writes."""
    shapes = {p.buffer.name: p.buffer.shape for p in desc.params}
    boxes = {name: _box(operand, shapes[name]) for name, operand in operands.items()}
    for name in dict.fromkeys(s.buffer for s in walk(desc.body) if isinstance(s, Store)):
        mine = operands[name]
        for other, its in operands.items():
            if other == name or storage_of(program, mine.buffer) != storage_of(program, its.buffer):
                continue
            if mine.buffer != its.buffer or not any(
                arith.proved(Binary("<=", arith.add(a.start, a.extent), b.start), ranges)
                for pair in zip(boxes[name], boxes[other], strict=True)
                for a, b in (pair, pair[::-1])
            ):
                raise Mismatch(f"`{name}` is written, and may share elements of `{mine.buffer}` with `{other}`")


def _box(operand: Operand, shape: tuple[Expr, ...]) -> tuple[Range, ...]:
    """The part of a buffer that is an operand."""
    dropped = len(operand.starts) - len(shape)
    return tuple(map(Range, operand.starts, (*(ONE for _ in range(dropped)), *shape)))


# ------------------------------------------------------------------ the instruction
def _with_alignments_of(block: Block, made: Block) -> Block:
    """The instruction, asking for the strides that `storage_align` left on the blocks that it replaces."""
    numbers = {r.buffer: k for k, r in reversed(tuple(enumerate(made.writes)))}
    entries = dict.fromkeys(alignment_entries(made) or ())
    for inner in blocks_of(block.body):
        for number, axis, factor, offset in alignment_entries(inner) or ():
            name = inner.writes[number].buffer if 0 <= number < len(inner.writes) else None
            if name in numbers:
                entries[(numbers[name], axis, factor, offset)] = None
    return with_alignments(made, tuple(entries)) if entries else made


def _instruction(program: Program, block: Block, intrin: Intrin, found: _Match) -> Block:
    """The block, doing what the intrinsic says, on views."""
    taken = taken_names(program)
    body = intrin.program or intrin.desc
    taken |= {a.name for b in blocks_of(body.body) for a in b.axes}
    views: list[View] = []
    names: dict[str, str] = {}
    for p in intrin.desc.params:
        operand = found.operands[p.buffer.name]
        source = all_buffers(program)[operand.buffer]
        name = fresh(p.buffer.name, taken)
        taken.add(name)
        names[p.buffer.name] = name
        region = Region(source.name, _box(operand, p.buffer.shape))
        views.append(View(replace(p.buffer, name=name, scope=source.scope, align=None, strides=None), region))
    inner = _fresh_copy(body, names, taken, all_buffers(program))
    made = replace(
        block,
        body=inner.body,
        allocs=inner.allocs,
        init=None if found.starts else block.init,
        views=tuple(views),
    )
    if intrin.program is None:
        return made
    reads, writes = infer_regions(made, all_buffers(program))
    return replace(made, reads=reads, writes=writes)


def _fresh_copy(p: Program, views: Mapping[str, str], taken: set[str], others: Mapping[str, object]) -> Program:
    """A description's or implementation's statements with names that are free in the program, on views."""

    def named(name: str) -> str:
        new = fresh(name, taken)
        taken.add(new)
        return new

    buffers = {**views, **{b.name: named(b.name) for b in p.allocs}}
    loops = {s.var: named(s.var) for s in walk(p.body) if isinstance(s, For)}
    blocks = {b.name: named(b.name) for b in blocks_of(p.body)}
    body = tuple(_without_clashes(s, others) for s in renamed(p.body, loops, blocks, buffers))
    return replace(p, body=body, allocs=tuple(replace(b, name=buffers[b.name]) for b in p.allocs))


def _without_clashes(s: Stmt, others: Mapping[str, object]) -> Stmt:
    """A statement in which no axis has the name of a buffer of the program."""
    if isinstance(s, Block):
        clash = {a.name: fresh(a.name, {*others, *(x.name for x in s.axes)}) for a in s.axes if a.name in others}
        if clash:

            def change(e: Expr) -> Expr:
                return map_expr(e, lambda x: Var(clash[x.name]) if isinstance(x, Var) and x.name in clash else None)

            bound = {a.name: a.binding for a in s.axes}
            moved = map_stmt_exprs(s, change)
            if isinstance(moved, Block):
                axes = tuple(replace(a, name=clash.get(a.name, a.name), binding=bound[a.name]) for a in s.axes)
                s = replace(moved, axes=axes)
    return map_bodies(s, lambda body: tuple(_without_clashes(x, others) for x in body))
