"""Unification: is what a tile computes what a description says, and which part of which buffer is each operand?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.dtype import INDEX, size_of
from mslang.ir.expr import ONE, TRUE, ZERO, Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, dtype_of
from mslang.ir.find import blocks_of
from mslang.ir.print import print_expr
from mslang.ir.program import HOLDERS, Block, Buffer, Evaluate, For, If, Let, Program, Range, Stmt, Store
from mslang.ir.text import kind_text
from mslang.ir.visit import free_vars, fresh, substitute, walk_expr, zero_signs
from mslang.transform.analysis.reduction_order import runs_in_any_order

FRAGMENTS = frozenset(HOLDERS)
"""Scopes whose elements have no address: an operand must ask for them by name."""

MOST_ORDERS = 120
"""How many orders of a tile's loops are tried."""


class Mismatch(Exception):
    """What the tile has otherwise than the description, said with both."""


class Operand(msgspec.Struct, frozen=True):
    """The part of a buffer that is a parameter of the description: where it starts, one index a dimension."""

    buffer: str
    starts: tuple[Expr, ...]


class Side(msgspec.Struct, frozen=True):
    """One of the two: buffers by name, statements without blocks, and the kinds of axes that each loop serves."""

    buffers: Mapping[str, Buffer]
    body: tuple[Stmt, ...]
    kinds: Mapping[str, frozenset[str]]
    in_any_order: bool = False
    """Whether the one block that does it all may run its instances in any order."""


class _Known(msgspec.Struct, frozen=True):
    """What is matched so far: the description's variables and parameters; ranges of the tile's variables."""

    variables: Mapping[str, Expr]
    operands: Mapping[str, Operand]
    ranges: Mapping[str, Range]
    inner: frozenset[str]
    """The tile's own loops."""


def side(
    body: Sequence[Stmt],
    buffers: Mapping[str, Buffer],
    ranges: Mapping[str, Range],
    what: str,
    values: Mapping[str, Expr] = MappingProxyType({}),
) -> Side:
    """Statements with the blocks in them replaced by what they do (Mismatch: one does more than that)."""
    kinds: dict[str, frozenset[str]] = {}
    flat = tuple(_flat(body, values, dict(ranges), kinds, what))
    blocks = [b for b in blocks_of(tuple(body)) if not blocks_of(b.body)]
    return Side(buffers, flat, kinds, len(blocks) == 1 and runs_in_any_order(blocks[0]))


def _flat(
    body: Sequence[Stmt],
    values: Mapping[str, Expr],
    ranges: dict[str, Range],
    kinds: dict[str, frozenset[str]],
    what: str,
) -> Iterator[Stmt]:
    def change(e: Expr) -> Expr:
        return substitute(e, values)

    def several(inner: Sequence[Stmt], more: Mapping[str, Range] | None = None) -> tuple[Stmt, ...]:
        return tuple(_flat(inner, values, {**ranges, **(more or {})}, kinds, what))

    for s in body:
        match s:
            case Block():
                if s.allocs or s.views:
                    raise Mismatch(f"block `{s.name}` of the {what} has buffers or views of its own")
                if s.init is not None:
                    raise Mismatch(f"block `{s.name}` of the {what} has an init inside")
                bound = {a.name: change(a.binding) for a in s.axes}
                held = substitute(substitute(s.predicate, bound), values)
                if held != TRUE and not arith.proved(held, ranges):
                    raise Mismatch(
                        f"block `{s.name}` of the {what} runs only where `{print_expr(s.predicate)}`; "
                        "a tile must be whole (pad_einsum, or a factor that divides)"
                    )
                for a in s.axes:
                    for v in free_vars(bound[a.name]):
                        kinds[v] = kinds.get(v, frozenset()) | {a.kind}
                yield from _flat(s.body, bound, ranges, kinds, what)
            case For():
                loop = replace(s, start=change(s.start), extent=change(s.extent), body=())
                yield replace(loop, body=several(s.body, {s.var: Range(loop.start, loop.extent)}))
            case Store(buffer=b, indices=xs, value=v):
                yield Store(b, tuple(change(x) for x in xs), change(v))
            case Let(name=n, value=v, body=inner):
                # Bindings, put in below, name the loops around: a `let` may be called like one of them.
                own = fresh(n, {*ranges, *(x for e in values.values() for x in free_vars(e))})
                renamed = {**values, n: Var(own, dtype_of(v))}
                yield Let(own, change(v), tuple(_flat(inner, renamed, ranges, kinds, what)))
            case If(condition=c, then=t, otherwise=o):
                yield If(change(c), several(t), several(o))
            case Evaluate(value=v):
                yield Evaluate(change(v))
            case _:
                raise Mismatch(f"the {what} has {kind_text(s)}")


