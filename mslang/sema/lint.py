"""Warnings about well-formed programs that are likely mistakes, found in the IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mslang.diagnostics import Diagnostic
from mslang.ir.expr import ONE, Expr
from mslang.ir.find import blocks_of
from mslang.ir.program import Block, For, If, Let, Program, Stmt, Store, While
from mslang.ir.visit import free_vars, substitute, walk
from mslang.sema.declare import Declarations
from mslang.sema.report import warning
from mslang.syntax import tree


def lint(item: tree.Program, program: Program, declared: Declarations) -> Iterator[Diagnostic]:
    """The warnings about a program that has no errors; spans count from the item's start."""
    yield from _undefined(program, declared)
    for b in blocks_of(program.body):
        yield from _axes(b, declared)


# ------------------------------------------------------------------ what is never, or not yet, written
def _undefined(program: Program, declared: Declarations) -> Iterator[Diagnostic]:
    written = {p.buffer.name for p in program.params if p.direction != "out"}
    ever = written | {r.buffer for b in blocks_of(program.body) for r in b.writes}
    told: set[str] = set()
    for s in program.body:
        inside = blocks_of((s,))
        together = {r.buffer for b in inside for r in b.writes} if len(inside) > 1 else set()
        for b in inside:
            scans = any(a.kind == "scan" for a in b.axes)
            for r in b.reads:
                own = scans and any(w.buffer == r.buffer for w in b.writes)
                if not own and r.buffer not in written | together | told and r.buffer in declared.buffers:
                    told.add(r.buffer)
                    yield _unwritten(b, r.buffer, r.buffer in ever, declared)
        written |= {r.buffer for b in inside for r in b.writes}


def _unwritten(b: Block, buffer: str, later: bool, declared: Declarations) -> Diagnostic:
    own = any(r.buffer == buffer for r in b.writes)
    why = "nothing is written to it before" if later or own else "nothing writes to it"
    help = f"declare it `inout {buffer}`, or write it first" if own else None
    return warning(
        "MS126",
        declared.blocks[b.name],
        f"block `{b.name}` reads `{buffer}`, which has no value yet",
        why=why,
        help=help,
    )


# ------------------------------------------------------------------ axes that do not fit what is written
def _axes(b: Block, declared: Declarations) -> Iterator[Diagnostic]:
    if len(blocks_of(b.body)) or any(isinstance(s, For | While) for s in walk(b.body)):
        return
    stores = [vars for s, vars in _stores(b.body, {})]
    if not stores:
        return
    somewhere = frozenset[str]().union(*stores)
    for a in b.axes:
        at = declared.axes[b.name, a.name]
        if a.kind == "spatial" and a.name not in somewhere and a.extent != ONE:
            yield warning(
                "MS119",
                at,
                f"axis `{a.name}` is not an index of what block `{b.name}` writes",
                why="the same elements would be written once for each of its values",
                help=f"write it after `|` if the block reduces over it: `[… | {a.name}: …]`",
            )


def _stores(body: tuple[Stmt, ...], lets: Mapping[str, Expr]) -> Iterator[tuple[Store, frozenset[str]]]:
    for s in body:
        match s:
            case Store(indices=xs):
                yield s, frozenset[str]().union(*(free_vars(substitute(x, lets)) for x in xs))
            case Let(name=n, value=v, body=inner):
                yield from _stores(inner, {**lets, n: substitute(v, lets)})
            case If(then=t, otherwise=o):
                yield from _stores((*t, *o), lets)
