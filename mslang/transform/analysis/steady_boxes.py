"""Boxes whose bounds are loaded: as large as data say, and so only while these stay what they are."""

from __future__ import annotations

from mslang.ir.find import blocks_of
from mslang.ir.program import Program
from mslang.ir.visit import Path, bodies, loads_of
from mslang.transform.analysis.definite_writes import Box
from mslang.transform.analysis.dependence import storage_of, storages_written
from mslang.transform.analysis.position import block_at, leaves


def loaded_by(box: Box) -> frozenset[str]:
    """The buffers on which it depends how large a box is and where: they are bounds of loops."""
    return frozenset(x.buffer for r in box for e in (r.start, r.extent) for x in loads_of(e))


def is_steady(program: Program, box: Box, maker: Path, reader: Path, above: Path) -> bool:
    """Does a box mean the same where a block has written it and where another reads it, in one iteration of the loops
    of `above`? So it does unless something from one to the other writes what its bounds load."""
    loaded = frozenset(storage_of(program, b) for b in loaded_by(box))
    if not loaded:
        return True
    start, end = block_at(maker).name, block_at(reader).name
    for body in bodies(above[-1]) if above else (program.body,):
        names = [[b.name for b in blocks_of((s,))] for s in body]
        if any(end in inside for inside in names):
            first, last = (next(k for k, inside in enumerate(names) if n in inside) for n in (start, end))
            return not any(loaded & storages_written(program, b) for b in leaves(*body[first : last + 1]))
    return False


__all__ = ["is_steady", "loaded_by"]
