"""The tail `pad` of `split`: the iteration domain is rounded up, and the buffers in it grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import ScheduleError
from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.dtype import is_float
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Var
from mslang.ir.find import all_buffers, leaf_paths, path_to_block
from mslang.ir.program import Axis, Block, Buffer, For, If, Program, Range, Region, Stmt, Store
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, free_vars, fresh, loads_of, stmt_exprs, substitute, walk, walk_expr
from mslang.transform.analysis.accesses import guard_loads, updated_regions
from mslang.transform.analysis.carried_dependence import reaches, why_unplaced
from mslang.transform.analysis.cover import why_not_covered
from mslang.transform.analysis.dependence import storage_of, writers
from mslang.transform.analysis.initialization import why_not_from_scratch
from mslang.transform.analysis.position import (
    block_at,
    common_path,
    loop_at,
    loop_range,
    ranges_above,
    scope_block,
    scope_body,
    scope_buffers,
    taken_names,
    within_scope,
)
from mslang.transform.outcome import refuse
from mslang.transform.rewriting.cloning import require_still_concurrent, used_outside_of_blocks
from mslang.transform.rewriting.loop_nest import mixed_radix, nested
from mslang.transform.rewriting.rewrite import put, substitute_loops

Growth = dict[tuple[str, int], int]
"""By how many times the iterations added a dimension of a buffer grows."""


class _Padding(msgspec.Struct, frozen=True):
    """A loop to be rounded up by `more` iterations, in the scope that allocates `buffers`."""

    program: Program
    path: Path
    more: Expr
    buffers: Mapping[str, Buffer]

    @property
    def loop(self) -> For:
        """The loop."""
        return loop_at(self.path)

    def refused(self, why: str) -> ScheduleError:
        """The refusal for a reason."""
        return refuse(
            "MS356",
            "split",
            f"loop `{self.loop.var}` cannot be rounded up",
            why=why,
            help="stage what it accesses with `cache_read` and `cache_write` first, use `pad_einsum`, or another tail",
        )


def pad(program: Program, path: Path, names: Sequence[str], extents: Sequence[Expr]) -> Program:
    """The loop at the end of a path as a nest of full tiles, the last of which runs over.

    The buffers that the iterations added access grow; what of them nobody under the loop writes is filled with zeros by
    a block `T_fill` in front.

    Raises:
        ScheduleError: MS356, the iterations added are not provably harmless.
    """
    more = arith.simplify(arith.sub(arith.size_product(extents), loop_at(path).extent))
    here = _Padding(program, path, more, {b.name: b for b in scope_buffers(program, path)})
    varying = free_vars(more)
    if varying:
        raise here.refused(f"how many iterations are added differs with `{min(varying)}`, and buffers have one size")
    _require_plain_body(here)
    growth: Growth = {}
    for q in leaf_paths(path):
        _grow(here, q, growth)
    return _padded(here, names, extents, growth)


def _require_plain_body(here: _Padding) -> None:
    loop = here.loop
    stray = why_unplaced(loop.body, f"loop `{loop.var}`")
    if stray is not None:
        raise here.refused(stray)
    for s in walk(loop.body, into_blocks=False):
        if isinstance(s, For) and any(reaches(loop.var, e, (*here.path, s)) for e in (s.start, s.extent)):
            raise here.refused(f"the bounds of loop `{s.var}` depend on it")
    for q in leaf_paths(here.path):
        block = block_at(q)
        inside = tuple(walk((*block.body, *(block.init or ()))))
        if block.views or not all(isinstance(s, Store | If) for s in inside):
            raise here.refused(f"block `{block.name}` holds more than branches and stores")
        if any(reaches(loop.var, i, q) for x in guard_loads(block) for i in x.indices):
            raise here.refused(f"the predicate or a binding of block `{block.name}` loads what may be out of bounds")
        for e in (x for s in inside for whole in stmt_exprs(s) for x in walk_expr(whole)):
            if isinstance(e, Load) and any(True for i in e.indices for _ in loads_of(i)):
                raise here.refused(f"block `{block.name}` reads where data say, which zeros might not")
            if isinstance(e, Binary) and e.op in ("//", "/", "%") and not isinstance(e.right, Const):
                raise here.refused(f"block `{block.name}` divides by what may be 0 there")


def _grow(here: _Padding, path: Path, growth: Growth) -> None:
    """Note by how much what the block at the end of a path accesses has to grow."""
    block, var = block_at(path), here.loop.var
    values = {a.name: a.binding for a in block.axes}
    for a in block.axes:
        if a.kind != "spatial" and reaches(var, a.binding, path):
            raise here.refused(f"it serves the {a.kind} axis `{a.name}` of block `{block.name}`")
        _steps(here, a.binding, f"axis `{a.name}` of block `{block.name}`")
    for access in _accesses(block):
        write, name = isinstance(access, Store), access.buffer
        at = [arith.simplify(substitute(i, values)) for i in access.indices]
        moved = {d: k for d, i in enumerate(at) if (k := _steps(here, i, f"an index of `{name}`"))}
        if not moved and not write:
            continue
        buffer = here.buffers.get(name)
        if buffer is None or storage_of(here.program, name) != name:
            raise here.refused(f"block `{block.name}` accesses `{name}`, which the scope does not allocate")
        if buffer.strides is not None or buffer.offset is not None:
            raise here.refused(f"`{name}` has a layout of its own")
        if write and not any(_beyond(here, path, at[d], buffer.shape[d]) for d in moved):
            raise here.refused(
                f"block `{block.name}` would write elements of `{name}` that are used, or that are no new ones"
            )
        if not write and not any(_beyond(here, path, at[d], buffer.shape[d]) for d in moved):
            _require_written_before(here, path, name)
        for d, k in moved.items():
            growth[name, d] = max(k, growth.get((name, d), 0))


def _require_written_before(here: _Padding, path: Path, buffer: str) -> None:
    """What the iterations added read besides new elements must be there: a later iteration must not first write it."""
    for writer in writers(here.program, scope_body(here.program, here.path), buffer):
        shared = common_path(path, path_to_block(here.program, writer.name) or ())
        if any(isinstance(s, For) for s in shared):
            raise here.refused(
                f"block `{block_at(path).name}` would read elements of `{buffer}` that block `{writer.name}` may "
                "write later"
            )


def _accesses(block: Block) -> Iterator[Load | Store]:
    """The stores and loads of a block: what it declares may be wider, and tell less."""
    for s in walk((*block.body, *(block.init or ()))):
        if isinstance(s, Store):
            yield s
        for e in stmt_exprs(s):
            yield from loads_of(e)


def _steps(here: _Padding, e: Expr, what: str) -> int:
    """By how much an index grows in one iteration of the loop."""
    terms = coefficients(e, frozenset({here.loop.var}))
    step = None if terms is None else terms.get(here.loop.var, ZERO)
    if not isinstance(step, Const) or int(step.value) < 0:
        raise here.refused(f"{what} does not grow with it by a fixed number")
    return int(step.value)


def _beyond(here: _Padding, path: Path, start: Expr, size: Expr) -> bool:
    """Is an index outside of a dimension in all iterations that are added?"""
    loop = here.loop
    ranges = {**ranges_above(path), loop.var: Range(arith.add(loop.start, loop.extent), here.more)}
    return arith.proved(Binary("<=", size, start), ranges)


# ------------------------------------------------------------------ putting it together
def _padded(here: _Padding, names: Sequence[str], extents: Sequence[Expr], growth: Growth) -> Program:
    loop, path, program = here.loop, here.path, here.program
    loops = [For(n, e, ()) for n, e in zip(names, extents, strict=True)]
    ranges = ranges_above(path) | {s.var: loop_range(s) for s in loops}
    value = arith.add(loop.start, mixed_radix(names, extents))
    larger = dict(_larger(here, growth))
    body = tuple(_wider(s, here, all_buffers(program) | larger) for s in loop.body)
    nest = nested(loops, substitute_loops(body, {loop.var: value}, ranges))
    written = {r.buffer for q in leaf_paths(path) for r in block_at(q).writes}
    taken = taken_names(program) | set(names)
    fills = [_fill(here.buffers[name], d, larger[name], taken) for name, d in growth if name not in written]
    for name in larger:
        if used_outside_of_blocks(program, name):
            raise here.refused(f"`{name}` is read outside of blocks")
    result = put(program, path, *nest)
    result = _with_fills(result, here, fills)
    result = _with_sizes(result, here, larger)
    for s in walk(nest, into_blocks=False):
        reason = why_not_covered(result, path_to_block(result, s.name) or ()) if isinstance(s, Block) else None
        if reason is not None:
            raise here.refused(reason)
        if isinstance(s, Block) and updated_regions(s) and s.init is not None:
            reason = why_not_from_scratch(path_to_block(result, s.name) or ())
            if reason is not None:
                raise here.refused(f"{reason}, and nothing has set the new elements that it would continue from")
    require_still_concurrent(result, (*(s for s in path if isinstance(s, For)), *nest), "split")
    return result


def _wider(s: Stmt, here: _Padding, buffers: Mapping[str, Buffer]) -> Stmt:
    match s:
        case For():
            return replace(s, body=tuple(_wider(x, here, buffers) for x in s.body))
        case Block():
            axes = tuple(
                replace(a, extent=arith.simplify(arith.add(a.extent, arith.mul(Const(k), here.more)))) if k else a
                for a in s.axes
                for k in (_steps(here, a.binding, f"axis `{a.name}`"),)
            )
            if axes == s.axes:
                return s
            reads, writes = infer_regions(replace(s, axes=axes), buffers)
            found = {r.buffer for r in reads}
            more = tuple(r for r in s.reads if r.buffer not in found)
            return replace(s, axes=axes, reads=(*reads, *more), writes=writes)
    return s


def _larger(here: _Padding, growth: Growth) -> Iterator[tuple[str, Buffer]]:
    for name in dict.fromkeys(n for n, _ in growth):
        buffer = here.buffers[name]
        shape = tuple(
            arith.simplify(arith.add(n, arith.mul(Const(growth.get((name, d), 0)), here.more)))
            for d, n in enumerate(buffer.shape)
        )
        yield name, replace(buffer, shape=shape)


def _fill(old: Buffer, d: int, new: Buffer, taken: set[str]) -> Stmt:
    """Zeros in what dimension `d` of a buffer has got more; dimensions before it as they were, those after it whole."""

    def named(wanted: str) -> str:
        name = fresh(wanted, taken)
        taken.add(name)
        return name

    block = named(f"{old.name}_fill")
    shape = tuple(n if k < d else m for k, (n, m) in enumerate(zip(old.shape, new.shape, strict=True)))
    extents = [arith.simplify(arith.sub(n, old.shape[d])) if k == d else n for k, n in enumerate(shape)]
    loops = [For(named(f"{old.name}_{k}"), n, ()) for k, n in enumerate(extents)]
    bound = [arith.add(old.shape[d], Var(s.var)) if k == d else Var(s.var) for k, s in enumerate(loops)]
    axes = tuple(Axis(named(f"v{k}"), n, "spatial", b) for k, (n, b) in enumerate(zip(shape, bound, strict=True)))
    at = tuple(Var(a.name) for a in axes)
    zero = Const(False if old.dtype == "bool" else 0.0 if is_float(old.dtype) else 0, old.dtype)
    region = Region(old.name, tuple(Range(i, ONE) for i in at))
    return nested(loops, (Block(block, axes, (), (region,), (Store(old.name, at, zero),)),))[0]


def _with_fills(program: Program, here: _Padding, fills: Sequence[Stmt]) -> Program:
    if not fills:
        return program
    top, scope = within_scope(here.path)[0], scope_block(here.path)
    old = here.program.body if scope is None else scope.body
    k = next((k for k, s in enumerate(old) if s is top), None)
    if k is None:
        raise here.refused("it stands in an init")
    if scope is None:
        return replace(program, body=(*program.body[:k], *fills, *program.body[k:]))
    path = path_to_block(program, scope.name) or ()
    body = block_at(path).body
    return put(program, path, replace(block_at(path), body=(*body[:k], *fills, *body[k:])))


def _with_sizes(program: Program, here: _Padding, larger: Mapping[str, Buffer]) -> Program:
    def grown(several: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return tuple(larger.get(b.name, b) for b in several)

    scope = scope_block(here.path)
    if scope is None:
        return replace(program, allocs=grown(program.allocs))
    path = path_to_block(program, scope.name) or ()
    return put(program, path, replace(block_at(path), allocs=grown(block_at(path).allocs)))
