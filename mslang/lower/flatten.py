"""Blocks to plain statements: axes become their bindings, init and predicates become branches, views their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from mslang.diagnostics import MsError, problem
from mslang.ir import program as ir
from mslang.ir.annotations import STREAM
from mslang.ir.arith.data import may_be_any
from mslang.ir.atomics import atomic_update, is_atomic
from mslang.ir.dtype import INDEX
from mslang.ir.expr import TRUE, ZERO, Binary, Cast, Const, Expr, Load, Symbol, Var, dtype_of
from mslang.ir.find import used_names
from mslang.ir.intrin import intrin_of, recorded
from mslang.ir.program import Block, Buffer, Program, View
from mslang.ir.reduction import Update
from mslang.ir.visit import conjunction, free_vars, fresh, loads_of, map_expr, substitute
from mslang.ir.visit import walk as walk_program
from mslang.kernel.nodes import (
    AUTO_VECTORIZE,
    Alignment,
    Allocate,
    Atomic,
    Body,
    Evaluate,
    For,
    Function,
    If,
    Invoke,
    Let,
    Module,
    Stmt,
    Store,
    While,
    Within,
)
from mslang.kernel.visit import map_deep, walk
from mslang.lower.analysis import accesses
from mslang.lower.carry import carried_by
from mslang.lower.fold import fold
from mslang.lower.instructions import LLVM, InstructionTexts, text_for
from mslang.target.description import Target
from mslang.transform.analysis.alignment import alignments
from mslang.transform.analysis.definite_writes import stored_under


class _Names(NamedTuple):
    """The meaning of names in a block's body."""

    values: Mapping[str, Expr]
    views: Mapping[str, View]
    streams: Mapping[str, Expr]
    """Whether stores to a buffer bypass the caches, where the block says so."""


def flatten(p: Program, target: Target, checked: bool = False, texts: InstructionTexts = LLVM) -> Module:
    """The program's statements with every block replaced by what it does, and its buffers allocated around all of them.

    Args:
        p: a concrete program.
        target: what instructions are for.
        checked: keep blocks and the values of their axes as `Within`, for reports.
        texts: those that implement instructions.

    Raises:
        MsError: MS405, a view is accessed with too many indices.
        TargetError: MS417, MS418, an instruction exists on other targets only.
    """
    notes = _Notes(p, target, checked, texts)
    body = _body(p.body, _Names({}, {}, {}), notes)
    known = carried_by(p)
    carried = (notes.carried | known.between) - known.never
    wanted = alignments(p)
    for b in reversed(notes.buffers):
        aligned = tuple(Alignment(a.axis, a.factor, a.offset) for a in wanted.get(b.name, ()))
        body = (Allocate(_own(b), body, frozenset(v for name, v in carried if name == b.name), aligned),)
    dynamic = tuple(s for s in p.dynamic if isinstance(s, Symbol))
    auto = bool(dict(p.annotations).get(AUTO_VECTORIZE, False))
    params = tuple(replace(q, buffer=_own(q.buffer)) for q in p.params)
    function = Function(p.name, tuple(q.buffer for q in params), body)
    return Module(p.name, params, (function,), dynamic, auto_vectorize=auto, checked=checked)


def _own(b: Buffer) -> Buffer:
    """The buffer without its offset: an array is given, and memory allocated, from the first element on."""
    return replace(b, offset=None)


class _Notes:
    """What flattening collects; and `let` names made unique, as they are local to their block only."""

    def __init__(self, p: Program, target: Target, checked: bool, texts: InstructionTexts) -> None:
        self.checked = checked
        self.intrinsics, self.target, self.texts = recorded(p), target, texts
        self.buffers = list(p.allocs)
        self.carried: set[tuple[str, str]] = set()
        self.taken = set(used_names(p))
        # A `let` may have the name of a loop around its block, which the block does not see.
        self.seen = {s.var for s in walk_program(p.body) if isinstance(s, ir.For)}
        # Concurrent iterations carry nothing: each has memory of its own.
        self.concurrent = {
            s.var
            for s in walk_program(p.body)
            if isinstance(s, ir.For) and s.kind not in ("serial", "unrolled", "vectorized")
        }

    def name(self, wanted: str) -> str:
        if wanted in self.seen:
            wanted = fresh(wanted, self.taken)
        self.taken.add(wanted)
        self.seen.add(wanted)
        return wanted


