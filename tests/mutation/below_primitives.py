"""Faults beside and below the primitives: in arithmetic, replay, lowering and code generation."""

from __future__ import annotations

from msgspec.structs import replace

from tests.mutation.planted import Function, Planted


def without_init(block: Function) -> Function:
    return lambda s, names, notes: block(replace(s, init=None), names, notes)


def two_iterations_too_early(decide: Function) -> Function:
    def wrong(condition, ranges):
        from mslang.ir.arith.linear import interval

        bounds = interval(condition.form, ranges)
        return True if bounds and condition.relation == "<" and bounds[1] <= 2 else decide(condition, ranges)

    return wrong


def shifted_back(shifted: Function) -> Function:
    def wrong(buffer, box, body):
        from mslang.ir.arith import sub
        from mslang.ir.expr import ZERO

        return shifted(buffer, tuple(replace(r, start=sub(ZERO, r.start)) for r in box), body)

    return wrong


def column_major(row_major: Function) -> Function:
    return lambda shape: tuple(reversed(row_major(tuple(reversed(shape)))))


def last_vector_missing(chunks: Function) -> Function:
    def wrong(*args, **named):
        pieces = chunks(*args, **named)
        return pieces[:-1] if pieces[-1].lanes != pieces[0].lanes or pieces[-1].active != pieces[-1].lanes else pieces

    return wrong


def one_lane_too_many(tail_mask: Function) -> Function:
    return lambda active, lanes: tail_mask(active + 1, lanes)


def unguarded(mask_of: Function) -> Function:
    return lambda lanes, condition: lanes


def constant_dropped(flattened: Function) -> Function:
    def wrong(place, indices):
        form = flattened(place, indices)
        return form and form._replace(constant=form.constant - form.constant % 2)

    return wrong


def one_version_less(in_version: Function) -> Function:
    def wrong(body, buffers, slot):
        from mslang.ir.expr import Binary, Const

        less = Binary("%", slot.left, Const(slot.right.value - 1)) if isinstance(slot, Binary) else slot
        return in_version(body, buffers, less)

    return wrong


def one_further(substitute: Function) -> Function:
    def wrong(e, values):
        from mslang.ir.expr import ONE, Binary

        return substitute(e, {n: Binary("+", x, ONE) for n, x in values.items()})

    return wrong


def ends_one_too_early(staged: Function) -> Function:
    from mslang.ir.expr import ONE, Binary
    from mslang.kernel.nodes import Allocate

    def earlier(body):
        match body:
            case (Allocate(body=inner) as s,):
                return (replace(s, body=earlier(inner)),)
            case (first, steady, last):
                return first, steady, replace(last, start=Binary("-", last.start, ONE))
        return body

    return lambda s, stages: earlier(staged(s, stages))


def highest_for_lowest(_: Function) -> Function:
    from mslang.ir.reducers import highest

    return highest


def strides_of_rotated(with_strides: Function) -> Function:
    def wrong(buffer, wanted):
        made = with_strides(replace(buffer, shape=(*buffer.shape[-1:], *buffer.shape[:-1])), wanted)
        return replace(made, shape=buffer.shape)

    return wrong


def nan_at_the_other_end(converted: Function) -> Function:
    other = {"rank_max": "rank_min", "rank_min": "rank_max"}
    return lambda fn, name, v, dtype: converted(fn, other.get(name, name), v, dtype)


def offset_subtracted(_: Function) -> Function:
    def wrong(stride, wanted):
        from mslang.ir import arith
        from mslang.ir.expr import Const

        return arith.add(stride, arith.mod(arith.sub(stride, Const(wanted.offset)), Const(wanted.factor)))

    return wrong


def least_digit_first(take: Function) -> Function:
    return lambda self, s, value: take(self, replace(s, terms=tuple(reversed(s.terms))), value)


def by_value(exact: Function) -> Function:
    return lambda value: value if isinstance(value, bool | int | float) else exact(value)


BELOW_PRIMITIVES = (
    Planted(
        "a lost initialisation: lowering leaves it out",
        "mslang.lower.flatten:_block",
        without_init,
        pair=4,
    ),
    Planted(
        "a dropped predicate: lowering takes a guard for granted two iterations too early",
        "mslang.ir.arith.linear:decide",
        two_iterations_too_early,
        pair=8,
        only=("split", "fuse"),
    ),
    Planted(
        "a wrong shift: accesses of a compacted buffer",
        "mslang.lower.place:_shifted",
        shifted_back,
        pair=14,
    ),
    Planted(
        "a wrong stride: of row-major buffers",
        "mslang.lower.layout:row_major",
        column_major,
        pair=1,
    ),
    Planted(
        "a missed tail: a vector loop runs its whole vectors only",
        "mslang.lower.vectorize:chunks",
        last_vector_missing,
        pair=20,
    ),
    Planted(
        "a wrong vector mask: one lane too many",
        "mslang.lower.vectorize:tail_mask",
        one_lane_too_many,
        needs="avx512f",
        pair=11,
        only=("split", "vectorize"),
    ),
    Planted(
        "a dropped mask: a branch in lanes",
        "mslang.lower.vectorize:_Lanes.where",
        unguarded,
        pair=31,
        only=("vectorize",),
        generator="instances",
    ),
    Planted(
        "a wrong address: the last bit of a constant offset is lost",
        "mslang.backend.llvm.expression:_flattened",
        constant_dropped,
        pair=1,
    ),
    Planted(
        "a version too few: of the buffers of a pipelined loop",
        "mslang.lower.pipeline:in_version",
        one_version_less,
        pair=4,
        only=("pipeline", "compute_at"),
    ),
    Planted(
        "a wrong position: the copies of a pipelined loop run one iteration too far ahead",
        "mslang.lower.pipeline:substitute",
        one_further,
        pair=4,
        only=("pipeline", "compute_at"),
    ),
    Planted(
        "a wrong start: the last iterations of a pipelined loop",
        "mslang.lower.pipeline:_staged",
        ends_one_too_early,
        only=("pipeline", "compute_at"),
        pair=3,
    ),
    Planted(
        "a wrong identity: of maxima",
        "mslang.ir.reducers:lowest",
        highest_for_lowest,
        pair=143,
        only=("rfactor",),
    ),
    Planted(
        "a wrong stride: of rows kept apart",
        "mslang.lower.align:_with_strides",
        strides_of_rotated,
        pair=1,
        only=("storage_align",),
    ),
    Planted(
        "swapped operands: how far rows are kept apart",
        "mslang.lower.align:_rounded",
        offset_subtracted,
        caught_by="tests/unit/transform/test_storage_align.py",
    ),
    Planted(
        "a wrong digit: the inverse of an index map",
        "mslang.ir.arith.inverse:_Solution.take",
        least_digit_first,
        pair=6,
        only=("transform_layout", "transform_block_layout"),
    ),
    Planted(
        "a forgotten part of a key: numbers of another type are taken for the same in what is kept",
        "mslang.schedule.memo:exact",
        by_value,
        caught_by="tests/unit/schedule/test_memo.py",
    ),
    Planted(
        "a wrong order: NaN has the least of the ranks whose maximum is kept",
        "mslang.backend.llvm.ranks:converted",
        nan_at_the_other_end,
        pair=1,
        only=("rfactor", "vectorize", "cache_write", "set_scope"),
        generator="instances",
    ),
)
