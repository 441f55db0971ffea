"""The clock of a kernel on a CPU: the cycle counter, between fences that keep memory accesses on their side.

On x86 the counter is the time stamp counter. It ticks at a constant rate and is not serialising: a few dozen cycles of
work in flight are counted on the other side of it.
"""

from __future__ import annotations

from mslang.backend.backend import Clock

_NOW = """declare i64 @llvm.readcyclecounter()
fence syncscope("singlethread") seq_cst
%now = call i64 @llvm.readcyclecounter()
fence syncscope("singlethread") seq_cst
"""

_WORDS = "%entries.p = getelementptr i64, ptr {slot}, i64 1\n"


def _plain(op: str) -> str:
    return f"%ticks = load i64, ptr {{slot}}\n%sum = {op} i64 %ticks, %now\nstore i64 %sum, ptr {{slot}}\n"


_COUNT = _WORDS + "%entries = load i64, ptr %entries.p\n%more = add i64 %entries, 1\nstore i64 %more, ptr %entries.p\n"

CLOCK = Clock(
    start=_NOW + _plain("sub"),
    stop=_NOW + _plain("add") + _COUNT,
    shared_start=_NOW + "%before = atomicrmw sub ptr {slot}, i64 %now monotonic\n",
    shared_stop=_NOW
    + "%before = atomicrmw add ptr {slot}, i64 %now monotonic\n"
    + _WORDS
    + "%entries = atomicrmw add ptr %entries.p, i64 1 monotonic\n",
)
"""Source: LLVM Language Reference, `llvm.readcyclecounter`, `fence`, `atomicrmw`."""
