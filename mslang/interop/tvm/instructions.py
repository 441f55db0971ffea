"""The correspondence between instructions of TVM's traces and our operations, with roles of inputs and attributes.

One table serves both directions. Samplers, getters and annotations of the root block, which have other inputs and
outputs, are in `NAMES` too, but are handled where traces are read and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec


class Role(StrEnum):
    """The role of an input or attribute of an instruction."""

    HANDLE = "handle"
    """A loop or block."""
    HANDLES = "handles"
    """A list of blocks; an empty list means none."""
    EITHER = "either"
    """A loop, or a list of blocks."""
    REST = "rest"
    """All inputs from here on: loops."""
    FACTORS = "factors"
    """All inputs from here on: sizes, or "None"."""
    VALUE = "value"
    """A literal, a size, or a list of them."""
    INT = "int"
    FLAG = "flag"
    SCOPE = "scope"
    TEXT = "text"
    DTYPE = "dtype"
    INTRIN = "intrin"
    READ = "read buffer"
    """A position among the buffers that the block reads."""
    WRITTEN = "written buffer"
    """A position among the buffers that the block writes."""
    EITHER_BUFFER = "buffer"
    """A position among the buffers read or written, which of them the access says."""
    BUFFERS = "buffers"
    """A list of such positions."""
    ACCESS = "access"
    """0 for read and 1 for write."""
    ACCESS_TEXT = "access text"
    MAP = "index map"
    REGION = "region map"
    """A map to begins and ends in turn, which are ranges of ours."""
    PAD = "pad value"
    UNUSED = "unused"
    """Said to TVM only; what it then says is the slot's `given`."""


class Slot(msgspec.Struct, frozen=True):
    """One input or attribute: our parameter and its role. `given` is what is written where ours has no such thing, and
    what stands for an attribute that older traces have not."""

    role: Role
    param: str = ""
    given: int | None = None


class Mapped(msgspec.Struct, frozen=True):
    """An instruction and our operation."""

    kind: str
    op: str
    inputs: tuple[Slot, ...]
    attrs: tuple[Slot, ...] = ()


_LOOP = Slot(Role.HANDLE, "loop")
_BLOCK = Slot(Role.HANDLE, "block")
_TARGET = Slot(Role.HANDLE, "target")
_LOOPS = Slot(Role.REST, "loops")
_MAP = Slot(Role.MAP, "map")
_SCOPE = Slot(Role.SCOPE, "scope")
_READ = Slot(Role.READ, "buffer")
_WRITTEN = Slot(Role.WRITTEN, "buffer")
_EITHER_BUFFER = Slot(Role.EITHER_BUFFER, "buffer")
_ACCESS = Slot(Role.ACCESS, "access")
_CONSUMERS = Slot(Role.HANDLES, "consumers")
_PRESERVE = Slot(Role.UNUSED, given=1)
_INDEX = Slot(Role.INT, "index", -1)

