"""Which parameters a program reads, writes, or both, which TVM's functions do not say."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from mslang.ir.expr import Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import AttrValue, Block, Evaluate, For, If, Let, Program, Stmt, Store, While
from mslang.ir.unwritten import unwritten
from mslang.ir.visit import loads_of

DIRECTIONS = "mslang.directions"
"""The attribute of TVM's function with the directions of its parameters, where its body does not imply them."""

_Event = tuple[str, bool]
"""A buffer, and whether it is written."""


def directed(program: Program, said: tuple[AttrValue, ...] | None = None) -> Program:
    """The program with the directions of its parameters: declared, or derived from its statements.

    A parameter that is never written is `in`; one written before it is read is `out`; the others are `inout`, as is a
    parameter with elements that are provably never written, because their old values stay.
    """
    found = derived(program) if said is None or len(said) != len(program.params) else tuple(map(str, said))
    return replace(program, params=tuple(replace(q, direction=d) for q, d in zip(program.params, found, strict=True)))


def derived(program: Program) -> tuple[str, ...]:
    """The directions derived from the statements."""
    views = {v.buffer.name: v.source.buffer for b in blocks_of(program.body) for v in b.views}
    first: dict[str, bool] = {}
    written: set[str] = set()
    for name, write in _events(program.body):
        while name in views:
            name = views[name]
        first.setdefault(name, write)
        if write:
            written.add(name)
    found = tuple(
        "in" if q.buffer.name not in written else "out" if first[q.buffer.name] else "inout" for q in program.params
    )
    params = tuple(replace(q, direction=d) for q, d in zip(program.params, found, strict=True))
    kept = {missing.buffer for missing in unwritten(replace(program, params=params))}
    return tuple("inout" if q.buffer.name in kept else d for q, d in zip(program.params, found, strict=True))


def _events(body: tuple[Stmt, ...]) -> Iterator[_Event]:
    """Reads and writes in the order in which they are written."""
    for s in body:
        match s:
            case Store(buffer=b, indices=xs, value=v):
                for e in (v, *xs):
                    yield from _reads(e)
                yield b, True
            case Let(value=v, body=inner):
                yield from _reads(v)
                yield from _events(inner)
            case If(condition=c, then=t, otherwise=o):
                yield from _reads(c)
                yield from _events((*t, *o))
            case While(condition=c, body=inner):
                yield from _reads(c)
                yield from _events(inner)
            case For(start=a, extent=e, body=inner):
                yield from _reads(a)
                yield from _reads(e)
                yield from _events(inner)
            case Evaluate(value=v):
                yield from _reads(v)
            case Block(init=init, body=inner, axes=axes, predicate=p):
                for e in (p, *(a.binding for a in axes)):
                    yield from _reads(e)
                yield from _events((*(init or ()), *inner))


def _reads(e: Expr) -> Iterator[_Event]:
    return ((x.buffer, False) for x in loads_of(e))
