"""Where buffers on the chip lie: the smallest box that is accessed, shared memory of a block around all of its threads.

A buffer of a thread goes around the innermost statements that hold its accesses, for the thread that runs them. One of
a block is as large as all threads together need, virtual ones too, and is allocated where the block begins.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mslang.ir.dtype import bits
from mslang.ir.expr import Const
from mslang.ir.program import Buffer, Range
from mslang.kernel import Allocate, Body, For, Function, Module, Stmt
from mslang.kernel.visit import bodies, walk, with_bodies
from mslang.lower.gpu.axes import BLOCK_SHARED, THREAD_AXES, axis_ranges, extents_of
from mslang.lower.gpu.vthreads import VTHREADS
from mslang.lower.place import place
from mslang.target.description import Target

DYNAMIC = "shared.dyn"
"""The scope of shared memory that the launch reserves."""

ALIGNMENT = 16
"""Bytes to which buffers in dynamic shared memory are aligned, the widest access of a thread."""


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


# ------------------------------------------------------------------ shared memory
def shared(module: Module, target: Target) -> Module:
    """The module with shared memory allocated where a block begins, and dynamic shared memory laid out.

    The `offset` of a buffer in dynamic shared memory counts its elements from where that of the launch begins.
    """
    return replace(module, functions=tuple(_shared(f) for f in module.functions))


def _shared(f: Function) -> Function:
    found: list[Buffer] = []
    body = _without(f.body, found)
    size = 0
    for b in reversed(found):
        if b.scope == DYNAMIC:
            width = max(1, bits(b.dtype) // 8)
            size = -(-size // max(ALIGNMENT, b.align or 1)) * max(ALIGNMENT, b.align or 1)
            b = replace(b, offset=Const(size // width))
            size += elements(b) * width
        body = (Allocate(b, body),)
    if f.launch is None or not size:
        return replace(f, body=body)
    return replace(f, body=body, launch=replace(f.launch, dynamic_shared=Const(size)))


def _without(body: Body, found: list[Buffer]) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Allocate) and s.buffer.scope in BLOCK_SHARED:
            found.append(s.buffer)
            out.extend(_without(s.body, found))
        else:
            out.append(with_bodies(s, tuple(_without(b, found) for b in bodies(s))))
    return tuple(out)


def elements(b: Buffer) -> int:
    """How many elements a buffer of known size spans, padding included."""
    if b.strides is None:
        sizes = [int(n.value) if isinstance(n, Const) else 1 for n in b.shape]
        total = 1
        for n in sizes:
            total *= n
        return total
    spans = zip(b.shape, b.strides, strict=True)
    return 1 + sum((int(n.value) - 1) * int(k.value) for n, k in spans if isinstance(n, Const) and isinstance(k, Const))
