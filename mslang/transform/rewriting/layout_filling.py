"""Filling the elements that a new layout adds to a buffer: by its writer, or by a block after all writers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mslang.ir.dtype import INDEX
from mslang.ir.expr import ONE, TRUE, ZERO, Const, Expr, Select, Var
from mslang.ir.find import all_buffers
from mslang.ir.program import Axis, Block, Buffer, For, Program, Range, Region, Stmt, Store
from mslang.ir.region import infer_regions
from mslang.ir.visit import Path, fresh, replace_at, substitute
from mslang.transform.analysis.dependence import buffers_read, buffers_written, paths_touching
from mslang.transform.analysis.index_maps import Image
from mslang.transform.analysis.loop_kinds import require_kinds
from mslang.transform.analysis.position import block_at, common_path, loops_above, taken_names
from mslang.transform.outcome import Gone, LoopRef, Outcome, refuse
from mslang.transform.rewriting.rewrite import put, substitute_loops

AT_ONCE = ("threadIdx", "vthread", "vectorized")
"""How loops run that a filling block must not stand in."""


MARKS = ("serial", "parallel", "vectorized", "unrolled")
"""How loops run that may be taken for serial ones."""


def literal(value: object, dtype: str, primitive: str) -> Const:
    """A number that a person gave, as a literal of an element type.

    Raises:
        ScheduleError: MS387, it is none.
    """
    match value:
        case Const(value=v, dtype=d) if d in (dtype, INDEX):
            value = v
    match value:
        case bool() if dtype == "bool":
            return Const(value, dtype)
        case bool():
            pass
        case int() | float() if dtype.startswith(("f", "bf")):
            return Const(float(value), dtype)
        case int() if dtype.startswith(("i", "u")) and _holds(dtype, value):
            return Const(value, dtype)
    raise refuse(
        "MS387",
        primitive,
        f"`pad` is not a number that an element of type {dtype} can hold",
        help="for example `pad = 0`",
    )


def _holds(dtype: str, value: int) -> bool:
    bits = int(dtype[1:])
    low, high = (0, 1 << bits) if dtype.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
    return low <= value < high


# ------------------------------------------------------------------ by the writer itself
def own_loops(program: Program, path: Path, buffer: Buffer) -> tuple[For, ...] | None:
    """The loops of the block at the end of a path, if it alone writes a buffer, in a nest of its own, each element
    once, by a formula of its index; None otherwise."""
    block = block_at(path)
    touching = [block_at(q) for q in paths_touching(program, buffer.name)]
    if [b.name for b in touching if buffer.name in buffers_written(b)] != [block.name]:
        return None
    if buffer.name in buffers_read(block) or block.init is not None or block.predicate != TRUE:
        return None
    if len(block.body) != 1 or not isinstance(block.body[0], Store) or block.views or block.allocs:
        return None
    names = [e.name for e in block.body[0].indices if isinstance(e, Var)]
    axes = {a.name: a for a in block.axes if a.kind == "spatial"}
    if sorted(names) != sorted(axes) or len(axes) != len(block.axes) or len(names) != len(buffer.shape):
        return None
    if any(axes[n].extent != e for n, e in zip(names, buffer.shape, strict=True)):
        return None
    return trivial_nest(path)


def trivial_nest(path: Path, marked: bool = False) -> tuple[For, ...] | None:
    """The innermost loops above the block at the end of a path, if each is one of its axes: from 0, with nothing else
    in it, and serial, or (`marked`) marked otherwise but for threads; None otherwise."""
    axes = block_at(path).axes
    loops = loops_above(path)[max(len(loops_above(path)) - len(axes), 0) :]
    if [id(s) for s in path[len(path) - 1 - len(axes) : -1]] != [id(s) for s in loops]:
        return None
    kinds = MARKS if marked else ("serial",)
    alone = all(s.kind in kinds and len(s.body) == 1 and s.start == ZERO for s in loops)
    plain = alone and (marked or not any(s.annotations for s in loops))
    bound = {a.binding.name: a.extent for a in axes if isinstance(a.binding, Var)}
    return loops if plain and len(bound) == len(axes) and bound == {s.var: s.extent for s in loops} else None


def filled_by_writer(
    program: Program, path: Path, old: Store, new: Buffer, image: Image, pad: Expr, primitive: str
) -> Outcome:
    """The program whose writer, at the end of a path, also writes the padding, under new loops.

    `old` is what it stored before the map; `pad` is by the names of the image's indices.
    """
    block, loops = block_at(path), trivial_nest(path) or ()
    taken = taken_names(program)
    axes, names = _axes_over(image, new, taken)
    ranges = {a.name: Range(ZERO, a.extent) for a in axes}
    came_from = (substitute(e, names) for e in image.inverse)
    values = {i.name: e for i, e in zip(old.indices, came_from, strict=True) if isinstance(i, Var)}
    computed = substitute_loops((Store(new.name, old.indices, old.value),), values, ranges)[0]
    assert isinstance(computed, Store)
    index = tuple(Var(a.name) for a in axes)
    store = Store(new.name, index, Select(substitute(image.valid, names), computed.value, substitute(pad, names)))
    drafted = replace(block, axes=axes, body=(store,), reads=(), writes=())
    reads, writes = infer_regions(drafted, all_buffers(program))
    done = put(
        program,
        path[: len(path) - len(loops)],
        _nested(axes, replace(drafted, reads=reads, writes=writes)),
    )
    into = tuple(LoopRef(a.binding.name) for a in axes if isinstance(a.binding, Var))
    return Outcome(done, (), {LoopRef(s.var): Gone(primitive, into) for s in loops})


# ------------------------------------------------------------------ by a block after the writers
def filled_after(program: Program, buffer: Buffer, image: Image, pad: Expr, primitive: str) -> Program:
    """The program with a block `T_pad` that writes the padding of a buffer, whose accesses are rewritten already, after
    the last block that writes it, in the innermost loop around all that access it.

    Raises:
        ScheduleError: MS388, that loop runs its iterations at once as threads or lanes.
    """
    touching = _in_scope_of(program, buffer.name)
    above = common_path(*(q[:-1] for q in touching))
    for s in above:
        if isinstance(s, For) and s.kind.startswith(AT_ONCE):
            raise refuse(
                "MS388",
                primitive,
                f"the padding of `{buffer.name}` would be filled inside of the {s.kind} loop `{s.var}`",
                why="its concurrent iterations would all write the same elements",
                help=f"use {primitive} before the loop is marked",
            )
    last = [q for q in touching if buffer.name in buffers_written(block_at(q))][-1]
    anchor = last[: len(above) + 1]
    taken = taken_names(program)
    name = fresh(f"{buffer.name}_pad", taken)
    taken.add(name)
    axes, names = _axes_over(image, buffer, taken)
    index = tuple(Var(a.name) for a in axes)
    block = Block(
        name,
        axes,
        (),
        (Region(buffer.name, tuple(Range(i, ONE) for i in index)),),
        (Store(buffer.name, index, substitute(pad, names)),),
        predicate=substitute(image.padding, names),
    )
    done = replace(program, body=replace_at(program.body, anchor, (anchor[-1], _nested(axes, block))))
    at_once = [s.var for s in above if isinstance(s, For) and s.kind not in ("serial", "unrolled")]
    require_kinds(done, at_once, primitive)
    return done


def _in_scope_of(program: Program, buffer: str) -> list[Path]:
    """The paths of the blocks that access a buffer, down to those in the scope that allocates it."""
    found: dict[int, Path] = {}
    for q in paths_touching(program, buffer):
        homes = [k + 1 for k, s in enumerate(q) if isinstance(s, Block) and buffer in {b.name for b in s.allocs}]
        start = homes[0] if homes else 0
        end = next(k for k in range(start, len(q)) if isinstance(q[k], Block)) + 1 if start < len(q) else len(q)
        if end > start:
            found[id(q[end - 1])] = q[:end]
    return list(found.values())


# ------------------------------------------------------------------ shared
def _axes_over(image: Image, buffer: Buffer, taken: set[str]) -> tuple[tuple[Axis, ...], dict[str, Expr]]:
    """An axis for each dimension of the new layout, and what the names of the image are in terms of them."""
    axes: list[Axis] = []
    for k, extent in enumerate(buffer.shape):
        axis = fresh(f"v{k}", taken)
        var = fresh(f"ax{k}", taken)
        taken |= {axis, var}
        axes.append(Axis(axis, extent, "spatial", Var(var)))
    return tuple(axes), {n: Var(a.name) for n, a in zip(image.names, axes, strict=True)}


def _nested(axes: Sequence[Axis], block: Block) -> Stmt:
    stmt: Stmt = block
    for a in reversed(axes):
        assert isinstance(a.binding, Var)
        stmt = For(a.binding.name, a.extent, (stmt,))
    return stmt
