"""Faults that can be proved from a program alone: accesses out of bounds, outputs that are not written whole."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.diagnostics import Diagnostic, MsError, Span
from mslang.ir.access_bounds import Outside, outside
from mslang.ir.program import Program
from mslang.ir.unwritten import WHY, unwritten
from mslang.sema.declare import Declarations
from mslang.sema.expressions import access
from mslang.sema.refer import nodes
from mslang.sema.report import fault
from mslang.syntax import tree


def provable_faults(item: tree.Program, program: Program, declared: Declarations) -> Iterator[Diagnostic]:
    """What is wrong with a well-formed program of known sizes; spans count from the item's start."""
    blocks = {n.name.text: n for n in nodes(item.body) if isinstance(n, tree.Block)}
    stray = tuple(outside(program))
    for found in stray:
        at = _span(found, item, blocks, declared)
        help = (
            "make the buffer larger or the axis shorter; a condition before an access guards it: `select(…, A[…], 0.0)`"
        )
        yield fault("MS118", at, f"`{found.access.written[0]}` is accessed out of bounds", why=found.why, help=help)
    # A store that goes astray leaves elements unwritten: that is one mistake.
    for missing in () if any(found.access.store for found in stray) else unwritten(program):
        at = declared.buffers[missing.buffer]
        help = f"write all of it, or declare it `inout {missing.buffer}`"
        yield fault("MS421", at, missing.message, why=WHY, help=help)


def _span(found: Outside, item: tree.Program, blocks: dict[str, tree.Block], declared: Declarations) -> Span:
    """The access in the text."""
    name = found.access.block
    if name is None or name not in blocks:
        return item.name.span
    scope = declared.scopes[name]
    for n in nodes(blocks[name].body):
        if isinstance(n, tree.Index) and isinstance(n.base, tree.Ref) and n.base.name.text == found.access.written[0]:
            try:
                if access(n, scope) == found.access.written[1]:
                    return n.span
            except MsError:
                continue
    return blocks[name].name.span
