"""The primitive that pads a product of tensors to rounder sizes: pad_einsum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add, mul, sub
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.dtype import INDEX, is_float
from mslang.ir.expr import ONE, ZERO, Binary, Cast, Const, Expr, Load, Select, Symbol, Unary, Var, children, dtype_of
from mslang.ir.program import Axis, Block, Buffer, For, Let, Program, Range, Stmt, Store
from mslang.ir.reduction import identity, update_of
from mslang.ir.region import infer_regions
from mslang.ir.visit import (
    Path,
    all_buffers,
    conjunction,
    free_vars,
    fresh,
    loads_of,
    map_expr,
    path_to_block,
    walk_expr,
)
from mslang.transform.analysis.dependence import consumers
from mslang.transform.analysis.instances import domains_of, portable_predicate, runs_all
from mslang.transform.analysis.legality import why_neither
from mslang.transform.analysis.position import (
    block_at,
    block_path,
    leaves,
    loops_above,
    scope_path,
    taken_names,
    within_scope,
)
from mslang.transform.analysis.updates import updates_of
from mslang.transform.outcome import BlockRef, Outcome, refuse
from mslang.transform.primitives.inlining import require_covered
from mslang.transform.primitives.kinds import require_kinds
from mslang.transform.rewriting.formula import formula_of
from mslang.transform.rewriting.nest import nest
from mslang.transform.rewriting.rewrite import put
from mslang.transform.rewriting.staging import with_alloc

PRIMITIVE = "pad_einsum"


def pad_einsum(program: Program, block: BlockRef, padding: Sequence[int | Expr]) -> Outcome:
    """Round the extents of a product of tensors up, on padded copies of what it reads and writes.

    `padding` has a number for each axis; its extent becomes a multiple of that. What is added to the buffers read is
    such that it changes nothing: zeros for a sum of products, the lowest value for a maximum. The copies are blocks
    `A_pad`, `B_pad` in front of the nest and `C_pad` behind it, with buffers `A_pad_1` and so on; buffers that need no
    padding are used as they are.

    Before:
        block mm[i: 6, j: 8 | k: 10] { C[i, j] += A[i, k] * B[k, j] }

    After:
        # mm.pad_einsum([1, 1, 4])
        block A_pad[ax0: 6, ax1: 12] { A_pad_1[ax0, ax1] = select(ax1 < 10, A[ax0, ax1], 0.0) }
        block B_pad[ax0: 12, ax1: 8] { B_pad_1[ax0, ax1] = select(ax0 < 10, B[ax0, ax1], 0.0) }
        block mm[i: 6, j: 8 | k: 12] { C[i, j] += A_pad_1[i, k] * B_pad_1[k, j] }

    Rejects:
        - not one number above 0 for each axis
        - a block that is neither complete nor a reduction block, does more than one store, or uses a buffer at two
          indices or for reading and writing
        - an index that is neither an axis nor a number
        - a block inside another, in a nest with others, or that does not surely run for all values of its axes
        - an axis to be padded that has no loop of its own, or a predicate
        - a spatial axis to be padded that does not index what is written
        - a reduction in which what is added would count: no fill of the buffers makes it vanish

    Source: TVM pad_einsum
    """
    path = block_path(program, block, PRIMITIVE)
    old = block_at(path)
    multiples = [n if isinstance(n, Expr) else Const(n) for n in padding]
    if len(multiples) != len(old.axes) or not all(_is_positive(n) for n in multiples):
        raise refuse(
            "MS303",
            PRIMITIVE,
            f"block `{block.name}` has {len(old.axes)} axes, and {len(multiples)} numbers are given"
            if len(multiples) != len(old.axes)
            else "an extent cannot be made a multiple of what is not surely above 0",
            help="one number above 0 for each axis; 1 leaves an extent as it is",
        )
    product = _product(program, path)
    extents = {a.name: arith.mul(arith.ceildiv(a.extent, n), n) for a, n in zip(old.axes, multiples, strict=True)}
    padded = {a.name: extents[a.name] for a in old.axes if not arith.equal(extents[a.name], a.extent)}
    if not padded:
        return Outcome(program)
    loops = _loops_of(path, padded, product)
    fill = _fill(old, padded, product)
    above = path[: len(scope_path(path)) + 1]
    taken = taken_names(program)
    into: list[_Copy] = []
    out: list[_Copy] = []
    for accesses, copies in ((product.reads, into), ((product.write,), out)):
        for access in accesses:
            if any(isinstance(i, Var) and i.name in padded for i in access.indices):
                copies.append(
                    _copy(program, old, access, padded, product.op or "+", None if copies is out else fill, taken)
                )
    changed = _padded(program, path, padded, loops, (*into, *out))
    done = put(program, above, *(c.stmt for c in into), changed, *(c.stmt for c in out))
    for c in (*into, *out):
        done = with_alloc(done, path, c.buffer)
    for c in into:
        require_covered(done, path_to_block(done, c.block) or (), PRIMITIVE)
    for c in out:
        for user in consumers(done, path_to_block(done, c.block) or ()):
            require_covered(done, path_to_block(done, user.name) or (), PRIMITIVE)
    require_kinds(done, [s.var for s in loops_above(path) if s.kind != "serial"], PRIMITIVE)
    return Outcome(done)


def _is_positive(n: Expr) -> bool:
    return dtype_of(n) == INDEX and not free_vars(n) and arith.proved(Binary("<", ZERO, n))


class _Access(msgspec.Struct, frozen=True):
    """The one index at which a buffer is used."""

    buffer: str
    indices: tuple[Expr, ...]


class _Product(msgspec.Struct, frozen=True):
    """A block that reads and writes each buffer at one index, axes and numbers."""

    store: Store
    op: str | None
    """The operator of the reduction, if it is one."""
    value: Expr
    """What is stored, or combined in."""
    reads: tuple[_Access, ...]
    write: _Access


class _Copy(msgspec.Struct, frozen=True):
    """A padded buffer, and the block that copies into it or from it."""

    old: str
    buffer: Buffer
    block: str
    stmt: Stmt


# ------------------------------------------------------------------ conditions
def _product(program: Program, path: Path) -> _Product:
    block = block_at(path)
    reason = why_neither(program, path)
    if reason is not None:
        raise refuse("MS345", PRIMITIVE, f"block `{block.name}` cannot be padded", why=reason)
    if block.init is not None:
        updates = updates_of(program, block, PRIMITIVE)
        store, init = updates.stores[0], updates.starts
        how = update_of(store)
        if len(updates.stores) > 1 or how is None:
            raise _no_einsum(block, "it is not a sum, product, minimum or maximum into one buffer")
        op, value = how.op, how.value
    else:
        formula = formula_of(block)
        if formula is None:
            raise _no_einsum(block, "it does more than one store")
        store, init, op, value = formula, (), None, formula.value
    if block.views or block.allocs:
        raise _no_einsum(block, "it has views or buffers of its own")
    found: dict[str, tuple[Expr, ...]] = {}
    for x in (x for e in (*store.indices, value, *init) for x in loads_of(e)):
        if found.setdefault(x.buffer, x.indices) != x.indices or x.buffer == store.buffer:
            raise _no_einsum(block, f"it uses `{x.buffer}` more than once")
    names = {a.name for a in block.axes}
    for buffer, indices in (*found.items(), (store.buffer, store.indices)):
        for i in indices:
            if not (isinstance(i, Const) or (isinstance(i, Var) and i.name in names)):
                raise _no_einsum(block, f"an index of `{buffer}` is neither an axis nor a number")
    if any(isinstance(x, Binary) and x.op in ("//", "%", "/") for x in walk_expr(value)):
        raise _no_einsum(block, "it divides, and what is added might be a divisor")
    if any(isinstance(x, Var) for x in _outside_of_loads(value)):
        raise _no_einsum(block, "it computes with the numbers of its axes")
    reads = tuple(_Access(b, i) for b, i in found.items())
    return _Product(store, op, value, reads, _Access(store.buffer, store.indices))


def _outside_of_loads(e: Expr) -> tuple[Expr, ...]:
    below = () if isinstance(e, Load) else children(e)
    return (e, *(x for c in below for x in _outside_of_loads(c)))


def _loops_of(path: Path, padded: dict[str, Expr], product: _Product) -> dict[str, Expr]:
    """The extents that the loops of padded axes get."""
    block = block_at(path)
    top = within_scope(path)[0]
    if scope_path(path):
        raise refuse(
            "MS372",
            PRIMITIVE,
            f"block `{block.name}` stands inside block `{block_at(scope_path(path)).name}`",
            why="the copies would reach beyond what that block says it uses",
            help="pad before blocks are made into one",
        )
    if leaves(top) != (block,):
        other = next(b.name for b in leaves(top) if b is not block)
        raise refuse(
            "MS372",
            PRIMITIVE,
            f"block `{other}` is in one nest with block `{block.name}`",
            why="the copies stand before and after the nest",
            help="pad before other blocks are moved into it",
        )
    chain = {s.var: s for s in loops_above(path)}
    inside = all(free_vars(a.binding) <= chain.keys() for a in block.axes)
    if not inside or not all(isinstance(s, For | Block) for s in within_scope(path)):
        raise refuse(
            "MS372",
            PRIMITIVE,
            f"block `{block.name}` does not stand among loops of its own alone",
            why="its loops are run anew over the padded extents, and nothing else must be under them",
        )
    stored = {i.name for i in product.write.indices if isinstance(i, Var)}
    if not runs_all(path, domains_of(path)) or (stored & padded.keys() and portable_predicate(path) != ()):
        raise refuse(
            "MS348",
            PRIMITIVE,
            f"block `{block.name}` does not surely run for all values of its axes",
            why="its loops and its predicate do not surely cover the domains of its axes",
        )
    found: dict[str, Expr] = {}
    for a in block.axes:
        if a.name not in padded:
            continue
        if a.kind == "spatial" and a.name not in stored:
            raise refuse(
                "MS372",
                PRIMITIVE,
                f"the spatial axis `{a.name}` does not index `{product.write.buffer}`",
                why="the iterations added would store over the others",
            )
        loop = chain.get(a.binding.name) if isinstance(a.binding, Var) else None
        shared = [x for x in block.axes if x is not a and loop is not None and loop.var in free_vars(x.binding)]
        used = loop is not None and any(loop.var in free_vars(s.start) | free_vars(s.extent) for s in chain.values())
        plain = loop is not None and arith.equal(loop.start, ZERO) and arith.equal(loop.extent, a.extent)
        bounded = free_vars(block.predicate) & {a.name, *free_vars(a.binding)}
        if loop is None or shared or used or not plain or bounded:
            raise refuse(
                "MS372",
                PRIMITIVE,
                f"axis `{a.name}` of block `{block.name}` has no loop of its own that runs over all its values",
                why="its loop is to run over the iterations added, too",
                help="pad before the loop is split or fused",
            )
        found[loop.var] = padded[a.name]
    return found


def _no_einsum(block: Block, why: str) -> Exception:
    return refuse("MS372", PRIMITIVE, f"block `{block.name}` is no product of tensors", why=why)


# ------------------------------------------------------------------ what is filled in
def _fill(block: Block, padded: dict[str, Expr], product: _Product) -> int | str:
    """What stands in the elements added so that the iterations of reduction axes beyond their extents change nothing:
    a number, or "identity" for that of the reduction."""
    reduced = [a.name for a in block.axes if a.kind == "reduce" and a.name in padded]
    if not reduced or product.op is None:
        return 0
    for fill in (0, 1, "identity"):
        if all(_vanishes(product, axis, fill) for axis in reduced):
            return fill
    raise refuse(
        "MS373",
        PRIMITIVE,
        f"the iterations that would be added to axis `{reduced[0]}` of block `{block.name}` would count",
        why=f"no fill of the buffers that it indexes surely makes what is combined by `{product.op}` its identity",
        help="pad spatial axes only, or let all factors be indexed by the axis",
    )


def _vanishes(product: _Product, axis: str, fill: int | str) -> bool:
    beyond = {r.buffer for r in product.reads if any(isinstance(i, Var) and i.name == axis for i in r.indices)}
    op = product.op or "+"
    found = _known(product.value, beyond, op, fill)
    own = next(x.dtype for x in loads_of(product.store.value) if x.buffer == product.store.buffer)
    return found is not None and found == identity(op, own).value


def _known(e: Expr, beyond: set[str], op: str, fill: int | str) -> int | float | None:
    """The value of an expression where buffers hold what is filled in; None: it depends on others, or may not be a
    number (0 times infinity)."""
    match e:
        case Const(value=number):
            return number
        case Load(buffer=buffer, dtype=dtype):
            return _filled(dtype, op, fill).value if buffer in beyond else None
        case Cast(operand=x):
            cast = _known(x, beyond, op, fill)
            return cast if cast in _SMALL - {-1} else None
        case Unary(op="-", operand=x):
            negated = _known(x, beyond, op, fill)
            return None if negated is None else -negated
        case Binary(op=o, left=left, right=right) if o in _SIMPLE:
            one, other = _known(left, beyond, op, fill), _known(right, beyond, op, fill)
            if o == "*" and 0 in (one, other) and not _floating(e):
                return 0
            return _SIMPLE[o](one, other) if one in _SMALL and other in _SMALL else None
    return None


_SMALL: frozenset[int | float | None] = frozenset({-1, 0, 1})
_SIMPLE: Mapping[str, Callable[..., int | float]] = MappingProxyType({"+": add, "-": sub, "*": mul})


def _floating(e: Expr) -> bool:
    return any(is_float(x.dtype) for x in walk_expr(e) if isinstance(x, Load | Const | Cast))


def _filled(dtype: str, op: str, fill: int | str) -> Const:
    if isinstance(fill, str):
        return identity(op, dtype)
    return Const(float(fill) if is_float(dtype) else fill, dtype)


# ------------------------------------------------------------------ what is made
def _copy(
    program: Program,
    block: Block,
    access: _Access,
    padded: Mapping[str, Expr],
    op: str,
    fill: int | str | None,
    taken: set[str],
) -> _Copy:
    """A padded buffer for what a block uses of another, and the copy into it with a fill, or from it without one."""
    old = all_buffers(program)[access.buffer]
    name = fresh(f"{old.name}_pad", taken)
    taken.add(name)
    extent = {a.name: a.extent for a in block.axes}
    real = tuple(extent[i.name] if isinstance(i, Var) else ONE for i in access.indices)
    shape = tuple(padded.get(i.name, n) if isinstance(i, Var) else n for i, n in zip(access.indices, real, strict=True))
    new = Buffer(fresh(name, taken), old.dtype, shape, old.scope)
    taken.add(new.name)
    others = {*all_buffers(program), *(s.name for s in program.dynamic if isinstance(s, Symbol))}
    names = [fresh(f"ax{d}", others) for d in range(len(shape))]
    here: tuple[Expr, ...] = tuple(Var(n) for n in names)
    there = tuple(x if isinstance(i, Var) else i for x, i in zip(here, access.indices, strict=True))
    if fill is None:
        store, over = Store(old.name, there, Load(new.name, here, old.dtype)), real
    else:
        inside = tuple(Binary("<", x, n) for x, n, m in zip(here, real, shape, strict=True) if not arith.equal(n, m))
        value = Select(conjunction(inside), Load(old.name, there, old.dtype), _filled(old.dtype, op, fill))
        store, over = Store(new.name, here, value), shape
    bare = Block(name, tuple(Axis(n, e, "spatial", ZERO) for n, e in zip(names, over, strict=True)), (), (), (store,))
    reads, writes = infer_regions(bare, all_buffers(program) | {new.name: new})
    spans = {n: Range(ZERO, e) for n, e in zip(names, over, strict=True)}
    made = nest(replace(bare, reads=reads, writes=writes), spans, (), {}, taken)
    return _Copy(old.name, new, name, made.stmt)


def _padded(
    program: Program, path: Path, padded: dict[str, Expr], loops: dict[str, Expr], copies: Sequence[_Copy]
) -> Stmt:
    """The nest of a block with other extents and other buffers."""
    block, new = block_at(path), {c.old: c.buffer.name for c in copies}
    made = replace(
        block,
        axes=tuple(replace(a, extent=padded.get(a.name, a.extent)) for a in block.axes),
        init=None if block.init is None else _using(block.init, new),
        body=_using(block.body, new),
    )
    reads, writes = infer_regions(made, all_buffers(program) | {c.buffer.name: c.buffer for c in copies})
    nested: Stmt = replace(made, reads=reads, writes=writes)
    for s in reversed(loops_above(path)):
        nested = replace(s, extent=loops.get(s.var, s.extent), body=(nested,))
    return nested


def _using(body: tuple[Stmt, ...], new: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Statements that use padded buffers; of a dimension at a number these have that element alone."""

    def index(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(ZERO if isinstance(i, Const) else i for i in indices)

    def value(e: Expr) -> Expr:
        return map_expr(
            e,
            lambda x: (
                Load(new[x.buffer], index(x.indices), x.dtype) if isinstance(x, Load) and x.buffer in new else None
            ),
        )

    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(name=n, value=v, body=inner):
                out.append(Let(n, value(v), _using(inner, new)))
            case Store(buffer=b, indices=i, value=v):
                out.append(Store(new[b], index(i), value(v)) if b in new else Store(b, i, value(v)))
            case _:
                raise TypeError(f"no formula: {s!r}")
    return tuple(out)
