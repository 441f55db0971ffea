"""What `rolling_update` asks for: a maximum, sums of exponentials relative to it, and the blocks between them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mslang.ir import arith
from mslang.ir.dtype import is_float
from mslang.ir.expr import Expr, Var
from mslang.ir.find import all_buffers, path_to_block
from mslang.ir.program import Block, For, Program, Store
from mslang.ir.reduction import identity, update_of
from mslang.ir.region import hidden
from mslang.ir.visit import Path, conjuncts, free_vars, loads_of, substitute
from mslang.transform.analysis.dependence import consumers, storage_of, storages_read, storages_written, writers
from mslang.transform.analysis.initialization import why_may_not_iterate
from mslang.transform.analysis.inlining import complete_formula, require_inner
from mslang.transform.analysis.instances import domains_of, portable_predicate, runs_all, runs_once
from mslang.transform.analysis.legality import why_not_reduction, why_not_stage_pipeline
from mslang.transform.analysis.plain_loops import require_distinct, require_plain
from mslang.transform.analysis.position import (
    bindings,
    block_at,
    block_path,
    leaves,
    loop_at,
    loop_path,
    loops_above,
    ranges_above,
    same_scope,
    scope_body,
    taken_names,
    within_scope,
)
from mslang.transform.analysis.reduction_updates import updates_of
from mslang.transform.analysis.rescaling import Exponential, Multiple, multiples
from mslang.transform.outcome import BlockRef, LoopRef, refuse

PRIMITIVE = "rolling_update"


class Part(msgspec.Struct, frozen=True):
    """A block that takes part: the maximum, a sum, or one that computes exponentials."""

    block: Block
    store: Store
    value: Expr
    """What it stores, or adds up."""
    start: Expr
    """What it starts from, if it reduces."""
    roles: Mapping[str, str]
    """Which axis of the maximum an axis stands for."""
    sum: bool = False


class Job(msgspec.Struct, frozen=True):
    """A maximum with what becomes part of its loop."""

    path: Path
    """Of the maximum."""
    part: Part
    """The maximum."""
    axis: str
    """The axis that it reduces."""
    loop: For
    inner: tuple[For, ...]
    """The loops inside of that one."""
    reducing: frozenset[str]
    """The loops that the axis depends on."""
    conditions: tuple[Expr, ...]
    """What the predicate of the maximum says of its loops."""
    factor: Exponential
    """By what sums change with the maximum."""
    parts: tuple[Part, ...]
    """The blocks that follow, in their order."""
    taken: frozenset[str]

    def of_maximum(self, part: Part) -> tuple[str, ...]:
        """The axes of a block that say of which maximum its terms are, in the order of the maximum's indices."""
        named = {role: axis for axis, role in part.roles.items()}
        return tuple(named[i.name] for i in self.part.store.indices if isinstance(i, Var))


def job_of(program: Program, block: BlockRef, loop: LoopRef, sums: tuple[BlockRef, ...]) -> Job:
    """What is to be done, if it is legal."""
    path, above = block_path(program, block, PRIMITIVE), loop_path(program, loop, PRIMITIVE)
    if not sums:
        raise refuse("MS303", PRIMITIVE, "no sums are given", help="name the blocks that sum the exponentials")
    require_distinct(sums, PRIMITIVE)
    part = _reduction(program, path, "max")
    axis = next(a.name for a in part.block.axes if a.kind == "reduce")
    loops = _loops(program, path, above, axis)
    reducing = free_vars(bindings(part.block)[axis])
    found = _Search(program, path, part, axis)
    for s in sums:
        found.add_sum(s)
    order = [b.name for b in leaves(*scope_body(program, path))]
    parts = tuple(sorted(found.parts.values(), key=lambda p: order.index(p.block.name)))
    _require_movable(program, path, parts)
    values = bindings(part.block)
    return Job(
        path,
        part,
        axis,
        loop_at(above),
        loops,
        reducing,
        tuple(substitute(c, values) for c in conjuncts(part.block.predicate)),
        found.factors[0],
        parts,
        frozenset(taken_names(program)),
    )


