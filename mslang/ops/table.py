"""The operations of schedules: primitives, samplers, getters. A user's own join them in a `Registry`."""

from __future__ import annotations

from mslang.ops.signature import REQUIRED, Group, Kind, Param, Signature

_LOOP = Param("loop", Kind.LOOP)
_MAX_INNER = Param("max_inner", Kind.INT, 64, optional=True)
_BLOCK = Param("block", Kind.BLOCK)
_EITHER = Param("target", Kind.LOOP_OR_BLOCK)
_BUFFER = Param("buffer", Kind.BUFFER)
_SCOPE = Param("scope", Kind.SCOPE, "global")
_INTO = Param("scope", Kind.SCOPE)
_INDEX = Param("index", Kind.INT, -1, keyword=True)
_MAP = Param("map", Kind.INDEX_MAP)
_CONSUMERS = Param("consumers", Kind.BLOCKS, None, keyword=True)


def _primitive(
    name: str,
    family: str,
    *params: Param,
    gives: tuple[Kind, ...] = (),
    many: bool = False,
    consumes: tuple[str, ...] = (),
) -> Signature:
    return Signature(name, Group.PRIMITIVE, params, gives, many, consumes, family)


def _sampler(name: str, *params: Param, gives: Kind) -> Signature:
    return Signature(name, Group.SAMPLER, params, (gives,), False, (), "sampling")


def _getter(name: str, *params: Param, gives: Kind) -> Signature:
    return Signature(name, Group.GETTER, params, (gives,), False, (), "access")


PRIMITIVES = (
    _primitive(
        "split",
        "loops",
        _LOOP,
        Param("factors", Kind.FACTORS),
        Param("tail", Kind.TAIL, "guard", keyword=True),
        Param("disable_predication", Kind.BOOL, False, keyword=True),
        gives=(Kind.LOOP,),
        many=True,
        consumes=("loop",),
    ),
    _primitive("fuse", "loops", Param("loops", Kind.LOOP, variadic=True), gives=(Kind.LOOP,), consumes=("loops",)),
    _primitive("reorder", "loops", Param("loops", Kind.LOOP, variadic=True)),
    _primitive("add_unit_loop", "loops", _EITHER, gives=(Kind.LOOP,)),
    _primitive(
        "loop_partition",
        "loops",
        _LOOP,
        Param("sizes", Kind.FACTORS),
        gives=(Kind.LOOP,),
        many=True,
        consumes=("loop",),
    ),
    _primitive(
        "merge",
        "loops",
        Param("loops", Kind.LOOP, variadic=True),
        gives=(Kind.LOOP,),
        consumes=("loops",),
    ),
    _primitive(
        "fission",
        "loops",
        _LOOP,
        Param("after", Kind.LOOP_OR_BLOCK),
        gives=(Kind.LOOP, Kind.LOOP),
        consumes=("loop",),
    ),
    _primitive(
        "specialize",
        "loops",
        _LOOP,
        Param("condition", Kind.CONDITION),
        gives=(Kind.LOOP, Kind.LOOP),
        consumes=("loop",),
    ),
    _primitive("parallel", "loop kinds", _LOOP),
    _primitive("vectorize", "loop kinds", _LOOP),
    _primitive("unroll", "loop kinds", _LOOP, Param("max_steps", Kind.SIZE, None, keyword=True)),
    _primitive("bind", "loop kinds", _LOOP, Param("axis", Kind.AXIS)),
    _primitive(
        "pipeline",
        "loop kinds",
        _LOOP,
        Param("stages", Kind.INT, keyword=True),
        Param("copy", Kind.STR, None, keyword=True),
    ),
    _primitive("annotate", "annotations", _EITHER, Param("key", Kind.STR), Param("value", Kind.VALUE, True)),
    _primitive("unannotate", "annotations", _EITHER, Param("key", Kind.STR)),
    _primitive("cache_read", "caching", _BLOCK, _BUFFER, _SCOPE, _CONSUMERS, gives=(Kind.BLOCK,)),
    _primitive("cache_write", "caching", _BLOCK, _BUFFER, _SCOPE, _CONSUMERS, gives=(Kind.BLOCK,)),
    _primitive("cache_inplace", "caching", _BLOCK, _BUFFER, _SCOPE, gives=(Kind.BLOCK, Kind.BLOCK)),
    _primitive(
        "cache_index",
        "caching",
        _BLOCK,
        _SCOPE,
        Param("threshold", Kind.INT, 0, keyword=True),
        gives=(Kind.BLOCK,),
        many=True,
    ),
    _primitive(
        "reindex",
        "caching",
        _BLOCK,
        _BUFFER,
        Param("access", Kind.ACCESS, None, keyword=True),
        Param("fold_units", Kind.BOOL, False, keyword=True),
        gives=(Kind.BLOCK,),
    ),
    _primitive("reindex_cache_read", "caching", _BLOCK, _BUFFER, _INTO, _MAP, gives=(Kind.BLOCK,)),
    _primitive("reindex_cache_write", "caching", _BLOCK, _BUFFER, _INTO, _MAP, gives=(Kind.BLOCK,)),
    _primitive(
        "read_at",
        "caching",
        _BLOCK,
        _LOOP,
        _BUFFER,
        _SCOPE,
        gives=(Kind.BLOCK,),
    ),
    _primitive(
        "write_at",
        "caching",
        _BLOCK,
        _LOOP,
        _BUFFER,
        _SCOPE,
        gives=(Kind.BLOCK,),
    ),
    _primitive("compute_at", "compute location", _BLOCK, Param("loop", Kind.LOCATION), _INDEX),
    _primitive("reverse_compute_at", "compute location", _BLOCK, Param("loop", Kind.LOCATION), _INDEX),
    _primitive("compute_inline", "inlining", _BLOCK, consumes=("block",)),
    _primitive("reverse_compute_inline", "inlining", _BLOCK, consumes=("block",)),
    _primitive(
        "fuse_reduction_epilogue",
        "inlining",
        _BLOCK,
        Param("epilogue", Kind.BLOCK),
        consumes=("epilogue",),
    ),
    _primitive("decompose_reduction", "reductions", _BLOCK, Param("loop", Kind.LOOP), gives=(Kind.BLOCK,)),
    _primitive("rfactor", "reductions", _LOOP, Param("axis", Kind.INT, 0), gives=(Kind.BLOCK,)),
    _primitive("blockize", "blocks", Param("target", Kind.LOOP_OR_BLOCKS), gives=(Kind.BLOCK,)),
    _primitive("tensorize", "blocks", _EITHER, Param("intrin", Kind.INTRIN)),
    _primitive("reorder_block_iter_var", "blocks", _BLOCK, Param("order", Kind.VALUES)),
    _primitive("transform_block_layout", "blocks", _BLOCK, _MAP),
    _primitive(
        "annotate_buffer_access",
        "blocks",
        _BLOCK,
        _BUFFER,
        Param("access", Kind.ACCESS),
        Param("map", Kind.REGION_MAP),
    ),
    _primitive(
        "unsafe_hide_buffer_access",
        "blocks",
        _BLOCK,
        Param("access", Kind.ACCESS),
        Param("buffers", Kind.BUFFERS),
    ),
    _primitive("set_scope", "memory", _BLOCK, _BUFFER, Param("scope", Kind.SCOPE)),
    _primitive(
        "storage_align",
        "memory",
        _BLOCK,
        Param("axis", Kind.INT),
        Param("factor", Kind.INT),
        Param("offset", Kind.INT, 0),
        Param("buffer", Kind.BUFFER, None, keyword=True),
    ),
    _primitive("unsafe_set_dtype", "memory", _BLOCK, _BUFFER, Param("dtype", Kind.DTYPE)),
    _primitive("rolling_buffer", "memory", _BLOCK, _BUFFER),
    _primitive(
        "transform_layout",
        "layout",
        _BLOCK,
        _BUFFER,
        _MAP,
        Param("pad", Kind.PADDING, None, keyword=True),
        Param("assume_injective", Kind.BOOL, False, keyword=True),
    ),
    _primitive("pad_einsum", "layout", _BLOCK, Param("padding", Kind.VALUES)),
    _primitive(
        "decompose_padding",
        "layout",
        _BLOCK,
        Param("loop", Kind.LOOP),
        gives=(Kind.BLOCK,),
    ),
)

