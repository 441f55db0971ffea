"""Which loops of a block an instruction can take: the search behind `tensorize` and `tensorize_mapping`.

A description's loops stand for axes of the block: of the same kind, in the same dimensions of the same operands, with
the same stride. The innermost loop of such an axis is split by what the instruction runs over, and the tile's loops
are brought inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from mslang.ir import arith
from mslang.ir.arith.linear import coefficients
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Var, children, dtype_of
from mslang.ir.intrin import Intrin
from mslang.ir.print import print_expr
from mslang.ir.program import Axis, Block, For, Program, Range, Stmt, Store
from mslang.ir.visit import Path, free_vars, fresh, substitute
from mslang.transform.analysis.axes import axis_loops
from mslang.transform.analysis.position import block_at, block_path, loops_above
from mslang.transform.analysis.unify import Mismatch, Side
from mslang.transform.description import described
from mslang.transform.outcome import BlockRef, LoopRef, Outcome, refuse
from mslang.transform.primitives.loops import reorder, split


class Tiled(msgspec.Struct, frozen=True):
    """A loop of the block and what the instruction runs over of it, in the order of the description's loops.

    `axis` is the axis that it is the innermost loop of; `whole`: it runs over just the extent, and is not split;
    `divides`: it provably runs over whole tiles.
    """

    loop: LoopRef
    extent: Expr
    axis: str
    whole: bool
    divides: bool


def tensorize_mapping(program: Program, block: BlockRef, intrin: Intrin) -> tuple[Tiled, ...]:
    """The loops of a block that an instruction can take, outermost of the description first.

    Raises:
        ScheduleError: MS382, there are none; the reason says which loop of the description has no counterpart.
    """
    return _found(program, block, intrin, "tensorize_mapping", exact=False)


class Classes(msgspec.Struct, frozen=True):
    """Axes of a block that one loop of a description can stand for together, if they are fused.

    `axes` are those of each loop, outermost loop first; `rest` are the axes that stay as they are. `operands` gives for
    each buffer of the block whether it is written, and which loop stands in each of its last dimensions.
    """

    axes: tuple[tuple[str, ...], ...]
    rest: tuple[str, ...]
    operands: tuple[tuple[str, bool, tuple[int, ...]], ...]


def classes(program: Program, block: BlockRef, intrin: Intrin) -> Classes:
    """The axes of a block told apart by which operands they occur in, as those of a product of tensors can be.

    Raises:
        ScheduleError: MS382, the axes cannot be told apart so, or a loop of the description has none.

    Source: TVM, `get_auto_tensorize_mapping_info`.
    """
    match = _matched(program, block, intrin, "tensorize_mapping")
    desc = {s.var: (_occurring(match.pairs, s.var, asked=True), match.desc.kinds.get(s.var)) for s in match.loops}
    if len(set(desc.values())) < len(desc):
        raise match.nothing("two loops of the description occur in the same operands")
    own = {a.name: (_occurring(match.pairs, a.name, asked=False), frozenset({a.kind})) for a in match.block.axes}
    found = tuple(tuple(name for name, x in own.items() if x == desc[s.var]) for s in match.loops)
    rest = tuple(name for name, x in own.items() if x not in desc.values())
    for s, names in zip(match.loops, found, strict=True):
        if not names:
            raise match.nothing(f"no axis occurs in the same operands as the description's loop `{s.var}`")
    if any(a.name in rest and a.kind != "spatial" for a in match.block.axes):
        raise match.nothing("a reduction axis occurs in other operands than the description's loops")
    return Classes(found, rest, tuple(_operands(match)))


def _occurring(pairs: Sequence[_Pair], name: str, *, asked: bool) -> frozenset[str]:
    """The operands in whose indices a variable occurs."""
    return frozenset(p.param for p in pairs if any(name in free_vars(e) for e in (p.asked if asked else p.found)))


def _operands(match: _Match) -> Iterator[tuple[str, bool, tuple[int, ...]]]:
    place = {s.var: k for k, s in enumerate(match.loops)}
    for p in dict.fromkeys(match.pairs):
        if not all(isinstance(e, Var) and e.name in place for e in p.asked):
            raise match.nothing(f"the description accesses `{p.param}` elsewhere than at its loops' places")
        written = any(r.buffer == p.buffer for r in match.block.writes)
        yield p.buffer, written, tuple(place[e.name] for e in p.asked if isinstance(e, Var))


def padding_for(program: Program, block: BlockRef, found: Sequence[Tiled]) -> tuple[int, ...]:
    """What `pad_einsum` is to make multiples of, one number an axis, so that all loops run over whole tiles."""
    wanted = {t.axis: int(t.extent.value) for t in found if isinstance(t.extent, Const)}
    return tuple(wanted.get(a.name, 1) for a in block_at(block_path(program, block, "tensorize_mapping")).axes)


def tiled(program: Program, block: BlockRef, intrin: Intrin, primitive: str) -> Outcome:
    """The program with the loops that an instruction takes split off and brought inside; gives their outermost."""
    found = _found(program, block, intrin, primitive)
    inner: list[LoopRef] = []
    for t in found:
        if t.whole:
            inner.append(t.loop)
            continue
        done = split(program, t.loop, (None, t.extent))
        program = done.program
        inner.append(LoopRef(done.handles[1].name))
    path = block_path(program, block, primitive)
    names = {x.name for x in inner}
    loops = [LoopRef(s.var) for s in loops_above(path)]
    first = next(k for k, x in enumerate(loops) if x.name in names)
    wanted = [x for x in loops[first:] if x.name not in names]
    if [*wanted, *inner] != loops[first:]:
        program = reorder(program, (*wanted, *inner)).program
    return Outcome(program, (inner[0],))


# ------------------------------------------------------------------ the search
class _Pair(msgspec.Struct, frozen=True):
    """An access of the description and the one of the block that stands in its place."""

    param: str
    asked: tuple[Expr, ...]
    buffer: str
    found: tuple[Expr, ...]


class _Match(msgspec.Struct, frozen=True):
    """A block whose statements are those of a description, access by access."""

    block: Block
    desc: Side
    loops: tuple[For, ...]
    pairs: tuple[_Pair, ...]
    nothing: Callable[[str], Exception]
    """The refusal, for the reason that is given."""


def _matched(program: Program, block: BlockRef, intrin: Intrin, primitive: str) -> _Match:
    path = block_path(program, block, primitive)

    def nothing(why: str) -> Exception:
        return refuse(
            "MS382",
            primitive,
            f"no loops of block `{block.name}` are those of `{intrin.name}`",
            why=why,
            help="split and reorder the loops yourself, and tensorize the outermost loop of the tile",
        )

    try:
        desc = described(intrin).body
    except Mismatch as found:
        raise nothing(str(found)) from None
    loops = tuple(s for s in _loops(desc.body) if not arith.equal(s.extent, ONE))
    inner = _innermost(desc.body)
    own = tuple(s for s in block_at(path).body if not isinstance(s, Block))
    pairs: list[_Pair] = []
    if len(inner) != len(own) or not all(_paired(t, d, pairs) for t, d in zip(own, inner, strict=True)):
        raise nothing("its statements are others than the description's")
    return _Match(block_at(path), desc, loops, tuple(pairs), nothing)


def _found(
    program: Program, block: BlockRef, intrin: Intrin, primitive: str, *, exact: bool = True
) -> tuple[Tiled, ...]:
    match = _matched(program, block, intrin, primitive)
    chosen = next(_choices(match.loops, match.desc, match.block, match.pairs, {}), None)
    if chosen is None:
        bad = next((s for s in match.loops if not list(_candidates(s, match.desc, match.block, match.pairs))), None)
        raise match.nothing(
            "the loops of the description cannot be distinguished in it"
            if bad is None
            else f"no axis has the place of the description's loop `{bad.var}` in all operands"
        )
    path = block_path(program, block, primitive)
    return tuple(_tile(path, s, chosen[s.var], match.nothing, exact) for s in match.loops)


def _paired(t: object, d: object, pairs: list[_Pair]) -> bool:
    """Do two formulas have one shape? Gathers the accesses that stand in the same places."""
    match t, d:
        case Store(), Store():
            pairs.append(_Pair(d.buffer, d.indices, t.buffer, t.indices))
            return _paired(t.value, d.value, pairs)
        case Load(), Load():
            pairs.append(_Pair(d.buffer, d.indices, t.buffer, t.indices))
            return t.dtype == d.dtype
        case Binary(op=op), Binary(op=other) if op == other:
            mark = len(pairs)
            if _paired(t.left, d.left, pairs) and _paired(t.right, d.right, pairs):
                return True
            del pairs[mark:]
            return (
                op in ("+", "*", "min", "max") and _paired(t.left, d.right, pairs) and _paired(t.right, d.left, pairs)
            )
        case Expr(), Expr():
            xs, ys = children(t), children(d)
            same = dtype_of(t) == dtype_of(d) and len(xs) == len(ys) and type(t) is type(d)
            return same and all(_paired(a, b, pairs) for a, b in zip(xs, ys, strict=True))
    return False


def _loops(body: Sequence[Stmt]) -> Iterator[For]:
    for s in body:
        if isinstance(s, For):
            yield s
            yield from _loops(s.body)


def _innermost(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    while len(body) == 1 and isinstance(s := body[0], For):
        body = s.body
    return body


def _choices(
    loops: Sequence[For], desc: Side, block: Block, pairs: Sequence[_Pair], chosen: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """Axes of the block for the loops of the description, each once."""
    if not loops:
        yield chosen
        return
    for axis in _candidates(loops[0], desc, block, pairs):
        if axis not in chosen.values():
            yield from _choices(loops[1:], desc, block, pairs, {**chosen, loops[0].var: axis})


def _candidates(loop: For, desc: Side, block: Block, pairs: Sequence[_Pair]) -> Iterator[str]:
    """The axes of the loop's kind that have its coefficient in each dimension of each operand, the last first."""
    for a in reversed(block.axes):
        if frozenset({a.kind}) == desc.kinds.get(loop.var) and all(_alike(p, loop, a) for p in pairs):
            yield a.name


