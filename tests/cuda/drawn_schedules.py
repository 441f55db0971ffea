"""Random GPU schedules: each nest of a program gets threads in one of a few ways, with what goes with it.

What is refused is left out, so that any program comes out with a schedule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from mslang.diagnostics import ScheduleError
from mslang.ir.find import all_buffers
from mslang.ir.program import Block, For, Program
from mslang.ir.visit import walk
from mslang.schedule.handles import Handle
from mslang.schedule.schedule import Schedule
from mslang.transform.outcome import BlockRef, BufferRef, LoopRef
from tests.property.tally import Tally

TRIALS = 5
"""How many nests of a program are given threads."""


class Drawer:
    """Draws one schedule; `done` are the primitives that were not refused."""

    def __init__(self, rng: random.Random, schedule: Schedule, tally: Tally) -> None:
        self.rng, self.s, self.tally = rng, schedule, tally
        self.done: list[str] = []

    # ---- asking
    @property
    def program(self) -> Program:
        return self.s.parametric

    def handle(self, ref: BlockRef | LoopRef | BufferRef) -> Handle:
        return self.s.session.handles.handle(ref)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def blocks(self) -> list[Block]:
        """The blocks without blocks inside."""
        found = [b for b in walk(self.program.body) if isinstance(b, Block)]
        return [b for b in found if not any(isinstance(x, Block) for x in walk(b.body))]

    def loops(self, name: str) -> list[Handle]:
        return list(self.s.loops(self.handle(BlockRef(name))))

    def free(self, loops: Sequence[Handle]) -> list[Handle]:
        """Those of the loops that nothing was said of."""
        kinds = {x.var: x.kind for x in walk(self.program.body) if isinstance(x, For)}
        return [x for x in loops if kinds.get(self.name(x)) == "serial"]

    def own(self, name: str) -> list[Handle]:
        """The loops of a block alone that nothing was said of, innermost ones of its nest."""
        return [x for x in self.free(self.loops(name)) if len(self.s.children(x)) == 1]

    def name(self, handle: Handle) -> str:
        ref = self.s.session.handles.resolve(handle)
        return str(ref.name)

    def near(self, getter: str, name: str) -> list[Handle]:
        """The producers or consumers of a block; none if it has gone."""
        if name not in {b.name for b in self.blocks()}:
            return []
        block = self.handle(BlockRef(name))
        return list(self.s.producers(block) if getter == "producers" else self.s.consumers(block))

    # ---- doing
    def tried(self, op: str, *args: Any, **named: Any) -> tuple[Handle, ...] | None:
        """What a primitive returns, None if it is refused."""
        self.tally.tried[op] += 1
        try:
            made = self.s.apply(op, *args, **named)
        except ScheduleError:
            return None
        self.tally.applied[op] += 1
        self.done.append(op)
        return made

    def split(self, loop: Handle, factors: list[int | None]) -> tuple[Handle, ...]:
        tail = self.rng.choice(["guard"] * 12 + ["peel", "pad", "shift"])
        made = self.tried("split", loop, factors, tail=tail)
        return made or (tail != "guard" and self.tried("split", loop, factors)) or ()

    def fused(self, loops: Sequence[Handle]) -> Handle | None:
        """One loop of several, or the last of them if they do not fuse."""
        if len(loops) < 2:
            return loops[0] if loops else None
        made = self.tried("fuse", *loops)
        return made[0] if made else loops[-1]


Way = Callable[[Drawer, str, tuple[int, int]], None]


def draw(schedule: Schedule, rng: random.Random, tally: Tally) -> list[str]:
    """Apply a random GPU schedule; gives the primitives applied."""
    d = Drawer(rng, schedule, tally)
    _off_chip(d)
    _inlined(d)
    seen: set[str] = set()
    for _ in range(TRIALS):
        waiting = [b.name for b in d.blocks() if b.name not in seen and not _bound(d, b.name) and d.loops(b.name)]
        if not waiting or d.chance(0.03):
            break
        # Consumers first: their producers may move under their loops.
        name = waiting[-1] if d.chance(0.6) else rng.choice(waiting)
        seen.add(name)
        rng.choices(list(WAYS), list(WAYS.values()))[0](d, name, _threads(d))
    return d.done


def _threads(d: Drawer) -> tuple[int, int]:
    return d.rng.choice([(4, 4), (8, 2), (2, 2), (3, 2), (8, 4), (32, 1), (16, 1), (33, 1), (7, 1), (64, 1), (32, 2)])


def _bound(d: Drawer, name: str) -> bool:
    kinds = {x.var: x.kind for x in walk(d.program.body) if isinstance(x, For)}
    return any("Idx" in kinds[d.name(x)] for x in d.loops(name))


def _off_chip(d: Drawer) -> None:
    """Buffers of programs of CPUs that one thread has to itself: nests are launches, which share global memory only."""
    scopes = {n: b.scope for n, b in all_buffers(d.program).items()}
    for b in d.blocks():
        for r in b.writes:
            if scopes.get(r.buffer, "global") != "global":
                d.tried("set_scope", d.handle(BlockRef(b.name)), d.handle(BufferRef(r.buffer)), "global")
                scopes[r.buffer] = "global"


def _inlined(d: Drawer) -> None:
    for b in d.blocks():
        if d.chance(0.15):
            d.tried(d.rng.choice(["compute_inline", "reverse_compute_inline"]), d.handle(BlockRef(b.name)))


# ---------------------------------------------------------------- ways
def _flat(d: Drawer, name: str, threads: tuple[int, int]) -> None:
    """The spatial loops as one, cut into blocks, threads, and vectors or virtual threads."""
    n = threads[0] * threads[1]
    loop = d.fused(d.s.spatial_loops(d.handle(BlockRef(name))))
    if loop is None:
        return
    inner = d.rng.choice([0, 0, 2, 4, 3])
    parts = d.split(loop, [None, n, inner] if inner else [None, n])
    if not parts:
        return
    d.tried("bind", parts[0], "blockIdx.x")
    d.tried("bind", parts[1], "threadIdx.x")
    if inner:
        how = d.rng.choice(["vectorize", "vectorize", "unroll", "vthread", ""])
        if how == "vthread":
            d.tried("bind", parts[2], "vthread.x")
        elif how:
            d.tried(how, parts[2])
    _around(d, name, parts[0], (n, 1))


def _tiled(d: Drawer, name: str, threads: tuple[int, int]) -> None:
    """Blocks, virtual threads, threads and what a thread does, of up to two loops; caches; the reduction in steps."""
    block = d.handle(BlockRef(name))
    spatial = list(d.s.spatial_loops(block))
    if not spatial:
        return
    reduction = list(d.s.reduction_loops(block))
    cached = d.tried("cache_write", block, _written(d, name), "global") if d.chance(0.5) else None
    axes = "xy" if len(spatial) > 1 and threads[1] > 1 else "x"
    tiles: list[tuple[Handle, ...]] = []
    for axis, loop in zip(axes, reversed(spatial), strict=False):
        n = threads["xy".index(axis)]
        tiles.append(d.split(loop, [None, d.rng.choice([1, 1, 2]), n, d.rng.choice([1, 2, 3])]))
    if not all(tiles):
        return
    k = d.fused(reduction) if reduction and d.chance(0.3) else (reduction[0] if reduction else None)
    steps = d.split(k, [None, d.rng.choice([2, 3, 4, 8])]) if k is not None else ()
    order = [t[level] for level in range(3) for t in reversed(tiles)]
    d.tried("reorder", *order, *steps, *(t[3] for t in reversed(tiles)))
    for axis, tile in zip(axes, tiles, strict=True):
        d.tried("bind", tile[0], f"blockIdx.{axis}")
        d.tried("bind", tile[1], f"vthread.{axis}")
        d.tried("bind", tile[2], f"threadIdx.{axis}")
    if len(spatial) > len(axes) and d.chance(0.8):
        d.tried("bind", spatial[0], "blockIdx.z")
    shape = threads if len(axes) == 2 else (threads[0], 1)
    innermost_thread = tiles[0][2]
    if cached:
        own = d.chance(0.7)
        if d.tried("reverse_compute_at", cached[0], innermost_thread if own else tiles[0][0]) is not None:
            _on_chip(d, name, ["local" if own else "shared"])
        _cooperative(d, d.name(cached[0]), shape)
    ahead = bool(steps) and d.chance(0.4)
    places = list(steps[:1]) if ahead else [*steps[:1], innermost_thread, tiles[0][0]]
    for buffer in _read(d, name):
        if d.chance(0.9 if ahead else 0.45):
            _cached_read(d, name, buffer, places, shape)
    if steps:
        if d.chance(0.4):
            d.tried("decompose_reduction", block, d.rng.choice([steps[0], innermost_thread]))
        if ahead:
            d.tried("pipeline", steps[0], stages=d.rng.choice([2, 2, 3]), copy=d.rng.choice([None, "cp_async"]))
        if d.chance(0.3):
            d.tried("unroll", steps[1])
    last = tiles[0][3]
    if d.chance(0.5):
        d.tried(d.rng.choice(["vectorize", "unroll"]), last)
    _around(d, name, tiles[0][0], shape)


def _across(d: Drawer, name: str, threads: tuple[int, int]) -> None:
    """The reduction over threads: directly, or through a result a thread."""
    block = d.handle(BlockRef(name))
    reduction, spatial = list(d.s.reduction_loops(block)), list(d.s.spatial_loops(block))
    if not reduction:
        return _flat(d, name, threads)
    n = d.rng.choice([32, 32, 8, 16, 64, 5, 33, 96])
    k = d.fused(reduction)
    if k is None:
        return None
    parts = d.split(k, [None, n])
    outer = d.fused(spatial)
    if not parts:
        return None
    if outer is not None:
        if d.chance(0.4):
            rows = d.split(outer, [None, 2])
            if rows:
                d.tried("bind", rows[0], "blockIdx.x")
                d.tried("bind", rows[1], "threadIdx.y")
                outer = rows[0]
        else:
            d.tried("bind", outer, "blockIdx.x")
    if d.chance(0.3):
        made = d.tried("rfactor", parts[1])
        if made is not None and d.chance(0.7):
            d.tried("bind", parts[1], "threadIdx.x")
        return None
    d.tried("bind", parts[1], "threadIdx.x")
    if d.chance(0.3):
        d.tried("decompose_reduction", block, parts[0])
    if outer is not None:
        _around(d, name, outer, (n, 1))
    return None


def _atomically(d: Drawer, name: str, threads: tuple[int, int]) -> None:
    """The reduction over blocks, and over threads of each: what they have is added up by atomic updates."""
    block = d.handle(BlockRef(name))
    reduction, spatial = list(d.s.reduction_loops(block)), list(d.s.spatial_loops(block))
    loops = d.loops(name)
    if not reduction or not loops:
        return _flat(d, name, threads)
    made = d.tried("decompose_reduction", block, loops[0])
    if d.tried("atomic", block) is None:
        return _across(d, d.name(block), threads)
    if made is not None and d.chance(0.7):
        zero = d.fused(d.own(d.name(made[0])))
        parts = d.split(zero, [None, threads[0]]) if zero is not None else ()
        if parts:
            d.tried("bind", parts[0], "blockIdx.x")
            d.tried("bind", parts[1], "threadIdx.x")
    k = d.fused(reduction)
    n = d.rng.choice([32, 8, 5, 64, 3])
    steps = d.split(k, [None, 2, n] if d.chance(0.3) else [None, n]) if k is not None else ()
    outer = d.fused(spatial)
    if outer is not None and d.chance(0.8):
        rows = d.split(outer, [None, 2]) if d.chance(0.4) else ()
        if rows and d.tried("bind", rows[1], "threadIdx.y") is not None:
            outer = rows[0]
        d.tried("bind", outer, "blockIdx.y")
    if steps:
        if d.chance(0.9):
            d.tried("bind", steps[0], "blockIdx.x")
        if d.chance(0.7):
            d.tried("bind", steps[-1], "threadIdx.x")
    return None


def _rows(d: Drawer, name: str, threads: tuple[int, int]) -> None:
    """A block of threads for each row, all of which walk along it; producers and consumers join them."""
    spatial = list(d.s.spatial_loops(d.handle(BlockRef(name))))
    if len(spatial) < 2:
        return _flat(d, name, threads)
    n = threads[0] * threads[1]
    d.tried("bind", spatial[0], "blockIdx.x")
    parts = d.split(spatial[-1], [None, n])
    if parts:
        d.tried("bind", parts[1], "threadIdx.x")
    _around(d, name, spatial[0], (n, 1))
    return None


WAYS: dict[Way, int] = {_flat: 3, _tiled: 6, _across: 4, _rows: 2, _atomically: 2}
"""How a nest gets its threads, and how often."""


# ---------------------------------------------------------------- what goes with them
def _around(d: Drawer, name: str, loop: Handle, threads: tuple[int, int]) -> None:
    """Producers and consumers of a block under a loop of it, in shared or local memory, with the same threads."""
    for producer in d.near("producers", name):
        if not d.chance(0.4) or d.tried("compute_at", producer, loop) is None:
            continue
        moved = d.name(producer)
        if d.chance(0.8):
            d.tried(
                "set_scope",
                producer,
                _written(d, moved),
                d.rng.choice(["shared", "shared", "shared.dyn", "local", "warp"]),
            )
        _aligned(d, producer)
        _cooperative(d, moved, threads)
    for consumer in d.near("consumers", name):
        if d.chance(0.3) and d.tried("reverse_compute_at", consumer, loop) is not None:
            if d.chance(0.7):
                _on_chip(d, name, ["shared", "shared.dyn", "local", "warp"])
            _cooperative(d, d.name(consumer), threads)


def _on_chip(d: Drawer, name: str, scopes: Sequence[str]) -> str:
    """The buffer that a block writes, in one of these scopes if one launch alone has it; the scope."""
    found = [b for b in walk(d.program.body) if isinstance(b, Block) and b.name == name]
    if not found:
        return "global"
    buffer = found[0].writes[0].buffer
    users = [s for s in d.program.body if any(_uses(b, buffer) for b in walk((s,)) if isinstance(b, Block))]
    scope = d.rng.choice(scopes)
    if len(users) > 1 or d.tried("set_scope", d.handle(BlockRef(name)), d.handle(BufferRef(buffer)), scope) is None:
        return "global"
    return scope


def _uses(block: Block, buffer: str) -> bool:
    return any(r.buffer == buffer for r in (*block.reads, *block.writes))


def _cached_read(d: Drawer, name: str, buffer: str, places: Sequence[Handle], threads: tuple[int, int]) -> None:
    made = d.tried("cache_read", d.handle(BlockRef(name)), d.handle(BufferRef(buffer)))
    if made is None:
        return
    copy = made[0]
    if d.tried("compute_at", copy, d.rng.choice(places)) is None:
        return
    if _on_chip(d, d.name(copy), ["shared", "shared", "shared", "shared.dyn", "local", "warp"]) != "local":
        _aligned(d, copy)
        _cooperative(d, d.name(copy), threads)
    if d.chance(0.2):
        second = d.tried("cache_read", d.handle(BlockRef(name)), _written(d, d.name(copy)))
        if second and d.tried("compute_at", second[0], places[min(1, len(places) - 1)]) is not None:
            _on_chip(d, d.name(second[0]), ["local"])


def _aligned(d: Drawer, block: Handle) -> None:
    if d.chance(0.3):
        d.tried("storage_align", block, d.rng.choice([-2, 0]), d.rng.choice([4, 8, 32]), d.rng.choice([0, 1, 2]))


def _cooperative(d: Drawer, name: str, threads: tuple[int, int]) -> None:
    """A block's own loops, shared out among the threads."""
    loop = d.fused(d.own(name))
    if loop is None or d.chance(0.1):
        return
    lanes = d.rng.choice([1, 1, 2, 4])
    across = [threads[1], threads[0]] if threads[1] > 1 else [threads[0]]
    parts = d.split(loop, [None, *across, lanes]) if lanes > 1 else d.split(loop, [None, *across])
    if not parts:
        return
    for axis, part in zip("yx" if len(across) == 2 else "x", parts[1:], strict=False):
        d.tried("bind", part, f"threadIdx.{axis}")
    if lanes > 1:
        d.tried("vectorize", parts[-1])


def _written(d: Drawer, name: str) -> Handle:
    return d.handle(BufferRef(_block(d, name).writes[0].buffer))


def _read(d: Drawer, name: str) -> list[str]:
    block = _block(d, name)
    written = {r.buffer for r in block.writes}
    known = all_buffers(d.program)
    return [r for r in dict.fromkeys(r.buffer for r in block.reads) if r not in written and r in known]


def _block(d: Drawer, name: str) -> Block:
    return next(b for b in walk(d.program.body) if isinstance(b, Block) and b.name == name)
