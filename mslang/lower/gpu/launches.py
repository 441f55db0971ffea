"""Kernels and their launches: top-level nests become functions, bound loops the variables of their axes.

A loop of blocks or threads is not a loop any more: its variable becomes `blockIdx.x` and the like, and where the launch
has more of them than the loop has iterations, a predicate keeps the others out. What does not depend on an axis is
done once, by the threads of index 0 along it, if it writes memory that they share, and by each of them if it writes
memory of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir import arith
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Const, Expr, Var
from mslang.ir.intrin import scratch_of
from mslang.ir.print import print_expr
from mslang.ir.program import HOLDERS, Buffer, Param
from mslang.ir.visit import conjunction, free_vars, loads_of, substitute
from mslang.kernel import (
    Allocate,
    Atomic,
    Body,
    Evaluate,
    For,
    Function,
    If,
    Invoke,
    Let,
    Module,
    Stmt,
    Store,
    Within,
)
from mslang.kernel.visit import bodies, expressions, map_deep, map_expressions, walk, with_bodies
from mslang.lower.analysis import names
from mslang.lower.fold import fold
from mslang.lower.gpu.accesses import touched
from mslang.lower.gpu.axes import (
    AXES,
    BLOCK_AXES,
    BLOCK_SHARED,
    THREAD_AXES,
    Extents,
    bound_threads,
    larger,
    launch_of,
)
from mslang.lower.gpu.scratch import ScratchBuffers
from mslang.lower.gpu.sharing import check_blocks, check_private, exchanged_in_warps
from mslang.target.description import Target

MAX_LAUNCHES = 64
"""Into how many launches a loop around kernels is written out."""


def launches(module: Module, target: Target) -> Module:
    """The module with one function a launch, in launch order.

    Raises:
        TargetError: MS430, a loop around kernels is too long to write out, or of unknown length; MS431, no launch has
            such extents; MS432, threads would share memory that each has to itself; MS434, blocks of a launch would
            depend on one another; MS436, threads would write different values to one element; MS437, memory of one
            launch is used by another.
    """
    module = replace(module, params=tuple(_in_global_memory(p) for p in module.params))
    buffers = {b.name: b for b in _global(module)}
    nests: list[Body] = []
    allocations: dict[str, Allocate] = {}
    for f in module.functions:
        body = _run(_taken_out(f.body, allocations))
        nests += [nest for s in body for nest in _nests(s)]
    homes = _homes(nests, allocations)
    buffers |= {a.buffer.name: a.buffer for a in allocations.values()}
    workspaces = tuple(a.buffer for a in allocations.values() if a.buffer.scope == "global")
    functions = []
    for k, nest in enumerate(nests):
        name = module.name if len(nests) == 1 else f"{module.name}_{k}"
        own = tuple(a for n, a in allocations.items() if homes.get(n) == k)
        functions.append(_function(name, nest, own, buffers, frozenset(b.name for b in workspaces)))
    return replace(module, functions=tuple(functions), workspaces=(*module.workspaces, *workspaces))


def _in_global_memory(p: Param) -> Param:
    """A parameter is memory of the caller, whatever scope the program gives it."""
    return p if p.buffer.scope == "global" else replace(p, buffer=replace(p.buffer, scope="global"))


def _global(module: Module) -> Iterator[Buffer]:
    yield from (p.buffer for p in module.params)
    yield from module.workspaces


def _taken_out(body: Body, found: dict[str, Allocate]) -> Body:
    """Statements without their allocations, which go to `found`."""
    out: list[Stmt] = []
    for s in body:
        made = with_bodies(s, tuple(_taken_out(b, found) for b in bodies(s)))
        if isinstance(made, Allocate):
            found[made.buffer.name] = replace(made, body=())
            out.extend(made.body)
        else:
            out.append(made)
    return tuple(out)


def _run(body: Body) -> Body:
    """Statements without the loops of no iteration, whose extents are not those of a launch."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For) and isinstance(s.extent, Const) and s.extent.value <= 0:
            continue
        made = with_bodies(s, tuple(_run(b) for b in bodies(s)))
        if any(bodies(made)) or not bodies(s):
            out.append(made)
    return tuple(out)


def _homes(nests: list[Body], allocations: Mapping[str, Allocate]) -> dict[str, int]:
    """For each buffer on the chip the nest that uses it."""
    homes: dict[str, int] = {}
    for k, nest in enumerate(nests):
        for name in touched(nest):
            if name not in allocations or allocations[name].buffer.scope == "global":
                continue
            if homes.setdefault(name, k) != k:
                scope = allocations[name].buffer.scope
                raise TargetError(
                    problem(
                        "MS437",
                        f"buffer `{name}` in `{scope}` is used by more than one launch",
                        why=f"memory of scope `{scope}` exists while one kernel runs",
                        help='`set_scope` the buffer to "global", or `compute_at` its producer into the kernel that '
                        "reads it",
                    )
                )
    return homes


