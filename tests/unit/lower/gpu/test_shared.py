"""Where the pass `shared` puts shared memory: static or dynamic, and at which offsets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mslang.backend.cuda.source import cuda_source
from mslang.diagnostics import MsError, TargetError
from mslang.ir.expr import Const, DynamicRange, Load, Symbol
from mslang.ir.program import Buffer
from mslang.kernel import Allocate, Body, For, Module, Store
from mslang.kernel.print import print_module
from mslang.kernel.visit import walk
from mslang.lower.gpu.memory import alignment
from mslang.lower.gpu.shared import shared
from mslang.target.description import CUDA
from tests.unit.cuda.kernels import TX, buffer, launch, module, n

KIB = 256
"""Elements of 4 bytes."""


def kernel(*buffers: Buffer) -> Module:
    """A kernel that stores to one buffer after another, each allocated inside a loop of its own."""
    body: Body = ()
    for b in reversed(buffers):
        index = (TX,) * len(b.shape)
        use = Store(b.name, index, Const(1.0, "f32"))
        body = (For(f"of_{b.name}", n(2), (Allocate(b, (use,)),)), *body)
    return module("k", body, (), launch((1,), (32,)))


def laid_out(*buffers: Buffer) -> dict[str, tuple[str, int | None]]:
    """The scope and the offset in bytes of each buffer, by its name."""
    made = shared(kernel(*buffers), CUDA)
    found = [s.buffer for s in walk(made.body) if isinstance(s, Allocate)]
    return {b.name: (b.scope, int(b.offset.value) * 4 if isinstance(b.offset, Const) else None) for b in found}


def of(name: str, elements: int, scope: str = "shared", align: int | None = None) -> Buffer:
    return replace(buffer(name, "f32", elements, scope=scope), align=align)


def test_shared_memory_is_allocated_where_the_block_begins() -> None:
    outer, *_ = shared(kernel(of("a", 4), of("b", 4)), CUDA).body
    assert isinstance(outer, Allocate) and outer.buffer.name == "a"
    (inner,) = outer.body
    assert isinstance(inner, Allocate) and inner.buffer.name == "b"


def test_what_a_kernel_may_declare_is_static() -> None:
    assert laid_out(of("a", 24 * KIB), of("b", 24 * KIB)) == {"a": ("shared", None), "b": ("shared", None)}
    assert shared(kernel(of("a", 48 * KIB)), CUDA).functions[0].launch == launch((1,), (32,))


def test_more_is_dynamic_and_aligned_for_bulk_copies() -> None:
    found = laid_out(of("a", 33), of("b", 48 * KIB))
    assert found == {"a": ("shared.dyn", 0), "b": ("shared.dyn", 256)}
    where = shared(kernel(of("a", 33), of("b", 48 * KIB)), CUDA).functions[0].launch
    assert where is not None and where.dynamic_shared == n(256 + 48 * 1024)


def test_dynamic_buffers_follow_one_another_as_they_are_aligned() -> None:
    dyn = "shared.dyn"
    assert laid_out(of("a", 3, dyn), of("b", 5, dyn)) == {"a": (dyn, 32), "b": (dyn, 0)}
    assert laid_out(of("a", 3, dyn, align=128), of("b", 5, dyn)) == {"a": (dyn, 128), "b": (dyn, 0)}
    assert laid_out(of("a", 3, dyn), of("b", 5)) == {"a": (dyn, 0), "b": ("shared", None)}


def test_a_buffer_is_aligned_as_its_offset_is() -> None:
    at = of("a", 3, "shared.dyn")
    assert [alignment(replace(at, offset=n(k))) for k in (0, 4, 8, 96)] == [128, 16, 32, 128]
    assert alignment(of("a", 3)) == alignment(of("a", 3, align=4)) == 16
    assert alignment(of("a", 3, align=128)) == 128
    assert (alignment(of("a", 3, "global", 4)), alignment(of("a", 3, "global", 64))) == (4, 16)


def test_the_printed_form_says_where_buffers_lie() -> None:
    text = print_module(shared(kernel(of("a", 4, "shared.dyn"), of("b", 4, "shared.dyn")), CUDA))
    assert "block (32, 1, 1), 32 bytes)" in text
    assert "alloc a: f32[4] @ shared.dyn(offset = 4)" in text
    assert "alloc b: f32[4] @ shared.dyn(offset = 0)" in text


def test_large_shared_arrays_are_reserved_at_the_launch() -> None:
    big = buffer("big", "f32", 64, 256, scope="shared")
    out = buffer("out", "f32", 64)
    body = (
        Allocate(big, (Store("big", (TX, TX), Const(1.0, "f32")), Store("out", (TX,), Load("big", (TX, TX), "f32")))),
    )
    source = cuda_source(shared(module("big", body, (out,), launch((1,), (64,))), CUDA), CUDA)
    assert source.launches[0].dynamic_shared == 65536
    assert "extern __shared__ __align__(128) unsigned char ms_shared[];" in source.text
    assert "float* const big = (float*)(ms_shared + 0);" in source.text


def test_size_of_a_shared_array_must_be_known() -> None:
    size = Symbol("N", DynamicRange(1, 64))
    row = buffer("row", "f32", size, scope="shared")
    body = (Allocate(row, (Store("row", (TX,), Const(1.0, "f32")),)),)
    with pytest.raises(MsError, match="size of `row`, in shared memory, is known only when the kernel is called"):
        shared(module("rows", body, (), launch((1,), (64,)), (size,)), CUDA)


def test_more_than_the_gpu_has_is_refused() -> None:
    small = replace(CUDA, extra=(*CUDA.extra, ("shared", 100)))
    shared(kernel(of("a", 24)), small)
    with pytest.raises(TargetError, match="`k` needs 112 bytes of shared memory a block") as found:
        shared(kernel(of("a", 25)), small)
    assert found.value.diagnostic.code == "MS461"