def _body(body: tuple[ir.Stmt, ...], names: _Names, notes: _Notes) -> Body:
    out: list[Stmt] = []
    for s in body:
        out.extend(_statement(s, names, notes))
    return tuple(out)


def _statement(s: ir.Stmt, names: _Names, notes: _Notes) -> Body:
    match s:
        case Block():
            return _block(s, names, notes)
        case ir.Store(buffer=b, indices=xs, value=v):
            buffer, indices = _access(b, tuple(_rewrite(x, names) for x in xs), names)
            return (Store(buffer, indices, _rewrite(v, names), stream=names.streams.get(b)),)
        case ir.Let(name=n, value=v, body=b):
            name = notes.name(n)
            held, meant = _held(name, _rewrite(v, names))
            inner = names._replace(values={**names.values, n: meant})
            return (Let(name, held, _body(b, inner, notes)),)
        case ir.For(var=v, kind=kind, annotations=said):
            start, extent = _rewrite(s.start, names), _rewrite(s.extent, names)
            return (For(v, extent, _body(s.body, names, notes), kind, start, said),)
        case ir.If(condition=c, then=t, otherwise=o):
            return (If(_rewrite(c, names), _body(t, names, notes), _body(o, names, notes)),)
        case ir.While(condition=c, body=b):
            return (While(_rewrite(c, names), _body(b, names, notes)),)
        case ir.Evaluate(value=v):
            return (Evaluate(_rewrite(v, names)),)
    raise TypeError(f"not a statement: {s!r}")


def _held(name: str, value: Expr) -> tuple[Expr, Expr]:
    """What a `let` holds, and what its name stands for.

    Data that may be any number of 64 bits are held as words: arithmetic on a variable of the type of indices is exact.
    """
    if not may_be_any(value):
        return value, Var(name, dtype_of(value))
    return Cast(_WORD, value), Cast(INDEX, Var(name, _WORD))


_WORD = "u64"


def _block(s: Block, names: _Names, notes: _Notes) -> Body:
    outer = names
    bound = {a.name: _rewrite(a.binding, outer) for a in s.axes}
    held = _held_axes(s, bound, outer, notes)
    axes = {n: Var(held[n]) if n in held else e for n, e in bound.items()}
    views = {**outer.views}
    for v in s.views:
        inside = outer._replace(values={**outer.values, **axes})
        ranges = tuple(replace(r, start=_rewrite(r.start, inside)) for r in v.source.ranges)
        views[v.buffer.name] = View(v.buffer, replace(v.source, ranges=ranges))
    inner = _Names({**outer.values, **axes}, views, {**outer.streams, **_streams(s)})
    notes.buffers.extend(s.allocs)
    meaning = _body(s.body, inner, notes)
    if is_atomic(s) and (update := atomic_update(s)) is not None:
        meaning = _atomically(update[0], update[1], inner)
    body = _instruction(s, meaning, inner, notes)
    touching = meaning
    if s.init is not None:
        reduced = tuple(Binary("==", axes[a.name], ZERO) for a in s.axes if a.kind == "reduce")
        init = _body(s.init, inner, notes)
        first = fold(conjunction(reduced))
        before = init if first == TRUE else (If(first, init),)
        body, touching = (*before, *body), (*before, *meaning)
    predicate = fold(_rewrite(s.predicate, inner))
    _note_carried(s, bound, *_put_back(predicate, touching, {name: bound[n] for n, name in held.items()}), notes)
    body = body if predicate == TRUE else (If(predicate, body),)
    if notes.checked:
        shown = {n: e for n, e in axes.items() if not any(loads_of(e))}
        body = (Within(s.name, tuple(shown), tuple(shown.values()), body),)
    for n, name in held.items():
        body = (Let(name, bound[n], body),)
    return body


def _held_axes(s: Block, bound: Mapping[str, Expr], names: _Names, notes: _Notes) -> dict[str, str]:
    """Names for the values of those axes that are bound to what the block itself may change."""
    changing = {_storage(b, names) for b in stored_under(s)}
    return {n: notes.name(n) for n, e in bound.items() if any(x.buffer in changing for x in loads_of(e))}


