"""The operations of schedules: primitives, samplers, getters. A user's own join them in a `Registry`."""

from __future__ import annotations

from mslang.ops.signature import REQUIRED, Group, Kind, Param, Signature

_LOOP = Param("loop", Kind.LOOP)
_BLOCK = Param("block", Kind.BLOCK)
_EITHER = Param("target", Kind.LOOP_OR_BLOCK)
_CONSUMERS = Param("consumers", Kind.BLOCKS, None, keyword=True)


def _primitive(
    name: str,
    family: str,
    *params: Param,
    gives: tuple[Kind, ...] = (),
    many: bool = False,
    consumes: tuple[str, ...] = (),
    planned: bool = False,
) -> Signature:
    return Signature(name, Group.PRIMITIVE, params, gives, many, consumes, family, planned)


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
        gives=(Kind.LOOP,),
        many=True,
        consumes=("loop",),
    ),
    _primitive("fuse", "loops", Param("loops", Kind.LOOP, variadic=True), gives=(Kind.LOOP,), consumes=("loops",)),
    _primitive("reorder", "loops", Param("loops", Kind.LOOP, variadic=True)),
    _primitive("add_unit_loop", "loops", _EITHER, gives=(Kind.LOOP,)),
    _primitive("parallel", "loop kinds", _LOOP),
    _primitive("vectorize", "loop kinds", _LOOP),
    _primitive("unroll", "loop kinds", _LOOP, Param("max_steps", Kind.SIZE, None, keyword=True)),
    _primitive("bind", "loop kinds", _LOOP, Param("axis", Kind.AXIS)),
    _primitive("annotate", "annotations", _EITHER, Param("key", Kind.STR), Param("value", Kind.VALUE, True)),
    _primitive("unannotate", "annotations", _EITHER, Param("key", Kind.STR)),
    _primitive(
        "cache_read",
        "caching",
        _BLOCK,
        Param("buffer", Kind.BUFFER),
        Param("scope", Kind.SCOPE, "global"),
        _CONSUMERS,
        gives=(Kind.BLOCK,),
    ),
    _primitive(
        "cache_write",
        "caching",
        _BLOCK,
        Param("buffer", Kind.BUFFER),
        Param("scope", Kind.SCOPE, "global"),
        _CONSUMERS,
        gives=(Kind.BLOCK,),
    ),
    _primitive(
        "compute_at",
        "compute location",
        _BLOCK,
        Param("loop", Kind.LOCATION),
        Param("index", Kind.INT, -1, keyword=True),
    ),
    _primitive(
        "reverse_compute_at",
        "compute location",
        _BLOCK,
        Param("loop", Kind.LOCATION),
        Param("index", Kind.INT, -1, keyword=True),
    ),
    _primitive("compute_inline", "inlining", _BLOCK, consumes=("block",)),
    _primitive("reverse_compute_inline", "inlining", _BLOCK, consumes=("block",)),
    _primitive("decompose_reduction", "reductions", _BLOCK, Param("loop", Kind.LOOP), gives=(Kind.BLOCK,)),
    _primitive("set_scope", "memory", _BLOCK, Param("buffer", Kind.BUFFER), Param("scope", Kind.SCOPE)),
    _primitive("blockize", "blocks", _LOOP, gives=(Kind.BLOCK,), planned=True),
    _primitive("tensorize", "instructions", _EITHER, Param("intrin", Kind.INTRIN), planned=True),
    _primitive(
        "storage_align",
        "memory",
        _BLOCK,
        Param("axis", Kind.INT),
        Param("factor", Kind.INT),
        Param("offset", Kind.INT, 0),
        planned=True,
    ),
    _primitive(
        "pipeline",
        "loop kinds",
        _LOOP,
        Param("stages", Kind.INT, keyword=True),
        Param("copy", Kind.STR, None, keyword=True),
        planned=True,
    ),
)

SAMPLERS = (
    _sampler("perfect_tile", _LOOP, Param("n", Kind.INT), Param("max_inner", Kind.INT, 64), gives=Kind.TILE),
    _sampler("tile", _LOOP, Param("n", Kind.INT), Param("max_inner", Kind.INT, 64), gives=Kind.TILE),
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
