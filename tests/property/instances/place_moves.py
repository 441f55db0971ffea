"""Moves of blocks: where they are computed, what they are inlined into, how reductions are cut."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from mslang.ir.expr import Binary, Const, Load, Select
from mslang.ir.program import Block, For
from mslang.ir.visit import free_vars, walk_expr
from tests.property.instances.moves import Board, Call, Proposal, formula


def _writers(t: Board, b: Block) -> list[Block]:
    """The blocks that write what a block reads."""
    names = {r.buffer for r in b.reads}
    return [w for w in t.blocks if w.name != b.name and any(r.buffer in names for r in w.writes)]


def _readers(t: Board, b: Block) -> list[Block]:
    """The blocks that read what a block writes."""
    names = {r.buffer for r in b.writes}
    return [x for x in t.blocks if x.name != b.name and any(r.buffer in names for r in x.reads)]


def _moved(t: Board, others: Any) -> Call | None:
    b = t.block(lambda b: bool(others(t, b)))
    if b is None:
        return None
    if t.coin(0.12):
        found = t.decided("compute_location", lambda name: t.schedule.compute_location(t.handle(b), name=name))
        return Call((t.handle(b), found))
    near = [s for x in others(t, b) for s in t.above(x)] or t.loops
    if not near or t.coin(0.1):
        near = t.loops
    if not near:
        return None
    named = {} if t.coin() else {"index": t.rng.choice([-1, -2, 0, 1])}
    return Call((t.handle(b), t.handle(t.rng.choice(near))), named)


def compute_at(t: Board) -> Call | None:
    return _moved(t, _readers)


def reverse_compute_at(t: Board) -> Call | None:
    return _moved(t, _writers if t.coin(0.85) else lambda t, b: [x for x in t.blocks if x is not b])


def compute_inline(t: Board) -> Call | None:
    b = t.block(lambda b: b.init is None and any(r.buffer in t.allocated for r in b.writes))
    return None if b is None else Call((t.handle(b),))


def reverse_compute_inline(t: Board) -> Call | None:
    b = t.block(lambda b: b.init is None and any(r.buffer in t.allocated for r in b.reads))
    return None if b is None else Call((t.handle(b),))


def fuse_reduction_epilogue(t: Board) -> Call | None:
    b = t.block(lambda b: b.init is not None and bool(_readers(t, b)))
    after = [] if b is None else _readers(t, b)
    return Call((t.handle(b), t.handle(t.rng.choice(after)))) if b is not None and after else None


def decompose_reduction(t: Board) -> Call | None:
    b = t.block(lambda b: b.init is not None)
    above = [] if b is None else t.above(b)
    return Call((t.handle(b), t.handle(t.rng.choice(above)))) if b is not None and above else None


def atomic(t: Board) -> Call | None:
    b = t.block(lambda b: b.init is None and (t.coin(0.1) or any(a.kind == "reduce" for a in b.axes)))
    return None if b is None else Call((t.handle(b),))


def rfactor(t: Board) -> Call | None:
    s = t.loop(lambda s: t.serves(s, "reduce") and len(t.below(s)) == 1)
    if s is None:
        return None
    below = t.below(s)
    rank = len(below[0].writes[0].ranges) if below and below[0].writes else 0
    return Call((t.handle(s), t.rng.randint(-rank - 1, rank)))


def rolling_update(t: Board) -> Call | None:
    """A maximum along the outermost loop that reduces, seldom another, with blocks that sum after it."""
    b = t.block(lambda b: isinstance(e := formula(b), Binary) and e.op == "max" and b.init is not None)
    loops = [] if b is None else [s for s in t.above(b) if t.serves(s, "reduce")]
    if b is None or not loops:
        return None
    after = t.blocks[t.blocks.index(b) + 1 :]
    sums = [x for x in after if isinstance(e := formula(x), Binary) and e.op == "+" and x.init]
    loop = loops[0] if t.coin(0.8) else t.rng.choice(loops)
    return Call((t.handle(b), t.handle(loop), [t.handle(x) for x in sums if t.coin(0.85)]))


def blockize(t: Board) -> Call | None:
    if t.coin(0.25):
        runs = [[x[0] if len(x := t.below(s)) == 1 else None for s in body] for body in t.lists()]
        pairs = [(a, b) for run in runs for a, b in pairwise(run) if a is not None and b is not None]
        if pairs:
            return Call(([t.handle(b) for b in t.rng.choice(pairs)],))
    s = t.loop(lambda s: len(t.below(s)) == 1)
    return None if s is None else Call((t.handle(s),))


def pad_einsum(t: Board) -> Call | None:
    b = t.block(lambda b: b.init is not None or t.coin(0.2))
    return None if b is None else Call((t.handle(b), [t.rng.choice([1, 1, 2, 3, 4, 5]) for _ in b.axes]))


def change_signedness(t: Board) -> Call | None:
    b = t.block(lambda b: b.init is not None and len(b.reads) > 1)
    reads = [] if b is None else [r.buffer for r in b.reads if r.buffer not in {w.buffer for w in b.writes}]
    return Call((t.handle(b), t.handle(t.rng.choice(reads)))) if b is not None and reads else None


def decompose_padding(t: Board) -> Call | None:
    b = t.block(lambda b: isinstance(e := formula(b), Select) and isinstance(e.otherwise, Const))
    above = [] if b is None else t.above(b)
    return Call((t.handle(b), t.handle(t.rng.choice(above)))) if b is not None and above else None


def reorder_block_iter_var(t: Board) -> Call | None:
    b = t.block(lambda b: len(b.axes) > 1)
    if b is None:
        return None
    order = list(range(len(b.axes)))
    t.rng.shuffle(order)
    return Call((t.handle(b), order))


def tensorize(t: Board) -> Call | None:
    found = [(b, s, text) for b in t.blocks if (above := t.above(b)) for s, text in _tiles(t, b, above)]
    if not found:
        return None
    _, s, text = t.rng.choice(found)
    return Call((t.handle(s), text))


def _tiles(t: Board, b: Block, above: list[For]) -> list[tuple[For, str]]:
    """Loops above a block with the text of an instruction that does what the block does there."""
    inner = [s for s in above if t.extent(s)]
    value = formula(b)
    if not inner or value is None or b.predicate != Const(True, "bool"):
        return []
    target, last = t.buffers[b.writes[0].buffer] if b.writes else None, inner[-1]
    if target is None or (b.init is not None and len(inner) < 3):
        return []
    n = t.extent(last)
    if isinstance(value, Load) and b.init is None:
        source = t.buffers[value.buffer]
        head = f"intrin copy_{n}(a: {source.dtype}[{n}], inout c: {target.dtype}[{n}])"
        kind = next((f" @ {a.kind}" for a in b.axes if last.var in free_vars(a.binding) and a.kind != "spatial"), "")
        body = f"block m[i: {n}{kind}] {{ c[i] = a[i] }}"
        # What an instruction does has no order: one that begins at the end means the same.
        turned = f"block m[i: {n}{kind}] {{ c[{n - 1} - i] = a[{n - 1} - i] }}"
        done = turned if Random(f"{b.name}/{last.var}/{n}").random() < 0.5 else body
        return [(last, f"{head} {{ desc {{ {body} }} impl {{ {done} }} }}")]
    if isinstance(value, Const) and b.init is None and not isinstance(value.value, bool):
        number = value.value if target.dtype in ("i32", "f32") else f"{target.dtype}({value.value})"
        body = f"block m[i: {n}] {{ c[i] = {number} }}"
        return [(last, f"intrin fill_{n}(inout c: {target.dtype}[{n}]) {{ desc {{ {body} }} impl {{ {body} }} }}")]
    loads = [x for x in walk_expr(value) if isinstance(x, Load)]
    if len(b.axes) == 3 and len(loads) == 3 and b.name.startswith("mm") and len(inner) >= 3:
        first, (p, q, r) = inner[-3], (t.extent(s) for s in inner[-3:])
        dtype, narrow = target.dtype, t.buffers[loads[1].buffer].dtype
        left, right = ("a[i, k]", "w[k, j]") if narrow == dtype else (f"{dtype}(a[i, k])", f"{dtype}(w[k, j])")
        head = f"intrin dot_{p}(a: {narrow}[{p}, {r}], w: {narrow}[{r}, {q}], inout c: {dtype}[{p}, {q}])"
        body = f"block m[i: {p}, j: {q} | k: {r}] {{ c[i, j] += {left} * {right} }}"
        return [(first, f"{head} {{ desc {{ {body} }} impl {{ {body} }} }}")]
    return []


PLACE_MOVES: dict[str, Proposal] = {
    f.__name__: f
    for f in (
        compute_at,
        reverse_compute_at,
        compute_inline,
        reverse_compute_inline,
        fuse_reduction_epilogue,
        decompose_reduction,
        atomic,
        rfactor,
        blockize,
        pad_einsum,
        change_signedness,
        decompose_padding,
        reorder_block_iter_var,
        tensorize,
        rolling_update,
    )
}
