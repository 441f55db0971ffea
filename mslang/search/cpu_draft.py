"""The draft for CPUs: a roofline of instructions, dependences and cache traffic, shared by cores.

One run of the loops that are written out or vectorized is the unit: what it issues, loads, stores and waits for is
counted once, times how often it runs.

Source: Williams et al., Roofline, CACM 2009; Low et al., Analytical Modeling Is Enough for High-Performance BLIS, TOMS
2016 (registers, latency of accumulation, caches)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslang.ir.dtype import size_of
from mslang.lower.summary import Access, Statement, Summary
from mslang.schedule.decisions import Decision
from mslang.search.features.machine import balance
from mslang.search.features.order import ranked
from mslang.search.formulas import Formula, Formulas
from mslang.search.traffic import traffic
from mslang.target.description import Target

CLOCK = 3e9
"""Cycles a second of the nominal machine."""

CYCLES: Mapping[str, float] = {
    "float_fma": 0.5,
    "float_add": 0.5,
    "float_mul": 0.5,
    "float_div": 8.0,
    "float_math": 20.0,
    "integer_add": 0.33,
    "integer_mul": 0.5,
    "integer_div": 20.0,
    "bitwise": 0.33,
    "compare": 0.5,
    "select": 0.5,
    "cast": 0.5,
}
"""Cycles that a vector instruction of an operation occupies the units of a core: two pipes of floating point."""

LOADS, STORES = 2.0, 1.0
"""Vector loads and stores a cycle."""

LATENCY = 4.0
"""Cycles from one multiply-add to the next that adds to the same register."""

LOOP = 2.0
"""Cycles of a loop's counter and branch."""

LINE_CYCLES: tuple[float, float, float] = (2.0, 5.0, 20.0)
"""Cycles to move a cache line into the first, second and third level."""

OVERLAP = 0.25
"""The share of the shorter of computing and moving data that does not hide behind the longer."""

START = 4e-6
"""Seconds to start and to join the threads of a parallel loop."""

STATEMENTS = 4
"""The heaviest statements count with all terms, the others with their operations."""

WRITTEN_OUT = ("unrolled", "vectorized", "instruction")


def cpu_seconds(f: Formulas, summary: Summary, decisions: Sequence[Decision], target: Target) -> Formula:
    """The estimate for the candidates of a sketch, in seconds of a nominal machine."""
    order = [summary.statements[x.statement] for x in ranked(summary, decisions)]
    heavy = [_statement(f, s, target) for s in order[:STATEMENTS]]
    light = [_light(f, s) / speedup(f, s, target) for s in order[STATEMENTS:]]
    return f.total([*heavy, *light]) * (1 / CLOCK) + _starts(f, summary, target)


def _statement(f: Formulas, s: Statement, target: Target) -> Formula:
    computing, moving = _computing(f, s, target), _moving(f, s, target)
    cycles = computing.most(moving) + computing.least(moving) * OVERLAP
    return cycles / speedup(f, s, target)


def _light(f: Formulas, s: Statement) -> Formula:
    return f.expr(s.iterations[0]) / f.expr(s.lanes) * _issue(s)


def speedup(f: Formulas, s: Statement, target: Target) -> Formula:
    """How many cores work on a statement on average."""
    parallel = f.expr(s.parallel)
    return balance(parallel, target.cores) * float(target.cores)


# ------------------------------------------------------------------ computing
def _computing(f: Formulas, s: Statement, target: Target) -> Formula:
    first = _tile(s)
    runs = f.product([f.expr(x.extent) for x in s.loops[:first]])
    instructions = f.expr(s.iterations[first]) / f.expr(s.lanes) * f.expr(s.vectors)
    accumulators = f.expr(s.accumulators)
    loads = [_registers(f, s, a, first, target) for a in s.accesses if a.loads and not _kept(s, a, first)]
    stores = [_registers(f, s, a, first, target) for a in s.accesses if a.stores and not _kept(s, a, first)]
    issued = instructions * _issue(s)
    chain = accumulators.above(0.0).choose(instructions / accumulators.most(1.0) * LATENCY, 0.0)
    spilled = (accumulators + f.expr(s.operands) - float(target.registers)).most(0.0)
    busy = issued.most(f.total(loads) * (1 / LOADS)).most(f.total(stores) * (1 / STORES)).most(chain)
    return runs * (busy + spilled * 2.0 + LOOP)


def _issue(s: Statement) -> float:
    """Cycles that the operations of one vector of iterations occupy."""
    return sum(float(getattr(s.arithmetic, name)) * cycles for name, cycles in CYCLES.items())


def _tile(s: Statement) -> int:
    """Where the loops begin that are written out or run as vectors, up to the innermost."""
    first = len(s.loops)
    while first and s.loops[first - 1].kind in WRITTEN_OUT:
        first -= 1
    return first


def _kept(s: Statement, a: Access, first: int) -> bool:
    """Whether the access stays in registers while the loop around the tile runs."""
    return bool(a.loads and a.stores and first and s.loops[first - 1].kind == "serial" and a.invariant[first - 1])


def _registers(f: Formulas, s: Statement, a: Access, first: int, target: Target) -> Formula:
    """Vector loads or stores for what one run of the tile accesses; elements that lie apart take one each."""
    elements = f.expr(a.elements[first])
    lanes = [k for k, x in enumerate(s.loops) if x.kind == "vectorized" and not a.invariant[k]]
    if not lanes:
        return elements
    stride = a.strides[lanes[-1]]
    if stride is None:
        return elements
    size = max(target.vector_bits // 8 // size_of(a.dtype), 1)
    dense = elements / f.expr(s.lanes).least(float(size))
    return f.expr(stride).at_most(1.0).choose(dense, elements)


# ------------------------------------------------------------------ moving data, cores
def _moving(f: Formulas, s: Statement, target: Target) -> Formula:
    """Cycles of the slowest of the transfers between neighbouring levels of the memory."""
    levels = zip((target.l1, target.l2, target.l3), LINE_CYCLES, strict=True)
    first, second, third = (traffic(f, s, capacity).lines * cycles for capacity, cycles in levels)
    return first.most(second).most(third)


def _starts(f: Formulas, summary: Summary, target: Target) -> Formula:
    """Seconds to start threads: of each parallel loop as often as the loops around it run."""
    if target.cores < 2:
        return f.number(0.0)
    found = {}
    for s in summary.statements:
        k = next((k for k, x in enumerate(s.loops) if x.kind == "parallel"), None)
        if k is not None:
            found[s.loops[k].var] = f.product([f.expr(x.extent) for x in s.loops[:k]])
    return f.total(list(found.values())) * START
