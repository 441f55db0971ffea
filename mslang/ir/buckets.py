"""Buckets of dynamic sizes: parts of their ranges, each with a schedule of its own that serves every size in it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
from math import prod

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir.arith.evaluate import substitute_symbols
from mslang.ir.expr import DynamicRange, Expr, Symbol, children, with_children
from mslang.ir.program import Program
from mslang.ir.visit import map_program_exprs

MOST = 16
"""Buckets of a program that are made where it states none."""


class Bucket(msgspec.Struct, frozen=True):
    """A range of each dynamic size of a program, by name."""

    ranges: tuple[tuple[str, DynamicRange], ...]

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes lie in the bucket."""
        return all(r.lo <= sizes[name] <= r.hi for name, r in self.ranges)

    @property
    def text(self) -> str:
        """The bucket for people.

        >>> Bucket((("M", DynamicRange(17, 32)),)).text
        'M = 17..32'
        """
        return ", ".join(f"{name} = {r.lo}" + (f"..{r.hi}" if r.hi > r.lo else "") for name, r in self.ranges)

    @property
    def typical(self) -> tuple[dict[str, int], ...]:
        """Sizes that stand for the bucket: the smallest, one in the middle, the largest."""
        found = {tuple(_within(r, part) for _, r in self.ranges): None for part in range(3)}
        return tuple({name: n for (name, _), n in zip(self.ranges, sizes, strict=True)} for sizes in found)


def _within(r: DynamicRange, part: int) -> int:
    """The smallest size of a range, one in the middle, or the largest: twice the smallest where nothing bounds it."""
    least = -(-r.lo // r.multiple)
    greatest = (r.hi if r.hi < UNBOUNDED else max(2 * r.lo, r.multiple)) // r.multiple
    # In the middle no power of two: it is mostly not what tiles divide.
    return r.multiple * (least, (least + greatest) // 2 + (greatest - least > 2), greatest)[part]


UNBOUNDED = 1 << 30
"""A greatest size from here on is not a size to measure at."""


def dynamic_sizes(program: Program) -> tuple[Symbol, ...]:
    """The sizes of a program that are known only at the call."""
    return tuple(s for s in program.dynamic if isinstance(s, Symbol) and isinstance(s.domain, DynamicRange))


def buckets_of(program: Program) -> tuple[Bucket, ...]:
    """The buckets of a program: those that its sizes state; where a size states none, up to powers of two, or of a
    higher number where these would make more than 16 in all. None without dynamic sizes.

    >>> from mslang.sema.program import parse_program
    >>> p = parse_program("program p[M: dyn(1..40)](out C: f32[M]) { block b[i: M] { C[i] = 1.0 } }")
    >>> [b.text for b in buckets_of(p)]
    ['M = 1', 'M = 2', 'M = 3..4', 'M = 5..8', 'M = 9..16', 'M = 17..32', 'M = 33..40']
    """
    sizes = dynamic_sizes(program)
    if not sizes:
        return ()
    base = 2
    while True:
        parts = [_parts(s.domain, base) for s in sizes if isinstance(s.domain, DynamicRange)]
        if prod(map(len, parts)) <= MOST or base > UNBOUNDED or all(_stated(s) for s in sizes):
            break
        base *= 2
    return tuple(Bucket(tuple(zip((s.text for s in sizes), ranges, strict=True))) for ranges in product(*parts))


def _stated(s: Symbol) -> bool:
    return isinstance(s.domain, DynamicRange) and bool(s.domain.buckets)


def _parts(r: DynamicRange, base: int) -> list[DynamicRange]:
    ends = list(r.buckets)
    if not ends:
        end = 1
        while end < r.hi:
            if end >= r.lo:
                ends.append(end)
            end *= base
    edges = [r.lo - 1, *ends, r.hi]
    parts = [DynamicRange(low + 1, high, r.multiple) for low, high in pairwise(edges)]
    return [p for p in parts if p.hi // p.multiple * p.multiple >= p.lo]


def restricted(program: Program, bucket: Bucket) -> Program:
    """The program for the sizes of a bucket alone.

    >>> from mslang.sema.program import parse_program
    >>> p = parse_program("program p[M: dyn(1..40)](out C: f32[M]) { block b[i: M] { C[i] = 1.0 } }")
    >>> restricted(p, Bucket((("M", DynamicRange(3, 4)),))).dynamic
    (Symbol(name='M', domain=DynamicRange(lo=3, hi=4, multiple=1, buckets=()), position=None),)
    """
    ranges = dict(bucket.ranges)
    narrow = {s: replace(s, domain=ranges[s.text]) for s in dynamic_sizes(program) if s.text in ranges}

    def change(e: Expr) -> Expr:
        if isinstance(e, Symbol):
            return narrow.get(e, e)
        parts = children(e)
        done = tuple(map(change, parts))
        return e if done == parts else with_children(e, done)

    made = map_program_exprs(program, change)
    return replace(made, dynamic=tuple(narrow.get(s, s) if isinstance(s, Symbol) else s for s in program.dynamic))


def at_sizes(program: Program, sizes: Mapping[str, int]) -> Program:
    """The program with numbers in place of dynamic sizes.

    Raises:
        MsError: MS112, a size is outside of its declared range, or has no value.
    """
    known = dynamic_sizes(program)
    for s in known:
        require_size(s, sizes.get(s.text))
    made = map_program_exprs(program, lambda e: substitute_symbols(e, dict(sizes)))
    return replace(made, dynamic=tuple(s for s in program.dynamic if s not in known))


def require_sizes(program: Program, sizes: Mapping[str, int]) -> None:
    """Raise MsError MS112 unless these are the dynamic sizes of a program, each with a value that it may have."""
    known = dynamic_sizes(program)
    for name in sizes:
        if all(name != s.text for s in known):
            there = ", ".join(f"`{s.text}`" for s in known)
            what = f"{program.name} has no size `{name}` that is known only at the call"
            raise MsError(problem("MS112", what, help=f"it has {there}" if known else None))
    for size in known:
        require_size(size, sizes.get(size.text))


def stated_sizes(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The dynamic sizes that a call gives by name, as no dimension of an array is one.

    >>> from mslang.sema.program import parse_program
    >>> p = parse_program("program p[M: dyn(1..9), N: dyn(1..9)](out C: f32[N]) { block b[i: N] { C[i] = f32(M) } }")
    >>> stated_sizes(p, {"M": 3, "N": 4})
    {'M': 3}
    """
    shaped = {e.text for p in program.params for e in p.given.shape if isinstance(e, Symbol)}
    return {name: n for name, n in sizes.items() if name not in shaped}


def require_size(size: Symbol, value: int | None) -> None:
    """Raise MsError MS112 unless a dynamic size may have a value."""
    domain = size.domain
    assert isinstance(domain, DynamicRange)
    allowed = f"{size.text} is declared {domain.lo}..{domain.hi}"
    allowed += f", a multiple of {domain.multiple}" if domain.multiple > 1 else ""
    if value is None:
        raise MsError(problem("MS112", f"size `{size.text}` has no value", why=allowed))
    if not domain.lo <= value <= domain.hi or value % domain.multiple:
        raise MsError(problem("MS112", f"{size.text} = {value} is outside of its range", why=allowed))
