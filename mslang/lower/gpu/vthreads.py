"""Virtual threads: loops whose iterations one thread runs in turn, each statement for all of them before the next.

A loop of virtual threads is moved inwards to the statements that depend on it, and unrolled there, so that what does
not, loops and copies to shared memory, is done once. A buffer that each virtual thread has to itself gets a dimension
more.
"""

from __future__ import annotations

from msgspec.structs import replace

from mslang.diagnostics import TargetError, problem
from mslang.ir import arith
from mslang.ir.expr import Binary, Expr, Load, MaskedLoad, Var
from mslang.ir.program import Buffer
from mslang.ir.visit import free_vars, loads_of, map_expr
from mslang.kernel import Allocate, Atomic, Body, Evaluate, For, If, Invoke, Let, Module, Stmt, Store, While, Within
from mslang.kernel.visit import bodies, expressions, map_expressions, map_functions, walk, with_bodies
from mslang.lower.fold import fold
from mslang.target.description import Target

VTHREADS = frozenset({"vthread", "vthread.x", "vthread.y", "vthread.z"})
"""The kinds of loops of virtual threads."""


def interleaved(module: Module, target: Target) -> Module:
    """The module without loops of virtual threads.

    Raises:
        TargetError: MS439, what the virtual threads of a loop do cannot be taken in turn.
    """
    return map_functions(module, _body)


def _body(body: Body) -> Body:
    out: list[Stmt] = []
    for s in body:
        made = with_bodies(s, tuple(_body(b) for b in bodies(s)))
        if isinstance(made, For) and made.kind in VTHREADS:
            out.extend(_Virtual(made).spread(made.body))
        else:
            out.append(made)
    return tuple(out)


class _Virtual:
    """One loop of virtual threads."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.index: Expr = fold(Binary("-", Var(loop.var), loop.start))
        self.own = _own(loop)

    def spread(self, body: Body) -> Body:
        """Statements with the loop inside of them, around what depends on it."""
        out: list[Stmt] = []
        for s in body:
            out.extend(self._statement(s))
        return tuple(out)

    def _statement(self, s: Stmt) -> Body:
        if isinstance(s, Allocate):
            return (replace(s, buffer=self._versions(s.buffer), body=self.spread(s.body)),)
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
        inside = frozenset(x.buffer.name for x in walk((s,)) if isinstance(x, Allocate))
        made = self._in_version(s, self.own - inside)
        return (replace(self.loop, kind="unrolled", body=(made,), annotations=()),)

    def _varies(self, s: Stmt) -> bool:
        """Does what a statement does depend on the virtual thread?"""
        return any(self._mentions(e) for x in walk((s,)) for e in expressions(x)) or any(
            isinstance(x, Store | Atomic) and x.buffer in self.own for x in walk((s,))
        )

    def _mentions(self, e: Expr) -> bool:
        return self.loop.var in free_vars(e) or any(x.buffer in self.own for x in loads_of(e))

    def _versions(self, b: Buffer) -> Buffer:
        if b.name not in self.own:
            return b
        strides = b.strides
        if strides is not None and b.shape:
            strides = (arith.mul(b.shape[0], strides[0]), *strides)
        return replace(b, shape=(self.loop.extent, *b.shape), strides=strides)

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


def _own(loop: For) -> frozenset[str]:
    """The buffers allocated in a loop that hold different values, or elements, in its iterations."""
    allocated = {s.buffer.name for s in walk(loop.body) if isinstance(s, Allocate)}
    found: set[str] = set()
    names = {loop.var}
    while True:
        before = (len(found), len(names))
        _grow(loop.body, False, allocated, found, names)
        if (len(found), len(names)) == before:
            return frozenset(found)


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
