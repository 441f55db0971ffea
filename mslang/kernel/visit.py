"""Walking and rebuilding kernels: one table of what is inside each statement, and the traversals derived from it.

All rebuilds share what does not change: a subtree that comes back the same is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from mslang.ir.expr import Expr
from mslang.kernel.nodes import (
    Allocate,
    Atomic,
    Barrier,
    Body,
    Evaluate,
    For,
    If,
    Invoke,
    Let,
    Module,
    Prefetch,
    Stmt,
    Store,
    While,
    Within,
)


class Fields(NamedTuple):
    """The fields of a statement that hold statements, and those that hold an expression, several, or none (None)."""

    bodies: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()


CHILDREN: Mapping[type[Stmt], Fields] = {
    Store: Fields((), ("indices", "value", "mask", "stream")),
    Let: Fields(("body",), ("value",)),
    If: Fields(("then", "otherwise"), ("condition",)),
    While: Fields(("body",), ("condition",)),
    Evaluate: Fields((), ("value",)),
    For: Fields(("body",), ("start", "extent")),
    Allocate: Fields(("body",)),
    Invoke: Fields(("meaning",), ("operands",)),
    Within: Fields(("body",), ("values",)),
    Barrier: Fields(),
    Atomic: Fields((), ("indices", "value")),
    Prefetch: Fields((), ("indices",)),
}
"""The child table. A new statement is one line here; a statement that is not here is refused by every traversal."""


def _fields(s: Stmt) -> Fields:
    found = CHILDREN.get(type(s))
    if found is None:
        raise _unknown(s)
    return found


def _unknown(s: object) -> TypeError:
    return TypeError(f"not a statement of a kernel: {s!r}")


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these fields, as fast as can be: every traversal asks each statement."""
    match names:
        case ():
            return lambda s: ()
        case (name,):
            read = attrgetter(name)
            return lambda s: (read(s),)
    return attrgetter(*names)


_BODIES: Mapping[type[Stmt], Callable[[Any], tuple[Body, ...]]] = {
    kind: _reader(fields.bodies) for kind, fields in CHILDREN.items()
}
_EXPRESSIONS = {kind: _reader(fields.expressions) for kind, fields in CHILDREN.items()}


def bodies(s: Stmt) -> tuple[Body, ...]:
    """The statement lists directly inside a statement."""
    read = _BODIES.get(type(s))
    if read is None:
        raise _unknown(s)
    return read(s)


def with_bodies(s: Stmt, parts: tuple[Body, ...]) -> Stmt:
    """The same statement over other statement lists; itself if they are the same objects."""
    fields = _fields(s).bodies
    if not fields and not parts:
        return s
    changed = {f: b for f, b in zip(fields, parts, strict=True) if getattr(s, f) is not b}
    return replace(s, **changed) if changed else s


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in a statement."""
    read = _EXPRESSIONS.get(type(s))
    if read is None:
        raise _unknown(s)
    found: list[Expr] = []
    for value in read(s):
        if type(value) is tuple:
            found += value
        elif value is not None:
            found.append(value)
    return tuple(found)


def map_expressions(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """The statement with the expressions directly in it rebuilt; bodies stay."""
    changed: dict[str, object] = {}
    for name in _fields(s).expressions:
        value = getattr(s, name)
        if isinstance(value, tuple):
            made = tuple([f(x) for x in value])
            if any(a is not b for a, b in zip(made, value, strict=True)):
                changed[name] = made
        elif value is not None:
            one = f(value)
            if one is not value:
                changed[name] = one
    return replace(s, **changed) if changed else s


def walk(body: Body) -> Iterator[Stmt]:
    """Every statement, outer before inner, in order."""
    waiting = list(reversed(body))
    while waiting:
        s = waiting.pop()
        yield s
        for b in reversed(bodies(s)):
            waiting += b[::-1]


def map_deep(body: Body, f: Callable[[Expr], Expr]) -> Body:
    """Statements with every expression in them, at any depth, rebuilt by `f`."""
    return tuple([map_expressions(with_bodies(s, tuple([map_deep(b, f) for b in bodies(s)])), f) for s in body])


def map_functions(module: Module, f: Callable[[Body], Body]) -> Module:
    """The module with the body of each function rebuilt; itself if they are the same objects."""
    made = [f(x.body) for x in module.functions]
    if all(b is x.body for b, x in zip(made, module.functions, strict=True)):
        return module
    return replace(module, functions=tuple(replace(x, body=b) for x, b in zip(module.functions, made, strict=True)))
