"""Where buffers on the chip are allocated: around their accesses, as large as the smallest box that is accessed.

A buffer of a thread goes around the innermost statements that hold its accesses, for the thread that runs them. One of
a block is as large as all threads together need, virtual ones too; where it lies the pass `shared` decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir.program import Buffer, Range
from mslang.kernel import For, Function, Module
from mslang.kernel.visit import walk
from mslang.lower.gpu.axes import BLOCK_SHARED, THREAD_AXES, axis_ranges, extents_of
from mslang.lower.gpu.vthreads import VTHREADS
from mslang.lower.place import place
from mslang.target.description import Target


def placed(module: Module, target: Target) -> Module:
    """The module with every buffer on the chip around its accesses, no larger than they need."""
    return replace(module, functions=tuple(_placed(f) for f in module.functions))


def _placed(f: Function) -> Function:
    threads = axis_ranges({a: n for a, n in extents_of(f.launch).items() if a in THREAD_AXES})
    virtual = {s.var: Range(s.start, s.extent) for s in walk(f.body) if isinstance(s, For) and s.kind in VTHREADS}

    def shared(b: Buffer) -> Mapping[str, Range]:
        if b.scope == "warp":
            return {a: r for a, r in threads.items() if a == "threadIdx.x"}
        return {**threads, **virtual} if b.scope in BLOCK_SHARED else {}

    return replace(f, body=place(f.body, shared=shared))
