"""Attention on GPUs in one kernel: keys in tiles, with a running maximum (online softmax, FlashAttention).

A block of threads computes some queries of a head, a row of a warp's threads for each. They share the scores of a tile
of keys, then the features of the result; keys, values and weights of a tile are in shared memory, all else in
registers. No memory grows with the number of keys where tiles divide it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mslang.ir.expr import Const, Expr
from mslang.ir.find import all_buffers
from mslang.ir.program import Block
from mslang.schedule.handles import Handle
from mslang.schedule.rules.gpu.attention import Chain, chain_of
from mslang.schedule.rules.gpu.fetch import draw_lanes, loops_under, share_copy
from mslang.schedule.rules.gpu.machine import most_threads
from mslang.schedule.rules.gpu.nests import Step, axes_in, inputs, unbound, written_axes
from mslang.schedule.rules.gpu.steps import BYTES, WARP, fused, handle_of, unsuitable
from mslang.schedule.rules.nests import block_handle, block_of, do, draw, leaf_blocks, loops_around
from mslang.schedule.rules.rule import legal, reserved_for
from mslang.schedule.session import Session
from mslang.transform.getters import consumers, is_output
from mslang.transform.outcome import BlockRef

if TYPE_CHECKING:
    from mslang.schedule.interpret import Interpreter

ROWS = 8
"""Queries of a block of threads, a warp each."""
KEYS = (64, 32)
"""Keys of a tile: the first that shared memory has room for."""
ONE_PASS, APART = "one_pass", "apart"
"""The alternatives: all stages in one kernel; left to other rules."""

Lanes = Callable[[Session, Handle, Handle], int | Expr]
"""How many elements a thread fetches at once, given the block that copies and the loop under which it does."""


class OnlineAttention(msgspec.Struct, frozen=True):
    """Computes the stages of attention in one kernel, in one pass over tiles of keys; see the module.

    Decisions: `online_attention:block` of the block of the maximum (`one_pass`, or `apart`: the stages are left to
    other rules), `online_attention:block/rows` (queries of a block of threads), `/keys` (keys of a tile),
    `/fetch/buffer` (elements that a thread fetches at once).

    Source: FlashAttention.
    """

    name: str = "online_attention"
    rows: tuple[int, ...] = (4, 8, 16, 32)
    keys: tuple[int, ...] = (32, 64, 128)

    def applies(self, it: Interpreter, block: Block) -> bool:
        """Whether the block is the maximum of attention that is not scheduled yet."""
        return _chain_at(it.session, block) is not None

    def alternatives(self, it: Interpreter, block: Block) -> tuple[str, ...]:
        """One pass, where that is legal, or none of it."""
        return (*legal(it, self, block, (ONE_PASS,)), APART)

    def apply(self, it: Interpreter, block: Block, alternative: str) -> None:
        """Schedule all stages; it samples the sizes of tiles and how many elements are fetched at once."""
        chain = _chain_at(it.session, block)
        if alternative == APART or chain is None:
            return
        prefix = f"{self.name}:{block.name}"

        def lanes(session: Session, copy: Handle, place: Handle) -> Expr:
            (read,) = block_of(session, copy).reads
            return draw_lanes(session, copy, place, f"{prefix}/fetch/{read.buffer}")

        rows = _drawn(it.session, self._rows(block, most_threads(it.machine)), f"{prefix}/rows")
        keys = _drawn(it.session, self._keys(block), f"{prefix}/keys")
        online(chain, rows, keys, lanes)(it.session)

    def _rows(self, block: Block, threads: int) -> Sequence[int]:
        """The numbers of queries of a block of at most so many `threads`, of which at least half have work."""
        *_, queries = (int(a.extent.value) for a in block.axes if a.kind == "spatial" and isinstance(a.extent, Const))
        return [n for n in self.rows if n * WARP <= threads and n < 2 * queries] or self.rows[:1]

    def _keys(self, block: Block) -> Sequence[int]:
        """The numbers of keys of a tile that divide all keys; if none does, those that make several tiles."""
        (keys,) = (int(a.extent.value) for a in block.axes if a.kind == "reduce" and isinstance(a.extent, Const))
        return [n for n in self.keys if keys % n == 0] or [n for n in self.keys if n < keys] or self.keys[:1]


def _chain_at(session: Session, block: Block) -> Chain | None:
    """The stages of attention around a maximum, if no loop of them is bound, and no rule of a user's own is named."""
    free = [b.name for b in unbound(session.program) if reserved_for(b) is None]
    return chain_of(session.program, free, block.name)


