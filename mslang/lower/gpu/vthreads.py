"""Virtual threads: loops whose iterations one thread runs in turn, each statement for all of them before the next.

A loop of virtual threads is moved inwards to the statements that depend on it, and unrolled there, so that what does
not, loops and copies to shared memory, is done once. A buffer that each virtual thread has to itself gets a dimension
more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir import arith
from mslang.ir.expr import Binary, Expr, Load, MaskedLoad, Var
from mslang.ir.program import Buffer, Range
from mslang.ir.visit import free_vars, loads_of, map_expr
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
    While,
    Within,
)
from mslang.kernel.visit import bodies, expressions, map_expressions, walk, with_bodies
from mslang.lower.fold import fold
from mslang.lower.gpu.accesses import direct
from mslang.lower.gpu.axes import BLOCK_SHARED, THREAD_AXES, axis_ranges, extents_of
from mslang.lower.gpu.ownership import Place, owned
from mslang.target.description import Target

VTHREADS = frozenset({"vthread", "vthread.x", "vthread.y", "vthread.z"})
"""The kinds of loops of virtual threads."""


def interleaved(module: Module, target: Target) -> Module:
    """The module without loops of virtual threads.

    Raises:
        TargetError: MS439, what the virtual threads of a loop do cannot be taken in turn.
    """
    return replace(module, functions=tuple(replace(f, body=_Function(f).body(f.body)) for f in module.functions))


class _Function:
    """The loops of virtual threads of one function, innermost first."""

    def __init__(self, f: Function) -> None:
        self.threads = axis_ranges({a: n for a, n in extents_of(f.launch).items() if a in THREAD_AXES})
        self.uses = _uses(f.body)
        self.given = frozenset(b.name for b in f.params)
        allocated = (s.buffer for s in walk(f.body) if isinstance(s, Allocate))
        self.shared = self.given | {b.name for b in allocated if b.scope in (*BLOCK_SHARED, "warp")}
        self.versions: dict[str, list[Expr]] = {}

    def body(self, body: Body) -> Body:
        """Statements without loops of virtual threads; each version of a buffer is a place in a dimension more."""
        return tuple(self._with_versions(s) for s in self._spread(body))

    def _spread(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            made = with_bodies(s, tuple(self._spread(b) for b in bodies(s)))
            if isinstance(made, For) and made.kind in VTHREADS:
                own = self._own(made)
                self._require_apart(made, own)
                for name in own:
                    self.versions.setdefault(name, []).append(made.extent)
                out.extend(_Virtual(made, own).spread(made.body))
            else:
                out.append(made)
        return tuple(out)

    def _with_versions(self, s: Stmt) -> Stmt:
        s = with_bodies(s, tuple(tuple(self._with_versions(x) for x in b) for b in bodies(s)))
        if not isinstance(s, Allocate):
            return s
        for extent in self.versions.get(s.buffer.name, ()):
            s = replace(s, buffer=_version(s.buffer, extent))
        return s

    def _own(self, loop: For) -> frozenset[str]:
        """The buffers used in a loop only that hold different values, at the same places, in its iterations."""
        inside = _uses(loop.body)
        private = {n for n, count in inside.items() if count == self.uses[n]} - self.given
        return _varying(loop, private) - self._apart(loop)

    def _require_apart(self, loop: For, own: frozenset[str]) -> None:
        """Refuse a loop of which several iterations write and read the same elements.

        Each iteration writes what it reads, or the loop could not be bound; but in turn, one would read what another
        has begun to write.

        Raises:
            TargetError: MS439.
        """
        loads = {x.buffer for s in walk(loop.body) for e in expressions(s) for x in loads_of(e)}
        shared = _varying(loop, set(_uses(loop.body)) - own) & loads - self._apart(loop)
        if shared:
            name = min(shared)
            raise TargetError(
                problem(
                    "MS439",
                    f"virtual threads would compute the same elements of `{name}` in turn",
                    why="each reads what it wrote, and another would have written the element again before that",
                    help=f"compute `{name}` outside of the loop, or `set_scope({name}, local)`",
                )
            )

    def _apart(self, loop: For) -> frozenset[str]:
        """The buffers of which different virtual threads write different elements: one version is enough."""
        kept: dict[str, bool] = {}

        def visit(body: Body, ranges: Mapping[str, Range]) -> None:
            for s in body:
                if isinstance(s, Store | Atomic):
                    known = {**self.threads, **ranges} if s.buffer in self.shared else ranges
                    place = Place(s.buffer, s.indices, True, known)
                    kept[s.buffer] = kept.get(s.buffer, True) and owned(place, loop.var)
                inner = {**ranges, s.var: Range(s.start, s.extent)} if isinstance(s, For) else ranges
                for b in bodies(s):
                    visit(b, inner)

        visit(loop.body, {loop.var: Range(loop.start, loop.extent)})
        return frozenset(name for name, apart in kept.items() if apart)


def _varying(loop: For, among: set[str]) -> frozenset[str]:
    """The buffers that are written differently, or in some iterations only."""
    found: set[str] = set()
    names = {loop.var}
    while True:
        before = (len(found), len(names))
        _grow(loop.body, False, among, found, names)
        if (len(found), len(names)) == before:
            return frozenset(found)


def _uses(body: Body) -> Counter[str]:
    """How often each buffer is accessed, as it is written."""
    return Counter(a.buffer for s in walk(body) for a in direct(s))


def _version(b: Buffer, extent: Expr) -> Buffer:
    strides = b.strides
    if strides is not None and b.shape:
        strides = (arith.mul(b.shape[0], strides[0]), *strides)
    return replace(b, shape=(extent, *b.shape), strides=strides)


class _Virtual:
    """One loop of virtual threads."""

    def __init__(self, loop: For, own: frozenset[str]) -> None:
        self.loop, self.own = loop, own
        self.index: Expr = fold(Binary("-", Var(loop.var), loop.start))

    def spread(self, body: Body) -> Body:
        """Statements with the loop inside of them, around what depends on it."""
        out: list[Stmt] = []
        for s in body:
            out.extend(self._statement(s))
        return tuple(out)

    def _statement(self, s: Stmt) -> Body:
        if isinstance(s, Allocate):
            return (replace(s, body=self.spread(s.body)),)
        if not self._varies(s):
            return (s,)
        match s:
            case For() | Within() if not any(self._mentions(e) for e in expressions(s)):
                if isinstance(s, For) and s.kind == "vectorized":
                    return self._repeated(s)
                return (with_bodies(s, tuple(self.spread(b) for b in bodies(s))),)
            case If(condition=c, then=then, otherwise=otherwise) if not self._mentions(c):
                return (replace(s, then=self.spread(then), otherwise=self.spread(otherwise)),)
            case Let(value=v, body=inner) if not self._mentions(v):
                return (replace(s, body=self.spread(inner)),)
        return self._repeated(s)

    def _repeated(self, s: Stmt) -> Body:
        made = self._in_version(s, self.own)
        return (replace(self.loop, kind="unrolled", body=(made,), annotations=()),)

    def _varies(self, s: Stmt) -> bool:
        """Does what a statement does depend on the virtual thread?"""
        return any(self._mentions(e) for x in walk((s,)) for e in expressions(x)) or any(
            isinstance(x, Store | Atomic) and x.buffer in self.own for x in walk((s,))
        )

    def _mentions(self, e: Expr) -> bool:
        return self.loop.var in free_vars(e) or any(x.buffer in self.own for x in loads_of(e))

    def _in_version(self, s: Stmt, own: frozenset[str]) -> Stmt:
        def change(x: Expr) -> Expr | None:
            if isinstance(x, Load | MaskedLoad) and x.buffer in own:
                return replace(x, indices=(self.index, *x.indices))
            return None

        s = with_bodies(s, tuple(tuple(self._in_version(x, own) for x in b) for b in bodies(s)))
        s = map_expressions(s, lambda e: map_expr(e, change))
        if isinstance(s, Store | Atomic) and s.buffer in own:
            return replace(s, indices=(self.index, *s.indices))
        return s


def _grow(body: Body, varying: bool, allocated: set[str], found: set[str], names: set[str]) -> None:
    for s in body:
        varies = varying or any(
            not names.isdisjoint(free_vars(e)) or any(x.buffer in found for x in loads_of(e)) for e in expressions(s)
        )
        match s:
            case Store(buffer=b) | Atomic(buffer=b):
                if varies and b in allocated:
                    found.add(b)
            case Let(name=n):
                if varies:
                    names.add(n)
                varies = varying
            case For(var=v):
                if varies:
                    names.add(v)
            case Invoke() if varies:
                found.update({x.buffer for x in walk(s.meaning) if isinstance(x, Store)} & allocated)
            case Evaluate() | While() if varies:
                raise TargetError(
                    problem(
                        "MS439",
                        "virtual threads would run a loop of unknown length or a call in turn",
                        why="what it does depends on the virtual thread, and in which order is not known",
                        help='`bind` another loop to "vthread", or `unroll` this one',
                    )
                )
        for part in bodies(s):
            _grow(part, varies, allocated, found, names)
