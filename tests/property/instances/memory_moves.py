"""Moves of buffers: copies of them, their layout, their memory."""

from __future__ import annotations

from mslang.ir.expr import Binary, Const, Expr, Load, Var
from mslang.ir.index_map import TO, IndexMap
from mslang.ir.program import Block
from mslang.ir.visit import free_vars, loads_of, stmt_exprs, walk
from tests.property.instances.moves import Board, Call, Proposal

WIDER = {"i8": "i16", "u8": "i16", "i16": "i32", "u16": "i32", "i32": "i64", "f16": "f32", "bf16": "f32", "f32": "f64"}


def _staged(t: Board, write: bool) -> tuple[Block, str] | None:
    b = t.block(lambda b: bool(b.writes if write else b.reads))
    name = None if b is None else t.touched(b, write)
    return None if b is None or name is None else (b, name)


def cache_read(t: Board) -> Call | None:
    found = _staged(t, False)
    if found is None:
        return None
    b, name = found
    named = {}
    if t.coin(0.2):
        users = [x for x in t.blocks if any(r.buffer == name for r in x.reads)]
        named = {"consumers": [t.handle(x) for x in t.rng.sample(users, t.rng.randint(1, len(users)))]}
    return Call((t.handle(b), t.handle(name), t.scope()), named)


def cache_write(t: Board) -> Call | None:
    found = _staged(t, True)
    return None if found is None else Call((t.handle(found[0]), t.handle(found[1]), t.scope()))


def cache_inplace(t: Board) -> Call | None:
    b = t.block(lambda b: bool(_both(b)))
    names = [] if b is None else _both(b)
    return Call((t.handle(b), t.handle(t.rng.choice(names)), t.scope())) if b is not None and names else None


def _both(b: Block) -> list[str]:
    return sorted({r.buffer for r in b.reads} & {r.buffer for r in b.writes})


def cache_index(t: Board) -> Call | None:
    b = t.block(lambda b: any(not isinstance(i, Var | Const) for x in _loads(b) for i in x.indices))
    return None if b is None else Call((t.handle(b), t.scope()), {"threshold": t.rng.choice([0, 0, 1, 2])})


def _loads(b: Block) -> list[Load]:
    return [x for s in walk(b.body) for e in stmt_exprs(s) for x in loads_of(e)]


def reindex(t: Board) -> Call | None:
    access = t.rng.choice(["read", "write"])
    found = _staged(t, access == "write")
    if found is None:
        return None
    return Call((t.handle(found[0]), t.handle(found[1])), {} if t.coin(0.3) else {"access": access})


def _by_axes(t: Board, write: bool) -> Call | None:
    found = _staged(t, write)
    if found is None:
        return None
    b, name = found
    region = next(r for r in (b.writes if write else b.reads) if r.buffer == name)
    names = [a.name for a in b.axes if any(a.name in free_vars(d.start) for d in region.ranges)]
    extents = {a.name: a.extent for a in b.axes}
    results: list[Expr] = [Var(a) for a in names]
    t.rng.shuffle(results)
    if results and t.coin(0.3):
        k = t.rng.randrange(len(results))
        one = results[k]
        match t.rng.choice(["tiled", "reversed", "shifted"]):
            case "tiled":
                results = [*results[:k], Binary("//", one, Const(2)), *results[k + 1 :], Binary("%", one, Const(2))]
            case "reversed" if isinstance(one, Var):
                results[k] = Binary("-", Binary("-", extents[one.name], Const(1)), one)
            case "shifted":
                results[k] = Binary("+", one, Const(1))
    params = tuple(f"p{k}" for k in range(len(b.axes)))
    renamed = {a.name: Var(p) for a, p in zip(b.axes, params, strict=True)}
    made = IndexMap(tuple(a.name for a in b.axes), tuple(results) or (Const(0),))
    return Call((t.handle(b), t.handle(name), t.scope(), IndexMap(params, made.at([renamed[a.name] for a in b.axes]))))


def reindex_cache_read(t: Board) -> Call | None:
    return _by_axes(t, False)


def reindex_cache_write(t: Board) -> Call | None:
    return _by_axes(t, True)


def _under(t: Board, write: bool) -> Call | None:
    found = _staged(t, write)
    above = [] if found is None else t.above(found[0])
    if found is None or not above:
        return None
    return Call((t.handle(found[0]), t.handle(t.rng.choice(above)), t.handle(found[1]), t.scope()))


def read_at(t: Board) -> Call | None:
    return _under(t, False)


def write_at(t: Board) -> Call | None:
    return _under(t, True)


def rolling_buffer(t: Board) -> Call | None:
    windows = {
        r.buffer
        for b in t.blocks
        for r in b.reads
        if r.buffer in t.allocated and any(d.extent != Const(1) for d in r.ranges)
    }
    b = t.block(lambda b: any(r.buffer in windows for r in b.writes))
    if b is None:
        return None
    names = [r.buffer for r in b.writes if r.buffer in windows] or [r.buffer for r in b.writes]
    if not names:
        return None
    name = t.rng.choice(names)
    users = [x for x in t.blocks if x.name != b.name and any(r.buffer == name for r in x.reads)]
    together = users and {s.var for s in t.above(b)} & {s.var for s in t.above(users[0])}
    if users and not together and (near := t.above(users[0])):
        t.schedule.apply("compute_at", t.handle(b), t.handle(t.rng.choice(near)))
    return Call((t.handle(b), t.handle(name)))


def set_scope(t: Board) -> Call | None:
    b = t.block(lambda b: any(r.buffer in t.allocated for r in b.writes))
    name = None if b is None else t.touched(b, True)
    return None if b is None or name is None else Call((t.handle(b), t.handle(name), t.scope()))


