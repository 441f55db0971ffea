"""Faults in what legality asks of the instances of blocks: what they read, what their init starts, and when."""

from __future__ import annotations

from msgspec.structs import replace

from tests.mutation.planted import Function, Planted, as_it_is, finds_nothing, says_no, says_yes


def wherever_it_was_written(why_not_covered: Function) -> Function:
    return lambda program, path, regions=None, under=None: why_not_covered(program, path, regions)


def as_if_without_init(narrowed: Function) -> Function:
    return lambda path: narrowed((*path[:-1], replace(path[-1], init=None)))


def without_what_no_loop_decides(bijective: Function) -> Function:
    def wrong(path):
        from mslang.ir.visit import conjunction, conjuncts, free_vars, loads_of

        block = path[-1]
        around = {s.var for s in path[:-1] if hasattr(s, "var")} | {a.name for a in block.axes}
        kept = [c for c in conjuncts(block.predicate) if free_vars(c) & around and not any(loads_of(c))]
        return bijective((*path[:-1], replace(block, predicate=conjunction(tuple(kept)))))

    return wrong


def that_reads_nothing(footprint: Function) -> Function:
    return lambda block: replace(footprint(block), reads=())


def without_gathers(infer_regions: Function) -> Function:
    return lambda block, buffers: infer_regions(block)


def axes_left_spatial(_: Function) -> Function:
    return lambda program, copy: program


def in_the_order_given(_: Function) -> Function:
    def wrong(predicate, conditions):
        from mslang.ir.visit import conjunction, conjuncts

        return conjunction((*conjuncts(predicate), *conditions))

    return wrong


def as_an_index(_: Function) -> Function:
    return lambda e, names, rewrite: rewrite(e)


def to_the_whole_axis(limits: Function) -> Function:
    return lambda axis, part, ranges: limits(axis, None, ranges)


IN_INSTANCES = (
    Planted(
        "a legality check that says yes: no loop overwrites what a moved block reads",
        "mslang.transform.rewriting.block_moving:why_other_values",
        finds_nothing,
        pair=199,
        only=("compute_inline", "reverse_compute_at"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: readers find what a moved block left",
        "mslang.transform.rewriting.block_moving:why_other_results",
        finds_nothing,
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a legality check that says yes: what a moved block reads is finished",
        "mslang.transform.rewriting.block_moving:why_not_final",
        finds_nothing,
        pair=40,
        only=("reverse_compute_inline", "fuse_reduction_epilogue", "reverse_compute_at"),
        generator="instances",
    ),
    Planted(
        "an order that wraps: data that a `let` holds are an index where a formula is put in",
        "mslang.transform.analysis.formula:as_data",
        as_an_index,
        caught_by="tests/unit/transform/test_reading_faults.py",
    ),
    Planted(
        "a legality check that says yes: no other iteration writes what is copied",
        "mslang.transform.primitives.caching:require_apart",
        finds_nothing,
        caught_by="tests/unit/transform/test_caching.py",
    ),
    Planted(
        "no guard: a moved block keeps to what its enclosing block declares",
        "mslang.transform.rewriting.nest:_limits",
        to_the_whole_axis,
        caught_by="tests/unit/transform/test_compute_at.py",
    ),
    Planted(
        "a legality check that says yes: each element has one instance that writes it",
        "mslang.transform.analysis.stability:_why_not_own",
        finds_nothing,
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a legality check that says yes: what a loop overwrites was written before it",
        "mslang.transform.analysis.cover:why_not_covered",
        wherever_it_was_written,
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a size that is too small: an `if` of the body bounds what the init writes",
        "mslang.transform.analysis.axis_bounds:narrowed",
        as_if_without_init,
        caught_by="tests/unit/transform/test_moved_writers.py",
    ),
    Planted(
        "a legality check that says yes: an init may pass any reader",
        "mslang.transform.primitives.decompose_reduction:_require_apart_from_others",
        finds_nothing,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: a predicate without axes leaves nothing out",
        "mslang.transform.analysis.cover:_bijective",
        without_what_no_loop_decides,
        pair=13,
        only=("cache_write", "reindex", "reverse_compute_at"),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: an init that reads starts from scratch",
        "mslang.transform.analysis.initialization:init_footprint",
        that_reads_nothing,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: a conditional init starts from scratch",
        "mslang.transform.analysis.initialization:covered_by",
        says_yes,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: a reduction reads only its own elements",
        "mslang.transform.analysis.accesses:why_not_own_elements",
        finds_nothing,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: the init comes first",
        "mslang.transform.analysis.initialization:_begins_at_0",
        says_yes,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: no predicate leaves the init out",
        "mslang.transform.analysis.definite_writes:_holds_before",
        says_yes,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: new reduction axes are 0 where the old ones are",
        "mslang.transform.primitives.transform_block_layout:_require_same_init",
        finds_nothing,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: what a running reduction reads is its own",
        "mslang.transform.analysis.initialization:init_runs",
        says_yes,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a lost widening: of a region at which an init gathers",
        "mslang.transform.rewriting.init_nest:infer_regions",
        without_gathers,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a false promise: copies of what a loop changes are spatial",
        "mslang.transform.rewriting.staging:with_settled_axes",
        axes_left_spatial,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: a strided reduction runs over all values of its axis",
        "mslang.transform.primitives.compute_at:runs_all",
        says_yes,
        caught_by="tests/unit/transform/test_instances.py",
    ),
    Planted(
        "a legality check that says yes: a reduction that moves to fused loops begins with its init",
        "mslang.transform.rewriting.block_moving:why_not_init_first",
        finds_nothing,
        caught_by="tests/unit/transform/test_digit_order.py",
    ),
    Planted(
        "a legality check that says yes: an instruction may write what it reads",
        "mslang.transform.primitives.tensorize:_require_apart",
        finds_nothing,
        pair=268,
        only=("tensorize",),
        generator="instances",
    ),
    Planted(
        "a legality check that says yes: a block may change what tells the one around it its axes",
        "mslang.transform.primitives.blockize:require_told_once",
        finds_nothing,
        pair=242,
        only=("blockize",),
        generator="instances",
    ),
    Planted(
        "a name taken for another: what is said of a loop is said of the axis of its name",
        "mslang.transform.rewriting.rewrite:admitting",
        as_it_is,
        caught_by="tests/unit/transform/test_reading_faults.py",
    ),
    Planted(
        "a wrong order: a guard behind the load that it protects",
        "mslang.ir.visit:guarded",
        in_the_order_given,
        caught_by="tests/unit/transform/test_loaded_predicates.py",
    ),
    Planted(
        "a size that is believed to fit: a tile of a size known only at the call",
        "mslang.ir.arith.table:is_dynamic",
        says_no,
        caught_by="tests/unit/transform/test_dynamic_tiles.py",
    ),
    Planted(
        "a legality check that says yes: what was an atomic update may be anything",
        "mslang.transform.analysis.loop_kinds:require_atomic_updates",
        finds_nothing,
        caught_by="tests/unit/transform/test_atomic.py",
    ),
    Planted(
        "arithmetic taken for exact: sums of data that wrap round",
        "mslang.ir.arith.convert:may_overflow",
        says_no,
        caught_by="tests/unit/arith/test_data.py",
    ),
)
