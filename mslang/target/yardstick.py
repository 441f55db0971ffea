"""A loop of known work: how fast cores compute, one or all at once."""

from __future__ import annotations

import ctypes
import time

from mslang.target.detect import host
from mslang.target.known_loops import compiled, counted_loop

ACCUMULATORS = 10
"""Independent sums: enough to hide the latency of a fused multiply-add on two units."""

NOMINAL_RATE = 1e11
"""Operations a second; times are normalised to a core of this speed."""

FLOAT_BITS = {"f32": 32, "f64": 64}
"""The element types that there is a yardstick of."""

_NAMES = {"f32": "float", "f64": "double"}
_CALIBRATIONS = 5
_LEAST_SECONDS = 7e-5


class Yardstick:
    """Fused multiply-adds in registers of `bits` bits (default: the widest of this machine), on one core.

    `dtype` is `"f32"` or `"f64"`. `work` is the number of operations of one run, which takes about 0.1 ms. `task` is
    the address of the loop as the body of a parallel loop, whose closure is a 64-bit number of rounds an iteration.
    """

    def __init__(self, dtype: str = "f32", bits: int | None = None) -> None:
        self._lanes = max(128, host().vector_bits if bits is None else bits) // FLOAT_BITS[dtype]
        self._library, address, self.task = compiled(_text(dtype, self._lanes), "yardstick", "yardstick_task")
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)
        self._rounds = 1 << 10
        while self._rounds < 1 << 24 and min(self.run() for _ in range(_CALIBRATIONS)) < _LEAST_SECONDS:
            self._rounds *= 2

    @property
    def rounds(self) -> int:
        """Rounds of the loop in one run."""
        return self._rounds

    @property
    def work(self) -> float:
        """Operations of one run."""
        return 2.0 * self._lanes * ACCUMULATORS * self._rounds

    def run(self, times: int = 1) -> float:
        """Do the work so many times; returns the seconds it took."""
        before = time.perf_counter_ns()
        self._function(self._rounds * times)
        return max(time.perf_counter_ns() - before, 1) * 1e-9

    def rate(self) -> float:
        """Operations a second in one run."""
        return self.work / self.run()


def _text(dtype: str, lanes: int) -> str:
    scalar = _NAMES[dtype]
    kind, fma = f"<{lanes} x {scalar}>", f"@llvm.fma.v{lanes}{dtype}"
    phis, steps, sums, total = [], [], [], "%x0.next"
    for k in range(ACCUMULATORS):
        phis.append(f"  %x{k} = phi {kind} [ %s{k}, %entry ], [ %x{k}.next, %loop ]")
        steps.append(f"  %x{k}.next = call {kind} {fma}({kind} %x{k}, {kind} %m, {kind} %a)")
        if k:
            sums.append(f"  %y{k} = fadd {kind} {total}, %x{k}.next")
            total = f"%y{k}"
    # Different starts: equal sums would be computed once.
    first = f"insertelement {kind} zeroinitializer, {scalar}"
    starts = [f"  %s{k} = {first} {float(k):.1f}, i64 0" for k in range(ACCUMULATORS)]
    entry = [f"  %f = sitofp i64 %n to {scalar}", f"  %a = {first} %f, i64 0", f"  %m = {first} 0.5, i64 0", *starts]
    return "\n".join(
        [
            f"declare {kind} {fma}({kind}, {kind}, {kind})",
            f"@sink = internal global {kind} zeroinitializer",
            *counted_loop(
                'define void @yardstick(i64 %n) "prefer-vector-width"="512"',
                entry,
                phis,
                steps,
                [*sums, f"  store volatile {kind} {total}, ptr @sink"],
                "ret void",
            ),
            "define void @yardstick_task(ptr %closure, i64 %from, i64 %to, i64 %worker) {",
            "  %each = load i64, ptr %closure",
            "  %iterations = sub i64 %to, %from",
            "  %n = mul i64 %each, %iterations",
            "  call void @yardstick(i64 %n)",
            "  ret void",
            "}",
        ]
    )
