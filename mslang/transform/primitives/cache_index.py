"""Primitives that compute indices beforehand: cache_index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.expr import (
    ONE,
    ZERO,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Symbol,
    Unary,
    Var,
    children,
    dtype_of,
)
from mslang.ir.find import path_to_block
from mslang.ir.functions import FUNCTIONS
from mslang.ir.program import SCOPES, Axis, Block, Buffer, Program, Range, Region, Stmt, Store
from mslang.ir.visit import Path, free_vars, loads_of, map_expr, map_stmt_exprs, stmt_exprs, walk, walk_expr
from mslang.transform.analysis.cover import steady_box
from mslang.transform.analysis.position import axis_ranges, block_at, block_path, ranges_above, scope_path, taken_names
from mslang.transform.kinds import Scope
from mslang.transform.outcome import BlockRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.rewriting.nest import nest
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import with_alloc


@primitive(family="caching", gives=(BlockRef,), many=True)
def cache_index(program: Program, block: BlockRef, scope: Scope = "global", *, threshold: int = 0) -> Outcome:
    """Compute what a block's loads are indexed by beforehand, into buffers of indices.

    Each whole-number formula of the axes that stands as an index of a load, and occurs at least `threshold` times
    among them, gets a buffer `index_var_0` with one dimension for each axis that it mentions, and a block `index_0`
    before the loops of the block that fills it. Of a formula that occurs less often the parts are looked at. The blocks
    are returned. Loads of what the block writes stay as they are, and so does what it declares to read.

    Before:
        block up[i: 64] { B[i] = A[(i * 3 + 1) // 4] }

    After:
        # up.cache_index(local)
        block index_0[i: 64] { index_var_0[i] = (i * 3 + 1) // 4 }
        block up[i: 64] {
            reads A[(i * 3 + 1) // 4], index_var_0[i]
            writes B[i]
            B[i] = A[index_var_0[i]]
        }

    Rejects:
        - an unknown storage scope
        - a threshold below 0, or that no formula in the indices of the block's loads reaches
        - a block that holds other blocks

    Source: TVM cache_index
    """
    primitive = "cache_index"
    if scope not in SCOPES:
        raise refuse(
            "MS334", primitive, f"unknown storage scope `{scope}`", help=f"the scopes are: {', '.join(sorted(SCOPES))}"
        )
    path = block_path(program, block, primitive)
    if threshold < 0:
        raise refuse("MS363", primitive, f"the threshold is {threshold}", why="a count cannot be negative")
    chosen = _worthwhile(block_at(path), threshold)
    if not chosen:
        message, why = _why_nothing(block_at(path), threshold)
        raise refuse("MS363", primitive, message, why=why)
    done = program
    made = []
    for e in chosen:
        done, name = _staged(done, block.name, e, scope)
        made.append(BlockRef(name))
    return Outcome(done, tuple(made))


# ------------------------------------------------------------------ which
def _why_nothing(block: Block, threshold: int) -> tuple[str, str]:
    """What is wrong with a block in which nothing is computed beforehand, and why."""
    if any(isinstance(s, Block) for s in walk(block.body)):
        return f"block `{block.name}` holds other blocks", "the indices are those of the blocks inside"
    axes = axis_ranges(block)
    found = Counter(e for x in _indices(block) for e in _largest(x, axes))
    if not found:
        return (
            f"there is nothing to compute beforehand in block `{block.name}`",
            "no load of what it only reads is indexed by more than an axis that can be computed for all of its values",
        )
    return (
        f"no index in block `{block.name}` occurs {threshold} times",
        f"what occurs most often does {max(found.values())} time(s)",
    )


def _worthwhile(block: Block, threshold: int) -> tuple[Expr, ...]:
    """The formulas to compute beforehand, larger ones first."""
    axes = axis_ranges(block)
    found: Counter[Expr] = Counter(e for x in _indices(block) for e in _largest(x, axes))
    chosen: dict[Expr, None] = {}
    while found:
        e = max(found, key=_size)  # What holds a part is looked at before it, so that all places of the part count.
        n = found.pop(e)
        if n >= threshold:
            chosen[e] = None
            continue
        for part in children(e):
            for inner in _largest(part, axes):
                found[inner] += n
    return tuple(sorted(chosen, key=lambda e: -_size(e)))


def _size(e: Expr) -> int:
    return sum(1 for _ in walk_expr(e))


def _indices(block: Block) -> Iterator[Expr]:
    """What the loads of a block are indexed by, but for those of what it writes: a reduction must stay one."""
    written = {r.buffer for r in block.writes}
    inside = tuple(walk((*block.body, *(block.init or ()))))
    if any(isinstance(s, Block) for s in inside):
        return
    for s in inside:
        for e in stmt_exprs(s):
            yield from (i for x in loads_of(e) if x.buffer not in written for i in x.indices)


def _largest(e: Expr, axes: Mapping[str, Range]) -> Iterator[Expr]:
    """The largest parts of an index, loads apart, that are formulas of the axes."""
    if isinstance(e, Load):
        return
    if _is_formula(e, axes):
        yield e
        return
    for x in children(e):
        yield from _largest(x, axes)


def _is_formula(e: Expr, axes: Mapping[str, Range]) -> bool:
    used = free_vars(e)
    return (
        bool(children(e))
        and bool(used)
        and used <= axes.keys()
        and dtype_of(e).startswith(("i", "u"))
        and all(_is_safe(x, axes) for x in walk_expr(e))
    )


def _is_safe(e: Expr, axes: Mapping[str, Range]) -> bool:
    """Can a node be evaluated for all values of the axes, whatever guards it where it stands?"""
    match e:
        case Binary("//" | "%", _, by):
            return arith.proved(Binary("!=", by, ZERO), axes) or arith.proved(Binary("<", ZERO, by), axes)
        case Var() | Const() | Symbol() | Unary() | Select() | Cast():
            return True
        case Call(name=name):
            return name in FUNCTIONS
        case Binary(op="/"):
            return dtype_of(e).startswith(("f", "bf"))
        case Binary(op=op):
            return op not in ("<<", ">>")
    return False


# ------------------------------------------------------------------ staging
class _Names(msgspec.Struct, frozen=True):
    block: str
    buffer: str


def _named(program: Program, taken: set[str]) -> _Names:
    k = 0
    while {f"index_{k}", f"index_var_{k}"} & taken:
        k += 1
    return _Names(f"index_{k}", f"index_var_{k}")


def _staged(program: Program, name: str, formula: Expr, scope: str) -> tuple[Program, str]:
    path = path_to_block(program, name) or ()
    block = block_at(path)
    taken = taken_names(program)
    names = _named(program, taken)
    taken |= {names.block, names.buffer}
    extents = {a.name: a.extent for a in block.axes}
    used = tuple(dict.fromkeys(x.name for x in walk_expr(formula) if isinstance(x, Var)))
    dtype = dtype_of(formula)
    buffer = Buffer(names.buffer, dtype, tuple(extents[n] for n in used), scope)
    index = tuple(Var(n) for n in used)
    points = tuple(Range(i, ONE) for i in index)
    anchor: Path = path[: len(scope_path(path)) + 1]
    axes = {a.name: a for a in block.axes}
    box = steady_box(program, path, [axes[n] for n in used], anchor[:-1])
    fill = Block(
        names.block,
        tuple(Axis(n, extents[n], "spatial", ZERO) for n in used),
        (),
        (Region(buffer.name, points),),
        (Store(buffer.name, index, formula),),
    )
    spans = dict(zip(used, box, strict=True))
    stmt = nest(fill, spans, (), ranges_above(anchor), taken).stmt
    changed = _indexed(block, formula, Load(buffer.name, index, dtype))
    changed = replace(changed, reads=(*changed.reads, Region(buffer.name, points)))
    done = put(program, path, changed)
    above = (path_to_block(done, name) or ())[: len(anchor)]
    done = put(done, above, stmt, above[-1])
    return with_alloc(done, path, buffer), names.block


def _indexed(block: Block, formula: Expr, load: Load) -> Block:
    """A block whose loads are indexed by `load` where they were by a formula."""
    written = {r.buffer for r in block.writes}

    def index(e: Expr) -> Expr:
        return map_expr(e, lambda x: load if x == formula else None)

    def value(e: Expr) -> Expr:
        def change(x: Expr) -> Expr | None:
            if not isinstance(x, Load) or x.buffer in written:
                return None
            return Load(x.buffer, tuple(index(i) for i in x.indices), x.dtype)

        return map_expr(e, change)

    def several(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(map_stmt_exprs(s, value) for s in body)

    return replace(block, body=several(block.body), init=None if block.init is None else several(block.init))


__all__ = ["cache_index"]
