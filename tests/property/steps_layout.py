"""Random steps: layouts of buffers and blocks, strides, prefetches, streams, the order of axes, loops of threads."""

from __future__ import annotations

import random

from mslang.ir.build import ProgramBuilder, reduce, spatial
from mslang.ir.expr import Binary, Const, Expr, Var
from mslang.ir.find import all_buffers, blocks_of, path_to_block
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Block, Program
from mslang.transform.analysis.dependence import buffers_read, buffers_written
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from mslang.transform.rewriting.layout_filling import trivial_nest
from tests.property.steps import Family, Step, Steps, loops


def _op(op: str, a: Expr, b: Expr | int) -> Expr:
    return Binary(op, a, b if isinstance(b, Expr) else Const(b))


def index_map(rng: random.Random, extents: list[Expr], groups: list[str] | None = None, exact: bool = True) -> IndexMap:
    """A map of so many indices that is mostly one to one: some are cut in two, neighbours fused, places changed.

    `groups` say which indices may be fused; `exact` factors divide the extents.
    """
    params = tuple(f"x{k}" for k in range(len(extents)))
    kinds = groups or ["" for _ in extents]
    parts: list[tuple[Expr, Expr, str]] = []
    for p, n, kind in zip(params, extents, kinds, strict=True):
        size = int(n.value) if isinstance(n, Const) else 0
        factors = [f for f in range(1, size + 1) if size % f == 0] if exact else [f for f in (2, 3, 4, 5) if f <= size]
        if factors and rng.random() < (0.6 if len(extents) < 4 else 0.1):
            f = rng.choice(factors)
            left = rng.choice([0, 0, 0, 1, 2]) if not exact else 0
            whole = _op("+", Var(p), left) if left else Var(p)
            parts += [(_op("//", whole, f), Const(-(-(size + left) // f)), kind), (_op("%", whole, f), Const(f), kind)]
        else:
            parts.append((Var(p), n, kind))
    rng.shuffle(parts)
    while len(parts) > 1 and rng.random() < 0.35:
        k = rng.randrange(len(parts) - 1)
        (a, m, one), (b, n, other) = parts[k : k + 2]
        if one == other or rng.random() < 0.05:
            parts[k : k + 2] = [(_op("+", _op("*", a, n), b), _op("*", m, n), one)]
    results = [e for e, _, _ in parts]
    if not results or rng.random() < 0.1:
        results.insert(rng.randrange(len(results) + 1), Const(0))
    if rng.random() < 0.1:
        k = rng.randrange(len(results))
        results[k] = _op("+", results[k], 1)
    return IndexMap(params, tuple(results))


def _touched(m: Steps, p: Program) -> tuple[str, str] | None:
    """A block and a buffer that it accesses: mostly one that is allocated."""
    own = {b.name for b in p.allocs} | {a.name for b in blocks_of(p.body) for a in b.allocs}
    found = [
        (b.name, name)
        for b in blocks_of(p.body)
        for name in dict.fromkeys((*buffers_read(b), *buffers_written(b)))
        if name in own or m.rng.random() < 0.2
    ]
    return m.rng.choice(found) if found else None


def _transform_layout(m: Steps, p: Program) -> Step | None:
    place = _touched(m, p)
    if place is None:
        return None
    block, name = place
    buffer = all_buffers(p)[name]
    exact = m.rng.random() < 0.5
    pad = None if exact and m.rng.random() < 0.8 else m.rng.choice([0, 1, 5, True]) if m.rng.random() < 0.95 else 1000
    if pad is True and buffer.dtype != "bool":
        pad = 0
    made = index_map(m.rng, list(buffer.shape), exact=exact)
    named = {"pad": pad} if pad is not None or m.rng.random() < 0.8 else {"assume_injective": True}
    return "transform_layout", (BlockRef(block), BufferRef(name), made), named


def _nests(p: Program) -> list[Block]:
    return [b for b in blocks_of(p.body) if b.axes and trivial_nest(path_to_block(p, b.name) or ()) is not None]


def _transform_block_layout(m: Steps, p: Program) -> Step | None:
    found = _nests(p) if m.rng.random() < 0.95 else [b for b in blocks_of(p.body) if b.axes]
    if not found:
        return None
    block = m.rng.choice(found)
    made = index_map(m.rng, [a.extent for a in block.axes], [a.kind for a in block.axes], m.rng.random() < 0.9)
    return "transform_block_layout", (BlockRef(block.name), made), {}


def _reorder_block_iter_var(m: Steps, p: Program) -> Step | None:
    block = m.block(p)
    path = path_to_block(p, block.name)
    assert path is not None and isinstance(path[-1], Block)
    order = list(range(len(path[-1].axes)))
    m.rng.shuffle(order)
    return "reorder_block_iter_var", (block, order if m.rng.random() < 0.95 else order[:-1]), {}


def _storage_align(m: Steps, p: Program) -> Step | None:
    place = [(b.name, w) for b in blocks_of(p.body) for w in buffers_written(b)]
    own = [x for x in place if x[1] in {b.name for b in p.allocs}]
    if not place:
        return None
    block, name = m.rng.choice(own or place)
    axis = m.rng.choice([-1, -2, 0, 1])
    factor, offset = m.rng.choice([1, 4, 8, 32]), m.rng.choice([0, 1, 5, 8])
    return "storage_align", (BlockRef(block), axis, factor, offset), {"buffer": BufferRef(name)}


def _prefetch(m: Steps, p: Program) -> Step | None:
    found = [(s.var, b) for s in loops(p) for block in blocks_of((s,)) for b in buffers_read(block)]
    if not found:
        return None
    loop, name = m.rng.choice(found)
    return "prefetch", (LoopRef(loop), BufferRef(name), m.size(12)), {}


def _stream(m: Steps, p: Program) -> Step | None:
    found = [(block.name, b) for block in blocks_of(p.body) for b in buffers_written(block)]
    if not found:
        return None
    block, name = m.rng.choice(found)
    return "stream", (BlockRef(block), BufferRef(name)), {"on": m.size(2)} if m.rng.random() < 0.3 else {}


def _bind(m: Steps, p: Program) -> Step:
    axis = m.rng.choice(["blockIdx", "threadIdx", "vthread"]) + m.rng.choice([".x", ".y"])
    return "bind", (m.loop(p), axis), {}


def staged(rng: random.Random) -> Program:
    """A producer, a sum and a consumer over buffers of sizes that factors divide or not."""
    n, k = rng.choice([4, 6, 7, 8, 12]), rng.choice([3, 4, 6, 8])
    b = ProgramBuilder("staged")
    a, out = b.input("A", (n, k)), b.output("Y", (n, k))
    t, s = b.alloc("T", (n, k)), b.alloc("S", (n,))
    with b.block("first", spatial("i", n), spatial("j", k)) as (i, j):
        t[i, j] = a[i, j] * 2
    with b.block("sum", spatial("i", n), reduce("j", k)) as (i, j):
        s[i] += t[i, j]
    with b.block("last", spatial("i", n), spatial("j", k)) as (i, j):
        out[i, j] = t[i, j] + s[i]
    return b.finish()


FAMILY = Family(
    steps={
        "transform_layout": _transform_layout,
        "transform_block_layout": _transform_block_layout,
        "reorder_block_iter_var": _reorder_block_iter_var,
        "storage_align": _storage_align,
        "prefetch": _prefetch,
        "stream": _stream,
        "bind": _bind,
    },
    weights={
        "transform_layout": 3,
        "transform_block_layout": 3,
        "reorder_block_iter_var": 1,
        "storage_align": 2,
        "prefetch": 1,
        "stream": 1,
        "bind": 2,
    },
    programs=(staged,),
)