# ------------------------------------------------------------------ the blocks
def _reduction(program: Program, path: Path, op: str) -> Part:
    """A maximum or a sum of floating-point numbers over one axis, from its identity on."""
    block = block_at(path)
    _require_alone(path)
    reason = why_not_reduction(program, path)
    if reason is not None:
        raise refuse("MS313", PRIMITIVE, f"block `{block.name}` is not a reduction", why=reason)
    updates = updates_of(program, block, PRIMITIVE)
    store, start = updates.stores[0], updates.starts[0]
    how, what = update_of(store), {"max": "maximum", "+": "sum"}[op]
    dtype = all_buffers(program)[store.buffer].dtype
    reduced = [a for a in block.axes if a.kind == "reduce"]
    if len(updates.stores) > 1 or how is None or how.op != op or not is_float(dtype) or len(reduced) != 1:
        raise refuse(
            "MS370",
            PRIMITIVE,
            f"block `{block.name}` is not one {what} of floating-point numbers over one axis",
            why="the maximum is updated, and the sums are rescaled, along this axis",
        )
    if start != identity(op, dtype):
        raise refuse(
            "MS370",
            PRIMITIVE,
            f"block `{block.name}` does not start from {'-inf' if op == 'max' else '0'}",
            why="what it starts from would count in each part",
        )
    spatial = [a.name for a in block.axes if a.kind == "spatial"]
    _require_plain_indices(block, store, spatial)
    roles = {a.name: a.name for a in block.axes} if op == "max" else {}
    return Part(block, store, how.value, start, roles, op == "+")


def _require_plain_indices(block: Block, store: Store, axes: list[str]) -> None:
    names = [i.name for i in store.indices if isinstance(i, Var)]
    if len(names) != len(store.indices) or sorted(names) != sorted(axes):
        raise refuse(
            "MS353",
            PRIMITIVE,
            f"block `{block.name}` does not store at indices that are its axes",
            why=f"`{store.buffer}` must have one index for each of its spatial axes, and no other",
        )


def _require_alone(path: Path) -> None:
    """The block at the end of a path stands alone in its loops, runs once for all values of its axes, and is plain."""
    block = block_at(path)
    head = f"block `{block.name}` cannot be put under another loop"
    if block.views or block.allocs or hidden(block, "read") or hidden(block, "write"):
        raise refuse("MS367", PRIMITIVE, head, why="it has views, buffers of its own, or accesses that it hides")
    for s in within_scope(path)[:-1]:
        if not isinstance(s, For) or len(s.body) != 1:
            raise refuse(
                "MS367",
                PRIMITIVE,
                head,
                why="other statements stand in its loops",
                help=f"{PRIMITIVE} before compute_at",
            )
    once = portable_predicate(path) == () and runs_once(path, loops_above(path))
    if not once or not runs_all(path, domains_of(path)):
        raise refuse("MS367", PRIMITIVE, head, why="it does not provably run once for all values of its axes")


