"""The profile of a kernel: time, operations and bytes of its parts, compared with what the machine can do."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mslang.backend.backend import BackEnd
from mslang.backend.registry import serving
from mslang.diagnostics import MsError
from mslang.ir.origins import line_of
from mslang.ir.program import Program
from mslang.lower.summary import summarize
from mslang.lower.symbolic import lower_symbolic
from mslang.perf.measure import Measured, Overhead, TimedJob, measure, no_clock
from mslang.perf.parts import Part, blocks_in
from mslang.perf.result import KernelProfile, Row
from mslang.perf.runs import runs
from mslang.perf.work import Work, works_of
from mslang.target.description import Target
from mslang.target.limits import measured_limits
from mslang.tune.job import PrepareJob
from mslang.tune.roofline import rated_dtype
from mslang.tune.scratch import scratch_folder
from mslang.tune.workers import PRELOAD, Workers
from mslang.workers.outcome import Done, explanation
from mslang.workers.pool import Pool, usual_memory

UNCERTAIN = 0.2
"""A part of whose counted time the clock took more than this share is uncertain."""

CALLS = 20
"""Calls that a kernel is given time for, as slow as the unscheduled one: with and without clocks, it makes 17 at least,
however long each takes."""

NO_LINES: Mapping[str, str] = MappingProxyType({})


def profile_kernel(
    program: Program,
    plain: Program,
    target: Target,
    *,
    names: Sequence[str] = (),
    seconds: float = 1.0,
    backend: BackEnd[Any] | None = None,
    allow_native: bool = False,
    lines: Mapping[str, str] = NO_LINES,
) -> KernelProfile:
    """Time the parts of a kernel in a worker process.

    Args:
        program: the scheduled program.
        plain: the program before its schedule, which the inputs are made for.
        target: the machine.
        names: loops, or blocks for their loops, to be timed besides the parts that are timed in any case: the outermost
            ones, and loops that share the time of one and run long enough.
        seconds: how long to measure.
        backend: what compiles it (default: what serves the target).
        allow_native: that of `build`.
        lines: where blocks are written, for the rows: `gemm.ms:12` by block.

    Raises:
        MsError: MS710, a name is none of a loop; MS711, the back end has no clock; or the program cannot be compiled or
            run.
    """
    made_by = serving(target) if backend is None else backend
    if made_by.clock is None:
        raise no_clock(made_by)
    with scratch_folder() as folder:
        with Workers(1) as workers:
            prepared = workers.prepare(PrepareJob(plain, target, folder, seed=0, allow_native=allow_native))
        limit = 60.0 + 10.0 * seconds + (CALLS * prepared.seconds if prepared else 0.0)
        job = TimedJob(program, target, made_by, folder, tuple(names), seconds, allow_native)
        with Pool(1, memory=usual_memory(), preload=PRELOAD) as pool:
            outcome = pool.submit(measure, (pickle.dumps(job),), seconds=limit).outcome()
    if not isinstance(outcome, Done):
        raise MsError(*explanation(outcome, "profiling"))
    return profile_of(pickle.loads(outcome.value), program, target, lines)


def profile_of(found: Measured, program: Program, target: Target, lines: Mapping[str, str]) -> KernelProfile:
    """What was measured, as a profile."""
    dtype = rated_dtype(program)
    limits = measured_limits(target, dtype or "f32")
    peak = limits.peak if dtype else None
    lowered = lower_symbolic(program, target)
    blocks = blocks_in(program)
    whole = Part(0, -1, program.name, ())
    works = works_of((whole, *found.parts), summarize(lowered, target), runs(lowered))
    counts, ticks = _averaged(found, found.ticks), _corrected(found)
    seconds = [t / found.ticks_per_second for t in ticks]
    everything = tuple(dict.fromkeys(b for p in found.parts for b in blocks.get(p.name, ())))
    rows = []
    for part, depth in [(whole, 0), *_ordered(found.parts, 0, 1)]:
        k = part.number
        inner = sum(seconds[p.number] for p in found.parts if p.parent == k)
        counted = counts[k]
        inside = blocks.get(part.name, ()) if depth else everything
        rows.append(
            _row(
                part,
                depth,
                inside,
                _line(inside, lines),
                found.entries[k],
                (seconds[k], max(seconds[k] - inner, 0.0), seconds[k] / max(seconds[0], 1e-12)),
                works[k],
                peak,
                limits.bandwidth,
                counted > 0 and (counted - ticks[k]) / counted > UNCERTAIN,
            )
        )
    cost = (found.alone.inside + found.alone.around) / found.ticks_per_second
    return KernelProfile(
        program.name,
        tuple(rows),
        found.plain,
        found.instrumented / found.plain,
        cost,
        found.threads,
        dtype,
        peak,
        limits.bandwidth,
        found.events,
        found.refused,
    )


def _row(
    part: Part,
    depth: int,
    blocks: tuple[str, ...],
    line: str | None,
    entries: int,
    times: tuple[float, float, float],
    work: Work | None,
    peak: float | None,
    bandwidth: float,
    uncertain: bool,
) -> Row:
    seconds, own, share = times
    known = work is not None and seconds > 0
    rate = work.operations / seconds if work is not None and known else None
    traffic = work.bytes / seconds if work is not None and known else None
    return Row(
        part.name,
        depth,
        blocks,
        line,
        entries,
        seconds,
        own,
        share,
        None if work is None else work.operations,
        None if work is None else work.bytes,
        rate,
        traffic,
        None if rate is None or peak is None else rate / peak,
        None if traffic is None else traffic / bandwidth,
        uncertain,
        part.parallel,
    )


def _line(blocks: Sequence[str], lines: Mapping[str, str]) -> str | None:
    """Where the first block is written, or the one that it was made of: `mm_update` is part of `mm`."""
    return next((found for block in blocks if (found := line_of(block, lines)) is not None), None)


def _averaged(found: Measured, totals: Sequence[float]) -> list[float]:
    """What parts count in all, the whole kernel first, as one thread does: several share parts in a parallel loop."""
    shared = [False, *(p.shared for p in found.parts)]
    return [total / (found.threads if s else 1) for total, s in zip(totals, shared, strict=True)]


def _corrected(found: Measured) -> list[float]:
    """Ticks of one thread without those of the clocks: a part's own, and those of all parts in it.

    The cost of a clock is that of empty parts, which is an estimate: a part takes no less than those in it.
    """
    costs = {p.number: found.shared if p.shared else found.alone for p in found.parts} | {0: Overhead(0.0, 0.0)}
    counts, entries = _averaged(found, found.ticks), _averaged(found, found.entries)
    corrected = [0.0] * len(counts)
    # A part has a higher number than the one around it.
    for k in reversed(range(len(counts))):
        own = entries[k] * costs[k].inside
        inner = sum(entries[d] * (costs[d].inside + costs[d].around) for d in _below(k, found.parts))
        least = sum(corrected[p.number] for p in found.parts if p.parent == k)
        corrected[k] = max(counts[k] - own - inner, least)
    return corrected


def _below(k: int, parts: Sequence[Part]) -> Iterator[int]:
    for p in parts:
        if p.parent == k:
            yield p.number
            yield from _below(p.number, parts)


def _ordered(parts: Sequence[Part], parent: int, depth: int) -> Iterator[tuple[Part, int]]:
    for p in parts:
        if p.parent == parent:
            yield p, depth
            yield from _ordered(parts, p.number, depth + 1)
