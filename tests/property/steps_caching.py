"""Random steps of the primitives that stage buffers, and programs that have what they are for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Program
from mslang.ir.visit import all_buffers, blocks_of, free_vars
from mslang.transform.outcome import BlockRef, BufferRef
from tests.property.steps import Family, Maker, Step, Steps


def _cache_inplace(steps: Steps, p: Program) -> Step:
    found = [
        (b.name, r.buffer) for b in blocks_of(p.body) for r in b.reads if any(w.buffer == r.buffer for w in b.writes)
    ]
    block, buffer = steps.rng.choice(found) if found else (steps.block(p).name, steps.rng.choice(list(all_buffers(p))))
    return "cache_inplace", (BlockRef(block), BufferRef(buffer), steps.rng.choice(["global", "local"])), {}


def _staged(steps: Steps, p: Program, write: bool) -> tuple[BlockRef, BufferRef]:
    block = steps.block(p)
    return block, steps.touched(p, block, write)


def _reindex(steps: Steps, p: Program) -> Step:
    access = steps.rng.choice([None, "read", "write"])
    return (
        "reindex",
        _staged(steps, p, access == "write" or (access is None and steps.rng.random() < 0.5)),
        {"access": access},
    )


def _map_for(steps: Steps, p: Program, block: BlockRef, buffer: BufferRef) -> IndexMap:
    """A layout by the axes that the block's indices of a buffer mention: in another order, tiled or flattened."""
    found = next(b for b in blocks_of(p.body) if b.name == block.name)
    regions = [r for r in (*found.reads, *found.writes) if r.buffer == buffer.name]
    mentioned = {v for r in regions for d in r.ranges for v in free_vars(d.start)}
    own = [a for a in found.axes if a.name in mentioned]
    steps.rng.shuffle(own)
    results: list[Expr] = [Var(a.name) for a in own]
    match steps.rng.choice(["plain", "tiled", "flat"]):
        case "tiled" if own:
            last, n = results.pop(), Const(steps.rng.choice([2, 3]))
            results += [Binary("//", last, n), Binary("%", last, n)]
        case "flat" if len(own) > 1:
            inner, outer = results.pop(), results.pop()
            results.append(Binary("+", Binary("*", outer, own[-1].extent), inner))
    return IndexMap(tuple(a.name for a in found.axes), tuple(results))


def _reindex_cache(write: bool) -> Maker:
    def maker(steps: Steps, p: Program) -> Step:
        block, buffer = _staged(steps, p, write)
        scope = steps.rng.choice(["global", "local"])
        name = "reindex_cache_write" if write else "reindex_cache_read"
        return name, (block, buffer, scope, _map_for(steps, p, block, buffer)), {}

    return maker


STEPS: Mapping[str, Maker] = MappingProxyType(
    {
        "cache_inplace": _cache_inplace,
        "reindex": _reindex,
        "reindex_cache_read": _reindex_cache(False),
        "reindex_cache_write": _reindex_cache(True),
    }
)

FAMILY = Family(steps=STEPS, weights=MappingProxyType(dict.fromkeys(STEPS, 2)))
