"""Faults in what legality asks of the instances of blocks: what they read, what their init starts, and when."""

from __future__ import annotations

from tests.mutation.planted import Planted

TESTS = "tests/unit/transform/test_instances.py"

IN_INSTANCES = (
    Planted(
        "a legality check that says yes: no loop overwrites what a moved block reads",
        "mslang/transform/rewriting/block_moving.py",
        "reason = why_other_values(program, path, places, but)",
        "reason = None",
        only=("compute_inline", "reverse_compute_at"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: an init may pass any reader",
        "mslang/transform/primitives/decompose_reduction.py",
        "if not (later and buffers and all(",
        "if False and not (later and buffers and all(",
        only=("decompose_reduction",),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: a predicate without axes leaves nothing out",
        "mslang/transform/analysis/cover.py",
        "if not all(arith.proved(c, ranges) for c in still):",
        "if False:",
        only=("cache_write", "reindex", "reverse_compute_at"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: an init that reads starts from scratch",
        "mslang/transform/analysis/initialization.py",
        "    if before:\n",
        "    if before and not block.init:\n",
        only=("cache_write", "reindex", "split"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: a conditional init starts from scratch",
        "mslang/transform/analysis/initialization.py",
        "if all(covered_by(steady, r, axes) for r in read):",
        "if read:",
        only=("cache_write", "reindex", "split"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: a reduction reads only its own elements",
        "mslang/transform/analysis/accesses.py",
        "        if r not in own:\n",
        "        if not own:\n",
        only=("decompose_reduction", "blockize", "transform_block_layout"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: the init comes first",
        "mslang/transform/analysis/initialization.py",
        'if a.kind == "reduce" and not _least(substitute(a.binding, first), a.binding, ranges):',
        'if a.kind == "scan":',
        only=("reorder", "decompose_reduction", "rfactor"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: no predicate leaves the init out",
        "mslang/transform/analysis/definite_writes.py",
        "    if free_vars(condition).isdisjoint(first):\n",
        "    if condition:\n",
        only=("cache_write", "decompose_reduction", "rfactor"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: new reduction axes are 0 where the old ones are",
        "mslang/transform/primitives/transform_block_layout.py",
        "for n in reduced):",
        "for n in reduced[:0]):",
        only=("transform_block_layout",),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: what a running reduction reads is its own",
        "mslang/transform/analysis/initialization.py",
        "or not init_runs(path, above):",
        "or not path:",
        only=("specialize", "write_at", "split"),
        generator="instances",
    ),
    Planted(
        "a lost widening: of a region at which an init gathers",
        "mslang/transform/rewriting/init_nest.py",
        "reads, writes = infer_regions(block, buffers)",
        "reads, writes = infer_regions(block)",
        only=("decompose_reduction",),
        generator="instances",
    ),
    Planted(
        "a false promise: copies of what a loop changes are spatial",
        "mslang/transform/rewriting/staging.py",
        'replace(a, kind="opaque")',
        'replace(a, kind="spatial")',
        only=("cache_read", "read_at"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: a strided reduction runs over all values of its axis",
        "mslang/transform/primitives/compute_at.py",
        "if reduced and not runs_all(moving.path, reduced):",
        "if False:",
        only=("compute_at",),
        generator="instances",
    ),
    Planted(
        "a wrong order: a guard behind the load that it protects",
        "mslang/ir/visit.py",
        "conjunction((*conditions, *parts) if any(loads_of(predicate)) else (*parts, *conditions))",
        "conjunction((*parts, *conditions))",
        caught_by="tests/unit/transform/test_loaded_predicates.py",
    ),
    Planted(
        "a size that is believed to fit: a tile of a size known only at the call",
        "mslang/ir/arith/table.py",
        "if isinstance(domain, FreeTile) and is_dynamic(domain.extent):",
        "if False:",
        caught_by="tests/unit/transform/test_dynamic_tiles.py",
    ),
)

__all__ = ["IN_INSTANCES"]
