"""What a launch can keep of a program's meaning: memory of one thread, and memory that blocks share.

A program says what is computed, not by whom. A buffer of scope `local` may be one array there; in a kernel each thread
has its own, so that a thread must read what it wrote itself. Blocks of a launch run in no order, so that none may read
what another wrote. And where threads write one element of shared memory, they must write the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from mslang.diagnostics import TargetError, problem
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Var
from mslang.ir.program import Range
from mslang.ir.visit import free_vars, substitute, walk_expr
from mslang.kernel import Body, For, If, Invoke, Let, Stmt, Store, While
from mslang.kernel.visit import bodies
from mslang.lower.gpu.accesses import Access, direct
from mslang.lower.gpu.axes import AXES, BLOCK_AXES, BLOCK_SHARED, THREAD_AXES, WARP, Extents
from mslang.lower.gpu.indices import simpler
from mslang.lower.gpu.ownership import Place, apart, facts_of, owned


class Site(NamedTuple):
    """An access where it stands: the loops of each axis around it, outermost first, and what decides its value.

    `inputs` are the value of a store, and the conditions and the bounds of loops around it.
    """

    access: Access
    bound: Mapping[str, tuple[str, ...]]
    ranges: Mapping[str, Range]
    inputs: tuple[Expr, ...]
    facts: tuple[tuple[Expr, Expr], ...]
    outside: Mapping[str, frozenset[str]]
    """For each axis the loops around its innermost loop: all threads are in the same iteration of them."""
    collective: bool
    """Is it part of an instruction that the lanes of a warp run together?"""
    asked: bool = False
    """Is it read by a condition, a bound or a `let`, which every block and thread evaluates?"""

    def place(self, held: Iterable[str] = ()) -> Place:
        """The access with the axes `held` at 0."""
        ranges = {**self.ranges, **{a: Range(ZERO, ONE) for a in held}}
        return Place(self.access.buffer, self.access.indices, self.access.write, ranges, self.facts)


def sites(nest: Body) -> list[Site]:
    """The accesses of a nest whose loops of blocks and threads are not yet bound."""
    return list(_sites(nest, _Context({}, {}, {}, (), (), {}, False)))


class _Context(NamedTuple):
    values: Mapping[str, Expr]
    bound: Mapping[str, tuple[str, ...]]
    ranges: Mapping[str, Range]
    inputs: tuple[Expr, ...]
    facts: tuple[tuple[Expr, Expr], ...]
    outside: Mapping[str, frozenset[str]]
    collective: bool


def _sites(body: Body, c: _Context) -> Iterator[Site]:
    for s in body:
        value = substitute(s.value, c.values) if isinstance(s, Store) else None
        inputs = c.inputs if value is None else (*c.inputs, value)
        for a in direct(s):
            indices = tuple(simpler(substitute(i, c.values), c.ranges) for i in a.indices)
            asked = isinstance(s, If | While | For | Let)
            access = a._replace(indices=indices)
            yield Site(access, c.bound, c.ranges, inputs, c.facts, c.outside, c.collective, asked)
        inner = _inside(s, c)
        for k, b in enumerate(bodies(s)):
            if isinstance(s, If) and k == 0:
                held = facts_of(substitute(s.condition, c.values))
                yield from _sites(b, inner._replace(facts=(*c.facts, *held)))
            else:
                yield from _sites(b, inner)


def _inside(s: Stmt, c: _Context) -> _Context:
    match s:
        case For(var=v, start=start, extent=extent, kind=kind) if kind in AXES:
            loops = (*c.bound.get(kind, ()), v)
            index = Var(kind)
            value: Expr = index if start == ZERO else Binary("+", index, substitute(start, c.values))
            return c._replace(
                values={**c.values, v: value},
                bound={**c.bound, kind: loops},
                outside={**c.outside, kind: frozenset(c.ranges) - frozenset(THREAD_AXES)},
                ranges={**c.ranges, kind: Range(ZERO, extent)},
            )
        case For(var=v, start=start, extent=extent):
            start, extent = substitute(start, c.values), substitute(extent, c.values)
            return c._replace(ranges={**c.ranges, v: Range(start, extent)}, inputs=(*c.inputs, start, extent))
        case Let(name=n, value=v):
            return c._replace(values={**c.values, n: substitute(v, c.values)})
        case If(condition=e) | While(condition=e):
            return c._replace(inputs=(*c.inputs, substitute(e, c.values)))
        case Invoke():
            return c._replace(collective=True)
    return c


# ------------------------------------------------------------------ memory of one thread or one block
def check_private(
    nest: Body, extents: Extents, scopes: Mapping[str, str], names: frozenset[str], exchanged: frozenset[str]
) -> None:
    """Check that threads and blocks read in memory of their own what they wrote themselves, and that threads write the
    same values where they write the same elements.

    `names` are the buffers on the chip that the nest uses, `exchanged` those that lanes of a warp share.

    Raises:
        TargetError: MS432, another thread or block would have written what one reads; MS436, threads would write
            different values to one element.
    """
    found = sites(nest)
    by_buffer: dict[str, list[Site]] = {}
    for site in found:
        by_buffer.setdefault(site.access.buffer, []).append(site)
    for name in sorted(names & by_buffer.keys()):
        mine = by_buffer[name]
        for axis in _own_axes(scopes[name], extents):
            if axis == "threadIdx.x" and name in exchanged:
                continue
            _check_own(name, scopes[name], axis, mine)
        if scopes[name] in BLOCK_SHARED:
            for axis in THREAD_AXES:
                if axis in extents:
                    _check_same_values(name, axis, mine, by_buffer, scopes)


def exchanged_in_warps(
    nest: Body, extents: Extents, scopes: Mapping[str, str], names: frozenset[str]
) -> frozenset[str]:
    """The buffers of scope `warp` of which a lane may read what another one wrote, where rows of threads are lanes of
    one warp."""
    across = extents.get("threadIdx.x", ONE)
    mine = {n for n in names if scopes[n] == "warp"}
    if not mine or not isinstance(across, Const) or WARP % int(across.value):
        return frozenset()
    found = sites(nest)
    return frozenset(
        n for n in mine if _foreign_write("threadIdx.x", [x for x in found if x.access.buffer == n]) is not None
    )


def _own_axes(scope: str, extents: Extents) -> list[str]:
    """The axes along which every index has memory of its own."""
    if scope in BLOCK_SHARED:
        own: tuple[str, ...] = BLOCK_AXES
    elif scope in ("local", "warp"):
        own = AXES
    else:
        own = tuple(a for a in AXES if a != "threadIdx.x")
    return [a for a in own if extents.get(a, ONE) != ONE]


def _check_own(name: str, scope: str, axis: str, mine: list[Site]) -> None:
    w = _foreign_write(axis, mine)
    if w is None:
        return
    who = "block" if axis in BLOCK_AXES else "thread"
    raise TargetError(
        problem(
            "MS432",
            f"`{name}` lies in `{scope}`, and what one {who} writes to it is read by another",
            why=f"each {who} along {axis} has a `{name}` of its own; loop `{w.bound[axis][-1]}` writes it, and "
            "it is not known that the same index reads it",
            help='`set_scope` the buffer to "shared"'
            if who == "thread"
            else "`compute_at` what writes it in the same loop of blocks",
        )
    )


def _foreign_write(axis: str, mine: list[Site]) -> Site | None:
    """A write of one buffer that another place along the axis may read; None if there is none."""
    if _common(mine, axis):
        return None
    # Each block has memory of its own, so threads that share it are of one block.
    fixed = frozenset(BLOCK_AXES if axis in THREAD_AXES else ())
    for w, r in product(mine, mine):
        if not w.access.write or r.access.write or not w.bound.get(axis):
            continue
        if axis not in r.ranges and axis in _names(r.access.indices):
            r = r._replace(ranges={**r.ranges, axis: w.ranges[axis]})
        if not apart(w.place(), r.place(), (axis,), fixed):
            return w
    return None


def _common(mine: list[Site], axis: str) -> bool:
    """Are all accesses inside of one loop of the axis?"""
    outermost = {site.bound.get(axis, ("",))[0] for site in mine}
    return len(outermost) == 1 and outermost != {""}


def _names(indices: tuple[Expr, ...]) -> frozenset[str]:
    return frozenset[str]().union(*(free_vars(i) for i in indices))


def _check_same_values(
    name: str, axis: str, mine: list[Site], others: Mapping[str, list[Site]], scopes: Mapping[str, str]
) -> None:
    for w in mine:
        if not w.access.write or w.access.atomic or w.collective or not w.bound.get(axis):
            continue
        if owned(w.place(), axis, w.outside[axis] | frozenset(BLOCK_AXES)) or not _depends(
            w.inputs, axis, others, scopes
        ):
            continue
        raise TargetError(
            problem(
                "MS436",
                f"threads along {axis} would write different values to one element of `{name}`",
                why=f"the element does not provably determine the iteration of loop `{w.bound[axis][-1]}` that writes "
                f"it; `{name}` lies in `{scopes[name]}`, which the threads share",
                help='`set_scope` the buffer to "local", or make it larger by a dimension for the threads',
            )
        )


def _depends(inputs: Iterable[Expr], axis: str, others: Mapping[str, list[Site]], scopes: Mapping[str, str]) -> bool:
    """May values differ along an axis, where they are computed or through memory that each thread has to itself?"""
    waiting, seen = list(inputs), set[str]()
    while waiting:
        e = waiting.pop()
        if axis in free_vars(e):
            return True
        for x in walk_expr(e):
            if isinstance(x, Load) and x.buffer not in seen and scopes.get(x.buffer) not in BLOCK_SHARED:
                seen.add(x.buffer)
                writes = (site for site in others.get(x.buffer, ()) if site.access.write)
                waiting += (i for site in writes for i in (*site.inputs, *site.access.indices))
    return False


# ------------------------------------------------------------------ memory that blocks share
def check_blocks(nest: Body, extents: Extents, workspaces: frozenset[str], params: frozenset[str]) -> None:
    """Check that no block needs what another one of the launch writes.

    Raises:
        TargetError: MS434, one does; blocks run in no order, and do not wait for one another.
    """
    axes = [a for a in BLOCK_AXES if extents.get(a, ONE) != ONE]
    by_buffer: dict[str, list[Site]] = {}
    for site in sites(nest):
        by_buffer.setdefault(site.access.buffer, []).append(site)
    for name in sorted((workspaces | params) & by_buffer.keys()):
        mine = by_buffer[name]
        updated = any(x.access.atomic for x in mine)
        for w, other in product((x for x in mine if x.access.write), mine):
            if w.access.atomic and other.access.atomic:
                continue
            for axis in axes:
                # iterations of one loop of a program are independent, but for memory that each has to itself, and
                # for atomic updates
                shared_loop = w.bound.get(axis, ())[:1] == other.bound.get(axis, ())[:1] != ()
                if shared_loop and name in params and not updated:
                    continue
                _check_apart(name, w, other, axis)


def _check_apart(name: str, w: Site, other: Site, axis: str) -> None:
    a, b = (x.place(() if x.bound.get(axis) or x.asked else (axis,)) for x in (w, other))
    if apart(a, b, (axis,)):
        return
    what = "written" if other.access.write else "read"
    raise TargetError(
        problem(
            "MS434",
            f"`{name}` is written by one block of a launch and {what} by another",
            why=f"blocks along {axis} run in no order, and cannot wait for one another",
            help="give what comes later loops of its own at the top level, which are a launch of their own, or "
            '`set_scope` a buffer that each block has to itself to "shared"',
        )
    )
