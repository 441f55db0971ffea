"""How the functions and rules of the standard library that are written in Python are called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.ops.signature import Group, Kind, Param, Signature


def _function(name: str, *params: Param, gives: Kind) -> Signature:
    return Signature(name, Group.FUNCTION, params, (gives,), family="library")


_TOLERANCES = (
    Param("rtol", Kind.FLOAT, 1e-5, keyword=True),
    Param("atol", Kind.FLOAT, 1e-6, keyword=True),
    Param("seed", Kind.INT, 0, keyword=True),
)

LIBRARY: Mapping[str, Signature] = MappingProxyType(
    {
        "sample": _function(
            "sample",
            Param("space", Kind.SPACE),
            Param("program", Kind.PROGRAM),
            Param("seed", Kind.INT, 0, keyword=True),
            gives=Kind.ANY,
        ),
        "apply": _function("apply", Param("rule", Kind.RULE), Param("program", Kind.PROGRAM, None), gives=Kind.ANY),
        "len": _function("len", Param("list", Kind.VALUES), gives=Kind.INT),
        "min": _function("min", Param("sizes", Kind.SIZE, variadic=True), gives=Kind.SIZE),
        "max": _function("max", Param("sizes", Kind.SIZE, variadic=True), gives=Kind.SIZE),
        "at": _function("at", Param("loop", Kind.LOOP), gives=Kind.LOCATION),
        "enter_postproc": _function("enter_postproc", gives=Kind.NOTHING),
        "std.testing.equiv": _function(
            "equiv", Param("program", Kind.PROGRAM), Param("scheduled", Kind.ANY), *_TOLERANCES, gives=Kind.BOOL
        ),
        "std.testing.implements": _function("implements", Param("intrin", Kind.INTRIN), *_TOLERANCES, gives=Kind.BOOL),
        "std.testing.fits": _function("fits", Param("scheduled", Kind.ANY), Param("target", Kind.ANY), gives=Kind.BOOL),
        "std.cpu.auto_parallel": _function("auto_parallel", Param("block", Kind.BLOCK), gives=Kind.NOTHING),
        "std.cpu.auto": _function("auto", gives=Kind.NOTHING),
        "std.cpu.quick": _function("quick", gives=Kind.NOTHING),
        "std.cuda.space": _function("space", gives=Kind.NOTHING),
        "std.rules.inline_constants": _function("inline_constants", gives=Kind.NOTHING),
        "std.rules.auto_inline": _function(
            "auto_inline",
            Param("into_consumers", Kind.BOOL, True, keyword=True),
            Param("into_producer", Kind.BOOL, False, keyword=True),
            Param("constants", Kind.BOOL, True, keyword=True),
            Param("no_branches", Kind.BOOL, True, keyword=True),
            Param("injective", Kind.BOOL, True, keyword=True),
            Param("ordered", Kind.BOOL, True, keyword=True),
            gives=Kind.NOTHING,
        ),
        "std.rules.add_rfactor": _function(
            "add_rfactor",
            Param("max_jobs_per_core", Kind.INT, 16, keyword=True),
            Param("max_innermost", Kind.INT, 64, keyword=True),
            gives=Kind.NOTHING,
        ),
        "std.rules.compute_location": _function("compute_location", gives=Kind.NOTHING),
        "std.rules.transpose": _function("transpose", gives=Kind.NOTHING),
        "std.rules.parallelize_vectorize_unroll": _function(
            "parallelize_vectorize_unroll",
            Param("max_jobs_per_core", Kind.INT, 16, keyword=True),
            Param("vector_extents", Kind.VALUES, (64, 256, 1024, 4096), keyword=True),
            Param("unroll_steps", Kind.VALUES, (0, 16, 64, 512), keyword=True),
            gives=Kind.NOTHING,
        ),
        "std.rules.stream": _function("stream", Param("least_bytes", Kind.INT, None, keyword=True), gives=Kind.NOTHING),
        "std.rules.custom": _function("custom", gives=Kind.NOTHING),
        "std.rules.rows": _function("rows", gives=Kind.NOTHING),
        "std.rules.matrix_tiles": _function("matrix_tiles", gives=Kind.NOTHING),
        "std.rules.dot": _function("dot", gives=Kind.NOTHING),
        "std.rules.tile": _function("tile", gives=Kind.NOTHING),
        "std.rules.default_tiling": _function("default_tiling", gives=Kind.NOTHING),
        "std.rules.loop_blocks": _function(
            "loop_blocks", Param("only_reductions", Kind.BOOL, False, keyword=True), gives=Kind.NOTHING
        ),
        "std.rules.reduction_loop_blocks": _function("reduction_loop_blocks", gives=Kind.NOTHING),
        "std.rules.online_attention": _function("online_attention", gives=Kind.NOTHING),
        "std.rules.multi_level_tiling_tensor_core": _function(
            "multi_level_tiling_tensor_core", Param("max_innermost", Kind.INT, 4, keyword=True), gives=Kind.NOTHING
        ),
        "std.rules.gpu_tiling": _function(
            "gpu_tiling",
            Param("max_innermost", Kind.INT, 64, keyword=True),
            Param("intrin", Kind.STR, "", keyword=True),
            gives=Kind.NOTHING,
        ),
        "std.rules.cross_thread_reduction": _function(
            "cross_thread_reduction",
            Param("thread_extents", Kind.VALUES, (4, 8, 16, 32, 64, 128, 256, 512), keyword=True),
            gives=Kind.NOTHING,
        ),
        "std.rules.auto_bind": _function(
            "auto_bind",
            Param("max_threadblocks", Kind.INT, 256, keyword=True),
            Param("thread_extents", Kind.VALUES, (32, 64, 128, 256, 512, 1024), keyword=True),
            gives=Kind.NOTHING,
        ),
        "std.rules.gpu_unroll": _function(
            "gpu_unroll",
            Param("unroll_steps", Kind.VALUES, (0, 16, 32, 64, 128, 256, 512, 1024), keyword=True),
            gives=Kind.NOTHING,
        ),
        "std.rules.named": _function("named", Param("rule", Kind.STR), gives=Kind.RULE),
        "std.cuda.auto": _function("auto", gives=Kind.NOTHING),
        "std.tensor.tensorize_mapping": _function(
            "tensorize_mapping", Param("block", Kind.BLOCK), Param("intrin", Kind.INTRIN), gives=Kind.LOOP
        ),
        "std.tiling.multi_level": _function(
            "multi_level", Param("structure", Kind.STR), Param("intrin", Kind.STR, "", keyword=True), gives=Kind.RULE
        ),
    }
)
"""Signatures by the address of the `mslang.sema.native.Native`."""
