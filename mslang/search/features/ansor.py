"""The features of a store as Ansor and MetaSchedule define them: 164 values in five groups.

Group 1 is computation (57), 2 buffers (90), 3 arithmetic intensity (10), 4 allocation (4), 5 the loops around (3). All
counts are `log2(1 + x)`. Buffers are told apart by what is done with them, never by name.

Source: Ansor, OSDI 2020, appendix B; TVM's per-store features
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mslang.ir.dtype import size_of
from mslang.lower.summary import Access, Allocated, Arithmetic, Loop, Statement
from mslang.search.features.buffers import Named, buffer_features
from mslang.search.features.intensity import intensity_features
from mslang.search.formulas import Formula, Formulas

OPERATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("float_fma", ("float_fma",)),
    ("float_add", ("float_add",)),
    ("float_mul", ("float_mul",)),
    ("float_div", ("float_div",)),
    ("float_compare", ("compare",)),
    ("float_math", ("float_math",)),
    ("float_other", ("cast",)),
    ("integer_fma", ()),
    ("integer_add", ("integer_add",)),
    ("integer_mul", ("integer_mul",)),
    ("integer_div", ("integer_div",)),
    ("integer_compare", ()),
    ("integer_math", ()),
    ("integer_other", ("bitwise",)),
    ("boolean", ()),
    ("select", ("select",)),
)
"""Ansor's types of operations and what of a summary's counts each holds: comparisons count as those of floats, products
of integers that are added as a product and a sum."""

POSITIONS = (
    "none",
    "inner_spatial",
    "middle_spatial",
    "outer_spatial",
    "inner_reduction",
    "middle_reduction",
    "outer_reduction",
    "mixed",
)
THREADS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread")


class Around(NamedTuple):
    """What the features of a statement need besides it.

    `ordered` are its accesses, the most important first; `others` the other statements of its nest; `stored` is the
    buffer that it stores to, if the kernel allocates it; `line` is the size of a cache line in bytes.
    """

    ordered: Sequence[Access]
    others: Sequence[Statement]
    stored: Allocated | None
    line: int
    gpu: bool


def ansor_features(f: Formulas, s: Statement, around: Around) -> Iterator[Named]:
    """The 164 features of a statement by name."""
    yield from _computation(f, s, around)
    yield from buffer_features(f, s, around.ordered, around.others, around.line)
    yield from intensity_features(f, s)
    yield from _allocation(f, s, around)
    yield from _loops(f, s)


# ------------------------------------------------------------------ group 1
def _computation(f: Formulas, s: Statement, around: Around) -> Iterator[Named]:
    trips = f.expr(s.iterations[0])
    for name, counted in OPERATIONS:
        yield f"ops.{name}", (trips * float(_count(s.arithmetic, counted))).slog()
    for kind in ("vectorized", "unrolled", "parallel"):
        yield from _kind(f, s, kind)
    yield "gpu", f.number(float(around.gpu))
    for axis in THREADS:
        found = [x for x in s.loops if x.kind == axis or (axis == "vthread" and x.kind.startswith("vthread"))]
        yield f"threads.{axis}", f.product([f.expr(x.extent) for x in found]).slog()


def _count(a: Arithmetic, names: Sequence[str]) -> int:
    return sum(int(getattr(a, name)) for name in names)


def _kind(f: Formulas, s: Statement, kind: str) -> Iterator[Named]:
    """The loops of one kind: how many, their product, the innermost one's trip count, and where they stand."""
    found = [k for k, x in enumerate(s.loops) if x.kind == kind]
    extents = [f.expr(s.loops[k].extent) for k in found]
    yield f"{kind}.loops", f.number(float(len(found))).slog()
    yield f"{kind}.product", (f.product(extents) if found else f.number(0.0)).slog()
    yield f"{kind}.extent", (extents[-1] if found else f.number(0.0)).slog()
    at = _position(s, found)
    yield from ((f"{kind}.{p}", f.number(float(p == at))) for p in POSITIONS)


def _position(s: Statement, loops: Sequence[int]) -> str:
    found = {_place(s, k) for k in loops}
    return "none" if not found else found.pop() if len(found) == 1 else "mixed"


def _place(s: Statement, k: int) -> str:
    """Where a loop stands among those of its type; the stored element varies with spatial loops."""
    spatial = is_spatial(s, k)
    same = [j for j in range(len(s.loops)) if is_spatial(s, j) == spatial]
    where = "inner" if k == same[-1] else "outer" if k == same[0] else "middle"
    return f"{where}_{'spatial' if spatial else 'reduction'}"


def is_spatial(s: Statement, k: int) -> bool:
    """Whether the stored element varies with a loop."""
    stores = [a for a in s.accesses if a.stores]
    return not stores or any(not a.invariant[k] for a in stores)


# ------------------------------------------------------------------ groups 4 and 5
def _allocation(f: Formulas, s: Statement, around: Around) -> Iterator[Named]:
    outer, size = _allocated(f, s, around.stored)
    numbers = size / float(size_of(s.dtype))
    yield "allocated.bytes", size.slog()
    yield "allocated.product", (numbers * outer).slog()
    yield "allocated.outer", outer.slog()
    yield "allocated.inner", (f.expr(s.iterations[0]) / outer).slog()


def _allocated(f: Formulas, s: Statement, stored: Allocated | None) -> tuple[Formula, Formula]:
    """How often the buffer is allocated, and its bytes; those that are stored where it is not the kernel's own."""
    if stored is None:
        written = [f.expr(a.elements[0]) for a in s.accesses if a.stores]
        return f.number(1.0), f.total(written) * float(size_of(s.dtype))
    around = [x for x in s.loops if x.var in stored.loops]
    return f.product([f.expr(x.extent) for x in around]), f.expr(stored.bytes)


def _loops(f: Formulas, s: Statement) -> Iterator[Named]:
    yield "loops.product", f.expr(s.iterations[0]).slog()
    yield "loops.count", f.number(float(len(s.loops))).slog()
    yield "loops.unrolled", f.product([f.expr(x.copies) for x in _unrolled(s)]).slog()


def _unrolled(s: Statement) -> list[Loop]:
    return [x for x in s.loops if x.kind == "unrolled"]
