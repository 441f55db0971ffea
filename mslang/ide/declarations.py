"""The names that a program declares, and which of them are visible at a place."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from mslang.diagnostics import Span
from mslang.syntax import tree


class Role(StrEnum):
    """The kinds of names in a program."""

    SIZE = "size"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    VIEW = "view"
    BLOCK = "block"
    AXIS = "axis"
    LOOP = "loop"
    LET = "let"


BUFFERS = frozenset({Role.PARAMETER, Role.BUFFER, Role.VIEW})

ADDRESSABLE = BUFFERS | {Role.SIZE, Role.BLOCK}
"""The kinds of names of a program that its schedules may use."""


class Name(msgspec.Struct, frozen=True):
    """A declaration: the name, its kind, its span (counted from the item), the node, and the span in which it is
    visible. `block` is the block of an axis."""

    text: str
    role: Role
    span: Span
    node: tree.Node
    known: Span
    block: str | None = None


def declarations(item: tree.Program | tree.Intrin) -> tuple[Name, ...]:
    """Every declaration of a program (or of an intrinsic: its meaning and its implementations), outer before inner."""
    bodies = (item.body,) if isinstance(item, tree.Program) else _meanings(item)
    sizes = item.sizes if isinstance(item, tree.Program) else ()
    return (
        *(Name(s.name.text, Role.SIZE, s.name.span, s, item.span) for s in sizes),
        *(Name(p.name.text, Role.PARAMETER, p.name.span, p, item.span) for p in item.params),
        *(n for body in bodies for n in _inside(body, item.span if len(bodies) == 1 else body.span)),
    )


def _meanings(item: tree.Intrin) -> tuple[tree.Body, ...]:
    """What an intrinsic means, and those of its implementations that are programs."""
    return item.desc, *(i.body for i in item.impls if i.body is not None)


def visible(item: tree.Program | tree.Intrin, offset: int) -> dict[str, Name]:
    """The names that are visible at an offset of the item; inner ones hide outer ones."""
    return {n.text: n for n in declarations(item) if n.known.start <= offset <= n.known.end}


def _inside(body: tree.Body, whole: Span) -> Iterator[Name]:
    for s in body.statements:
        match s:
            case tree.Alloc(name=name):
                yield Name(name.text, Role.BUFFER, name.span, s, Span(s.span.end, body.span.end))
            case tree.View(name=name):
                yield Name(name.text, Role.VIEW, name.span, s, Span(s.span.end, body.span.end))
            case tree.Let(binders=binders):
                yield from (
                    Name(b.name.text, Role.LET, b.name.span, s, Span(s.span.end, body.span.end))
                    for b in binders
                    if b.name is not None
                )
            case tree.For(loops=loops, body=inner):
                yield from (Name(x.name.text, Role.LOOP, x.name.span, x, Span(x.span.end, s.span.end)) for x in loops)
                yield from _inside(inner, whole)
            case tree.Block(name=name, axes=axes, body=inner):
                yield Name(name.text, Role.BLOCK, name.span, s, whole)
                # The binding of an axis may name a loop that is called like the axis.
                yield from (Name(a.name.text, Role.AXIS, a.name.span, a, inner.span, name.text) for a in axes or ())
                yield from _inside(inner, whole)
            case tree.While(body=inner) | tree.Init(body=inner):
                yield from _inside(inner, whole)
            case tree.If(body=inner, otherwise=other):
                yield from _inside(inner, whole)
                if other is not None:
                    yield from _inside(other, whole)
