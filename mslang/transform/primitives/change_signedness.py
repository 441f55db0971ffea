"""The primitive that reads an operand of an integer product with the other signedness: change_signedness."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mslang.ir.dtype import bits, is_integer, is_unsigned
from mslang.ir.expr import ZERO, Binary, Cast, Const, Expr, Load, Var, dtype_of
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Axis, Block, Buffer, Program, Range, Store
from mslang.ir.reduction import update_of
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, free_vars, fresh, loads_of
from mslang.transform.analysis.dependence import storage_of, storages_written
from mslang.transform.analysis.inlining import require_covered
from mslang.transform.analysis.instances import domains_of, portable_predicate, runs_all
from mslang.transform.analysis.legality import why_not_reduction
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    buffer_named,
    leaves,
    loops_above,
    scope_path,
    taken_names,
    within_scope,
)
from mslang.transform.analysis.reduction_updates import updates_of
from mslang.transform.outcome import BlockRef, BufferRef, Outcome, refuse
from mslang.transform.primitive import primitive
from mslang.transform.primitives.caching import cache_read
from mslang.transform.rewriting.nest import nest
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import with_alloc

PRIMITIVE = "change_signedness"


class _Product(msgspec.Struct, frozen=True):
    """What a block sums up: its update, `operand * other`, and what it starts from."""

    update: Store
    operand: Load
    other: Expr
    start: Expr
    dtype: str


@primitive(family="layout", gives=(BlockRef, BlockRef))
def change_signedness(program: Program, block: BlockRef, buffer: BufferRef) -> Outcome:
    """Let a sum of integer products read one operand with the other signedness, and start from what compensates that.

    `a * b` is `(a + 128) * b - 128 * b`: the operand is copied with 128 (half the range of its type) added, so that i8
    becomes u8; or subtracted, so that u8 becomes i8. What that adds is the sum of the other operand times that number.
    It is computed once, by a block of its own, and the reduction starts from it. So instructions for unsigned by
    signed bytes multiply signed by signed ones. Integers wrap, so results are equal bit by bit.

    Returns the block that copies and the block that sums the other operand up.

    Before:
        block mm[i: 64, j: 64 | k: 64] { C[i, j] += i32(A[i, k]) * i32(B[k, j]) }

    After:
        # mm.change_signedness(A)
        block A_global[ax0: 64, ax1: 64] { A_global_1[ax0, ax1] = u8(i32(A[ax0, ax1]) + 128) }
        block mm_sum[j: 64 | k: 64] { mm_sum_1[j] += i32(B[k, j]) }
        block mm[i: 64, j: 64 | k: 64] {
            init { C[i, j] = -128 * mm_sum_1[j] }
            C[i, j] += i32(A_global_1[i, k]) * i32(B[k, j])
        }

    Rejects:
        - a block that is not a reduction block, or is not one sum of products of integers
        - a buffer that is not one factor of the product, of an integer type, converted or not, and read once
        - a block inside another, or one that does not provably run for all values of its axes
        - another block of the nest that writes what the other factor reads
        - what `cache_read` refuses

    Source: oneDNN's compensation of products of signed bytes
    """
    path, old = block_path(program, block, PRIMITIVE), buffer_named(program, buffer, PRIMITIVE)
    found = _product(program, path, old)
    _require_whole(program, path, found)
    staged = cache_read(program, block, buffer, "global", consumers=(block,))
    (copy,) = staged.handles
    assert isinstance(copy, BlockRef)
    other_type = ("i" if is_unsigned(old.dtype) else "u") + str(bits(old.dtype))
    offset = 2 ** (bits(old.dtype) - 1) * (-1 if is_unsigned(old.dtype) else 1)
    done, name = _converted(staged.program, copy.name, other_type, offset)
    done, sums, at = _summed(done, block.name, found)
    done = _reading(done, block.name, found, Load(name, found.operand.indices, other_type), _scaled(at, -offset))
    require_covered(done, path_to_block(done, block.name) or (), PRIMITIVE)
    require_covered(done, path_to_block(done, sums) or (), PRIMITIVE)
    require_kinds(done, [s.var for s in loops_above(path) if s.kind != "serial"], PRIMITIVE)
    return Outcome(done, (copy, BlockRef(sums)))


# ------------------------------------------------------------------ conditions
def _product(program: Program, path: Path, old: Buffer) -> _Product:
    block = block_at(path)
    reason = why_not_reduction(program, path)
    if reason is not None:
        raise refuse("MS313", PRIMITIVE, f"block `{block.name}` is not a reduction block", why=reason)
    updates = updates_of(program, block, PRIMITIVE)
    how = update_of(updates.stores[0])
    if len(updates.stores) > 1 or how is None or how.op != "+" or not isinstance(how.value, Binary):
        raise _no_product(block.name, old.name, "it does not sum one product up")
    if how.value.op != "*" or not is_integer(how.dtype) or not is_integer(old.dtype):
        raise _no_product(block.name, old.name, "what it sums up is not a product of integers")
    for factor, other in ((how.value.left, how.value.right), (how.value.right, how.value.left)):
        load = factor.operand if isinstance(factor, Cast) and is_integer(factor.dtype) else factor
        if not isinstance(load, Load) or load.buffer != old.name or dtype_of(factor) != how.dtype:
            continue
        if any(x.buffer in (old.name, updates.stores[0].buffer) for x in (*loads_of(other), *_inner(load))):
            raise _no_product(block.name, old.name, f"`{old.name}` or what is summed up is read elsewhere, too")
        return _Product(updates.stores[0], load, other, updates.starts[0], how.dtype)
    raise _no_product(block.name, old.name, f"no factor is an element of `{old.name}`, as it is or converted")


def _inner(load: Load) -> tuple[Load, ...]:
    return tuple(x for i in load.indices for x in loads_of(i))


def _no_product(block: str, buffer: str, why: str) -> Exception:
    return refuse("MS399", PRIMITIVE, f"block `{block}` is not a sum of integer products of `{buffer}`", why=why)


def _require_whole(program: Program, path: Path, found: _Product) -> None:
    """The sum of the other factor can be computed in front of the nest, over the instances that the block has."""
    block = block_at(path)
    if scope_path(path):
        raise refuse(
            "MS372",
            PRIMITIVE,
            f"block `{block.name}` stands inside block `{block_at(scope_path(path)).name}`",
            why="the sums would reach beyond what that block declares",
            help="change the signedness before blocks are made into one",
        )
    if portable_predicate(path) != () or not runs_all(path, domains_of(path)):
        raise refuse(
            "MS348",
            PRIMITIVE,
            f"block `{block.name}` does not provably run for all values of its axes",
            why="its loops and its predicate do not provably cover the domains of its axes",
        )
    axes = {a.name for a in block.axes}
    if not free_vars(found.other) <= axes or any(free_vars(a.extent) for a in block.axes):
        raise _no_product(block.name, found.operand.buffer, "the other factor depends on more than the block's axes")
    read = {storage_of(program, x.buffer) for x in loads_of(found.other)}
    for other in leaves(within_scope(path)[0]):
        if read & storages_written(program, other):
            raise refuse(
                "MS372",
                PRIMITIVE,
                f"block `{other.name}` is in one nest with block `{block.name}`",
                why="it writes what the other factor reads, which is summed up before the nest",
                help="change the signedness before blocks are moved into the nest",
            )


# ------------------------------------------------------------------ rewriting
def _converted(program: Program, copy: str, dtype: str, offset: int) -> tuple[Program, str]:
    """The copy with a number added and of another type, and its buffer's name."""
    path = path_to_block(program, copy) or ()
    (store,) = block_at(path).body
    assert isinstance(store, Store)
    wide = "i32" if bits(dtype) < 32 else "i64"
    # Of 64 bits, 2^63 is its own negative.
    number = -(2**63) if bits(dtype) == 64 else offset
    value = Cast(dtype, Binary("+", Cast(wide, store.value), Const(number, wide)))
    done = put(program, path, replace(block_at(path), body=(replace(store, value=value),)))
    allocs = tuple(replace(b, dtype=dtype) if b.name == store.buffer else b for b in done.allocs)
    return replace(done, allocs=allocs), store.buffer


