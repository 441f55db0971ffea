"""Features of a store beyond Ansor's: vectors, registers, footprints by cache, waste, instructions, the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mslang.ir.dtype import size_of
from mslang.lower.summary import Nest, Statement
from mslang.search.features.ansor import is_spatial
from mslang.search.features.buffers import Named
from mslang.search.formulas import Formula, Formulas
from mslang.search.traffic import traffic
from mslang.target.description import Target

TARGET_FIELDS = (
    "cores",
    "vector_bits",
    "registers",
    "l1",
    "l2",
    "l3",
    "sms",
    "warp",
    "max_threads",
    "shared",
    "registers_sm",
    "bandwidth",
)
"""The fields of a target that are features; one that it lacks is 0."""


def machine_features(f: Formulas, s: Statement, nest: Nest, target: Target) -> Iterator[Named]:
    """The features of a statement that depend on the machine, by name; counts are `log2(1 + x)`, shares are not."""
    yield from _vectors(f, s, target)
    yield from _parallel(f, s, target)
    yield from _caches(f, s, target)
    yield "waste", waste(f, s).slog()
    yield "prefetch.ahead", f.total([f.expr(x.ahead) for x in s.loops]).slog()
    yield "stream", f.expr(s.stream).most(0.0).least(1.0)
    yield "guarded", f.number(float(s.guarded))
    yield "instruction", f.number(float(bool(s.instruction)))
    inside = [f.expr(x.extent) for x in s.loops if x.kind == "instruction"]
    yield "instruction.iterations", f.product(inside).slog()
    yield from _nest(f, nest, target)


def target_features(f: Formulas, target: Target) -> Iterator[Named]:
    """The machine itself: the same for all candidates of a task, so that only a model of several tasks sees it."""
    fields: Mapping[str, object] = target.fields
    for name in TARGET_FIELDS:
        value = fields.get(name, 0)
        yield f"target.{name}", f.number(float(value) if isinstance(value, int | float) else 0.0).slog()


def waste(f: Formulas, s: Statement) -> Formula:
    """How often each stored element is computed: above 1 where tails are padded or where tiles overlap."""
    stored = [a for a in s.accesses if a.stores]
    if not stored:
        return f.number(1.0)
    spatial = [f.expr(x.extent) for k, x in enumerate(s.loops) if is_spatial(s, k)]
    return f.product(spatial) / f.total([f.expr(a.elements[0]) for a in stored]).most(1.0)


def _vectors(f: Formulas, s: Statement, target: Target) -> Iterator[Named]:
    lanes, vectors = f.expr(s.lanes), f.expr(s.vectors)
    live = f.expr(s.accumulators) + f.expr(s.operands)
    register = max(target.vector_bits // 8, 1)
    yield "vector.lanes", lanes.slog()
    yield "vector.registers", vectors.slog()
    yield "vector.use", lanes * (size_of(s.dtype) / register) / vectors
    yield "copies", f.expr(s.copies).slog()
    yield "live.accumulators", f.expr(s.accumulators).slog()
    yield "live.operands", f.expr(s.operands).slog()
    yield "live.share", live * (1.0 / max(target.registers, 1))


def _parallel(f: Formulas, s: Statement, target: Target) -> Iterator[Named]:
    parallel = f.expr(s.parallel)
    yield "parallel.iterations", parallel.slog()
    yield "parallel.balance", balance(parallel, target.cores)


def balance(parallel: Formula, cores: int) -> Formula:
    """The share of the cores that equal iterations keep busy on average: 1 if they divide evenly."""
    return parallel / ((parallel * (1.0 / cores)).ceil() * float(cores))


def _caches(f: Formulas, s: Statement, target: Target) -> Iterator[Named]:
    for name, capacity in (("l1", target.l1), ("l2", target.l2), ("l3", target.l3)):
        found = traffic(f, s, capacity)
        yield f"{name}.lines", found.lines.slog()
        yield f"{name}.iterations", found.iterations.slog()


def _nest(f: Formulas, nest: Nest, target: Target) -> Iterator[Named]:
    yield "nest.code", f.expr(nest.code).slog()
    yield "nest.registers", f.expr(nest.registers).slog()
    yield "nest.vector_bytes", f.expr(nest.vector_bytes).slog()
    threads = f.expr(nest.threads)
    blocks = f.product([f.expr(x) for x in nest.grid])
    sms, warp = float(target.cores), float(target.fields.get("warp", 32) or 32)
    yield "nest.blocks", blocks.slog()
    yield "nest.threads", threads.slog()
    yield "nest.vthreads", f.expr(nest.vthreads).slog()
    yield "nest.shared", f.expr(nest.shared).slog()
    yield "nest.local", f.expr(nest.local).slog()
    yield "nest.waves", (blocks * (1.0 / sms)).slog()
    yield "nest.warp_use", threads / ((threads * (1.0 / warp)).ceil() * warp)