class _Search:
    """The sums, and the blocks of exponentials that they read."""

    def __init__(self, program: Program, path: Path, part: Part, axis: str) -> None:
        self.program, self.path, self.part, self.axis = program, path, part, axis
        self.body = scope_body(program, path)
        self.order = [b.name for b in leaves(*self.body)]
        self.dependent = self._dependent()
        self.parts: dict[str, Part] = {}
        self.terms: dict[str, Part] = {}
        self.factors: list[Exponential] = []

    def _dependent(self) -> frozenset[str]:
        """The buffers whose elements depend on the maximum, itself included."""
        found = {storage_of(self.program, self.part.store.buffer)}
        for b in leaves(*self.body)[self.order.index(self.part.block.name) + 1 :]:
            if storages_read(self.program, b) & found:
                found |= storages_written(self.program, b)
        return frozenset(n for n in all_buffers(self.program) if storage_of(self.program, n) in found)

    def add_sum(self, ref: BlockRef) -> None:
        """A sum, with the blocks that compute what it sums."""
        path = self._path(ref)
        self.parts[ref.name] = self._with_roles(_reduction(self.program, path, "+"))

    def _path(self, ref: BlockRef) -> Path:
        path = block_path(self.program, ref, PRIMITIVE)
        if not same_scope(path, self.path) or self.order.index(ref.name) <= self.order.index(self.part.block.name):
            raise refuse(
                "MS340",
                PRIMITIVE,
                f"block `{ref.name}` does not follow block `{self.part.block.name}`",
                why="both must stand in the same block, or in none, and the sum after the maximum",
            )
        for s in loops_above(path):
            require_plain(s, PRIMITIVE)
        return path

    def _with_roles(self, part: Part) -> Part:
        for x in loads_of(part.value):
            if x.buffer in self.dependent and x.buffer != self.part.store.buffer:
                self._add_term(x.buffer, part.block.name)
        found = multiples(part.value, self.part.store.buffer, self.terms, self.dependent)
        if isinstance(found, str):
            raise refuse("MS367", PRIMITIVE, f"the terms of block `{part.block.name}` cannot be rescaled", why=found)
        roles = self._roles(part, found)
        for m in found:
            if isinstance(m, Exponential):
                self.factors.append(m)
                if m.scale != self.factors[0].scale:
                    raise refuse(
                        "MS367",
                        PRIMITIVE,
                        f"the terms of block `{part.block.name}` change with the maximum by another factor",
                        why="all exponentials must multiply the difference to the maximum by the same constants",
                    )
        return Part(part.block, part.store, part.value, part.start, roles, part.sum)

    def _add_term(self, buffer: str, user: str) -> None:
        """The block that computes exponentials."""
        if buffer in self.terms:
            return
        made = writers(self.program, self.body, buffer)
        if len(made) != 1 or made[0].name == user or made[0].name in self.parts:
            raise refuse(
                "MS367",
                PRIMITIVE,
                f"the terms of block `{user}` cannot be rescaled",
                why=f"`{buffer}` is not computed from the maximum by one block",
            )
        path = self._path(BlockRef(made[0].name))
        _require_alone(path)
        formula = complete_formula(self.program, path, PRIMITIVE)
        block = block_at(path)
        _require_plain_indices(block, formula, [a.name for a in block.axes])
        require_inner(self.program, path, buffer, PRIMITIVE)
        part = self._with_roles(Part(block, formula, formula.value, formula.value, {}))
        self.terms[buffer] = part
        self.parts[block.name] = part

    def _roles(self, part: Part, found: list[Multiple]) -> dict[str, str]:
        """Which axes of the maximum the axes of a block stand for."""
        roles: dict[str, str] = {}
        for m in found:
            into, of = (m.maximum, self.part) if isinstance(m, Exponential) else (m, self.terms[m.buffer])
            for index, stored in zip(into.indices, of.store.indices, strict=True):
                assert isinstance(stored, Var)
                role = of.roles.get(stored.name)
                if not isinstance(index, Var) or (role is not None and roles.setdefault(index.name, role) != role):
                    raise self._other(part, f"`{into.buffer}` is read at an index that is not an axis, or another one")
        for m in found:
            if isinstance(m, Exponential) and not self._of_the_same(part, m, roles):
                raise self._other(part, "the exponent is not relative to the maximum of the value in it")
        extents = {a.name: a.extent for a in self.part.block.axes}
        own = {a.name: a for a in part.block.axes}
        if sorted(roles.values()) != sorted(extents) or not all(
            n in own and arith.equal(own[n].extent, extents[r]) for n, r in roles.items()
        ):
            raise self._other(part, "its axes are not those of the maximum and others")
        if any((a.kind == "reduce") != (part.sum and roles.get(a.name) == self.axis) for a in part.block.axes):
            raise self._other(part, f"it does not reduce just the axis that block `{self.part.block.name}` reduces")
        return roles

    def _of_the_same(self, part: Part, m: Exponential, roles: dict[str, str]) -> bool:
        """Is an exponent relative to the maximum of its own value? Finds the axis that the maximum reduces."""
        known = [n for n, r in roles.items() if r == self.axis]
        for name in known or [a.name for a in part.block.axes if a.name not in roles]:
            values: dict[str, Expr] = {n: Var(r) for n, r in {**roles, name: self.axis}.items()}
            others = {a.name for a in part.block.axes} - values.keys()
            if not free_vars(m.value) & others and substitute(m.value, values) == self.part.value:
                roles[name] = self.axis
                return True
        return False

    def _other(self, part: Part, why: str) -> Exception:
        return refuse("MS367", PRIMITIVE, f"the terms of block `{part.block.name}` cannot be rescaled", why=why)