def _summed(program: Program, name: str, found: _Product) -> tuple[Program, str, Load]:
    """A block in front of the nest that sums the other factor up; its name, and its element for an instance."""
    path = path_to_block(program, name) or ()
    taken = taken_names(program)
    block = block_at(path)
    used = free_vars(found.other)
    kept = tuple(a for a in block.axes if a.kind != "spatial" or a.name in used)
    made_name = fresh(f"{name}_sum", taken)
    taken.add(made_name)
    buffer = Buffer(fresh(made_name, taken), found.dtype, tuple(a.extent for a in kept if a.kind == "spatial"))
    taken.add(buffer.name)
    at = Load(buffer.name, tuple(Var(a.name) for a in kept if a.kind == "spatial"), found.dtype)
    bare = Block(
        made_name,
        tuple(Axis(a.name, a.extent, a.kind, ZERO) for a in kept),
        (),
        (),
        (Store(buffer.name, at.indices, Binary("+", at, found.other)),),
        init=(Store(buffer.name, at.indices, Const(0, found.dtype)),),
    )
    reads, writes = infer_regions(bare, all_buffers(program) | {buffer.name: buffer})
    spans = {a.name: Range(ZERO, a.extent) for a in kept}
    made = nest(replace(bare, reads=reads, writes=writes), spans, (), {}, taken)
    top = path[:1]
    done = put(program, top, made.stmt, top[-1])
    return with_alloc(done, path, buffer), made_name, at


def _scaled(sums: Load, factor: int) -> Expr:
    width = bits(sums.dtype)
    low = 0 if is_unsigned(sums.dtype) else -(1 << (width - 1))
    return Binary("*", Const((factor - low) % (1 << width) + low, sums.dtype), sums)


def _reading(program: Program, name: str, found: _Product, operand: Load, added: Expr) -> Program:
    """The block with the converted operand, started from what compensates it."""
    path = path_to_block(program, name) or ()
    block = block_at(path)
    store = found.update
    own = Load(store.buffer, store.indices, found.dtype)
    value = Binary("+", own, Binary("*", Cast(found.dtype, operand), found.other))
    nothing = isinstance(found.start, Const) and found.start.value == 0
    start = added if nothing else Binary("+", found.start, added)
    made = replace(
        block,
        init=(Store(store.buffer, store.indices, start),),
        body=(Store(store.buffer, store.indices, value),),
    )
    reads, writes = infer_regions(made, all_buffers(program))
    return put(program, path, replace(made, reads=reads, writes=writes))


__all__ = ["change_signedness"]
