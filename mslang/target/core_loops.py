"""Two loops that tell a core's speed at the moment, and how much of it a thread has.

Two threads on one core take turns in its front end, whatever they do. A loop of more independent instructions than a
core can begin in a cycle then falls to about half of its rate, where a loop of multiply-adds in registers may lose an
eighth. A chain of instructions of one cycle each loses next to nothing: it counts the cycles.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import NamedTuple

from mslang.target.known_loops import compiled, counted_loop

CHAINS = 10
"""Independent chains of two instructions each in a round of the wide loop."""

INSTRUCTIONS = 2 * CHAINS + 2
"""In a round of the wide loop: those of the chains, and two that count."""

STEPS = 16
"""Instructions of the single chain in a round."""

WIDE_ROUNDS, LONG_ROUNDS = 12_000, 1_500
"""About 15 µs and 8 µs at 3 GHz: short beside a sample, long beside the clock."""


class Pace(NamedTuple):
    """What a core does at the moment: cycles a second, and independent instructions of this thread a cycle."""

    cycles: float
    width: float


class CoreLoops:
    """The loops, compiled for this machine."""

    def __init__(self) -> None:
        self._library, wide, long = compiled(loops_text(), "wide", "long")
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
        self._wide, self._long = prototype(wide), prototype(long)

    def pace(self) -> Pace:
        """Run the loops, which takes about 30 µs."""
        first = _seconds(self._long, LONG_ROUNDS)
        apart = _seconds(self._wide, WIDE_ROUNDS)
        # An interrupt in the chain would make the core look slow, and wide.
        cycles = LONG_ROUNDS * STEPS / min(first, _seconds(self._long, LONG_ROUNDS))
        return Pace(cycles, WIDE_ROUNDS * INSTRUCTIONS / apart / cycles)


def loops_text() -> str:
    """Both loops as LLVM IR: functions of a number of rounds, `wide` and `long`."""
    # Neither loop has a closed form, as additions alternate with exclusive or.
    chains = range(CHAINS)
    phis = [f"  %x{k} = phi i64 [ {k}, %entry ], [ %z{k}, %loop ]" for k in chains]
    steps = [f"  %y{k} = xor i64 %x{k}, %i\n  %z{k} = add i64 %y{k}, {k + 3}" for k in chains]
    sums = [f"  %s{k} = add i64 {f'%s{k - 1}' if k > 1 else '%z0'}, %z{k}" for k in chains[1:]]
    chain = [f"  %c{k + 1} = {('add', 'xor')[k % 2]} i64 %c{k}, %i" for k in range(STEPS)]
    first = f"  %c0 = phi i64 [ 1, %entry ], [ %c{STEPS}, %loop ]"
    wide = counted_loop("define i64 @wide(i64 %n)", [], phis, steps, sums, f"ret i64 %s{CHAINS - 1}")
    long = counted_loop("define i64 @long(i64 %n)", [], [first], chain, [], f"ret i64 %c{STEPS}")
    return "\n".join([*wide, *long])


def _seconds(run: Callable[[int], int], rounds: int) -> float:
    before = time.perf_counter_ns()
    run(rounds)
    return max(time.perf_counter_ns() - before, 1) * 1e-9