def _alike(pair: _Pair, loop: For, axis: Axis) -> bool:
    dropped = len(pair.found) - len(pair.asked)
    if dropped < 0:
        return False
    for k, e in enumerate(pair.found):
        asked: Expr = ZERO if k < dropped else pair.asked[k - dropped]
        if not arith.equal(_coefficient(asked, loop.var), _within_tiles(e, axis, loop.extent)):
            return False
    return True


def _within_tiles(e: Expr, axis: Axis, size: Expr) -> Expr:
    """What an axis is multiplied by in an index, or what its place in a tile is where that is linear (`i % 16`)."""
    straight = _coefficient(e, axis.name)
    if straight != _NOT_LINEAR:
        return straight
    inner, outer = (fresh(f"{axis.name}_{x}", free_vars(e)) for x in ("inner", "outer"))
    tiles = arith.ceildiv(axis.extent, size)
    ranges = {inner: Range(ZERO, size), outer: Range(ZERO, tiles)}
    tiled = arith.add(arith.mul(Var(outer), size), Var(inner))
    return _coefficient(arith.simplify(substitute(e, {axis.name: tiled}), ranges), inner)


_NOT_LINEAR = Const(-1)


def _coefficient(e: Expr, name: str) -> Expr:
    """What a variable is multiplied by in an index; a number that matches nothing where it is not linear."""
    if name not in free_vars(e):
        return ZERO
    terms = coefficients(e, frozenset({name}))
    return _NOT_LINEAR if terms is None else terms.get(name, ZERO)


def _tile(path: Path, wanted: For, axis: str, nothing: Callable[[str], Exception], exact: bool) -> Tiled:
    """The innermost loop of an axis, which must run over whole tiles."""
    found = axis_loops(path, axis)
    if not found:
        raise nothing(f"no loop runs over axis `{axis}` alone, which has the place of the description's `{wanted.var}`")
    loop = found[-1]
    binding = next(a.binding for a in block_at(path).axes if a.name == axis)
    if not arith.equal(_coefficient(binding, loop.var), ONE):
        raise nothing(f"loop `{loop.var}`, the innermost of axis `{axis}`, does not step by 1")
    divides = arith.equal(arith.mod(loop.extent, wanted.extent), ZERO)
    if exact and not divides:
        raise nothing(
            f"loop `{loop.var}` of axis `{axis}` runs {print_expr(loop.extent)} times, not provably a multiple "
            f"of {print_expr(wanted.extent)}; pad_einsum makes it one"
        )
    return Tiled(LoopRef(loop.var), wanted.extent, axis, arith.equal(loop.extent, wanted.extent), divides)
