"""Faults in primitives: in what they make, and in what they ask before."""

from __future__ import annotations

from msgspec.structs import replace

from tests.mutation.planted import Function, Planted, finds_nothing, says_yes


# What the faults need of the program is imported inside: the module to plant one in must not be loaded before.
def relaxed(condition):
    """A condition in which `<` is `<=`: one value too many."""
    from mslang.ir.expr import Binary
    from mslang.ir.visit import map_expr

    return map_expr(condition, lambda x: Binary("<=", x.left, x.right) if _is(x, "<") else None)


def tightened(condition):
    """A condition in which `<=` is `<`: one value too few."""
    from mslang.ir.expr import Binary
    from mslang.ir.visit import map_expr

    return map_expr(condition, lambda x: Binary("<", x.left, x.right) if _is(x, "<=") else None)


def _is(x, op):
    from mslang.ir.expr import Binary

    return isinstance(x, Binary) and x.op == op


def one_less(e):
    from mslang.ir import arith
    from mslang.ir.expr import ONE

    return arith.sub(e, ONE)


# ------------------------------------------------------------------ loops
def guard_lets_one_more_pass(guard: Function) -> Function:
    return lambda body, condition: guard(body, relaxed(condition))


def no_guard(_: Function) -> Function:
    return lambda body, condition: tuple(body)


def digits_swapped(substitute_loops: Function) -> Function:
    def wrong(body, values, ranges):
        rotated = [*list(values.values())[1:], *list(values.values())[:1]]
        return substitute_loops(body, dict(zip(values, rotated, strict=True)), ranges)

    return wrong


def tail_starts_too_early(parted: Function) -> Function:
    def wrong(program, path, parts, primitive):
        *before, last = parts
        return parted(program, path, (*before, replace(last, value=one_less(last.value))), primitive)

    return wrong


def last_tile_not_moved(substitute_loops: Function) -> Function:
    from mslang.ir.visit import map_expr

    def wrong(body, values, ranges):
        unclamped = {n: map_expr(e, lambda x: x.left if _is(x, "min") else None) for n, e in values.items()}
        return substitute_loops(body, unclamped, ranges)

    return wrong


def cut_reduction_begins_nowhere(above_zero: Function) -> Function:
    return lambda binding, ranges: above_zero(binding, ranges) or bool(ranges)


def other_way_round(ask: Function) -> Function:
    return lambda program, first, second: ask(program, second, first)


def same_condition(_: Function) -> Function:
    return lambda condition: condition


def only_lanes_are_checked(require: Function) -> Function:
    return lambda program, path, primitive: None if primitive == "parallel" else require(program, path, primitive)


# ------------------------------------------------------------------ blocks
def at_the_mirrored_element(at_element: Function) -> Function:
    return lambda inverted, indices: at_element(inverted, tuple(reversed(indices)))


def two_swapped(put: Function) -> Function:
    return lambda program, path, *new: put(program, path, *(reversed(new) if len(new) == 2 else new))


def first_lost(put: Function) -> Function:
    return lambda program, path, *new: put(program, path, *(new[1:] if len(new) == 2 else new))


def guards_let_one_more_pass(kept_inside: Function) -> Function:
    def wrong(*args):
        found = kept_inside(*args)
        return replace(found, guards=tuple(map(relaxed, found.guards)))

    return wrong


def always_into(copy_between: Function) -> Function:
    return lambda *args, **named: copy_between(*args, **{**named, "into": True})


def mirrored_shape(buffer: Function) -> Function:
    return lambda name, dtype, shape, scope: buffer(name, dtype, tuple(reversed(shape)), scope)


def one_new_element_too_few(only_new: Function) -> Function:
    def wrong(*args):
        block = only_new(*args)
        return replace(block, predicate=tightened(block.predicate))

    return wrong


def only_the_overlap(rolled: Function) -> Function:
    def wrong(program, path, old, rolls):
        return rolled(program, path, old, (replace(rolls[0], extent=rolls[0].overlap), *rolls[1:]))

    return wrong


def no_conversion(_: Function) -> Function:
    return lambda dtype, value: value