# ------------------------------------------------------------------ what is one launch
def _nests(s: Stmt) -> Iterator[Body]:
    """The kernels that a top-level statement is, in the order in which they are launched."""
    match s:
        case For() if s.kind not in AXES and any(_binds(x, BLOCK_AXES) for x in s.body):
            for value in _values(s):
                for x in _with(s.body, s.var, value):
                    yield from _nests(x)
        case Within(body=body):
            for x in body:
                for nest in _nests(x):
                    yield (replace(s, body=nest),)
        case _:
            yield (s,)


def _binds(s: Stmt, axes: tuple[str, ...]) -> bool:
    return any(isinstance(x, For) and x.kind in axes for x in walk((s,)))


def _values(s: For) -> range:
    if not isinstance(s.extent, Const) or not isinstance(s.start, Const):
        raise _host_loop(s, f"it has {print_expr(s.extent)} iterations, which is not a number")
    if s.extent.value > MAX_LAUNCHES:
        raise _host_loop(s, f"it has {s.extent.value} iterations; up to {MAX_LAUNCHES} are written out as launches")
    return range(int(s.start.value), int(s.start.value) + int(s.extent.value))


def _host_loop(s: For, why: str) -> TargetError:
    return TargetError(
        problem(
            "MS430",
            f"loop `{s.var}` is around loops of blocks, and each of its iterations is a launch",
            why=why,
            help=f"`reorder` loop `{s.var}` into the loops of blocks, or bind it too",
        )
    )


def _with(body: Body, var: str, value: int) -> Body:
    values = {var: Const(value)}
    return map_deep(body, lambda e: fold(substitute(e, values)))


def scratch_by_loop(module: Module) -> dict[str, tuple[Buffer, ...]]:
    """The scratch memory of the instructions of each top-level nest, by the nest's first loop; decisions may have no
    values."""
    (f,) = module.functions
    if not any(isinstance(s, Invoke) and scratch_of(s.text) for s in walk(f.body)):
        return {}
    allocations: dict[str, Allocate] = {}
    body = _taken_out(f.body, allocations)
    buffers = (*_global(module), *(a.buffer for a in allocations.values()))
    scopes = {b.name: b.scope for b in buffers}
    found: dict[str, tuple[Buffer, ...]] = {}
    for s in body:
        first = next((x.var for x in walk((s,)) if isinstance(x, For)), None)
        if first is not None:
            binder = _Binder(bound_threads(walk((s,))), scopes, frozenset(), names(body).union(scopes))
            binder.bound((s,))
            found[first] = binder.scratch.buffers
    return found


# ------------------------------------------------------------------ a function
def _function(
    name: str,
    nest: Body,
    allocations: tuple[Allocate, ...],
    buffers: Mapping[str, Buffer],
    workspaces: frozenset[str],
) -> Function:
    extents = _extents(nest)
    scopes = {n: b.scope for n, b in buffers.items()}
    private = frozenset(a.buffer.name for a in allocations)
    exchanged = exchanged_in_warps(nest, extents, scopes, private)
    check_private(nest, extents, scopes, private, exchanged)
    check_blocks(
        nest, extents, workspaces, frozenset(n for n, b in buffers.items() if b.scope == "global") - workspaces
    )
    binder = _Binder(extents, scopes, exchanged, names(nest).union(buffers))
    body = binder.bound(nest)
    allocations += tuple(Allocate(b, ()) for b in binder.scratch.buffers)
    for a in reversed(allocations):
        own = a.buffer.scope == "warp" and a.buffer.name not in exchanged
        b = replace(a.buffer, scope="local") if own else a.buffer
        body = (replace(a, buffer=b, body=body),)
    used = touched(nest)
    seen = tuple(b for n, b in buffers.items() if n in used and b.scope == "global")
    return Function(name, seen, body, launch_of(extents))