def _drawn(session: Session, values: Sequence[int], address: str) -> Expr | int:
    """One of some values, drawn if there are several."""
    if len(values) == 1:
        return values[0]
    drawn = draw(session, "choose", tuple(values), address=address)
    assert isinstance(drawn, Expr | int)
    return drawn


def widest(session: Session, copy: Handle, place: Handle) -> int:
    """As many elements as 16 bytes hold, where rows are multiples of that; else one."""
    block = block_of(session, copy)
    lanes = 16 // BYTES.get(all_buffers(session.program)[block.writes[0].buffer].dtype, 4)
    last = loops_under(session, block, place)[-1].extent
    return lanes if isinstance(last, Const) and last.value % lanes == 0 else 1


def online(chain: Chain, rows: int | Expr, keys: int | Expr, lanes: Lanes = widest) -> Step:
    """The stages of a chain as one kernel.

    Args:
        chain: the stages.
        rows: queries of a block of threads, a warp each.
        keys: keys of a tile, a multiple of a warp's threads.
        lanes: how many elements of keys and values a thread fetches at once.
    """

    def step(session: Session) -> None:
        rolled = _rolled(session, chain, rows, keys)
        parts, products = rolled.parts, [n for n in chain.sums if n in chain.products]
        inside = (*rolled.begun, *parts.values(), *chain.stages)
        for n in inside:
            _keep(session, n, inside, "shared" if n in chain.exponentials else "local")
        for n in (*chain.before, *chain.exponentials, *(parts[n] for n in parts if n not in products)):
            _share_keys(session, n, is_product=n in chain.products)
        features: dict[str, int] = {}
        for n in products:
            for name in (n, parts[n]):
                features |= _written_along(_block(session, name), chain.products[n][1])
        for n in (*rolled.begun, *(parts[n] for n in products), *products, *chain.after):
            _share_features(session, n, features)
        threads = (("threadIdx.y", rows if isinstance(rows, Expr) else Const(rows)), ("threadIdx.x", Const(WARP)))
        for n, axes in chain.products.items():
            for copy, is_turned in _staged(session, parts.get(n, n), axes, rolled.tiles):
                share_copy(session, copy, rolled.tiles, threads, lanes(session, copy, rolled.tiles))
                if is_turned:
                    do(session, "storage_align", copy, axis=-2, factor=WARP, offset=1)

    return step


class _Rolled(NamedTuple):
    """Attention in one nest: the loop over tiles of keys, the block of each stage's part for a tile, and blocks that
    store initial values."""

    tiles: Handle
    parts: Mapping[str, str]
    begun: tuple[str, ...]


def _rolled(session: Session, chain: Chain, rows: int | Expr, keys: int | Expr) -> _Rolled:
    """Move all stages into one nest over blocks of queries and tiles of keys."""
    maximum = block_handle(session, chain.maximum)
    block = block_of(session, maximum)
    *batch, row = (a.name for a in block.axes if a.kind == "spatial")
    (reduced,) = (a.name for a in block.axes if a.kind == "reduce")
    outer = [session.axis(maximum, a) for a in batch]
    blocks, queries = do(session, "split", session.axis(maximum, row), (None, rows))
    tiles, within = do(session, "split", session.axis(maximum, reduced), (None, keys))
    do(session, "reorder", *outer, blocks, queries, tiles, within)
    known = {b.name for b in leaf_blocks(session.program)}
    sums = tuple(block_handle(session, n) for n in chain.sums)
    partial = do(session, "rolling_update", maximum, tiles, sums)
    parts = dict(zip((chain.maximum, *chain.sums), (session.handles.resolve(h).name for h in partial), strict=True))
    begun = tuple(b.name for b in leaf_blocks(session.program) if b.name not in {*known, *parts.values()})
    for n in reversed(chain.before):
        do(session, "compute_at", block_handle(session, n), tiles)
    for n in chain.after:
        do(session, "reverse_compute_at", block_handle(session, n), queries)
    if outer:
        do(session, "bind", fused(session, outer), "blockIdx.y")
    do(session, "bind", blocks, "blockIdx.x")
    do(session, "bind", queries, "threadIdx.y")
    return _Rolled(tiles, parts, begun)