# ------------------------------------------------------------------ reductions
def later_counts_as_first(combined: Function) -> Function:
    return lambda reducer, before, values: combined(reducer, values, before)


def value_unguarded(_: Function) -> Function:
    return lambda value, guards, job, k: value


def partial_without_init(partial_nest: Function) -> Function:
    from mslang.ir.program import Block
    from mslang.ir.visit import map_bodies

    def without(s):
        return replace(s, init=None) if isinstance(s, Block) else map_bodies(s, lambda body: tuple(map(without, body)))

    def wrong(*args):
        made = partial_nest(*args)
        return replace(made, nest=without(made.nest))

    return wrong


def step_lost(fused: Function) -> Function:
    return lambda job, step, other, start, value: (start, fused(job, step, other, start, value)[1])


def bound_one_less(bound: Function) -> Function:
    def wrong(*args):
        name, below, value = bound(*args)
        return (name, below, value) if below else (name, below, one_less(value))

    return wrong


# ------------------------------------------------------------------ blocks of blocks, instructions, layouts
def one_element_too_many(conjunction: Function) -> Function:
    return lambda conditions: relaxed(conjunction(conditions))


def nothing_outside(predicates: Function) -> Function:
    return lambda *args: ((), predicates(*args)[1])


def of_one_type(same_sort: Function) -> Function:
    return lambda self, mine, its: same_sort(self, mine, replace(its, dtype=mine.dtype))


def of_any_strides(same_sort: Function) -> Function:
    return lambda self, mine, its: same_sort(self, mine, replace(its, strides=mine.strides))


def operand_at_zero(operand: Function) -> Function:
    from mslang.ir.expr import ZERO

    return lambda buffer, starts: operand(buffer, tuple(ZERO for _ in starts))


def padding_everywhere(filled_after: Function) -> Function:
    def wrong(program, buffer, image, pad, primitive):
        from mslang.ir.expr import FALSE

        return filled_after(program, buffer, replace(image, valid=FALSE), pad, primitive)

    return wrong


def valid_one_more(image: Function) -> Function:
    def wrong(*args):
        found = image(*args)
        return replace(found, valid=relaxed(found.valid)) if hasattr(found, "valid") else found

    return wrong


def always_onto(_: Function) -> Function:
    return property(lambda self: True)  # type: ignore[return-value]


def inverse_mirrored(image: Function) -> Function:
    def wrong(*args):
        found = image(*args)
        return replace(found, inverse=tuple(reversed(found.inverse))) if hasattr(found, "inverse") else found

    return wrong


# ------------------------------------------------------------------ running maxima
def never_rescaled(factor: Function) -> Function:
    """The factor of a maximum that did not change."""

    def wrong(self, difference):
        from mslang.ir.expr import Const, dtype_of

        return factor(self, Const(0.0, dtype_of(difference)))

    return wrong


def never_started(_: Function) -> Function:
    return lambda self, part: None


def begun_at_the_end(put: Function) -> Function:
    return lambda program, path, *stmts: put(program, path, stmts[-1], *stmts[:-1])


