"""The operations of schedules that draw and that ask: samplers and getters."""

from __future__ import annotations

from mslang.ops.signature import Group, Kind, Param, Signature

_LOOP = Param("loop", Kind.LOOP)
_MAX_INNER = Param("max_inner", Kind.INT, 64, optional=True)
_BLOCK = Param("block", Kind.BLOCK)
_EITHER = Param("target", Kind.LOOP_OR_BLOCK)


def _sampler(name: str, *params: Param, gives: Kind) -> Signature:
    return Signature(name, Group.SAMPLER, params, (gives,), False, (), "sampling")


def _getter(name: str, *params: Param, gives: Kind) -> Signature:
    return Signature(name, Group.GETTER, params, (gives,), False, (), "access")


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
