"""The analyses that primitives share, under one roof: positions, dependences, region cover, legality, axis loops."""

from __future__ import annotations

from mslang.transform.axes import axis_loop, axis_loops
from mslang.transform.cover import (
    consumed_box,
    covers,
    cuts_only_outside,
    produced_box,
    produces_for,
    why_not_covered,
)
from mslang.transform.dependence import (
    Dependence,
    DependenceKind,
    buffers_read,
    buffers_written,
    consumers,
    dependences,
    dependences_of,
    is_output,
    paths_touching,
    producers,
    readers,
    storage_of,
    storages_read,
    storages_written,
    writers,
)
from mslang.transform.legality import (
    affine_binding,
    has_branch,
    is_injective,
    is_reduction,
    loops_by_kind,
    why_neither,
    why_not_affine,
    why_not_compact,
    why_not_complete,
    why_not_dominant,
    why_not_reduction,
    why_not_stage_pipeline,
)
from mslang.transform.linear import linear_terms
from mslang.transform.position import (
    axis_ranges,
    bindings,
    block_at,
    block_path,
    buffer_named,
    common_path,
    index_of,
    is_under,
    leaves,
    loop_at,
    loop_path,
    loop_range,
    loop_ranges,
    loops_above,
    loops_between,
    path_of,
    ranges_above,
    region_outside,
    same_scope,
    scope_block,
    scope_body,
    scope_buffers,
    scope_path,
    shown,
    taken_names,
    whole_box,
    within_scope,
)

__all__ = [
    "Dependence", "DependenceKind", "affine_binding", "axis_loop", "axis_loops", "axis_ranges", "bindings", "block_at",
    "block_path", "buffer_named", "buffers_read", "buffers_written", "common_path", "consumed_box", "consumers",
    "covers", "cuts_only_outside", "dependences", "dependences_of", "has_branch", "index_of", "is_injective",
    "is_output", "is_reduction", "is_under", "leaves", "linear_terms", "loop_at", "loop_path", "loop_range",
    "loop_ranges", "loops_above", "loops_between", "loops_by_kind", "path_of", "paths_touching", "produced_box",
    "producers", "produces_for", "ranges_above", "readers", "region_outside", "same_scope", "scope_block",
    "scope_body", "scope_buffers", "scope_path", "shown", "storage_of", "storages_read", "storages_written",
    "taken_names", "whole_box", "why_neither", "why_not_affine", "why_not_compact", "why_not_complete",
    "why_not_covered", "why_not_dominant", "why_not_reduction", "why_not_stage_pipeline", "within_scope", "writers",
]