IN_PRIMITIVES = (
    Planted(
        "a wrong bound: the guard of a split lets one iteration too many pass",
        "mslang.transform.primitives.loops:guard",
        guard_lets_one_more_pass,
        pair=14,
    ),
    Planted(
        "a dropped predicate: a split that does not divide has no guard",
        "mslang.transform.primitives.loops:guard",
        no_guard,
        pair=14,
    ),
    Planted(
        "a wrong stride: digits of a fused loop",
        "mslang.transform.primitives.loops:substitute_loops",
        digits_swapped,
        pair=20,
    ),
    Planted(
        "a swapped index map: inlining reads the element of the transpose",
        "mslang.transform.analysis.formula:at_element",
        at_the_mirrored_element,
        pair=11,
    ),
    Planted(
        "a wrong position: a decomposed initialisation stands after the updates",
        "mslang.transform.primitives.decompose_reduction:put",
        two_swapped,
        pair=1,
    ),
    Planted(
        "a lost initialisation: of a decomposed reduction",
        "mslang.transform.primitives.decompose_reduction:put",
        first_lost,
        pair=1,
    ),
    Planted(
        "a wrong clamp: a block moved to a loop runs beyond its axis",
        "mslang.transform.analysis.spans:kept_inside",
        guards_let_one_more_pass,
        pair=76,
    ),
    Planted(
        "a wrong direction: a cached block writes the old buffer",
        "mslang.transform.rewriting.staging:copy_between",
        always_into,
        pair=2,
    ),
    Planted(
        "a legality check that says yes: any loop may run in parallel",
        "mslang.transform.primitives.loop_kinds:_require_independent",
        only_lanes_are_checked,
        pair=16,
    ),
    Planted(
        "a wrong start: the rest of a peeled loop",
        "mslang.transform.rewriting.split_tails:parted",
        tail_starts_too_early,
        pair=1,
        only=("split",),
    ),
    Planted(
        "a dropped clamp: the last tile of a shifted loop is not moved inwards",
        "mslang.transform.rewriting.split_tails:substitute_loops",
        last_tile_not_moved,
        pair=12,
        only=("split",),
    ),
    Planted(
        "a legality check that says yes: any iteration may run twice",
        "mslang.transform.rewriting.split_tails:why_not_repeatable",
        finds_nothing,
        pair=91,
        only=("split",),
    ),
    Planted(
        "a wrong start: parts of a partitioned loop",
        "mslang.transform.primitives.loop_partition:parted",
        tail_starts_too_early,
        pair=1,
        only=("loop_partition",),
    ),
    Planted(
        "a lost initialisation: of a reduction that is cut",
        "mslang.transform.rewriting.cloning:_above_zero",
        cut_reduction_begins_nowhere,
        pair=26,
        only=("loop_partition", "split"),
    ),
    Planted(
        "a legality check that says yes: any nests may be merged",
        "mslang.transform.primitives.fission:why_order_matters",
        finds_nothing,
        pair=3,
        only=("merge",),
    ),
    Planted(
        "a wrong direction: dependences across the place where a loop is taken apart",
        "mslang.transform.primitives.fission:why_order_matters",
        other_way_round,
        caught_by="tests/unit/transform/test_fission.py",
    ),
    Planted(
        "a legality check that says yes: iterations never meet",
        "mslang.transform.analysis.loop_distribution:_disjoint",
        says_yes,
        pair=3,
        only=("fission", "merge"),
    ),
    Planted(
        "a swapped operator: what holds where a condition does not",
        "mslang.transform.primitives.specialize:_negated",
        same_condition,
        caught_by="tests/unit/transform/test_specialize.py",
    ),
    Planted(
        "a wrong position: a buffer is filled in place after its block",
        "mslang.transform.primitives.caching:put",
        two_swapped,
        pair=0,
        only=("cache_inplace",),
    ),
    Planted(
        "swapped dimensions: of a buffer of indices",
        "mslang.transform.primitives.cache_index:Buffer",
        mirrored_shape,
        pair=11,
        only=("cache_index",),
    ),
    Planted(
        "a wrong position: a copy in a new layout stands before the writer",
        "mslang.transform.rewriting.axis_stage:put",
        two_swapped,
        pair=2,
        only=("reindex_cache_read",),
    ),
    Planted(
        "a wrong bound: one new element too few is computed into a rolling buffer",
        "mslang.transform.primitives.rolling_buffer:_only_new",
        one_new_element_too_few,
        pair=26,
        only=("rolling_buffer",),
    ),
    Planted(
        "a wrong extent: of a rolling buffer",
        "mslang.transform.primitives.rolling_buffer:_rolled",
        only_the_overlap,
        pair=26,
        only=("rolling_buffer",),
    ),
    Planted(
        "a legality check that says yes: any region may be declared",
        "mslang.transform.primitives.buffer_access:_require_holding",
        finds_nothing,
        caught_by="tests/unit/transform/test_access.py",
    ),
    Planted(
        "a missing conversion: what is stored to a buffer of another type",
        "mslang.transform.primitives.unsafe_set_dtype:Cast",
        no_conversion,
        pair=2,
        only=("unsafe_set_dtype",),
    ),
    Planted(
        "swapped operands: of two partial positions the one of the later iteration counts as the first",
        "mslang.transform.primitives.rfactor:combined",
        later_counts_as_first,
        pair=384,
        only=("rfactor",),
    ),
    Planted(
        "a dropped predicate: of partial results",
        "mslang.transform.primitives.rfactor:_guarded",
        value_unguarded,
        pair=162,
        only=("rfactor", "split"),
    ),
    Planted(
        "a lost initialisation: of partial results",
        "mslang.transform.primitives.rfactor:_partial_nest",
        partial_without_init,
        pair=37,
        only=("rfactor",),
    ),
    Planted(
        "a lost step: what follows a reduction is not done within it",
        "mslang.transform.primitives.fuse_reduction_epilogue:_fused",
        step_lost,
        pair=18,
        only=("fuse_reduction_epilogue",),
    ),
    Planted(
        "a wrong bound: a padded copy reads one element too many",
        "mslang.transform.rewriting.einsum_copies:conjunction",
        one_element_too_many,
        only=("pad_einsum",),
    ),
    Planted(
        "a wrong bound: of what lies inside of a padding",
        "mslang.transform.primitives.decompose_padding:_bound",
        bound_one_less,
        pair=2,
        only=("decompose_padding",),
    ),
    Planted(
        "a legality check that says yes: any tile begins at a multiple",
        "mslang.transform.rewriting.block_division:_begins_tiles",
        says_yes,
        pair=18,
        only=("blockize", "split"),
    ),
    Planted(
        "a dropped predicate: of a block of blocks",
        "mslang.transform.rewriting.block_division:predicates",
        nothing_outside,
        pair=87,
        only=("blockize", "split"),
    ),
    Planted(
        "unification that says yes: element types",
        "mslang.transform.analysis.unify:_Unifier.same_sort",
        of_one_type,
        caught_by="tests/unit/transform/test_tensorize.py",
    ),
    Planted(
        "unification that says yes: strides",
        "mslang.transform.analysis.unify:_Unifier.same_sort",
        of_any_strides,
        caught_by="tests/unit/transform/test_tensorize.py",
    ),
    Planted(
        "a wrong offset: of the operands of an instruction",
        "mslang.transform.analysis.unify:Operand",
        operand_at_zero,
        only=("tensorize",),
        pair=3,
    ),
    Planted(
        "a dropped predicate: of the padding in a new layout",
        "mslang.transform.rewriting.layout_filling:filled_after",
        padding_everywhere,
        pair=2,
        only=("transform_layout",),
    ),
    Planted(
        "a wrong bound: of what comes from an old element in a new layout",
        "mslang.transform.analysis.index_maps:_image",
        valid_one_more,
        pair=13,
        only=("transform_layout",),
    ),
    Planted(
        "a legality check that says yes: any map keeps elements apart",
        "mslang.transform.analysis.index_maps:_is_one_to_one",
        says_yes,
        caught_by="tests/unit/transform/test_index_maps.py",
    ),
    Planted(
        "a legality check that says yes: any map is onto",
        "mslang.transform.analysis.index_maps:Image.is_onto",
        always_onto,
        pair=0,
        only=("transform_block_layout",),
    ),
    Planted(
        "swapped axes: of a block whose iterations are numbered anew",
        "mslang.transform.primitives.transform_block_layout:image",
        inverse_mirrored,
        only=("transform_block_layout",),
        pair=1,
    ),
    Planted(
        "a lost factor: sums are not rescaled where the running maximum changes",
        "mslang.transform.analysis.rescaling:Exponential.of",
        never_rescaled,
        pair=6,
        only=("rolling_update",),
    ),
    Planted(
        "a lost initialisation: of a running maximum and its sums",
        "mslang.transform.primitives.rolling_update:_Made.start",
        never_started,
        pair=6,
        only=("rolling_update",),
    ),
    Planted(
        "a wrong position: a running maximum and its sums begin after their loop",
        "mslang.transform.primitives.rolling_update:put",
        begun_at_the_end,
        pair=6,
        only=("rolling_update",),
    ),
)
