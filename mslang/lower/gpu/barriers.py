"""Barriers where threads of a block depend on one another, and nowhere else.

Statements are gone through in order, with the accesses since the last barrier. Before a statement that may access an
element which another thread of the block has accessed since, and one of the two writes it, a barrier is put. Whether it
is another thread is asked of `ownership.py`. At the end of a loop its accesses are carried to its begin, as those of
the iteration before.

A barrier at which only lanes of one warp need to wait for one another becomes one of warps, if no other barrier is
needed instead.

All threads of a block must reach a barrier. Where one is needed under a condition that differs among threads, the
condition is moved inwards, around the statements on both sides of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir.dtype import INDEX
from mslang.ir.expr import ONE, ZERO, Binary, Call, Const, Expr, Load, MaskedLoad, Select, Unary, Var, dtype_of
from mslang.ir.print import print_expr
from mslang.ir.program import Range
from mslang.ir.reduction import identity
from mslang.ir.visit import conjunction, conjuncts, free_vars, fresh, loads_of, substitute, walk_expr
from mslang.kernel import Allocate, Barrier, Body, Evaluate, For, Function, If, Invoke, Let, Module, Stmt, While, Within
from mslang.kernel.visit import bodies, walk, with_bodies
from mslang.lower.analysis import names
from mslang.lower.gpu.accesses import CP_ASYNC_WAIT, Access, collective, direct
from mslang.lower.gpu.axes import BLOCK_AXES, BLOCK_SHARED, THREAD_AXES, WARP, axis_ranges, extents_of, thread_extents
from mslang.lower.gpu.groups import require_whole_groups
from mslang.lower.gpu.ownership import Place, apart, facts_of
from mslang.lower.gpu.warp_numbers import NUMBER, Warp, warp_of
from mslang.target.description import Target


def synchronized(module: Module, target: Target) -> Module:
    """The module with the barriers that its functions need.

    Raises:
        TargetError: MS433, one is needed where not all threads of a block come; MS456, an instruction is reached by a
            part of the threads that run it together.
    """
    scopes = {b.name: b.scope for f in module.functions for b in f.params}
    return replace(module, functions=tuple(_synchronized(f, scopes) for f in module.functions))


def _synchronized(f: Function, scopes: Mapping[str, str]) -> Function:
    scopes = {**scopes, **{s.buffer.name: s.buffer.scope for s in walk(f.body) if isinstance(s, Allocate)}}
    require_whole_groups(f, scopes)
    extents = {a: n for a, n in extents_of(f.launch).items() if a in THREAD_AXES}
    if not extents:
        return f
    stored = {a.buffer for s in walk(f.body) for a in direct(s) if a.write}
    watched = frozenset(n for n in stored if scopes[n] in BLOCK_SHARED)
    if not watched:
        return f
    warp = warp_of(f)
    one_warp = thread_extents(f).get("threadIdx.x", 1) <= WARP
    pass_ = _Pass(tuple(extents), watched, scopes, warp, one_warp)
    context = _Context(axis_ranges(extents_of(f.launch)), (), {}, frozenset(THREAD_AXES))
    body, _ = pass_.body(f.body, (), context)
    for k in range(_count(body) if warp is not None else 0):
        narrower = _of_warps(body, k)
        if _count(pass_.body(narrower, (), context)[0]) == _count(narrower):
            body = narrower
    return replace(f, body=body)


def _count(body: Body) -> int:
    return sum(isinstance(s, Barrier) for s in walk(body))


def _of_warps(body: Body, wanted: int) -> Body:
    """Statements with the barrier of a number, in order, for the lanes of each warp."""
    numbers = count()

    def visit(part: Body) -> Body:
        return tuple(
            (Barrier("warp") if next(numbers) == wanted else s)
            if isinstance(s, Barrier)
            else with_bodies(s, tuple(visit(b) for b in bodies(s)))
            for s in part
        )

    return visit(body)


_BLOCK = frozenset(BLOCK_AXES)


class _Known(NamedTuple):
    """An access since the last barrier; `fixed` are the loops in whose same iteration it is. A `collective` one is of
    an instruction that the lanes of a warp run together, in order."""

    access: Access
    place: Place
    loops: tuple[str, ...]
    fixed: frozenset[str]
    collective: bool = False
    waited: bool = False
    """Have the lanes of its warp waited for one another since?"""


Pending = tuple[_Known, ...]


class _Context(NamedTuple):
    """What is known where a statement stands: ranges of axes and loops, the loops around, values of `let`s, and the
    names whose values differ among threads."""

    ranges: Mapping[str, Range]
    loops: tuple[str, ...]
    values: Mapping[str, Expr]
    varying: frozenset[str]
    facts: tuple[tuple[Expr, Expr], ...] = ()
    collective: bool = False


class _Pass:
    """Puts the barriers into one function."""

    def __init__(
        self,
        axes: tuple[str, ...],
        watched: frozenset[str],
        scopes: Mapping[str, str],
        warp: Warp | None,
        one_warp: bool,
    ) -> None:
        self.axes, self.watched, self.scopes, self.warp = axes, watched, scopes, warp
        self.apart_along = tuple(x for x in axes if x != "threadIdx.x") if one_warp else axes
        """The axes along which collective instructions run in no order: a row of threads may be several warps."""

    def body(self, body: Body, pending: Pending, c: _Context) -> tuple[Body, Pending]:
        """Statements with barriers, and the accesses since the last one."""
        out: list[Stmt] = []
        waiting = list(reversed(body))
        while waiting:
            s = waiting.pop()
            told = self._told(s)
            if told is not None:
                waiting.append(told)
                continue
            opened = self._opened(s, c)
            if opened is not None:
                waiting += reversed(opened)
                continue
            made, pending = self._statement(s, pending, c)
            out.extend(made)
        return tuple(out), pending

    def _told(self, s: Stmt) -> Stmt | None:
        """A branch or a loop whose condition or bounds load what is stored in it, with these in `let`s: all threads ask
        for them before one of them stores."""
        match s:
            case If(condition=condition) if self._changes(s, (condition,)):
                name = fresh("taken", names((s,)))
                plain = tuple(p for p in conjuncts(condition) if not any(loads_of(p)))
                return Let(name, condition, (replace(s, condition=conjunction((*plain, Var(name, "bool")))),))
            case For(start=start, extent=extent) if self._changes(s, (start, extent)):
                taken = names((s,))
                first = fresh(f"{s.var}_start", taken)
                trips = fresh(f"{s.var}_trips", taken | {first})
                loop = replace(s, start=Var(first), extent=Var(trips))
                return Let(first, start, (Let(trips, extent, (loop,)),))
        return None

    def _changes(self, s: Stmt, exprs: tuple[Expr, ...]) -> bool:
        """Does a statement store to what expressions of it load, in memory that threads share?"""
        loaded = {x.buffer for e in exprs for x in walk_expr(e) if isinstance(x, Load | MaskedLoad)} & self.watched
        return bool(loaded) and any(a.write and a.buffer in loaded for x in walk((s,)) for a in direct(x))

    def _opened(self, s: Stmt, c: _Context) -> Body | None:
        """The statements to take in the place of one that holds a barrier and is not reached by all threads."""
        if not isinstance(s, If | For | While) or not self._diverges(s, c):
            return None
        if not self._needs_barrier(s, c):
            return None
        match s:
            case If(condition=e, then=then, otherwise=otherwise):
                return self._distributed(s, e, then, otherwise)
        raise _refused(s)

    def _distributed(self, s: If, condition: Expr, then: Body, otherwise: Body) -> Body:
        if any(loads_of(condition)):
            # what it loads may change between its statements
            name = fresh("taken", names((s,)))
            return (Let(name, condition, self._distributed(s, Var(name, "bool"), then, otherwise)),)
        made: list[Stmt] = []
        for where, part in ((condition, then), (Unary("not", condition), otherwise)):
            for x in part:
                match x:
                    case Let(value=v):
                        v = Select(where, v, identity("max", dtype_of(v))) if any(loads_of(v)) else v
                        made.append(replace(x, value=v, body=(If(where, x.body),)))
                    case For() | Allocate() | Within():
                        made.append(replace(x, body=(If(where, x.body),)))
                    case If(otherwise=()):
                        made.append(replace(x, condition=Binary("and", where, x.condition)))
                    case If(condition=e) if not any(loads_of(e)):
                        made.append(If(Binary("and", where, e), x.then))
                        made.append(If(Binary("and", where, Unary("not", e)), x.otherwise))
                    case If(condition=e):
                        name = fresh("chosen", names((s,)))
                        asked = Binary("and", where, e)
                        no = Binary("and", where, Unary("not", Var(name, "bool")))
                        made.append(Let(name, asked, (If(Var(name, "bool"), x.then), If(no, x.otherwise))))
                    case While():
                        raise _refused(x)
                    case _:
                        made.append(If(where, (x,)))
        return tuple(made)

    # -------------------------------------------------------------- statements
    def _statement(self, s: Stmt, pending: Pending, c: _Context) -> tuple[Body, Pending]:
        if isinstance(s, Barrier):
            if s.scope == "block":
                return (s,), _under_way(pending)
            return (s,), tuple(k if k.access.later else k._replace(waited=True) for k in pending)
        if isinstance(s, Let | Allocate | Within):
            own = self._own(s, c)
            before, pending = self._waited(pending, own)
            inner, left = self.body(bodies(s)[0], (*pending, *own), _inside(s, c, self))
            return (*before, with_bodies(s, (inner,))), left
        found = tuple(k._replace(fixed=frozenset(c.loops)) for k in self._accesses(s, c))
        if isinstance(s, For) and not self._diverges(s, c) and (any(k.access.write for k in found) or _lands(s)):
            return self._loop(s, pending, c)
        if isinstance(s, While) and not self._diverges(s, c) and any(k.access.write for k in found):
            return self._repeated(s, pending, c)
        if isinstance(s, If) and not self._diverges(s, c) and self._needs_barrier(s, c):
            return self._branches(s, pending, c)
        if _waits(s):
            landed = tuple(k._replace(access=k.access._replace(later=False)) for k in pending if k.access.later)
            all_landed = isinstance(s, Evaluate) and s.value == Call(CP_ASYNC_WAIT, (ZERO,), INDEX)
            left = tuple(k for k in pending if not (all_landed and k.access.later))
            return (s,), (*left, *landed)
        before, pending = self._waited(pending, found)
        return (*before, s), (*pending, *found)

    def _branches(self, s: If, pending: Pending, c: _Context) -> tuple[Body, Pending]:
        """A condition that is one for all threads: barriers may stand in its branches."""
        before, pending = self._waited(pending, self._own(s, c))
        then, after = self.body(s.then, pending, c)
        otherwise, other = self.body(s.otherwise, pending, c)
        return (*before, replace(s, then=then, otherwise=otherwise)), (*after, *other)

    def _loop(self, s: For, pending: Pending, c: _Context) -> tuple[Body, Pending]:
        inner = _inside(s, c, self)
        body, left = self.body(s.body, (), inner)
        if s.extent != ONE and left:
            # what the iteration before left open meets what this one begins with
            body, left = self._again(s.body, _outside(left, c), inner)
        own, head = self._own(s, c), self._head(body, inner)
        before, pending = self._waited(pending, (*own, *head))
        made = replace(s, body=body)
        return (*before, made), (
            *(_under_way(pending) if _ends_apart((made,)) else (*pending, *own)),
            *_outside(left, c),
        )

    def _repeated(self, s: While, pending: Pending, c: _Context) -> tuple[Body, Pending]:
        """A loop whose condition is one for all threads, asked again after each iteration: not before all of them have
        stored what it asks for, and nothing is stored before all have asked."""
        asked = self._own(s, c)
        before, pending = self._waited(pending, (*asked, *self._head(s.body, c)))
        body, left = self.body(s.body, asked, c)
        head = self._head(body, c)
        left = _outside(left, c)
        if self._meet(left, (*asked, *head)):
            body, left = (*body, Barrier()), _under_way(left)
        return (*before, replace(s, body=body)), (*pending, *asked, *left)

    def _again(self, body: Body, carried: Pending, c: _Context) -> tuple[Body, Pending]:
        made, left = self.body(body, carried, c)
        return made, tuple(k for k in left if k not in carried) if not _ends_apart(made) else left

    def _head(self, body: Body, c: _Context) -> Pending:
        """What statements access before their first barrier."""
        found: list[_Known] = []
        for s in body:
            if s == Barrier():
                break
            if isinstance(s, For | Let | Allocate | Within):
                found += self._head(s.body, _inside(s, c, self))
                found += self._own(s, c)
                if _ends_apart((s,)):
                    break
                continue
            found += self._accesses(s, c)
        return tuple(found)

    def _needs_barrier(self, s: Stmt, c: _Context) -> bool:
        """Would a barrier be put inside of a statement, were it reached by all threads?"""
        if isinstance(s, If):
            parts = [(b, _under(s.condition, c) if k == 0 else c) for k, b in enumerate(bodies(s))]
        else:
            parts = [(b, _inside(s, c, self)) for b in bodies(s)]
        for b, inner in parts:
            made, left = self.body(b, (), inner)
            if any(isinstance(x, Barrier) for x in walk(made)):
                return True
            if isinstance(s, For | While) and self._meet(_outside(left, c), left):
                return True
        return False

    # -------------------------------------------------------------- accesses
    def _own(self, s: Stmt, c: _Context) -> Pending:
        return tuple(self._known(a, c) for a in direct(s) if a.buffer in self.watched)

    def _accesses(self, s: Stmt, c: _Context) -> Iterator[_Known]:
        yield from self._own(s, c)
        if isinstance(s, If):
            for x in s.then:
                yield from self._accesses(x, _under(s.condition, c))
            for x in s.otherwise:
                yield from self._accesses(x, c)
            return
        inner = _inside(s, c, self)
        for b in bodies(s):
            for x in b:
                yield from self._accesses(x, inner)

    def _known(self, a: Access, c: _Context) -> _Known:
        indices = tuple(substitute(i, c.values) for i in a.indices)
        place = Place(a.buffer, indices, a.write, c.ranges, c.facts)
        return _Known(a, place, c.loops, frozenset(c.loops), c.collective)

    def _waited(self, pending: Pending, found: Pending) -> tuple[Body, Pending]:
        """The barrier that is needed before some accesses, and what is pending after it."""
        return ((Barrier(),), _under_way(pending)) if self._meet(pending, found) else ((), pending)

    def _meet(self, pending: Pending, found: Pending) -> bool:
        """May two threads access one element, one earlier, one now, and one of them write it?"""
        return any(
            p.access.buffer == a.access.buffer
            and not p.access.later
            and (p.access.write or a.access.write)
            and not (p.access.atomic and a.access.atomic)
            and not self._apart(p, a)
            for p in pending
            for a in found
        )

    def _apart(self, p: _Known, a: _Known) -> bool:
        """Do the threads that may meet access different elements? The lanes of a warp run collective instructions in
        order, but what one stores another sees only after a barrier."""
        fixed = (p.fixed & frozenset(a.loops)) | _BLOCK
        if p.collective and a.collective and (a.access.write or not p.access.write):
            return apart(p.place, a.place, self.apart_along, fixed)
        if p.waited and self.warp is not None:
            axes = tuple(x for x in self.warp.axes if x in self.axes or x == NUMBER)
            return apart(self.warp.place(p.place), self.warp.place(a.place), axes, fixed)
        return apart(p.place, a.place, self.axes, fixed)

    # -------------------------------------------------------------- divergence
    def _diverges(self, s: Stmt, c: _Context) -> bool:
        match s:
            case If(condition=e) | While(condition=e):
                return self.varies(e, c)
            case For(start=start, extent=extent):
                return self.varies(start, c) or self.varies(extent, c)
        return False

    def varies(self, e: Expr, c: _Context) -> bool:
        """May an expression have different values in the threads of a block?"""
        if not c.varying.isdisjoint(free_vars(e)):
            return True
        loaded = (x for x in walk_expr(e) if isinstance(x, Load | MaskedLoad))
        return any(self.scopes[x.buffer] not in BLOCK_SHARED for x in loaded)


def _under_way(pending: Pending) -> Pending:
    """Copies that go on beyond a barrier: what they write lands when they are waited for."""
    return tuple(k for k in pending if k.access.later)


def _lands(s: Stmt) -> bool:
    return any(_waits(x) for x in walk((s,)))


def _waits(s: Stmt) -> bool:
    return isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.name == CP_ASYNC_WAIT


def _outside(pending: Pending, c: _Context) -> Pending:
    """Accesses seen from outside of the loop that they are in: from the iteration after, or from what follows it."""
    return tuple(k._replace(fixed=frozenset(c.loops)) for k in pending)


def _inside(s: Stmt, c: _Context, pass_: _Pass) -> _Context:
    match s:
        case For(var=v, start=start, extent=extent):
            ranges = {**c.ranges, v: Range(substitute(start, c.values), substitute(extent, c.values))}
            differs = pass_.varies(start, c)
            return c._replace(ranges=ranges, loops=(*c.loops, v), varying=c.varying | {v} if differs else c.varying)
        case Invoke():
            return c._replace(collective=collective(s, pass_.scopes))
        case Let(name=n, value=v):
            varying = c.varying | {n} if pass_.varies(v, c) else c.varying
            return c._replace(values={**c.values, n: substitute(v, c.values)}, varying=varying)
    return c


def _under(condition: Expr, c: _Context) -> _Context:
    """Where a condition holds: what is equal there, and the axes that are at their first indices."""
    ranges = dict(c.ranges)
    for part in conjuncts(condition):
        match part:
            case Binary(op="<", left=Var(name=n), right=Const() as value) if n in THREAD_AXES:
                ranges[n] = Range(ZERO, value)
    return c._replace(ranges=ranges, facts=(*c.facts, *facts_of(substitute(condition, c.values))))


def _ends_apart(body: Body) -> bool:
    """Does every run of statements pass a barrier?"""
    for s in body:
        match s:
            case Barrier(scope="block"):
                return True
            case Let(body=b) | Allocate(body=b) | Within(body=b) if _ends_apart(b):
                return True
            case For(body=b, extent=Const(value=n)) if n > 0 and _ends_apart(b):
                return True
            case If(then=then, otherwise=otherwise) if _ends_apart(then) and _ends_apart(otherwise):
                return True
    return False


def _refused(s: Stmt) -> TargetError:
    match s:
        case For(var=v):
            what = f"how often loop `{v}` runs differs among threads"
        case While(condition=e) | If(condition=e):
            what = f"the condition `{print_expr(e)}` may differ among threads, or how often it is asked"
        case _:
            what = "not all threads come there"
    return TargetError(
        problem(
            "MS433",
            "a barrier is needed where not all threads of a block come",
            why=what,
            help="take what threads exchange out of the loop or condition, or exchange it through a kernel of its own",
        )
    )
