"""Programs whose axes are called like loops that they do not follow: what is said of a loop must not be taken for
the axis, nor the other way round."""

from __future__ import annotations

import random

from msgspec.structs import replace

from mslang.ir.find import contents
from mslang.ir.program import Block, For, Program, Stmt
from mslang.ir.visit import bodies, free_vars, map_bodies
from mslang.transform.rewriting.rewrite import with_axes


def crossed(program: Program, rng: random.Random) -> Program:
    """The program with axes of some blocks called like the loops around them, no axis like its own."""
    return replace(program, body=tuple(_misled(s, (), rng) for s in program.body))


def _misled(s: Stmt, loops: tuple[str, ...], rng: random.Random) -> Stmt:
    match s:
        case Block():
            s = map_bodies(s, lambda body: tuple(_misled(x, (), rng) for x in body))
            assert isinstance(s, Block)
            return _renamed(s, loops, rng)
        case For(var=v):
            return map_bodies(s, lambda body: tuple(_misled(x, (*loops, v), rng) for x in body))
    return map_bodies(s, lambda body: tuple(_misled(x, loops, rng) for x in body)) if list(bodies(s)) else s


def _renamed(block: Block, loops: tuple[str, ...], rng: random.Random) -> Block:
    own = {a.name for a in block.axes}
    said = free_vars(block.predicate) | (contents(block).names - own)
    free = [v for v in loops if v not in said and v not in own]
    names: dict[str, str] = {}
    for a in rng.sample(block.axes, len(block.axes)):
        others = [v for v in free if v not in free_vars(a.binding)]
        if others and rng.random() < 0.8:
            names[a.name] = rng.choice(others)
            free.remove(names[a.name])
    return with_axes(block, names)
