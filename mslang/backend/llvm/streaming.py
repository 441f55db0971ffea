"""Stores that bypass the caches: non-temporal stores of whole vectors.

They need not become visible to other threads in order, so a function that has any has a fence before it launches a
parallel loop, and at its end.
"""

from __future__ import annotations

from mslang.backend.llvm.function import FunctionWriter
from mslang.backend.llvm.triple import X86_64
from mslang.backend.llvm.types import Value
from mslang.ir.dtype import size_of

ALIGNED = 16
"""Bytes: x86 has these stores for vectors at multiples of their size, the smallest of which is 16 bytes. LLVM cuts
wider vectors into pieces of that size, which fill the same lines.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, MOVNTPS
"""

_NON_TEMPORAL = "!nontemporal !{i32 1}"


def streamed(fn: FunctionWriter, value: Value, pointer: str, plain: str, tag: str) -> None:
    """Store a vector past the caches where its address allows; `plain` is the ordinary store of it.

    Arrays come at any multiple of their element, and rows of any length, so the address is tested at run time.
    """
    # 32-bit x86 may lack the instructions. Of `half` LLVM forgets with AVX-512 that it is stored past the caches.
    whole = value.lanes * size_of(value.dtype) % ALIGNED == 0 and value.dtype != "f16"
    if fn.processor == "x86" or (fn.processor == X86_64 and not whole):
        fn.do(plain)
        return
    fn.has_streams = True
    if fn.processor != X86_64:
        fn.do(f"{plain}, {_NON_TEMPORAL}")
        return
    low = fn.op(f"and i64 {fn.op(f'ptrtoint ptr {pointer} to i64')}, {ALIGNED - 1}")
    aligned, other, after = fn.fresh("stream"), fn.fresh("store"), fn.fresh("stored")
    fn.branch(fn.op(f"icmp eq i64 {low}, 0"), aligned, other)
    fn.start(aligned)
    fn.do(f"store {value.typed}, ptr {pointer}, align {ALIGNED}{tag}, {_NON_TEMPORAL}")
    fn.jump(after)
    fn.start(other)
    fn.do(plain)
    fn.jump(after)
    fn.start(after)


def fence(fn: FunctionWriter) -> None:
    """Where a function stored past the caches: have others see that before what follows."""
    if not fn.has_streams:
        return
    if fn.processor == X86_64:
        fn.declarations.add("declare void @llvm.x86.sse.sfence()")
        fn.do("call void @llvm.x86.sse.sfence()")
    else:
        fn.do("fence release")
