"""The primitive that takes a padding block apart: decompose_padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Select, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, For, Program, Range, Stmt, Store
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, conjuncts, free_vars, fresh, guarded, loads_of, substitute
from mslang.transform.analysis.accesses import guard_regions
from mslang.transform.analysis.cover import produces_for
from mslang.transform.analysis.dependence import storage_of, storages_deciding, storages_read, storages_written
from mslang.transform.analysis.formula import formula_of, tidy_value
from mslang.transform.analysis.legality import why_not_alone, why_not_complete
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import (
    axis_ranges,
    block_at,
    block_path,
    index_of,
    leaves,
    loop_at,
    loop_path,
    loops_above,
    path_of,
    same_scope,
    taken_names,
)
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.rewrite import put, substitute_loops, tidy

PRIMITIVE = "decompose_padding"


@primitive(family="layout", gives=(BlockRef,))
def decompose_padding(program: Program, block: BlockRef, loop: LoopRef) -> Outcome:
    """Make two blocks of one that pads: one fills everything with the constant, the other copies what lies inside.

    The filling block is `pad_const`, and is returned; it stands in front of `loop`, under loops like those at and under
    it. The old block keeps its handle. Loops that run over just one axis of it run over what lies inside only; other
    axes get a predicate.

    Before:
        block pad[i: 10] { P[i] = select(1 <= i and i < 9, A[i - 1], 0.0) }

    After:
        # pad.decompose_padding(i)
        for i_const in 0..10 {
            block pad_const[i: 10 = i_const] { P[i] = 0.0 }
        }
        for i in 0..8 {
            block pad[i: 8 = i] { P[i + 1] = A[i] }
        }

    Rejects:
        - a loop that is not above the block in its scope, or that stands above something else than loops
        - a block that is not complete; others may write its buffer, too, if none of these stands under the loop, and no
          reader
        - a body that is not one store of a `select` with a number as its last part (`let`s apart)
        - a condition that is always true
        - a condition that does not bound one axis, alone and with step 1, by a size
        - bounds between which there is not provably anything
        - a reader under the loop that may read what is not written before in the same iteration
        - a block under the loop that writes what the predicate of the block, or the bounds of a loop, read

    Source: TVM decompose_padding
    """
    path, above = block_path(program, block, PRIMITIVE), loop_path(program, loop, PRIMITIVE)
    old, top = block_at(path), loop_at(above)
    chain = loops_above(path)
    if not same_scope(path, above) or not any(s is top for s in chain):
        raise refuse(
            "MS374",
            PRIMITIVE,
            f"loop `{loop.name}` is not above block `{block.name}`",
            help=f"the loops above it are: {', '.join(s.var for s in chain) or 'none'}",
        )
    reason = why_not_complete(program, path, (top,)) or why_not_alone(program, path, top)
    if reason is not None:
        raise refuse("MS345", PRIMITIVE, f"block `{block.name}` cannot be taken apart", why=reason)
    if any(not isinstance(s, For) for s in path[len(above) - 1 : -1]):
        raise refuse(
            "MS374",
            PRIMITIVE,
            f"something else than loops stands above block `{block.name}`",
            why="the loops above are run for the parts of the domain one after the other",
        )
    pad = _padding(old)
    inside = _inside(old, pad)
    _require_readers(program, path, top)
    _require_steady(program, path, above)
    inner = chain[next(k for k, s in enumerate(chain) if s is top) :]
    taken = taken_names(program)
    fill = _fill_nest(program, old, pad, inner, taken)
    copy = _copy_nest(program, path, pad, inside, top)
    done = put(program, above, fill.nest, copy)
    names = [s.var for s in (*fill.loops, *chain) if s.kind != "serial"]
    require_kinds(done, names, PRIMITIVE)
    return Outcome(done, (BlockRef(fill.block),))


class _Padding(msgspec.Struct, frozen=True):
    """`buffer[indices] = value` where the condition holds, the constant elsewhere."""

    store: Store
    condition: Expr
    value: Expr
    constant: Const


def _padding(block: Block) -> _Padding:
    formula = formula_of(block)
    match formula:
        case Store(value=Select(condition=c, then=value, otherwise=Const() as constant)):
            return _Padding(formula, c, value, constant)
    raise refuse(
        "MS374",
        PRIMITIVE,
        f"block `{block.name}` is not padding",
        why="a padding stores `select(inside, value, number)`, and does nothing else",
    )


# ------------------------------------------------------------------ conditions
def _inside(block: Block, pad: _Padding) -> dict[str, Range]:
    """The values of the axes for which the condition holds; those that it does not bound are not in it."""
    ranges = axis_ranges(block)
    low: dict[str, Expr] = {}
    high: dict[str, Expr] = {}
    for c in conjuncts(pad.condition):
        if arith.proved(c, ranges):
            continue
        name, is_low, bound = _bound(block, c)
        if is_low:
            low[name] = bound if name not in low else arith.maximum(low[name], bound)
        else:
            high[name] = bound if name not in high else arith.minimum(high[name], bound)
    if not low and not high:
        raise refuse(
            "MS374",
            PRIMITIVE,
            f"the condition of block `{block.name}` is always true",
            why="there is nothing to fill",
        )
    found: dict[str, Range] = {}
    for a in block.axes:
        if a.name not in low and a.name not in high:
            continue
        start = arith.simplify(arith.maximum(low.get(a.name, ZERO), ZERO))
        stop = arith.simplify(arith.minimum(high.get(a.name, a.extent), a.extent))
        extent = arith.simplify(arith.sub(stop, start))
        if not arith.proved(Binary("<=", ONE, extent)):
            raise refuse(
                "MS374",
                PRIMITIVE,
                f"nothing lies provably inside along axis `{a.name}` of block `{block.name}`",
                why="its lower bound is not provably below its upper bound",
            )
        found[a.name] = Range(start, extent)
    return found


def _bound(block: Block, condition: Expr) -> tuple[str, bool, Expr]:
    """The axis that a condition bounds, whether from below, and by what: the first value, or the first beyond."""
    names = frozenset(a.name for a in block.axes)
    match condition:
        case Binary(op="<" | ">" | "<=" | ">=" as op, left=left, right=right) if not any(loads_of(condition)):
            small, great = (left, right) if op in ("<", "<=") else (right, left)
            rest = arith.simplify(arith.sub(great, small) if "=" in op else arith.sub(arith.sub(great, small), ONE))
            terms = coefficients(rest, names)
            used = {n: c for n, c in (terms or {}).items() if not arith.equal(c, ZERO)}
            if terms is not None and len(used) == 1:
                ((name, scale),) = used.items()
                offset = arith.simplify(substitute(rest, dict.fromkeys(names, ZERO)))
                if arith.equal(scale, ONE):
                    return name, True, arith.sub(ZERO, offset)
                if arith.equal(scale, Const(-1)):
                    return name, False, arith.add(offset, ONE)
    raise refuse(
        "MS374",
        PRIMITIVE,
        f"a condition of block `{block.name}` does not bound one axis, alone and with step 1",
        why="what lies inside must be a box",
    )


def _require_readers(program: Program, path: Path, loop: For) -> None:
    """What is under the loop reads only what the same iteration has written: it may find the rest filled already."""
    block, order = block_at(path), leaves(loop)
    buffer = block.writes[0].buffer
    storage = storage_of(program, buffer)
    for k, user in enumerate(order):
        if user is block or storage not in storages_read(program, user):
            continue
        reader = path_of(program, BlockRef(user.name), PRIMITIVE)
        later = k > index_of(order, block) and all(
            x.buffer == buffer for x in (*user.reads, *guard_regions(user)) if storage_of(program, x.buffer) == storage
        )
        if not (later and produces_for(program, path, reader, buffer)):
            raise refuse(
                "MS374",
                PRIMITIVE,
                f"block `{user.name}` may read elements of `{buffer}` that block `{block.name}` writes in other "
                "iterations "
                f"of loop `{loop.var}`, or later in the same",
                why="it would find the constant instead",
            )


def _require_steady(program: Program, path: Path, above: Path) -> None:
    """What is under the loop changes nothing that decides where the block runs: it would fill other elements."""
    deciding = storages_deciding(program, path, above)
    for other in leaves(above[-1]):
        changed = sorted(deciding & storages_written(program, other))
        if changed:
            raise refuse(
                "MS374",
                PRIMITIVE,
                f"block `{other.name}` writes `{changed[0]}` under loop `{loop_at(above).var}`",
                why=f"the predicate of block `{block_at(path).name}`, or the bounds of a loop, read it, and the block "
                "that fills is to run where they hold later",
                help="decompose at a loop inside that does not hold that block",
            )


# ------------------------------------------------------------------ what is made
class _Fill(msgspec.Struct, frozen=True):
    """The nest that fills."""

    nest: Stmt
    block: str
    loops: tuple[For, ...]


def _fill_nest(program: Program, old: Block, pad: _Padding, inner: Sequence[For], taken: set[str]) -> _Fill:
    renamed: dict[str, Expr] = {}
    loops: list[For] = []
    for s in inner:
        name = fresh(f"{s.var}_const", taken)
        taken.add(name)
        made = replace(s, var=name, start=substitute(s.start, renamed), extent=substitute(s.extent, renamed), body=())
        loops.append(made)
        renamed[s.var] = Var(name)
    name = fresh(f"{old.name}_const", taken)
    bare = replace(old, name=name, body=(Store(pad.store.buffer, pad.store.indices, pad.constant),))
    reads, writes = infer_regions(bare, all_buffers(program))
    body: tuple[Stmt, ...] = substitute_loops((replace(bare, reads=reads, writes=writes),), renamed, None)
    for s in reversed(loops):
        body = (replace(s, body=body),)
    return _Fill(body[0], name, tuple(loops))


def _copy_nest(program: Program, path: Path, pad: _Padding, inside: Mapping[str, Range], top: For) -> Stmt:
    """The old nest from the loop on, over what lies inside."""
    old = block_at(path)
    chain = loops_above(path)
    own = [s for s in chain[next(k for k, s in enumerate(chain) if s is top) :] if leaves(s) == (old,)]
    shorter = {
        a.name: loop
        for a in old.axes
        if a.name in inside
        for loop in (_shortened(old, a.name, own, chain),)
        if loop is not None
    }
    shifted: dict[str, Expr] = {n: arith.add(Var(n), inside[n].start) for n in shorter}
    axes = tuple(replace(a, extent=inside[a.name].extent) if a.name in shorter else a for a in old.axes)
    ranges = {a.name: Range(ZERO, a.extent) for a in axes}
    limits: list[Expr] = []
    for n, r in inside.items():
        if n not in shorter:
            limits += [Binary("<=", r.start, Var(n)), Binary("<", Var(n), arith.add(r.start, r.extent))]
    store = Store(
        pad.store.buffer,
        tuple(tidy(substitute(i, shifted), ranges) for i in pad.store.indices),
        tidy_value(substitute(pad.value, shifted), ranges),
    )
    kept = tuple(c for c in limits if not arith.proved(c, ranges))
    bare = replace(old, axes=axes, body=(store,), predicate=guarded(old.predicate, kept))
    reads, writes = infer_regions(bare, all_buffers(program))
    made: Stmt = replace(bare, reads=reads, writes=writes)
    extents = {s.var: inside[n].extent for n, s in shorter.items()}
    return _rebuilt(top, old, made, extents)


def _shortened(block: Block, axis: str, own: Sequence[For], chain: Sequence[For]) -> For | None:
    """The loop that runs over one axis alone, from 0 over all its values."""
    mine = next(a for a in block.axes if a.name == axis)
    loop = next((s for s in own if isinstance(mine.binding, Var) and s.var == mine.binding.name), None)
    if loop is None or not arith.equal(loop.start, ZERO) or not arith.equal(loop.extent, mine.extent):
        return None
    used = {v for a in block.axes if a is not mine for v in free_vars(a.binding)} | free_vars(block.predicate)
    used |= {v for s in chain for v in free_vars(s.start) | free_vars(s.extent)}
    return None if {loop.var, axis} & used else loop


def _rebuilt(s: Stmt, old: Block, new: Stmt, extents: Mapping[str, Expr]) -> Stmt:
    if s is old:
        return new
    if not isinstance(s, For):
        return s
    return replace(s, extent=extents.get(s.var, s.extent), body=tuple(_rebuilt(x, old, new, extents) for x in s.body))


__all__ = ["decompose_padding"]