def _extents(nest: Body) -> dict[str, Expr]:
    """The extents of the axes of a launch: the largest that a loop of the axis has."""
    found: dict[str, Expr] = {}
    for s in walk(nest):
        if not isinstance(s, For) or s.kind not in AXES:
            continue
        if s.kind in THREAD_AXES and not isinstance(s.extent, Const):
            raise TargetError(
                problem(
                    "MS431",
                    f"loop `{s.var}` of {s.kind} has {print_expr(s.extent)} iterations, which is not a number",
                    why="the threads of a block are fixed when the kernel is compiled",
                    help="`split` the loop by a number, bind that part, and the rest to blockIdx",
                )
            )
        if free_vars(s.extent):
            raise TargetError(
                problem(
                    "MS431",
                    f"the extent of loop `{s.var}` of {s.kind} depends on another loop",
                    why="a launch has the same blocks everywhere",
                    help="`split` the loop by a number, and bind that part",
                )
            )
        known = found.get(s.kind)
        found[s.kind] = s.extent if known is None else larger(known, s.extent)
    threads = 1
    for axis in THREAD_AXES:
        n = found.get(axis, ONE)
        threads *= int(n.value) if isinstance(n, Const) else 1
    if threads > MAX_THREADS:
        raise TargetError(
            problem(
                "MS431",
                f"a block would have {threads} threads",
                why=f"a block has up to {MAX_THREADS}",
                help="`split` a loop of threads, and bind the outer part to blockIdx",
            )
        )
    # a launch has at least one block: what stands next to a loop that a size leaves empty runs, too
    return {axis: n if arith.proved(Binary(">=", n, ONE)) else arith.maximum(n, ONE) for axis, n in found.items()}


MAX_THREADS = 1024
"""The most threads that a block has, on all devices."""


# ------------------------------------------------------------------ binding
class _Around(NamedTuple):
    """What is known where a statement stands: the axes on which variables depend, those of the loops around, those that
    are held at 0, the meaning of the variables of bound loops."""

    depends: Mapping[str, frozenset[str]]
    bound: frozenset[str]
    held: frozenset[str]
    values: Mapping[str, Expr]


