"""Faults in what legality asks of the instances of blocks: what they read, what their init starts, and when."""

from __future__ import annotations

from tests.mutation.planted import Planted

TESTS = "tests/unit/transform/test_instances.py"

"""Unit tests that refuse and accept for each class; pairs of the campaign that show such a fault are rare."""

IN_INSTANCES = (
    Planted(
        "a legality check that says yes: no loop overwrites what a moved block reads",
        "mslang/transform/rewriting/block_moving.py",
        "reason = why_other_values(program, path, places, but, keeps=keeps)",
        "reason = None",
        only=("compute_inline", "reverse_compute_at"),
        generator="instances",
        pair=10,
    ),
    Planted(
        "a legality check that says yes: readers find what a moved block left",
        "mslang/transform/rewriting/block_moving.py",
        "reason = why_other_results(program, before, done, after)",
        "reason = None",
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a legality check that says yes: each element has one instance that writes it",
        "mslang/transform/analysis/stability.py",
        "        shared = _why_not_own(program, q, storage, loop)\n",
        "        shared = None\n",
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a legality check that says yes: what a loop overwrites was written before it",
        "mslang/transform/analysis/cover.py",
        "scope_body(program, path) if under is None else (under,)",
        "scope_body(program, path)",
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a size that is too small: an `if` of the body bounds what the init writes",
        "mslang/transform/analysis/axis_bounds.py",
        " if block.init is None else ()",
        "",
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a legality check that says yes: an init may pass any reader",
        "mslang/transform/primitives/decompose_reduction.py",
        "if not (later and buffers and all(",
        "if False and not (later and buffers and all(",
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: a predicate without axes leaves nothing out",
        "mslang/transform/analysis/cover.py",
        "if not all(arith.proved(c, ranges) for c in still):",
        "if False:",
        only=("cache_write", "reindex", "reverse_compute_at"),
        generator="instances",
        pair=6,
    ),
    Planted(
        "a legality check that says yes: an init that reads starts from scratch",
        "mslang/transform/analysis/initialization.py",
        "    if before:\n",
        "    if before and not block.init:\n",
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: a conditional init starts from scratch",
        "mslang/transform/analysis/initialization.py",
        "if all(covered_by(steady, r, axes) for r in read):",
        "if read:",
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: a reduction reads only its own elements",
        "mslang/transform/analysis/accesses.py",
        "        if r not in own:\n",
        "        if not own:\n",
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: the init comes first",
        "mslang/transform/analysis/initialization.py",
        'if a.kind == "reduce" and not _least(substitute(a.binding, first), a.binding, ranges):',
        'if a.kind == "scan":',
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: no predicate leaves the init out",
        "mslang/transform/analysis/definite_writes.py",
        "    if free_vars(condition).isdisjoint(first):\n",
        "    if condition:\n",
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: new reduction axes are 0 where the old ones are",
        "mslang/transform/primitives/transform_block_layout.py",
        "for n in reduced):",
        "for n in reduced[:0]):",
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: what a running reduction reads is its own",
        "mslang/transform/analysis/initialization.py",
        "or not init_runs(path, above):",
        "or not path:",
        caught_by=TESTS,
    ),
    Planted(
        "a lost widening: of a region at which an init gathers",
        "mslang/transform/rewriting/init_nest.py",
        "reads, writes = infer_regions(block, buffers)",
        "reads, writes = infer_regions(block)",
        caught_by=TESTS,
    ),
    Planted(
        "a false promise: copies of what a loop changes are spatial",
        "mslang/transform/rewriting/staging.py",
        'replace(a, kind="opaque")',
        'replace(a, kind="spatial")',
        caught_by=TESTS,
    ),
    Planted(
        "a legality check that says yes: a strided reduction runs over all values of its axis",
        "mslang/transform/primitives/compute_at.py",
        "if reduced and not runs_all(moving.path, reduced):",
        "if False:",
        caught_by=TESTS,
    ),
    Planted(
        "a wrong order: a guard behind the load that it protects",
        "mslang/ir/visit.py",
        "conjunction(tuple(sorted(parts, key=lambda c: any(loads_of(c)))))",
        "conjunction(parts)",
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
