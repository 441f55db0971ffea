"""The built-in primitives, in the order of the reference; with samplers and getters they are the operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mslang.ops.signature import Signature
from mslang.ops.table import GETTERS, SAMPLERS
from mslang.transform.outcome import Outcome
from mslang.transform.primitive import Primitive
from mslang.transform.primitives.annotate import annotate, unannotate
from mslang.transform.primitives.atomic import atomic
from mslang.transform.primitives.blockize import blockize
from mslang.transform.primitives.buffer_access import annotate_buffer_access, unsafe_hide_buffer_access
from mslang.transform.primitives.cache_index import cache_index
from mslang.transform.primitives.caching import cache_inplace, cache_read, cache_write
from mslang.transform.primitives.change_signedness import change_signedness
from mslang.transform.primitives.compute_at import compute_at, reverse_compute_at
from mslang.transform.primitives.compute_inline import compute_inline
from mslang.transform.primitives.decompose_padding import decompose_padding
from mslang.transform.primitives.decompose_reduction import decompose_reduction
from mslang.transform.primitives.fission import fission, merge
from mslang.transform.primitives.fuse_reduction_epilogue import fuse_reduction_epilogue
from mslang.transform.primitives.loop_kinds import bind, parallel, unroll, vectorize
from mslang.transform.primitives.loop_partition import loop_partition
from mslang.transform.primitives.loops import add_unit_loop, fuse, reorder, split
from mslang.transform.primitives.pad_einsum import pad_einsum
from mslang.transform.primitives.pipeline import pipeline
from mslang.transform.primitives.prefetch import prefetch
from mslang.transform.primitives.read_write_at import read_at, write_at
from mslang.transform.primitives.reindex import reindex, reindex_cache_read, reindex_cache_write
from mslang.transform.primitives.reverse_compute_inline import reverse_compute_inline
from mslang.transform.primitives.rfactor import rfactor
from mslang.transform.primitives.rolling_buffer import rolling_buffer
from mslang.transform.primitives.rolling_update import rolling_update
from mslang.transform.primitives.set_scope import set_scope
from mslang.transform.primitives.specialize import specialize
from mslang.transform.primitives.storage_align import storage_align
from mslang.transform.primitives.stream import stream
from mslang.transform.primitives.tensorize import tensorize
from mslang.transform.primitives.transform_block_layout import reorder_block_iter_var, transform_block_layout
from mslang.transform.primitives.transform_layout import transform_layout
from mslang.transform.primitives.unsafe_set_dtype import unsafe_set_dtype

BUILT_IN: tuple[Primitive[Any], ...] = (
    split,
    fuse,
    reorder,
    add_unit_loop,
    loop_partition,
    merge,
    fission,
    specialize,
    parallel,
    vectorize,
    unroll,
    bind,
    pipeline,
    annotate,
    unannotate,
    cache_read,
    cache_write,
    cache_inplace,
    cache_index,
    reindex,
    reindex_cache_read,
    reindex_cache_write,
    read_at,
    write_at,
    compute_at,
    reverse_compute_at,
    compute_inline,
    reverse_compute_inline,
    fuse_reduction_epilogue,
    decompose_reduction,
    atomic,
    rfactor,
    rolling_update,
    blockize,
    tensorize,
    reorder_block_iter_var,
    transform_block_layout,
    change_signedness,
    annotate_buffer_access,
    unsafe_hide_buffer_access,
    set_scope,
    storage_align,
    prefetch,
    stream,
    unsafe_set_dtype,
    rolling_buffer,
    transform_layout,
    pad_einsum,
    decompose_padding,
)

PRIMITIVES: tuple[Signature, ...] = tuple(p.signature for p in BUILT_IN)
"""The signatures of the built-in primitives, those of a family together."""

OPERATIONS: Mapping[str, Signature] = MappingProxyType({s.name: s for s in (*PRIMITIVES, *SAMPLERS, *GETTERS)})
"""Every built-in operation by name; a name stands for one operation only."""

IMPLEMENTATIONS: Mapping[str, Callable[..., Outcome]] = MappingProxyType({p.name: p.function for p in BUILT_IN})
"""Each takes the program first, then the arguments of its signature by name; a variadic one its handles as one
sequence."""
