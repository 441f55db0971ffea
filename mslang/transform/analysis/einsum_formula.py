"""What a block that pad_einsum pads computes: where it accesses its buffers, and what fill makes more of it
harmless."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mslang.diagnostics import ScheduleError
from mslang.ir.arith.operations import SCALAR
from mslang.ir.dtype import is_float
from mslang.ir.expr import ONE, Binary, Cast, Const, Expr, Load, Unary, Var
from mslang.ir.program import Block, Let, Program, Region, Stmt, Store
from mslang.ir.reduction import identity, update_of
from mslang.ir.visit import Path, loads_of, stmt_exprs, walk, walk_expr
from mslang.transform.analysis.legality import why_neither
from mslang.transform.analysis.position import block_at
from mslang.transform.analysis.reduction_updates import updates_of
from mslang.transform.outcome import refuse

PRIMITIVE = "pad_einsum"


class Access(msgspec.Struct, frozen=True):
    """The one index at which a buffer is used."""

    buffer: str
    indices: tuple[Expr, ...]

    def along(self, axes: Collection[str]) -> bool:
        """Is it indexed by one of some axes?"""
        return any(isinstance(i, Var) and i.name in axes for i in self.indices)


class Product(msgspec.Struct, frozen=True):
    """A block that reads and writes each buffer at one index, axes and numbers."""

    block: Block
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]


def product_of(program: Program, path: Path) -> Product:
    """What the block at the end of a path reads and writes.

    Raises:
        ScheduleError: MS345, it is neither complete nor a reduction (other writers apart); MS372, it does more than
            store, divides by what may be 0, or accesses a buffer elsewhere than at one index.
    """
    block = block_at(path)
    reason = why_neither(program, path, (block,))
    if reason is not None:
        raise refuse("MS345", PRIMITIVE, f"block `{block.name}` cannot be padded", why=reason)
    inside = tuple(walk((*block.body, *(block.init or ()))))
    if block.views or block.allocs or not all(isinstance(s, Let | Store) for s in inside):
        raise no_einsum(block, "it holds more than stores, or has views or buffers of its own")
    whole = [x for s in inside for e in stmt_exprs(s) for x in walk_expr(e)]
    if any(isinstance(x, Binary) and x.op in ("//", "%") and not isinstance(x.right, Const) for x in whole):
        raise no_einsum(block, "it divides, and what is added might be a divisor")
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    found: dict[str, tuple[Expr, ...]] = {}
    for buffer, indices in _touched(inside):
        if found.setdefault(buffer, indices) != indices:
            raise no_einsum(block, f"it uses `{buffer}` more than once")
    names = {a.name for a in block.axes}
    for buffer, indices in found.items():
        for i in indices:
            if not (isinstance(i, Const) or (isinstance(i, Var) and i.name in names)):
                raise no_einsum(block, f"an index of `{buffer}` is neither an axis nor a number")
    for r in (*block.reads, *block.writes):
        if not _is_at(r, found.get(r.buffer)):
            raise no_einsum(block, f"it declares more than one element of `{r.buffer}`")
    accesses = {b: Access(b, i) for b, i in found.items()}
    return Product(
        block, tuple(a for b, a in accesses.items() if b not in stored), tuple(accesses[b] for b in sorted(stored))
    )


def _touched(inside: tuple[Stmt, ...]) -> list[tuple[str, tuple[Expr, ...]]]:
    """The buffers that some statements load and store, with the indices."""
    found: list[tuple[str, tuple[Expr, ...]]] = []
    for s in inside:
        found += [(x.buffer, x.indices) for e in stmt_exprs(s) for x in loads_of(e)]
        if isinstance(s, Store):
            found.append((s.buffer, s.indices))
    return found


def _is_at(region: Region, indices: tuple[Expr, ...] | None) -> bool:
    return all(r.extent == ONE for r in region.ranges) and tuple(r.start for r in region.ranges) == indices


def no_einsum(block: Block, why: str) -> ScheduleError:
    """The refusal of a block that cannot be padded, for a reason."""
    return refuse("MS372", PRIMITIVE, f"block `{block.name}` is not a product of tensors", why=why)


# ------------------------------------------------------------------ what is filled in
class Fill(msgspec.Struct, frozen=True):
    """What stands in the elements added: a number, or the identity of a reduction."""

    value: int | str
    op: str

    def constant(self, dtype: str) -> Const:
        """The fill as an element of some type."""
        if isinstance(self.value, str):
            return identity(self.op, dtype)
        return Const(False if dtype == "bool" else float(self.value) if is_float(dtype) else self.value, dtype)


def fill_for(program: Program, product: Product, reduced: Collection[str]) -> Fill:
    """A fill such that iterations beyond the extents of some reduction axes change nothing.

    Raises:
        ScheduleError: MS373, there provably is none; MS372, MS369, it is not a reduction of which that is known.
    """
    if not reduced:
        return Fill(0, "+")
    block = product.block
    updates = updates_of(program, block, PRIMITIVE)
    how = update_of(updates.stores[0])
    if len(updates.stores) > 1 or how is None:
        raise no_einsum(block, "it is not a sum, product, minimum or maximum into one buffer")
    own = next(x.dtype for x in loads_of(updates.stores[0].value) if x.buffer == updates.stores[0].buffer)
    for fill in (Fill(0, how.op), Fill(1, how.op), Fill("identity", how.op)):
        if all(_vanishes(product, how.value, axis, fill, own) for axis in reduced):
            return fill
    raise refuse(
        "MS373",
        PRIMITIVE,
        f"the iterations that would be added to axis `{min(reduced)}` of block `{block.name}` would count",
        why=f"no fill of the buffers that it indexes provably makes what is combined by `{how.op}` its identity",
        help="pad spatial axes only, or let all factors be indexed by the axis",
    )


def _vanishes(product: Product, value: Expr, axis: str, fill: Fill, dtype: str) -> bool:
    found = _known(value, {r.buffer for r in product.reads if r.along((axis,))}, fill)
    return found is not None and found == identity(fill.op, dtype).value


def _known(e: Expr, beyond: set[str], fill: Fill) -> int | float | None:
    """The value of an expression where buffers hold what is filled in; None: it depends on others, or may not be a
    number (0 times infinity)."""
    match e:
        case Const(value=number):
            return number
        case Load(buffer=buffer, dtype=dtype):
            return fill.constant(dtype).value if buffer in beyond else None
        case Cast(operand=x):
            cast = _known(x, beyond, fill)
            return cast if cast in _SMALL - {-1} else None
        case Unary(op="-", operand=x):
            negated = _known(x, beyond, fill)
            return None if negated is None else -negated
        case Binary(op="+" | "-" | "*" as o, left=left, right=right):
            one, other = _known(left, beyond, fill), _known(right, beyond, fill)
            if o == "*" and 0 in (one, other) and not _floating(e):
                return 0
            known: int | float | None = SCALAR[o](one, other) if one in _SMALL and other in _SMALL else None
            return known
    return None


_SMALL: frozenset[int | float | None] = frozenset({-1, 0, 1})


def _floating(e: Expr) -> bool:
    return any(is_float(x.dtype) for x in walk_expr(e) if isinstance(x, Load | Const | Cast))


__all__ = ["PRIMITIVE", "Access", "Fill", "Product", "fill_for", "no_einsum", "product_of"]