MAPPED = (
    Mapped(
        "Split",
        "split",
        (_LOOP, Slot(Role.FACTORS, "factors")),
        (_PRESERVE, Slot(Role.FLAG, "disable_predication", 0)),
    ),
    Mapped("LoopPartition", "loop_partition", (_LOOP, Slot(Role.FACTORS, "sizes")), (_PRESERVE,)),
    Mapped("Merge", "merge", (_LOOPS,)),
    Mapped("Fuse", "fuse", (_LOOPS,), (_PRESERVE,)),
    Mapped("Reorder", "reorder", (_LOOPS,)),
    Mapped("ReorderBlockIterVar", "reorder_block_iter_var", (_BLOCK, Slot(Role.VALUE, "order"))),
    Mapped("AddUnitLoop", "add_unit_loop", (_TARGET,)),
    Mapped("Parallel", "parallel", (_LOOP,)),
    Mapped("Vectorize", "vectorize", (_LOOP,)),
    Mapped("Unroll", "unroll", (_LOOP,)),
    Mapped("Bind", "bind", (_LOOP,), (Slot(Role.TEXT, "axis"),)),
    Mapped("CacheRead", "cache_read", (_BLOCK, _CONSUMERS), (_READ, _SCOPE)),
    Mapped("CacheWrite", "cache_write", (_BLOCK, _CONSUMERS), (_WRITTEN, _SCOPE)),
    Mapped("CacheInplace", "cache_inplace", (_BLOCK,), (_READ, _SCOPE)),
    Mapped("CacheIndex", "cache_index", (_BLOCK,), (_SCOPE, Slot(Role.INT, "threshold", 0))),
    Mapped("ReIndex", "reindex", (_BLOCK,), (_EITHER_BUFFER, _ACCESS)),
    Mapped("ReindexCacheRead", "reindex_cache_read", (_BLOCK, _MAP), (_READ, _SCOPE)),
    Mapped("ReindexCacheWrite", "reindex_cache_write", (_BLOCK, _MAP), (_WRITTEN, _SCOPE)),
    Mapped("ReadAt", "read_at", (_LOOP, _BLOCK), (_READ, _SCOPE)),
    Mapped("WriteAt", "write_at", (_LOOP, _BLOCK), (_WRITTEN, _SCOPE)),
    Mapped("ComputeAt", "compute_at", (_BLOCK, _LOOP), (_PRESERVE, _INDEX)),
    Mapped("ReverseComputeAt", "reverse_compute_at", (_BLOCK, _LOOP), (_PRESERVE, _INDEX)),
    Mapped("ComputeInline", "compute_inline", (_BLOCK,)),
    Mapped("ReverseComputeInline", "reverse_compute_inline", (_BLOCK,)),
    Mapped("FuseReductionEpilogue", "fuse_reduction_epilogue", (_BLOCK, Slot(Role.HANDLE, "epilogue"))),
    Mapped("DecomposeReduction", "decompose_reduction", (_BLOCK, _LOOP)),
    Mapped("RFactor", "rfactor", (_LOOP,), (Slot(Role.INT, "axis"),)),
    Mapped("Blockize", "blockize", (Slot(Role.EITHER, "target"),), (_PRESERVE,)),
    Mapped("Tensorize", "tensorize", (_TARGET,), (Slot(Role.INTRIN, "intrin"), _PRESERVE)),
    Mapped("Annotate", "annotate", (_TARGET, Slot(Role.VALUE, "value")), (Slot(Role.TEXT, "key"),)),
    Mapped("Unannotate", "unannotate", (_TARGET,), (Slot(Role.TEXT, "key"),)),
    Mapped(
        "StorageAlign",
        "storage_align",
        (_BLOCK,),
        (_WRITTEN, Slot(Role.INT, "axis"), Slot(Role.INT, "factor"), Slot(Role.INT, "offset")),
    ),
    Mapped("SetScope", "set_scope", (_BLOCK,), (_WRITTEN, _SCOPE)),
    Mapped("UnsafeSetDType", "unsafe_set_dtype", (_BLOCK,), (_WRITTEN, Slot(Role.DTYPE, "dtype"))),
    Mapped(
        "UnsafeHideBufferAccess",
        "unsafe_hide_buffer_access",
        (_BLOCK, Slot(Role.ACCESS_TEXT, "access"), Slot(Role.BUFFERS, "buffers")),
    ),
    Mapped(
        "AnnotateBufferAccess", "annotate_buffer_access", (_BLOCK, _EITHER_BUFFER, _ACCESS, Slot(Role.REGION, "map"))
    ),
    Mapped(
        "TransformLayout",
        "transform_layout",
        (_BLOCK, _MAP),
        (_EITHER_BUFFER, Slot(Role.ACCESS), Slot(Role.PAD, "pad"), Slot(Role.FLAG, "assume_injective", 0)),
    ),
    Mapped("TransformBlockLayout", "transform_block_layout", (_BLOCK,), (_MAP,)),
    Mapped("PadEinsum", "pad_einsum", (_BLOCK,), (Slot(Role.VALUE, "padding"),)),
    Mapped("DecomposePadding", "decompose_padding", (_BLOCK, _LOOP)),
    Mapped("RollingBuffer", "rolling_buffer", (_BLOCK,), (_WRITTEN,)),
)
"""Every instruction that corresponds to one primitive."""

BY_KIND: Mapping[str, Mapped] = MappingProxyType({m.kind: m for m in MAPPED})
BY_OP: Mapping[str, Mapped] = MappingProxyType({m.op: m for m in MAPPED})

ENTER_POSTPROC = "EnterPostproc"
GETTERS: Mapping[str, str] = MappingProxyType(
    {
        "GetLoops": "loops",
        "GetChildBlocks": "children",
        "GetProducers": "producers",
        "GetConsumers": "consumers",
        "GetOutputBlocks": "output_blocks",
    }
)
"""The getters of a block or loop. `GetSBlock` takes a name."""

SAMPLERS: Mapping[str, str] = MappingProxyType(
    {
        "SamplePerfectTile": "perfect_tile",
        "SamplePartitionedTile": "partitioned_tile",
        "SampleCategorical": "choose",
        "SampleComputeLocation": "compute_location",
    }
)
"""The instructions that draw a decision."""

_OLD = {
    "GetBlock": "GetSBlock",
    "SetDType": "UnsafeSetDType",
}

LOST = frozenset({"SetAxisSeparator", "SetAxisSeparators"})
"""Instructions of older TVM that only control how a buffer is flattened."""


def kind_of(name: str) -> str:
    """The current name of an instruction kind that older TVM named differently."""
    return _OLD.get(name, name)
