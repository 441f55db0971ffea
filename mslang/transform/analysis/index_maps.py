"""What an index map does to a box of indices: how large its image is, what it leaves out, how it is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mslang.ir import arith
from mslang.ir.dtype import INDEX
from mslang.ir.expr import FALSE, ONE, TRUE, ZERO, Binary, Const, Expr, Var, dtype_of
from mslang.ir.index_map import IndexMap
from mslang.ir.program import Range
from mslang.ir.visit import conjunction, conjuncts, free_vars, loads_of, walk_expr


class Image(msgspec.Struct, frozen=True):
    """Where an index map takes the indices of a box.

    The map is injective, and `shape` is the extents of a box from 0 that holds its values: the least, but where indices
    are put together of digits that do not take all of their values.
    """

    shape: tuple[Expr, ...]
    names: tuple[str, ...]
    """What `inverse` and `valid` call the indices of that box."""
    inverse: tuple[Expr, ...]
    """The indices that an element of the box comes from, where it comes from any."""
    valid: Expr
    """Where an element of the box comes from indices of the old one: `true` if the map is onto."""

    @property
    def is_onto(self) -> bool:
        """Whether the box holds nothing but values of the map."""
        return self.valid == TRUE

    @property
    def padding(self) -> Expr:
        """Where an element of the box comes from nothing."""
        parts = [_negated(c) for c in conjuncts(self.valid)]
        out = FALSE if not parts else parts[0]
        for c in parts[1:]:
            out = Binary("or", out, c)
        return out


class NoImage(msgspec.Struct, frozen=True):
    """The values of a map are not known well enough: why."""

    reason: str


def why_not_fitting(index_map: IndexMap, rank: int) -> str | None:
    """None if a map takes `rank` indices and gives at least one index, computed from nothing else but sizes."""
    if len(index_map.params) != rank:
        return f"it takes {len(index_map.params)} indices, not {rank}"
    if not index_map.results:
        return "it gives no index"
    for e in index_map.results:
        strange = free_vars(e) - set(index_map.params)
        if strange:
            return f"`{min(strange)}` is none of its parameters"
        if dtype_of(e) != INDEX or any(True for _ in loads_of(e)):
            return "what it gives is not an index"
    return None


def image(index_map: IndexMap, extents: Sequence[Expr], names: Sequence[str]) -> Image | NoImage:
    """Where a map takes the indices `0 .. extents`; `names` are what to call its results, none of them a parameter."""
    none = dict.fromkeys(index_map.params, 0)
    found = _image(index_map, extents, names, none)
    shifts = none | _shifts(index_map)
    if isinstance(found, Image) or shifts == none:
        return found
    shifted = _image(index_map, extents, names, shifts)
    return shifted if isinstance(shifted, Image) else found


def _is_one_to_one(found: arith.IterMap) -> bool:
    """Do different indices provably go to different ones?"""
    return found.level != "affine"


def _image(
    index_map: IndexMap, extents: Sequence[Expr], names: Sequence[str], shifts: Mapping[str, int]
) -> Image | NoImage:
    """The image, found in terms of the parameters with their shifts added, which run over a box from 0 that holds what
    they are: `(i + 2) // 4` is of `i + 2`, from 0 on."""
    before = {p: Range(ZERO, arith.add(n, Const(shifts[p]))) for p, n in zip(index_map.params, extents, strict=True)}
    back = [arith.sub(Var(p), Const(shifts[p])) for p in index_map.params]
    results = tuple(arith.simplify(e, before) for e in index_map.at(back))
    found = arith.detect(results, before)
    if isinstance(found, arith.NotAffine):
        return NoImage(found.reason)
    if not _is_one_to_one(found):
        return NoImage("it is not known that different indices go to different ones")
    if any(not arith.proved(Binary("<=", ZERO, a)) for a in found.starts):
        return NoImage("it is not known that no index becomes negative")
    shape = tuple(arith.simplify(arith.add(a, n)) for a, n in zip(found.starts, found.extents, strict=True))
    after = {n: Range(ZERO, e) for n, e in zip(names, shape, strict=True)}
    new = tuple(Var(n) for n in names)
    solved = arith.invert(results, new, before, after)
    if solved is None:
        return NoImage("it cannot be inverted")
    inverse = tuple(arith.simplify(arith.sub(solved[p], Const(shifts[p])), after) for p in index_map.params)
    fills = found.level == "bijective" and all(arith.equal(a, ZERO) for a in found.starts)
    if fills and not any(shifts.values()):
        return Image(shape, tuple(names), inverse, TRUE)
    inside = [c for x, n in zip(inverse, extents, strict=True) for c in (Binary("<=", ZERO, x), Binary("<", x, n))]
    same = [Binary("==", arith.simplify(x, after), n) for x, n in zip(index_map.at(inverse), new, strict=True)]
    wanted = inside if fills else [*inside, *same]
    valid = conjunction(tuple(c for c in wanted if not arith.proved(c, after)))
    return Image(shape, tuple(names), inverse, valid)


def _shifts(index_map: IndexMap) -> dict[str, int]:
    """What is added to parameters in a map: the most, for each."""
    found: dict[str, int] = {}
    for e in index_map.results:
        for x in walk_expr(e):
            match x:
                case Binary(op="+", left=Var(name=p), right=Const(value=int() as c)) if c > found.get(p, 0):
                    found[p] = c
    return found


def hull(index_map: IndexMap, extents: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """The extents of a box from 0 that holds all values of a map, whatever it is; None if there is none known."""
    before = {p: Range(ZERO, n) for p, n in zip(index_map.params, extents, strict=True)}
    shape: list[Expr] = []
    for e in index_map.results:
        found = arith.bounds(e, before)
        if found is None or not arith.proved(Binary("<=", ZERO, found[0])):
            return None
        shape.append(arith.simplify(arith.add(found[1], ONE)))
    return tuple(shape)


_OPPOSITE = {"<": ">=", "<=": ">", "==": "!="}


def _negated(e: Expr) -> Expr:
    assert isinstance(e, Binary)
    return Binary(_OPPOSITE[e.op], e.left, e.right)