# ------------------------------------------------------------------ the whole
def unify(tile: Side, desc: Side, ranges: Mapping[str, Range], known: Mapping[str, Operand]) -> dict[str, Operand]:
    """The operands, by parameter, with which the tile is what the description says.

    Args:
        tile: what is to be replaced.
        desc: the description.
        ranges: of the variables around the tile.
        known: operands that are known before.

    Raises:
        Mismatch: it is not.
    """
    tile, desc = _without_unit_loops(tile), _without_unit_loops(desc)
    inner = frozenset(s.var for s in _loops(tile.body))
    before = _Known({}, known, {**ranges, **{s.var: Range(s.start, s.extent) for s in _loops(tile.body)}}, inner)
    first: Mismatch | None = None
    for body in _orders(tile, desc):
        try:
            return dict(_Unifier(replace(tile, body=body), desc).body(body, desc.body, before).operands)
        except Mismatch as e:
            first = first or e
    raise first or Mismatch("the tile has other loops than the description")


def _loops(body: Sequence[Stmt]) -> Iterator[For]:
    for s in body:
        if isinstance(s, For):
            yield s
            yield from _loops(s.body)


def _nest(body: tuple[Stmt, ...]) -> tuple[list[For], tuple[Stmt, ...]]:
    """The loops one in another that statements begin with, and what is in them."""
    loops: list[For] = []
    while len(body) == 1 and isinstance(s := body[0], For):
        loops.append(s)
        body = s.body
    return loops, body


