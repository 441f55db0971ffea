"""Random steps of the primitives that stage buffers, and programs that have what they are for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import takewhile
from types import MappingProxyType

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Var
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.operators import Value, maximum
from mslang.ir.program import Program, Range, Region
from mslang.ir.visit import free_vars
from mslang.transform.analysis.dependence import consumers
from mslang.transform.analysis.instances import loops_beyond_spatial
from mslang.transform.analysis.position import loops_above
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.primitives.loops import reorder, split
from tests.property.steps import Family, Maker, Step, Steps, apply


def _cache_inplace(steps: Steps, p: Program) -> Step | None:
    """Of a block that updates a buffer; seldom of another."""
    found = [
        (b.name, r.buffer) for b in blocks_of(p.body) for r in b.reads if any(w.buffer == r.buffer for w in b.writes)
    ]
    if not found and steps.rng.random() < 0.9:
        return None
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


def _cache_index(steps: Steps, p: Program) -> Step | None:
    """Of a block that has an index which is more than an axis."""
    found = [
        b.name
        for b in blocks_of(p.body)
        if any(isinstance(d.start, Binary) for r in b.reads if r not in b.writes for d in r.ranges)
    ]
    if not found:
        return None
    block, scope = BlockRef(steps.rng.choice(found)), steps.rng.choice(["global", "local"])
    return "cache_index", (block, scope), {"threshold": steps.rng.choice([0, 0, 1, 2])}


def _at(name: str, write: bool) -> Maker:
    """At a loop above the block, for writing mostly one in which the block is done with what it writes."""

    def maker(steps: Steps, p: Program) -> Step | None:
        found = {b.name: loops_above(path_to_block(p, b.name) or ()) for b in blocks_of(p.body)}
        under = [block for block, above in found.items() if above]
        if not under:
            return None
        block = BlockRef(steps.rng.choice(under))
        above = found[block.name]
        if write and steps.rng.random() < 0.9:
            reducing = loops_beyond_spatial(path_to_block(p, block.name) or ())
            above = tuple(takewhile(lambda s: s.var not in reducing, above)) or above
        loop = LoopRef(steps.rng.choice(above).var)
        return name, (block, loop, steps.touched(p, block, write), steps.rng.choice(["global", "local"])), {}

    return maker


def _rolling_buffer(steps: Steps, p: Program) -> Step | None:
    """Of a block under a loop with a reader of what it writes."""
    found = []
    for b in blocks_of(p.body):
        path = path_to_block(p, b.name) or ()
        near = {s.var for s in loops_above(path)}
        for user in consumers(p, path):
            if near & {s.var for s in loops_above(path_to_block(p, user.name) or ())}:
                found += [(b.name, r.buffer) for r in b.writes]
    steps.rng.shuffle(found)
    drawn: list[Step] = [("rolling_buffer", (BlockRef(block), BufferRef(buffer)), {}) for block, buffer in found]
    return next((step for step in drawn if apply(p, step) is not None), drawn[0] if drawn else None)


def _annotate_buffer_access(steps: Steps, p: Program) -> Step | None:
    """A region around what is declared to be read or written."""
    access = "read" if steps.rng.random() < 0.7 else "write"
    found = [(b, r) for b in blocks_of(p.body) for r in (b.writes if access == "write" else b.reads)]
    if not found:
        return None
    block, region = steps.rng.choice(found)
    before, after = (steps.rng.randint(0, 1), steps.rng.randint(0, 2))
    results: list[Expr] = []
    for d in region.ranges:
        low = Binary("-", d.start, Const(before)) if before else d.start
        results.append(Binary(TO, low, Binary("+", Binary("+", d.start, d.extent), Const(after))))
    given = IndexMap(tuple(a.name for a in block.axes), tuple(results))
    return "annotate_buffer_access", (BlockRef(block.name), BufferRef(region.buffer), access, given), {}


def _unsafe_hide_buffer_access(steps: Steps, p: Program) -> Step | None:
    """Reads of what nobody writes: that others do not see them cannot change a result."""
    inputs = {q.buffer.name for q in p.params if q.direction == "in"}
    found = [(b.name, r.buffer) for b in blocks_of(p.body) for r in b.reads if r.buffer in inputs]
    if not found:
        return None
    block, buffer = steps.rng.choice(found)
    return "unsafe_hide_buffer_access", (BlockRef(block), "read", [BufferRef(buffer)]), {}


WIDER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "f32": ("f64",),
        "f16": ("f32", "f64"),
        "i8": ("i16", "i32", "i64"),
        "u8": ("u16", "i16", "i32", "u32", "i64"),
        "i16": ("i32", "i64"),
        "i32": ("i64",),
    }
)
"""Types that hold all that another does: to change to them cannot change a result."""


def _unsafe_set_dtype(steps: Steps, p: Program) -> Step | None:
    own = {b.name: b.dtype for b in (*p.allocs, *(x for b in blocks_of(p.body) for x in b.allocs)) if b.dtype in WIDER}
    found = [(b.name, r.buffer) for b in blocks_of(p.body) for r in b.writes if r.buffer in own]
    if not found:
        return None
    block, buffer = steps.rng.choice(found)
    return "unsafe_set_dtype", (BlockRef(block), BufferRef(buffer), steps.rng.choice(WIDER[own[buffer]])), {}


STEPS: Mapping[str, Maker] = MappingProxyType(
    {
        "cache_inplace": _cache_inplace,
        "cache_index": _cache_index,
        "read_at": _at("read_at", False),
        "write_at": _at("write_at", True),
        "rolling_buffer": _rolling_buffer,
        "annotate_buffer_access": _annotate_buffer_access,
        "unsafe_hide_buffer_access": _unsafe_hide_buffer_access,
        "unsafe_set_dtype": _unsafe_set_dtype,
        "reindex": _reindex,
        "reindex_cache_read": _reindex_cache(False),
        "reindex_cache_write": _reindex_cache(True),
    }
)


# ------------------------------------------------------------------ programs
def _updates(rng: random.Random) -> Program:
    """A buffer made, changed in place once or twice, and read."""
    b = ProgramBuilder("updates")
    n, m = rng.choice([4, 6, 8]), rng.choice([3, 4])
    a, w, o = b.input("A", (n, m)), b.input("W", (m,)), b.output("O", (n, m))
    given = rng.random() < 0.3
    t = b.inout("T", (n, m)) if given else b.alloc("T", (n, m))
    if not given:
        with b.block("make", spatial("i", n), spatial("j", m)) as (i, j):
            t[i, j] = a[i, j] + 1.0
    for k in range(rng.randint(1, 2)):
        match rng.choice(["add", "part", "sum"]):
            case "add":
                with b.block(f"change{k}", spatial("i", n), spatial("j", m)) as (i, j):
                    t[i, j] = t[i, j] + w[j]
            case "part":
                with b.block(f"change{k}", spatial("i", n // 2), spatial("j", m)) as (i, j):
                    t[i * 2, j] = maximum(t[i * 2, j], w[j])
            case _:
                with b.block(f"change{k}", spatial("i", n), spatial("j", m), reduce("k", m), init=()) as (i, j, r):
                    t[i, j] += a[i, r]
    with b.block("use", spatial("i", n), spatial("j", m)) as (i, j):
        o[i, j] = t[i, j] - a[i, j]
    return b.finish()


def _lookups(rng: random.Random) -> Program:
    """Loads at places that take some computing: scaled, wrapped, or looked up."""
    b = ProgramBuilder("lookups")
    n, m = rng.choice([6, 8, 12]), rng.choice([3, 4, 5])
    a, o = b.input("A", (n, m)), b.output("O", (n, m))
    t = b.alloc("T", (n, m))
    with b.block("first", spatial("i", n), spatial("j", m)) as (i, j):
        t[i, j] = a[i, j] * 2.0
    up = rng.choice([1, 2, 3])
    with b.block("scale", spatial("i", n), spatial("j", m)) as (i, j):
        match rng.choice(["scaled", "wrapped", "both", "turned"]):
            case "scaled":
                o[i, j] = t[(i * up + 1) // (up + 1), j] + a[i, (j * up + 1) // (up + 1)]
            case "wrapped":
                o[i, j] = t[(i + 2) % n, j] + t[(i + 2) % n, (j + 1) % m]
            case "both":
                o[i, j] = t[(i * m + j) // m, (i * m + j) % m] - a[(i * m + j) // m, j]
            case _:
                o[i, j] = t[n - 1 - i, m - 1 - j] + a[n - 1 - i, j]
    return b.finish()


def _perhaps(rng: random.Random) -> Program:
    """A block that does not write all that it might: under a condition, for some of its axes, or less than it says."""
    b = ProgramBuilder("perhaps")
    n, m = rng.choice([4, 6, 8]), rng.choice([3, 4])
    a, t, o = b.input("A", (n, m)), b.inout("T", (n, m)), b.output("O", (n, m))
    kind = rng.choice(["condition", "either", "guard", "inside", "declared"])
    few = rng.randint(1, n)
    guard = Value(Binary("<", Var("i"), Const(few))) if kind == "guard" else None
    rows = [Region("T", (Range(ZERO, Const(n)), Range(Var("j"), ONE)))] if kind == "declared" else None
    with b.block("some", spatial("i", n), spatial("j", m), where=guard, writes=rows) as (i, j):
        match kind:
            case "condition" | "inside":
                with b.when(a[i, j] > 0.0 if kind == "condition" else i < few):
                    t[i, j] = a[i, j] * 2.0
            case "either":
                with b.when(a[i, j] > 0.0):
                    t[i, j] = a[i, j]
                with b.when(a[i, j] <= 0.0):
                    t[i, j] = a[i, j] * 3.0
            case _:
                t[i, j] = a[i, j] + 1.0
    with b.block("use", spatial("i", n), spatial("j", m)) as (i, j):
        o[i, j] = t[i, j] - a[i, j]
    return b.finish()


def stencils(rng: random.Random) -> Program:
    """A chain of windows that overlap, computed where the last one needs them; that may be larger than the others."""
    b = ProgramBuilder("stencils")
    depth, two = rng.randint(1, 2), rng.random() < 0.5
    width, step = rng.choice([2, 3]), rng.choice([1, 1, 2])
    n, m = rng.choice([4, 6]), rng.choice([3, 4, 6])
    grows = rng.random() < 0.25
    n = n + 3 if grows else n
    rows = [n]
    for k in range(depth):
        rows.append(((rows[-1] - 1) // 2 if grows and k == 0 else (rows[-1] - 1) * step) + width)
    cols = [m + (k * (width - 1) if two else 0) for k in range(depth + 1)]
    a = b.input("A", (rows[-1], cols[-1]))
    here = b.alloc("T0", (rows[-1], cols[-1]))
    with b.block("s0", spatial("i", rows[-1]), spatial("j", cols[-1])) as (i, j):
        here[i, j] = a[i, j] * 2.0
    for k in reversed(range(depth)):
        name, shape = f"s{depth - k}", (rows[k], cols[k])
        there = b.alloc(f"T{depth - k}", shape) if k else b.output("O", shape)
        larger = grows and k == 0
        if not two and rng.random() < 0.3:
            with b.block(name, spatial("i", shape[0]), spatial("j", shape[1]), reduce("r", width)) as (i, j, r):
                there[i, j] += here[_first(i, step, larger) + r, j]
        else:
            with b.block(name, spatial("i", shape[0]), spatial("j", shape[1])) as (i, j):
                x = _first(i, step, larger)
                value = here[x, j] + here[x + (width - 1), j]
                there[i, j] = value + here[x, j + (width - 1)] if two else value
        here = there
    return _computed_at(rng, b.finish(), depth)


def _first(i: Value, step: int, larger: bool) -> Value:
    """Where the window of an element begins."""
    return i // 2 if larger else i * step


def _computed_at(rng: random.Random, p: Program, depth: int) -> Program:
    """A chain whose blocks are computed at a loop of the last."""
    last = BlockRef(f"s{depth}")
    loops = [s.var for s in loops_above(path_to_block(p, last.name) or ())]
    for var in loops[:2]:
        if rng.random() < 0.6:
            p = split(p, LoopRef(var), [None, Const(rng.choice([1, 2, 3]))]).program
    names = [s.var for s in loops_above(path_to_block(p, last.name) or ())]
    if len(names) >= 4 and rng.random() < 0.7:
        names[1], names[2] = names[2], names[1]
        p = reorder(p, [LoopRef(v) for v in names]).program
    at = LoopRef(rng.choice(names[: max(1, len(names) - 1)]))
    for k in reversed(range(depth)):
        done = apply(p, ("compute_at", (BlockRef(f"s{k}"), at), {}))
        p = p if done is None else done.program
    return p


FAMILY = Family(
    steps=STEPS,
    weights=MappingProxyType(dict.fromkeys(STEPS, 2) | {"cache_inplace": 3, "rolling_buffer": 20}),
    programs=(_updates, _updates, _lookups, _perhaps, *(stencils,) * 6),
)