def _keep(session: Session, name: str, inside: Collection[str], scope: str) -> None:
    """Put what a block writes in memory of a thread or of a block of threads, if only blocks `inside` need it."""
    ref = BlockRef(name)
    if is_output(session.program, ref) or any(b.name not in inside for b in consumers(session.program, ref)):
        return
    for region in _block(session, name).writes:
        if all_buffers(session.program)[region.buffer].scope == "global":
            do(session, "set_scope", block_handle(session, name), handle_of(session, region.buffer), scope)


def _share_keys(session: Session, name: str, *, is_product: bool) -> None:
    """Bind the loop of the keys that a block reduces, or writes if it is a product, to the threads of a row."""
    b, block = block_handle(session, name), _block(session, name)
    if not _has_columns(session, block):
        return
    reduced = [a.name for a in block.axes if a.kind == "reduce"]
    loop = session.axis(b, reduced[-1] if reduced and not is_product else _adjacent(block))
    _, thread = do(session, "split", loop, (None, WARP))
    do(session, "bind", thread, "threadIdx.x")


def _share_features(session: Session, name: str, features: dict[str, int]) -> None:
    """Bind the loop of a block's features to the threads of a row.

    Args:
        session: the running schedule.
        name: the block.
        features: the dimension of features of buffers; those that the block writes are added.
    """
    b, block = block_handle(session, name), _block(session, name)
    if not _has_columns(session, block):
        return
    used = (axes_in(block, (x.indices[features[x.buffer]],)) for x in inputs(block) if x.buffer in features)
    wanted = next(used, frozenset[str]())
    column = next((a.name for a in reversed(block.axes) if a.name in wanted), None) or _written(block, features)
    features |= _written_along(block, column)
    thread, own = do(session, "split", session.axis(b, column), (WARP, None))
    reduced = [a.name for a in block.axes if a.kind == "reduce"]
    if reduced:
        do(session, "reorder", thread, session.axis(b, reduced[0]), own)
    do(session, "bind", thread, "threadIdx.x")


def _has_columns(session: Session, block: Block) -> bool:
    """Whether a block has a loop within that of its row; else it has one value for each."""
    return loops_around(session.program, block)[-1].kind == "serial"


def _written(block: Block, features: Mapping[str, int]) -> str:
    """The axis of the features that a block writes; where that is not known, of adjacent elements."""
    known = features.get(block.writes[0].buffer)
    if known is None:
        return _adjacent(block)
    return next(a.name for a in reversed(block.axes) if a.name in written_axes(block)[known])


def _adjacent(block: Block) -> str:
    """The axis along which a block writes adjacent elements."""
    found = next((a.name for a in reversed(block.axes) if a.name in written_axes(block)[-1]), None)
    if found is None:
        raise unsuitable("it has no columns")
    return found


def _written_along(block: Block, axis: str) -> dict[str, int]:
    """The dimension that an axis has in what a block writes, by buffer."""
    found = next((k for k, names in enumerate(written_axes(block)) if axis in names), None)
    return {} if found is None else {block.writes[0].buffer: found}


def _block(session: Session, name: str) -> Block:
    return block_of(session, block_handle(session, name))


def _staged(session: Session, name: str, axes: tuple[str, str], place: Handle) -> list[tuple[Handle, bool]]:
    """Copies in shared memory of the operands of a product that all rows share, made under a loop, and whether columns
    are apart there."""
    b, block = block_handle(session, name), _block(session, name)
    row, column = axes
    made: list[tuple[Handle, bool]] = []
    for x in (x for x in inputs(block) if row not in axes_in(block, x.indices)):
        (copy,) = do(session, "cache_read", b, handle_of(session, x.buffer), "shared")
        do(session, "compute_at", copy, place)
        made.append((copy, column not in axes_in(block, x.indices[-1:])))
    return made