# ------------------------------------------------------------------ the loops
def _loops(program: Program, path: Path, above: Path, axis: str) -> tuple[For, ...]:
    """The loops inside of the given one, which is the outermost that reduces."""
    block, loop, loops = block_at(path), loop_at(above), loops_above(path)
    values = bindings(block)
    reducing = free_vars(values[axis])
    spatial = frozenset(v for a in block.axes if a.name != axis for v in free_vars(values[a.name]))
    first = next((s for s in loops if s.var in reducing), None)
    if first is not loop or spatial & reducing:
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"loop `{loop.var}` is not the outermost loop that serves the reduction of block `{block.name}` alone",
            why="the running maximum would restart",
            help=None if first is None else f"reorder the loops, or roll along `{first.var}`",
        )
    at = next(k for k, s in enumerate(loops) if s is loop)
    for s in loops[at:]:
        require_plain(s, PRIMITIVE)
    if any(free_vars(s.start) | free_vars(s.extent) for s in loops):
        raise refuse(
            "MS368",
            PRIMITIVE,
            f"the bounds of loops of block `{block.name}` depend on other loops",
            why="they are copied",
        )
    reduces = [s for s in loops if s.var in reducing]
    empty = why_may_not_iterate(path, reduces)
    if empty is not None or not reducing <= {s.var for s in loops}:
        raise refuse("MS368", PRIMITIVE, f"block `{block.name}` may not start its reduction", why=empty)
    starts: dict[str, Expr] = {s.var: s.start for s in loops[at + 1 :] if s.var in reducing}
    for c in conjuncts(block.predicate):
        plain = substitute(c, values)
        if free_vars(plain) & reducing and not arith.proved(substitute(plain, starts), ranges_above(path)):
            raise refuse(
                "MS368",
                PRIMITIVE,
                f"a condition of block `{block.name}` may be false where a tile of loop `{loop.var}` begins",
                why="the part of this tile would not be started",
            )
    return loops[at + 1 :]


# ------------------------------------------------------------------ the order
def _require_movable(program: Program, path: Path, parts: tuple[Part, ...]) -> None:
    """The parts may run where the maximum does, and nobody else reads their exponentials."""
    touched = {r.buffer for p in (block_at(path), *(p.block for p in parts)) for r in (*p.reads, *p.writes)}
    reason = why_not_stage_pipeline(program, path, touched)
    if reason is not None:
        raise refuse("MS368", PRIMITIVE, "the order of blocks matters here", why=reason)
    names = {p.block.name for p in parts}
    for p in parts:
        other = next(
            (
                u.name
                for u in consumers(program, path_to_block(program, p.block.name) or ())
                if u.name not in names and not p.sum
            ),
            None,
        )
        if other is not None:
            raise refuse(
                "MS341",
                PRIMITIVE,
                f"block `{other}` reads the exponentials of block `{p.block.name}`",
                why="they become relative to a running maximum",
                help=f"add `{other}` to the sums, or `compute_inline` block `{p.block.name}`",
            )
    order = leaves(*scope_body(program, path))
    first = next(k for k, b in enumerate(order) if b.name == block_at(path).name)
    passed: list[Block] = []
    for b in order[first + 1 :]:
        if b.name not in names:
            passed.append(b)
            continue
        reads, writes = storages_read(program, b), storages_written(program, b)
        for z in passed:
            theirs = storages_written(program, z)
            shared = sorted(theirs & (reads | writes) | storages_read(program, z) & writes)
            if shared:
                raise refuse(
                    "MS319",
                    PRIMITIVE,
                    f"block `{b.name}` cannot be moved before block `{z.name}`",
                    why=f"both use `{shared[0]}`",
                )


__all__ = ["PRIMITIVE", "Job", "Part", "job_of"]