def storage_align(t: Board) -> Call | None:
    b = t.block(lambda b: any(r.buffer in t.allocated for r in b.writes))
    names = [] if b is None else [r.buffer for r in b.writes if r.buffer in t.allocated and t.buffers[r.buffer].shape]
    if b is None or not names:
        return None
    name = t.rng.choice(names)
    rank = len(t.buffers[name].shape)
    axis, factor = t.rng.randint(-rank, rank - 1), t.rng.choice([2, 4, 8, 3])
    return Call((t.handle(b), axis, factor, t.rng.randrange(factor)), {"buffer": t.handle(name)})


def prefetch(t: Board) -> Call | None:
    b = t.block(lambda b: bool(b.reads) and bool(t.above(b)))
    name = None if b is None else t.touched(b, False)
    if b is None or name is None or not t.above(b):
        return None
    return Call((t.handle(t.rng.choice(t.above(b))), t.handle(name), t.size(9)))


def stream(t: Board) -> Call | None:
    b = t.block(lambda b: bool(b.writes))
    name = None if b is None else t.touched(b, True)
    if b is None or name is None:
        return None
    return Call((t.handle(b), t.handle(name)), {"on": t.size(2)} if t.rng.random() < 0.5 else {})


def unsafe_set_dtype(t: Board) -> Call | None:
    def fits(name: str) -> bool:
        return name in t.allocated and t.buffers[name].dtype in WIDER

    b = t.block(lambda b: any(fits(r.buffer) for r in b.writes))
    names = [] if b is None else [r.buffer for r in b.writes if fits(r.buffer)]
    if b is None or not names:
        return None
    name = t.rng.choice(names)
    return Call((t.handle(b), t.handle(name), WIDER[t.buffers[name].dtype]))


def unsafe_hide_buffer_access(t: Board) -> Call | None:
    """Only what nothing is computed from later: a parameter that is read, or a result that nobody reads."""
    given = {p.buffer.name for p in t.program.params if p.direction == "in"}
    b = t.block(lambda b: any(r.buffer in given for r in b.reads))
    names = [] if b is None else [r.buffer for r in b.reads if r.buffer in given]
    return Call((t.handle(b), "read", [t.handle(t.rng.choice(names))])) if b is not None and names else None


def annotate_buffer_access(t: Board) -> Call | None:
    access = t.rng.choice(["read", "write"])
    found = _staged(t, access == "write")
    if found is None:
        return None
    b, name = found
    region = next(r for r in (b.writes if access == "write" else b.reads) if r.buffer == name)
    ends: list[Expr] = []
    for d, extent in zip(region.ranges, t.buffers[name].shape, strict=True):
        if t.coin(0.4):
            ends.append(Binary(TO, Const(0), extent))
        else:
            ends.append(Binary(TO, d.start, Binary("+", d.start, d.extent)))
    return Call((t.handle(b), t.handle(name), access, IndexMap(tuple(a.name for a in b.axes), tuple(ends))))


def _relaid(t: Board, extents: list[Expr], names: list[str]) -> tuple[Expr, ...]:
    """Indices in another layout: permuted, tiled, joined, reversed, rotated."""
    results: list[Expr] = [Var(n) for n in names]
    k = t.rng.randrange(len(results)) if results else 0
    match t.rng.choice(
        ["permuted", "permuted", "tiled", "tiled", "joined", "reversed", "rotated", "negated", "shifted"]
    ):
        case "tiled" if results:
            size = Const(t.rng.choice([2, 2, 3, 4]))
            one = results[k]
            results[k] = Binary("//", one, size)
            results.insert(t.rng.randint(k + 1, len(results)), Binary("%", one, size))
        case "joined" if len(results) > 1:
            results[:2] = [Binary("+", Binary("*", results[0], extents[1]), results[1])]
        case "reversed" if results:
            results[k] = Binary("-", Binary("-", extents[k], Const(1)), results[k])
        case "rotated" if results:
            results[k] = Binary("%", Binary("+", results[k], Const(1)), extents[k])
        case "negated" if results:
            results[k] = Binary("-", Const(0), results[k])
        case "shifted" if results:
            results[k] = Binary("+", results[k], Const(1))
        case _:
            t.rng.shuffle(results)
    return tuple(results)


def transform_layout(t: Board) -> Call | None:
    found = _staged(t, t.coin(0.6))
    if found is None:
        return None
    b, name = found
    buffer = t.buffers[name]
    names = [f"d{k}" for k in range(len(buffer.shape))]
    made = IndexMap(tuple(names), _relaid(t, list(buffer.shape), names))
    pad = t.rng.choice([None, None, 0 if buffer.dtype != "bool" else None])
    return Call((t.handle(b), t.handle(name), made), {} if pad is None else {"pad": pad})


def transform_block_layout(t: Board) -> Call | None:
    b = t.block(lambda b: bool(b.axes))
    if b is None:
        return None
    names = [a.name for a in b.axes]
    return Call((t.handle(b), IndexMap(tuple(names), _relaid(t, [a.extent for a in b.axes], names))))


MEMORY_MOVES: dict[str, Proposal] = {
    f.__name__: f
    for f in (
        cache_read,
        cache_write,
        cache_inplace,
        cache_index,
        reindex,
        reindex_cache_read,
        reindex_cache_write,
        read_at,
        write_at,
        rolling_buffer,
        set_scope,
        storage_align,
        prefetch,
        stream,
        unsafe_set_dtype,
        unsafe_hide_buffer_access,
        annotate_buffer_access,
        transform_layout,
        transform_block_layout,
    )
}
