"""Faults to plant, one at a time: each is one text in one file, replaced by another."""

from __future__ import annotations

import msgspec


class Planted(msgspec.Struct, frozen=True):
    """A fault: in `path` the text `right`, which stands there once, becomes `wrong`.

    `pair` is the number of a pair of the campaign from which on it is looked for; `needs` a feature of the processor
    without which the faulty code is not reached.
    """

    name: str
    path: str
    right: str
    wrong: str
    pair: int = 0
    needs: str | None = None


FAULTS = (
    Planted(
        "a wrong bound: the guard of a split lets one iteration too many pass",
        "mslang/transform/loops.py",
        'inside = Binary("<", index, old.extent)',
        'inside = Binary("<=", index, old.extent)',
    ),
    Planted(
        "a dropped predicate: a split that does not divide has no guard",
        "mslang/transform/loops.py",
        "body = guard(body, inside)",
        "body = tuple(body)",
    ),
    Planted(
        "a wrong stride: digits of a fused loop",
        "mslang/transform/loops.py",
        "inner = arith.size_product(extents[k + 1 :])",
        "inner = arith.size_product(extents[:k])",
    ),
    Planted(
        "a swapped index map: inlining reads the element of the transpose",
        "mslang/transform/formula.py",
        "for d, e in enumerate(indices)}",
        "for d, e in enumerate(reversed(indices))}",
    ),
    Planted(
        "a wrong position: a decomposed initialisation stands after the updates",
        "mslang/transform/reduction.py",
        "put(program, moved, init.nest, moved[-1])",
        "put(program, moved, moved[-1], init.nest)",
    ),
    Planted(
        "a lost initialisation: of a decomposed reduction",
        "mslang/transform/reduction.py",
        "put(program, moved, init.nest, moved[-1])",
        "put(program, moved, moved[-1])",
    ),
    Planted(
        "a wrong clamp: a block moved to a loop runs beyond its axis",
        "mslang/transform/spans.py",
        'over = (Binary("<", value, end),)',
        'over = (Binary("<=", value, end),)',
        165,
    ),
    Planted(
        "a wrong direction: a cached block writes the old buffer",
        "mslang/transform/staging.py",
        "source, target = (old, new) if into else (new, old)",
        "source, target = (old, new)",
    ),
    Planted(
        "a legality check that says yes: any loop may run in parallel",
        "mslang/transform/kinds.py",
        '    _require_independent(program, path, "parallel")\n',
        "",
    ),
    Planted(
        "a lost initialisation: lowering leaves it out",
        "mslang/lower/blocks.py",
        "body = (*(init if first == TRUE else (If(first, init),)), *body)",
        "body = tuple(body)",
    ),
    Planted(
        "a dropped predicate: lowering takes a guard for granted one iteration too early",
        "mslang/lower/linear.py",
        "return True if hi < 0 else",
        "return True if hi <= 0 else",
        330,
    ),
    Planted(
        "a wrong shift: accesses of a compacted buffer",
        "mslang/lower/place.py",
        'else tidy(Binary("-", i, at))',
        'else tidy(Binary("+", i, at))',
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
        145,
    ),
    Planted(
        "a wrong vector mask: one lane too many",
        "mslang/backend/llvm/statement.py",
        "int(k < piece.active)",
        "int(k <= piece.active)",
        80,
        needs="avx512f",
    ),
)