def _without_unit_loops(x: Side) -> Side:
    def visit(body: tuple[Stmt, ...], values: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            match s:
                case For() if arith.equal(s.extent, ONE):
                    out.extend(visit(s.body, {**values, s.var: s.start}))
                case For():
                    start, extent = substitute(s.start, values), substitute(s.extent, values)
                    out.append(replace(s, start=start, extent=extent, body=visit(s.body, values)))
                case Store(buffer=b, indices=xs, value=v):
                    out.append(Store(b, tuple(substitute(i, values) for i in xs), substitute(v, values)))
                case Let(name=n, value=v, body=inner):
                    out.append(Let(n, substitute(v, values), visit(inner, values)))
                case If(condition=c, then=t, otherwise=o):
                    out.append(If(substitute(c, values), visit(t, values), visit(o, values)))
                case Evaluate(value=v):
                    out.append(Evaluate(substitute(v, values)))
        return tuple(out)

    return replace(x, body=visit(x.body, {}))


def _orders(tile: Side, desc: Side) -> Iterator[tuple[Stmt, ...]]:
    """The tile's statements, then with the loops of its nest in other orders that have the description's extents."""
    yield tile.body
    loops, body = _nest(tile.body)
    wanted, _ = _nest(desc.body)
    free = tile.in_any_order and all(s.var in tile.kinds for s in loops)
    if len(loops) != len(wanted) or len(loops) < 2 or not free:
        return
    if any((free_vars(s.start) | free_vars(s.extent)) & {x.var for x in loops} for s in loops):
        return
    for k, order in enumerate(permutations(loops)):
        if k >= MOST_ORDERS:
            return
        if k and all(arith.equal(s.extent, w.extent) for s, w in zip(order, wanted, strict=True)):
            made = body
            for s in reversed(order):
                made = (replace(s, body=made),)
            yield made


# ------------------------------------------------------------------ statements and expressions
class _Unifier:
    def __init__(self, tile: Side, desc: Side) -> None:
        self.tile, self.desc = tile, desc

    def body(self, t: Sequence[Stmt], d: Sequence[Stmt], known: _Known) -> _Known:
        if len(t) != len(d):
            raise Mismatch(f"{_count(len(d), 'statement')} expected in a row, {_count(len(t), 'statement')} found")
        for a, b in zip(t, d, strict=True):
            known = self.statement(a, b, known)
        return known

    def statement(self, t: Stmt, d: Stmt, known: _Known) -> _Known:
        match t, d:
            case For(), For():
                return self.body(t.body, d.body, self.loop(t, d, known))
            case Store(), Store():
                known = self.access(t.buffer, t.indices, d.buffer, d.indices, known)
                return self.expr(t.value, d.value, known)
            case If(), If():
                known = self.expr(t.condition, d.condition, known)
                known = self.body(t.then, d.then, known)
                return self.body(t.otherwise, d.otherwise, known)
            case Let(), Let():
                known = self.expr(t.value, d.value, known)
                named = replace(known, variables={**known.variables, d.name: Var(t.name, dtype_of(t.value))})
                return self.body(t.body, d.body, named)
            case Evaluate(), Evaluate():
                return self.expr(t.value, d.value, known)
        raise Mismatch(f"{_said(d)} expected, {_said(t)} found")

    def loop(self, t: For, d: For, known: _Known) -> _Known:
        if not arith.equal(t.extent, d.extent, known.ranges):
            raise Mismatch(
                f"loop `{d.var}` of the description runs {print_expr(d.extent)} times, "
                f"loop `{t.var}` of the tile {print_expr(t.extent)} times"
            )
        if t.kind not in ("serial", "unrolled", "vectorized"):
            raise Mismatch(f"loop `{t.var}` of the tile is {t.kind}; one that an instruction replaces is serial")
        mine, its = self.tile.kinds.get(t.var, frozenset()), self.desc.kinds.get(d.var, frozenset())
        if mine != its:
            raise Mismatch(
                f"loop `{d.var}` of the description serves {_axes(its)} axes, loop `{t.var}` of the tile {_axes(mine)}"
            )
        at: Expr = Var(t.var)
        if not arith.equal(t.start, d.start, known.ranges):
            at = arith.add(arith.sub(Var(t.var), t.start), d.start)
        return replace(known, variables={**known.variables, d.var: at})

    def access(
        self, buffer: str, indices: tuple[Expr, ...], param: str, asked: tuple[Expr, ...], known: _Known
    ) -> _Known:
        mine, its = self.tile.buffers[buffer], self.desc.buffers[param]
        before = known.operands.get(param)
        if before is not None and before.buffer != buffer:
            raise Mismatch(f"`{param}` is `{before.buffer}` at one place and `{buffer}` at another")
        self.same_sort(mine, its)
        dropped = len(indices) - len(asked)
        if dropped < 0:
            raise Mismatch(f"`{param}` has {len(asked)} dimensions, `{buffer}` only {len(indices)}")
        starts: list[Expr] = []
        for k, index in enumerate(indices):
            wanted = ZERO if k < dropped else substitute(asked[k - dropped], known.variables)
            start = arith.simplify(arith.sub(index, wanted), known.ranges)
            if free_vars(start) & known.inner:
                ask = "no loop of the tile" if k < dropped else f"`{print_expr(wanted)}` and an offset"
                raise Mismatch(
                    f"index {k} of `{buffer}` is `{print_expr(arith.simplify(index, known.ranges))}`, "
                    f"{ask} expected (for `{param}`)"
                )
            starts.append(start)
        if before is None:
            _require_aligned(mine, its, starts, known.ranges)
            return replace(known, operands={**known.operands, param: Operand(buffer, tuple(starts))})
        for k, (a, b) in enumerate(zip(before.starts, starts, strict=True)):
            if not arith.equal(a, b, known.ranges):
                raise Mismatch(
                    f"`{param}` starts at `{print_expr(a)}` of dimension {k} of `{buffer}` at one place, "
                    f"at `{print_expr(b)}` at another"
                )
        return known

    def same_sort(self, mine: Buffer, its: Buffer) -> None:
        """Element type, scope, strides, alignment."""
        if mine.dtype != its.dtype:
            raise Mismatch(f"`{its.name}` has elements of {its.dtype}, `{mine.name}` of {mine.dtype}")
        if its.scope != mine.scope and (its.scope != "global" or mine.scope in FRAGMENTS):
            raise Mismatch(f"`{its.name}` is in scope {its.scope}, `{mine.name}` in scope {mine.scope}")
        if its.align is not None and (mine.align or 1) % its.align:
            raise Mismatch(
                f"`{its.name}` is aligned to {its.align} bytes, `{mine.name}` to "
                + (f"{mine.align}" if mine.align is not None else "nothing that it says")
            )
        have = mine.strides or _compact(mine.shape)
        if its.strides is None:
            if have and not arith.equal(have[-1], ONE):
                raise Mismatch(
                    f"the last dimension of `{its.name}` is contiguous, that of `{mine.name}` has stride "
                    f"{print_expr(have[-1])}"
                )
            return
        for k, want in enumerate(reversed(its.strides)):
            if k >= len(have) or not arith.equal(want, have[-1 - k]):
                found = print_expr(have[-1 - k]) if k < len(have) else "none"
                raise Mismatch(
                    f"dimension {len(its.strides) - 1 - k} of `{its.name}` has stride {print_expr(want)}, "
                    f"that of `{mine.name}` {found}"
                )

    def expr(self, t: Expr, d: Expr, known: _Known) -> _Known:
        if dtype_of(t) != dtype_of(d):
            raise Mismatch(
                f"`{print_expr(d)}` of type {dtype_of(d)} expected, `{print_expr(t)}` of type {dtype_of(t)} found"
            )
        match t, d:
            case Load(), Load():
                return self.access(t.buffer, t.indices, d.buffer, d.indices, known)
            case Const(), Const() if _same(t, d):
                return known
            case (Var(), _) | (_, Var()):
                return self.plain(t, d, known)
            case Binary(op=op), Binary(op=other) if op == other:
                return self.binary(t, d, known)
            case Unary(op=op, operand=a), Unary(op=other, operand=b) if op == other:
                return self.expr(a, b, known)
            case Cast(operand=a), Cast(operand=b):
                return self.expr(a, b, known)
            case Select(), Select():
                known = self.expr(t.condition, d.condition, known)
                return self.expr(t.otherwise, d.otherwise, self.expr(t.then, d.then, known))
            case Call(name=f, args=xs), Call(name=g, args=ys) if f == g and len(xs) == len(ys):
                for a, b in zip(xs, ys, strict=True):
                    known = self.expr(a, b, known)
                return known
        return self.plain(t, d, known)

    def binary(self, t: Binary, d: Binary, known: _Known) -> _Known:
        try:
            return self.expr(t.right, d.right, self.expr(t.left, d.left, known))
        except Mismatch as first:
            if t.op not in ("+", "*", "min", "max", "and", "or", "==", "!=", "&", "|", "^"):
                return self.plain(t, d, known, first)
            try:
                return self.expr(t.left, d.right, self.expr(t.right, d.left, known))
            except Mismatch:
                return self.plain(t, d, known, first)

    def plain(self, t: Expr, d: Expr, known: _Known, first: Mismatch | None = None) -> _Known:
        """Two index expressions that mean the same."""
        loads = any(isinstance(x, Load) for e in (t, d) for x in walk_expr(e))
        mapped = substitute(d, known.variables)
        if _same(mapped, t) or (dtype_of(t) == INDEX and not loads and arith.equal(t, mapped, known.ranges)):
            return known
        raise first or Mismatch(f"`{print_expr(d)}` expected, `{print_expr(t)}` found")


def _same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are one: 0.0 and -0.0, which are equal, are not."""
    return a == b and zero_signs(a) == zero_signs(b)


def _require_aligned(mine: Buffer, its: Buffer, starts: Sequence[Expr], ranges: Mapping[str, Range]) -> None:
    """Refuse an operand that is not known to begin, and each of its rows with it, where the description says."""
    if its.align is None:
        return
    strides = mine.strides or _compact(mine.shape)
    size = Const(size_of(mine.dtype))
    begin: Expr = ZERO
    for start, stride in zip(starts, strides, strict=True):
        begin = arith.add(begin, arith.mul(start, stride))
    rows = strides[len(strides) - len(its.shape) : -1]
    for what, elements in (("begins", begin), *(("has a row", s) for s in rows)):
        at = arith.mul(elements, size)
        if not arith.proved(Binary("==", Binary("%", at, Const(its.align)), ZERO), ranges):
            place = print_expr(arith.simplify(at, ranges))
            raise Mismatch(f"`{its.name}` is aligned to {its.align} bytes, `{mine.name}` {what} at byte {place}")


def _compact(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    out: list[Expr] = []
    size: Expr = ONE
    for n in reversed(shape):
        out.append(size)
        size = arith.mul(size, n)
    return tuple(reversed(out))


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def _axes(kinds: frozenset[str]) -> str:
    return " and ".join(sorted(kinds)) or "no"


def _said(s: Stmt) -> str:
    match s:
        case For(var=v, extent=n):
            return f"a loop of {print_expr(n)} (`{v}`)"
        case Store(buffer=b):
            return f"a store to `{b}`"
    return kind_text(s)


def parameters(desc: Program) -> dict[str, Buffer]:
    """The buffers of a description by name."""
    return {p.buffer.name: p.buffer for p in desc.params}