SAMPLERS = (
    _sampler("perfect_tile", _LOOP, Param("n", Kind.INT), _MAX_INNER, gives=Kind.TILE),
    _sampler("tile", _LOOP, Param("n", Kind.INT), _MAX_INNER, gives=Kind.TILE),
    _sampler(
        "partitioned_tile",
        _LOOP,
        Param("n", Kind.INT),
        Param("at", Kind.INT),
        Param("factor", Kind.INT),
        gives=Kind.TILE,
    ),
    _sampler("choose", Param("values", Kind.VALUES), Param("weights", Kind.VALUES, None), gives=Kind.SIZE),
    _sampler("uniform", Param("lo", Kind.INT), Param("hi", Kind.INT), gives=Kind.SIZE),
    _sampler("permute", Param("values", Kind.VALUES), gives=Kind.LOOPS),
    _sampler("compute_location", _BLOCK, gives=Kind.LOCATION),
)

GETTERS = (
    _getter("loops", _BLOCK, gives=Kind.LOOPS),
    _getter("children", _EITHER, gives=Kind.BLOCKS),
    _getter("output_blocks", _BLOCK, gives=Kind.BLOCKS),
    _getter("producers", _BLOCK, gives=Kind.BLOCKS),
    _getter("consumers", _BLOCK, gives=Kind.BLOCKS),
    _getter("reads", _BLOCK, gives=Kind.VALUES),
    _getter("writes", _BLOCK, gives=Kind.VALUES),
    _getter("extent", _LOOP, gives=Kind.SIZE),
    _getter("is_injective", _BLOCK, gives=Kind.BOOL),
    _getter("is_output", _BLOCK, gives=Kind.BOOL),
    _getter("is_reduction", _BLOCK, gives=Kind.BOOL),
    _getter("has_branch", _BLOCK, gives=Kind.BOOL),
    _getter("spatial_loops", _BLOCK, gives=Kind.LOOPS),
    _getter("reduction_loops", _BLOCK, gives=Kind.LOOPS),
)

OPERATIONS = {s.name: s for s in (*PRIMITIVES, *SAMPLERS, *GETTERS)}
"""Every operation by name; a name stands for one operation only."""

__all__ = ["GETTERS", "OPERATIONS", "PRIMITIVES", "REQUIRED", "SAMPLERS"]
