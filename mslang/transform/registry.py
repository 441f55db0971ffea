"""The implementations of primitives, by name: what the schedule layer and the documentation look up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mslang.transform.outcome import Outcome
from mslang.transform.primitives.annotate import annotate, unannotate
from mslang.transform.primitives.blockize import blockize
from mslang.transform.primitives.buffer_access import annotate_buffer_access, unsafe_hide_buffer_access
from mslang.transform.primitives.cache_index import cache_index
from mslang.transform.primitives.caching import cache_inplace, cache_read, cache_write
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
from mslang.transform.primitives.read_write_at import read_at, write_at
from mslang.transform.primitives.reindex import reindex, reindex_cache_read, reindex_cache_write
from mslang.transform.primitives.reverse_compute_inline import reverse_compute_inline
from mslang.transform.primitives.rfactor import rfactor
from mslang.transform.primitives.rolling_buffer import rolling_buffer
from mslang.transform.primitives.set_scope import set_scope
from mslang.transform.primitives.specialize import specialize
from mslang.transform.primitives.storage_align import storage_align
from mslang.transform.primitives.tensorize import tensorize
from mslang.transform.primitives.transform_block_layout import reorder_block_iter_var, transform_block_layout
from mslang.transform.primitives.transform_layout import transform_layout
from mslang.transform.primitives.unsafe_set_dtype import unsafe_set_dtype

IMPLEMENTATIONS: Mapping[str, Callable[..., Outcome]] = MappingProxyType(
    {
        "split": split,
        "fuse": fuse,
        "reorder": reorder,
        "add_unit_loop": add_unit_loop,
        "loop_partition": loop_partition,
        "fission": fission,
        "merge": merge,
        "specialize": specialize,
        "pipeline": pipeline,
        "parallel": parallel,
        "vectorize": vectorize,
        "unroll": unroll,
        "bind": bind,
        "annotate": annotate,
        "unannotate": unannotate,
        "cache_read": cache_read,
        "cache_write": cache_write,
        "compute_at": compute_at,
        "reverse_compute_at": reverse_compute_at,
        "compute_inline": compute_inline,
        "reverse_compute_inline": reverse_compute_inline,
        "blockize": blockize,
        "tensorize": tensorize,
        "decompose_reduction": decompose_reduction,
        "rfactor": rfactor,
        "fuse_reduction_epilogue": fuse_reduction_epilogue,
        "pad_einsum": pad_einsum,
        "decompose_padding": decompose_padding,
        "set_scope": set_scope,
        "unsafe_set_dtype": unsafe_set_dtype,
        "unsafe_hide_buffer_access": unsafe_hide_buffer_access,
        "annotate_buffer_access": annotate_buffer_access,
        "rolling_buffer": rolling_buffer,
        "write_at": write_at,
        "read_at": read_at,
        "cache_index": cache_index,
        "storage_align": storage_align,
        "transform_layout": transform_layout,
        "transform_block_layout": transform_block_layout,
        "reorder_block_iter_var": reorder_block_iter_var,
        "reindex_cache_write": reindex_cache_write,
        "reindex_cache_read": reindex_cache_read,
        "reindex": reindex,
        "cache_inplace": cache_inplace,
    }
)
"""Each takes the program first, then the arguments of its signature (`mslang.ops.table`) by name; a variadic one its
handles as one sequence."""
