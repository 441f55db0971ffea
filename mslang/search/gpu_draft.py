"""The draft for GPUs: a roofline of instructions and memory transactions, with occupancy, waves and launches.

Source: Hong and Kim, An Analytical Model for a GPU Architecture, ISCA 2009; NVIDIA, CUDA C++ Best Practices Guide
(occupancy, coalescing)
"""

from __future__ import annotations

from collections.abc import Sequence

from mslang.ir.dtype import size_of
from mslang.lower.summary import Access, Nest, Statement, Summary
from mslang.schedule.decisions import Decision
from mslang.search.formulas import Formula, Formulas
from mslang.target.description import KIB, Target

CLOCK = 1.5e9
"""Cycles a second of the nominal machine."""

LANES = 128.0
"""Operations that a multiprocessor issues a cycle."""

LAUNCH = 3e-6
"""Seconds to launch a kernel."""

SECTOR = 32.0
"""Bytes of the smallest transaction of memory."""

HIDING = 16.0
"""Warps on a multiprocessor, times independent operations of each, that hide the latency of arithmetic."""

BLOCKS = 32.0
"""Blocks that a multiprocessor holds at most."""

CACHE_SPEED = 4.0
"""How much faster the L2 cache is than memory."""


def gpu_seconds(f: Formulas, summary: Summary, decisions: Sequence[Decision], target: Target) -> Formula:
    """The estimate for the candidates of a sketch, in seconds: launches run one after the other."""
    each = [
        _nest(f, nest, [s for s in summary.statements if s.nest == k], target) for k, nest in enumerate(summary.nests)
    ]
    return f.total(each)


def _field(target: Target, name: str, otherwise: float) -> float:
    value = target.fields.get(name, otherwise)
    return float(value) if isinstance(value, int | float) and value else otherwise


def _nest(f: Formulas, nest: Nest, inside: Sequence[Statement], target: Target) -> Formula:
    sms, warp = float(max(target.cores, 1)), _field(target, "warp", 32)
    bandwidth = _field(target, "bandwidth", 1e12)
    share = efficiency(f, nest, inside, target)
    instructions = f.total([_instructions(f, s) for s in inside])
    computing = instructions / (share * (sms * LANES * CLOCK))
    transactions = f.total([_sectors(f, s, a, warp) for s in inside for a in s.accesses if a.scope == "global"])
    memory = f.total([_distinct(f, a) for s in inside for a in s.accesses if a.scope == "global"])
    moving = (transactions * (SECTOR / (CACHE_SPEED * bandwidth))).most(memory * (1 / bandwidth))
    return computing.most(moving) + LAUNCH


def efficiency(f: Formulas, nest: Nest, inside: Sequence[Statement], target: Target) -> Formula:
    """The share of the lanes that do work, by occupancy, by waves of blocks, and by threads of a warp."""
    sms, warp = float(max(target.cores, 1)), _field(target, "warp", 32)
    threads = f.expr(nest.threads)
    warps = (threads * (1 / warp)).ceil()
    resident = _resident(f, nest, warps * warp, target)
    blocks = f.product([f.expr(x) for x in nest.grid])
    waves = (blocks * (1 / sms)).ceil()
    full = blocks / (waves * sms)
    independent = f.number(1.0)
    for s in inside:
        independent = independent.most(f.expr(s.copies).least(4.0))
    running = (blocks * (1 / sms)).ceil().least(resident) * warps
    hidden = (running * independent * (1 / HIDING)).least(1.0)
    return (full * hidden * threads / (warps * warp)).most(1e-6)


def _resident(f: Formulas, nest: Nest, threads: Formula, target: Target) -> Formula:
    """Blocks that a multiprocessor holds at a time."""
    by_threads = (_field(target, "max_threads_sm", 2048) / threads).floor()
    by_shared = (_field(target, "shared_sm", 100 * KIB) / f.expr(nest.shared).most(1.0)).floor()
    by_registers = (_field(target, "registers_sm", 65536) / (f.expr(nest.registers).most(16.0) * threads)).floor()
    return by_threads.least(by_shared).least(by_registers).least(BLOCKS).most(1.0)


def _instructions(f: Formulas, s: Statement) -> Formula:
    """Operations of all threads, and their loads and stores, of which unrolled loops keep some in registers."""
    a = s.arithmetic
    operations = float(a.total - a.float_fma + 7 * (a.float_math + a.float_div + a.integer_div))
    moved = float(sum(x.loads + x.stores for x in s.accesses if x.scope != "local"))
    inner = f.expr(s.copies).most(1.0)
    return f.expr(s.iterations[0]) * operations + f.expr(s.iterations[0]) * moved * (2.0 / (inner + 1.0))


def _sectors(f: Formulas, s: Statement, a: Access, warp: float) -> Formula:
    """Transactions of 32 bytes: a warp's accesses to neighbouring elements share them."""
    k = next((k for k, x in enumerate(s.loops) if x.kind == "threadIdx.x"), None)
    size = float(size_of(a.dtype))
    trips = f.expr(s.iterations[0]) * float(a.loads + a.stores) / f.expr(a.reuse_trips).least(8.0)
    if k is None:
        return trips
    stride = a.strides[k]
    if stride is None:
        return trips
    step = f.expr(stride)
    apart = step.most(0.0 - step) * size
    return trips * (1 / warp) * (apart * (warp / SECTOR)).most(1.0).least(warp)


def _distinct(f: Formulas, a: Access) -> Formula:
    return f.expr(a.elements[0]) * float(size_of(a.dtype))