def _storage(buffer: str, names: _Names) -> str:
    """The buffer whose memory a name stands for."""
    while (view := names.views.get(buffer)) is not None:
        buffer = view.source.buffer
    return buffer


def _put_back(predicate: Expr, body: Body, values: Mapping[str, Expr]) -> tuple[Expr, Body]:
    """A predicate and statements with values in place of the names that hold them."""
    if not values:
        return predicate, body
    return substitute(predicate, values), map_deep(body, lambda e: substitute(e, values))


def _streams(s: Block) -> Mapping[str, Expr]:
    """Whether what a block stores bypasses the caches, by buffer."""
    said = ((key.removeprefix(STREAM), value) for key, value in s.annotations if key.startswith(STREAM))
    return {
        name: fold(value) if isinstance(value, Expr) else Const(int(value))
        for name, value in said
        if isinstance(value, Expr | int)
    }


def _atomically(store: ir.Store, update: Update, names: _Names) -> Body:
    buffer, indices = _access(store.buffer, tuple(_rewrite(x, names) for x in store.indices), names)
    return (Atomic(update.op, buffer, indices, _rewrite(update.value, names)),)


def _instruction(s: Block, meaning: Body, names: _Names, notes: _Notes) -> Body:
    """The body of a block for the target: its instruction, or the statements themselves."""
    record = notes.intrinsics.get(intrin_of(s) or "")
    text = None if record is None else text_for(record, notes.target, notes.texts)
    if record is None or text is None:
        return meaning
    views = [v.buffer for v in s.views[len(s.views) - len(record.params) :]]
    operands = tuple(_rewrite(Load(b.name, (ZERO,) * len(b.shape), b.dtype), names) for b in views)
    return (Invoke(record.name, text, record.params, tuple(len(b.shape) for b in views), operands, meaning),)


def _note_carried(s: Block, axes: Mapping[str, Expr], predicate: Expr, body: Body, notes: _Notes) -> None:
    """Note the loops over which what the block writes must outlive one iteration."""
    if any(isinstance(x, Block) for x in walk_program(s.body)):
        carrying: frozenset[str] = frozenset()
    else:
        carrying = frozenset(x.var for x in walk(body) if isinstance(x, For))
    ordered = [axes[a.name] for a in s.axes if a.kind != "spatial"]
    everywhere = frozenset[str]().union(*(free_vars(e) for e in axes.values())) | carrying
    found = list(accesses(body))
    for name in {a.buffer for a in found if isinstance(a, Store | Atomic)}:
        places = {a.indices for a in found if a.buffer == name}
        # Along a loop that is an index, each iteration has elements of its own, whatever the axis orders.
        apart = [e for e in ordered if isinstance(e, Var) and all(e in place for place in places)]
        kept = carrying.union(*(free_vars(e) for e in ordered if e not in apart))
        # A block that reads what it writes elsewhere may read what an earlier iteration wrote.
        loops = everywhere - (notes.concurrent - kept) if len(places) > 1 else kept
        notes.carried.update((name, v) for v in loops)
        # A loop that the predicate names and no index does: an iteration may leave an element unchanged.
        touched = frozenset[str]().union(*(free_vars(i) for place in places for i in place))
        notes.carried.update((name, v) for v in free_vars(predicate) - touched - notes.concurrent)


def _rewrite(e: Expr, names: _Names) -> Expr:
    def change(x: Expr) -> Expr | None:
        match x:
            case Var(name=n):
                return names.values.get(n)
            case Load(buffer=b, indices=xs, dtype=d) if b in names.views:
                buffer, indices = _access(b, xs, names)
                return Load(buffer, indices, d)
        return None

    return map_expr(e, change)


def _access(buffer: str, indices: tuple[Expr, ...], names: _Names) -> tuple[str, tuple[Expr, ...]]:
    """An access of a view as one of its source."""
    while (view := names.views.get(buffer)) is not None:
        starts = [r.start for r in view.source.ranges]
        dropped = len(starts) - len(indices)
        if dropped < 0:
            raise MsError(problem("MS405", f"{buffer} is accessed with more indices than the region it views has"))
        shifted = tuple(Binary("+", at, i) for at, i in zip(starts[dropped:], indices, strict=True))
        buffer, indices = view.source.buffer, (*starts[:dropped], *shifted)
    return buffer, indices
