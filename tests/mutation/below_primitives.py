"""Faults beside and below the primitives: in arithmetic, replay, lowering and code generation."""

from __future__ import annotations

from tests.mutation.planted import Planted

BELOW_PRIMITIVES = (
    Planted(
        "a lost initialisation: lowering leaves it out",
        "mslang/lower/flatten.py",
        "before = init if first == TRUE else (If(first, init),)",
        "before: Body = ()",
        pair=4,
    ),
    Planted(
        "a dropped predicate: lowering takes a guard for granted two iterations too early",
        "mslang/ir/arith/linear.py",
        "return True if hi < 0 else",
        "return True if hi <= 2 else",
        only=("split", "fuse"),
        pair=2,
    ),
    Planted(
        "a wrong shift: accesses of a compacted buffer",
        "mslang/lower/place.py",
        'else tidy(Binary("-", i, at))',
        'else tidy(Binary("+", i, at))',
        pair=1,
    ),
    Planted(
        "a wrong stride: of row-major buffers",
        "mslang/lower/layout.py",
        "for size in reversed(shape):",
        "for size in shape:",
    ),
    Planted(
        "a missed tail: a vector loop runs its whole vectors only",
        "mslang/backend/llvm/vector.py",
        "while done < trips:",
        "while done < trips - 1:",
        pair=5,
    ),
    Planted(
        "a wrong vector mask: one lane too many",
        "mslang/backend/llvm/statement.py",
        "int(k < piece.active)",
        "int(k <= piece.active)",
        needs="avx512f",
        pair=15,
        only=("split", "vectorize"),
    ),
    Planted(
        "a version too few: of the buffers of a pipelined loop",
        "mslang/lower/pipeline.py",
        'Binary("%", _minus(Var(s.var), first), Const(stages))',
        'Binary("%", _minus(Var(s.var), first), Const(stages - 1))',
        only=("pipeline", "compute_at"),
        pair=4,
    ),
    Planted(
        "a wrong position: the copies of a pipelined loop run one iteration too far ahead",
        "mslang/lower/pipeline.py",
        'later = {s.var: Binary("+", Var(s.var), ahead)}',
        'later = {s.var: Binary("+", Var(s.var), Const(stages))}',
        only=("pipeline", "compute_at"),
        pair=4,
    ),
    Planted(
        "a wrong start: the last iterations of a pipelined loop",
        "mslang/lower/pipeline.py",
        'start=fold(Binary("+", first, steady))',
        'start=fold(Binary("+", first, ahead))',
        only=("pipeline", "compute_at"),
    ),
    Planted(
        "a wrong identity: of maxima",
        "mslang/ir/reducers.py",
        "return lowest(dtype)",
        "return highest(dtype)",
        pair=9,
        only=("rfactor",),
    ),
    Planted(
        "a wrong stride: of rows kept apart",
        "mslang/lower/align.py",
        "step = arith.mul(step, buffer.shape[axis])",
        "step = arith.mul(step, buffer.shape[axis - 1])",
        pair=5,
        only=("storage_align",),
    ),
    Planted(
        "swapped operands: how far rows are kept apart",
        "mslang/lower/align.py",
        "arith.sub(Const(wanted.offset), stride)",
        "arith.sub(stride, Const(wanted.offset))",
        caught_by="tests/unit/transform/test_storage_align.py",
    ),
    Planted(
        "a wrong digit: the inverse of an index map",
        "mslang/ir/arith/inverse.py",
        "for t in reversed(terms):",
        "for t in terms:",
        pair=5,
        only=("transform_layout", "transform_block_layout"),
    ),
    Planted(
        "a forgotten part of a key: numbers of another type are taken for the same in what is kept",
        "mslang/schedule/memo.py",
        "return type(value), repr(value)",
        "return value",
        caught_by="tests/unit/schedule/test_memo.py",
    ),
)