class _Binder:
    """Replaces the variables of bound loops, for one launch."""

    def __init__(
        self, extents: Extents, scopes: Mapping[str, str], exchanged: frozenset[str], taken: Collection[str]
    ) -> None:
        self.extents = {a: n for a, n in extents.items() if n != ONE}
        self.scopes, self.exchanged = scopes, exchanged
        self.scratch = ScratchBuffers(self.extents, taken)
        self.contents: dict[str, frozenset[str]] = {}
        """The axes on which the elements of a buffer that each thread has to itself may depend."""

    def bound(self, nest: Body) -> Body:
        """The statements of a launch."""
        self.learn(nest)
        return self.body(nest, _Around({}, frozenset(), frozenset(), {}))

    def learn(self, nest: Body) -> None:
        """Find out on which axes the memory of a thread depends."""
        while True:
            before = dict(self.contents)
            self._learn(nest, {}, frozenset())
            if self.contents == before:
                return

    def _learn(self, body: Body, depends: Mapping[str, frozenset[str]], under: frozenset[str]) -> None:
        for s in body:
            own = under.union(*(self._axes_in(e, depends) for e in expressions(s)))
            if isinstance(s, Store | Atomic) and self.scopes[s.buffer] not in BLOCK_SHARED:
                # lanes that exchange their elements see the same ones
                own_here = own - {"threadIdx.x"} if s.buffer in self.exchanged else own
                self.contents[s.buffer] = self.contents.get(s.buffer, frozenset()) | own_here
            inner, varying = self._below(s, depends, under, own)
            for b in bodies(s):
                self._learn(b, inner, varying)

    def _below(
        self, s: Stmt, depends: Mapping[str, frozenset[str]], under: frozenset[str], own: frozenset[str]
    ) -> tuple[Mapping[str, frozenset[str]], frozenset[str]]:
        """What variables depend on inside of a statement, and how often what is inside runs."""
        match s:
            case For(var=v, kind=kind, start=start) if kind in AXES:
                return {**depends, v: frozenset({kind}) | self._axes_in(start, depends)}, under
            case For(var=v):
                return {**depends, v: own - under}, own
            case Let(name=n):
                return {**depends, n: own - under}, under
        return depends, own

    def body(self, body: Body, around: _Around) -> Body:
        """Statements with what is done once guarded, neighbours of one guard together."""
        out: list[Stmt] = []
        for s in body:
            held = self._held(s, around.depends, around.bound) - around.held
            made = self._statement(s, around._replace(held=around.held | held))
            if not held:
                out.extend(made)
                continue
            guard = conjunction(tuple(Binary("==", Var(a), ZERO) for a in AXES if a in held))
            before = out[-1] if out else None
            if isinstance(before, If) and before.condition == guard and not before.otherwise:
                out[-1] = replace(before, then=(*before.then, *made))
            else:
                out.append(If(guard, made))
        return tuple(out)

    def _statement(self, s: Stmt, around: _Around) -> Body:
        if isinstance(s, For) and s.kind in AXES:
            index: Expr = Var(s.kind) if s.extent != ONE else ZERO
            value = fold(Binary("+", index, s.start))
            depends = {**around.depends, s.var: frozenset({s.kind}) | self._axes_in(s.start, around.depends)}
            inner = _Around(depends, around.bound | {s.kind}, around.held, {**around.values, s.var: value})
            body = self.body(s.body, inner)
            inside = self._predicate(s)
            return body if inside == TRUE else (If(inside, body),)
        if isinstance(s, Invoke):
            (made,) = self._replaced((s,), around.values)
            return (self.scratch.given(made, around.held) if isinstance(made, Invoke) else made,)
        if isinstance(s, For | Let):
            own = around.bound.intersection(
                frozenset[str]().union(*(self._axes_in(e, around.depends) for e in expressions(s)))
            )
            name = s.var if isinstance(s, For) else s.name
            around = around._replace(depends={**around.depends, name: own})
        made = with_bodies(s, tuple(self.body(b, around) for b in bodies(s)))
        values = around.values
        return (map_expressions(made, lambda e: fold(substitute(e, values))),)

    @staticmethod
    def _replaced(body: Body, values: Mapping[str, Expr]) -> Body:
        return map_deep(body, lambda e: fold(substitute(e, values)))

    def _predicate(self, s: For) -> Expr:
        """What keeps out the threads that the launch has and the loop has not."""
        launched = self.extents.get(s.kind, ONE)
        if arith.proved(Binary(">=", s.extent, launched)):
            return TRUE
        if s.extent == ONE:
            return Binary("==", Var(s.kind), ZERO)
        return Binary("<", Var(s.kind), s.extent)

    def _held(
        self,
        s: Stmt,
        depends: Mapping[str, frozenset[str]],
        bound: frozenset[str],
        under: frozenset[str] = frozenset(),
    ) -> frozenset[str]:
        """The axes along which one index must do all that a statement does: nothing of it depends on them, and the
        others would do it again.

        Outside of the loops of an axis nothing depends on it, memory of a thread neither: the program has one value
        there, which all indices have (`check_private`).

        `depends` are the axes on which variables depend, `bound` those of the loops around, `under` those that decide
        how often the statement runs.
        """
        own = bound & under.union(*(self._axes_in(e, depends) for e in expressions(s)))
        match s:
            case Atomic(buffer=b):
                # each iteration of the loops around it updates again, even by the same
                return self._shared_along(self.scopes[b]) - bound
            case Store(buffer=b):
                return self._shared_along(self.scopes[b]) - own
            case Invoke(meaning=meaning):
                inner = list(walk(meaning))
                own = bound & own.union(*(self._axes_in(e, depends) for x in inner for e in expressions(x)))
                stored = {x.buffer for x in inner if isinstance(x, Store | Atomic)}
                held = frozenset[str]().union(*(self._shared_along(self.scopes[b]) for b in stored))
                return held - own - self._collective(s)
            case Evaluate():
                return frozenset(self.extents) - own
        if isinstance(s, For) and s.kind in AXES:
            bound |= {s.kind}
        depends, own = self._below(s, depends, under, own)
        found: frozenset[str] | None = None
        for part in bodies(s):
            for x in part:
                held = self._held(x, depends, bound, own)
                found = held if found is None else found & held
        return frozenset() if found is None else found

    def _axes_in(self, e: Expr, depends: Mapping[str, frozenset[str]]) -> frozenset[str]:
        """The axes on which the value of an expression may depend."""
        found = (depends.get(v, frozenset({v}).intersection(AXES)) for v in free_vars(e))
        loaded = (self.contents.get(x.buffer, frozenset()) for x in loads_of(e))
        return frozenset[str]().union(*found, *loaded)

    def _shared_along(self, scope: str) -> frozenset[str]:
        if scope == "global":
            return frozenset(self.extents)
        return frozenset(self.extents).intersection(THREAD_AXES) if scope in BLOCK_SHARED else frozenset()

    def _collective(self, s: Invoke) -> frozenset[str]:
        """The axis whose threads run an instruction together: those that hold the fragments that it works on."""
        together = max((HOLDERS.get(self.scopes[n], 1) for n in touched((s,))), default=1)
        extent = self.extents.get("threadIdx.x")
        whole = together > 1 and isinstance(extent, Const) and int(extent.value) % together == 0
        return frozenset({"threadIdx.x"}) if whole else frozenset()
