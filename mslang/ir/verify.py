"""What a well-formed program is, in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.ir.arith import Verdict, covers, decide, intersect_box, union_box
from mslang.ir.arith.domain import is_dynamic
from mslang.ir.dtype import INDEX, is_float, is_integer, parts
from mslang.ir.expr import (
    ONE,
    ZERO,
    Binary,
    Call,
    Const,
    Domain,
    DynamicRange,
    Load,
    Symbol,
    dtype_of,
)
from mslang.ir.find import all_buffers
from mslang.ir.program import (
    AXIS_KINDS,
    LOOP_KINDS,
    SCOPES,
    Annotations,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Param,
    Program,
    Range,
    Region,
    Stmt,
    Store,
    View,
    While,
)
from mslang.ir.region import boxes_at_ends, hidden, infer_regions, stored, touched_by_data, whole
from mslang.ir.strides import provably_apart, shared_places
from mslang.ir.symbols import annotation_exprs, symbols_of
from mslang.ir.verify_types import Found, Visible, access, expression, size, typed
from mslang.ir.visit import free_vars, walk, walk_expr

RESERVED = frozenset({"inf", "nan", "_", ""})
"""Names with a fixed meaning everywhere."""


def verify(p: Program) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with a program as a value; nothing for a well-formed one.

    Names: loops, blocks, buffers and symbols are unique together; axes and lets do not hide what is visible.
    Scopes: a block's body sees its own axes and lets; bindings and loops see the enclosing loops and axes.
    Types, ranks, kinds, domains and annotations are legal; a `let` ends its statement list; only `out`, `inout`
    and allocated buffers are written; an init writes what its block writes and names no reduction axis; regions
    are of buffers from outside the block, and each access is to a buffer that is declared, and not provably outside.
    """
    return tuple(dict.fromkeys(_program(p)))


def _program(p: Program) -> Found:
    symbols: dict[str, Domain] = {s.name: s.domain for s in symbols_of(p)}
    dynamic = {s.name for s in p.dynamic if isinstance(s, Symbol)}
    listed = {n: d for n, d in symbols.items() if not isinstance(d, DynamicRange) or n in dynamic}
    here = Visible(f"program `{p.name}`", symbols=listed)
    yield from _unique(p, tuple(symbols))
    for s in p.dynamic:
        if not isinstance(s, Symbol) or not isinstance(s.domain, DynamicRange):
            yield here.fault("MS158", "only dynamic sizes are listed as such")
        else:
            yield from expression(s, here)
    for q in p.params:
        if q.direction not in ("in", "out", "inout"):
            yield here.fault("MS155", f"`{q.direction}` is not a direction of a parameter")
        if q.constant and q.direction != "in":
            yield here.fault("MS155", f"`{q.buffer.name}` is constant, and written")
        yield from _packing(q, here)
        yield from _within(q, here)
        yield from _layout(q.buffer, q.direction != "in", here, allocated=False)
    for b in p.allocs:
        yield from _layout(b, True, here)
    buffers = [*(q.buffer for q in p.params), *p.allocs]
    yield from _buffers(buffers, here)
    yield from _annotations(p.annotations, here)
    inputs = frozenset(q.buffer.name for q in p.params if q.direction == "in")
    yield from _Statements(all_buffers(p), inputs).body(p.body, replace(here, buffers={b.name: b for b in buffers}))


def _within(q: Param, here: Visible) -> Found:
    """The range of a parameter's elements: numbers of its type, or sizes for an integer type."""
    w, name, dtype = q.within, q.buffer.name, q.buffer.dtype
    if w is None:
        return
    if q.direction == "out" or not (is_integer(dtype) or is_float(dtype)):
        yield here.fault("MS153", f"a range of `{name}`, which is not an input of numbers")
        return
    for e in (w.low, w.high):
        yield from typed(e, dtype if is_float(dtype) else INDEX, here, f"the range of `{name}`")


def _packing(q: Param, here: Visible) -> Found:
    """Ranks and types; that no two elements go to one place is seen where arrays are packed."""
    packing, name = q.packing, q.buffer.name
    if packing is None:
        return
    for e in packing.shape:
        yield from size(e, here, f"a dimension of what `{name}` is packed from")
    inside = here.adding(dict.fromkeys(packing.params, INDEX))
    for e in packing.results:
        yield from typed(e, INDEX, inside, f"an index of the packing of `{name}`")
    if (len(packing.params), len(packing.results)) != (len(packing.shape), len(q.buffer.shape)):
        yield here.fault("MS154", f"the packing of `{name}` takes or gives another number of indices than there are")
    if len(set(packing.params)) != len(packing.params):
        yield here.fault("MS150", f"the packing of `{name}` names an index twice")
    if q.buffer.strides is not None or q.buffer.offset is not None:
        yield here.fault("MS155", f"`{name}` is packed, and has strides or an offset too")
    if packing.pad is not None:
        if not isinstance(packing.pad, Const):
            yield here.fault("MS155", f"the padding of `{name}` is not a number")
        yield from typed(packing.pad, q.buffer.dtype, here, f"the padding of `{name}`")


# ------------------------------------------------------------------ names
def _unique(p: Program, symbols: tuple[str, ...]) -> Found:
    kinds: dict[str, list[str]] = {}

    def name(text: str, kind: str) -> None:
        kinds.setdefault(text, []).append(kind)

    for b in (*(q.buffer for q in p.params), *p.allocs):
        name(b.name, "buffer")
    for s in symbols:
        name(s, "size")
    local: list[str] = []
    for st in walk(p.body):
        match st:
            case For(var=v):
                name(v, "loop")
            case Block():
                name(st.name, "block")
                for b in (*st.allocs, *(v.buffer for v in st.views)):
                    name(b.name, "buffer")
                local += [a.name for a in st.axes]
            case Let(name=n):
                local.append(n)
    for text, found in kinds.items():
        if len(found) > 1:
            yield problem(
                "MS150",
                f"`{text}` is the name of {_several(found)}",
                why="loops, blocks, buffers and sizes have names of their own",
            )
    for text in dict.fromkeys(local):
        clash = [k for k in kinds.get(text, ()) if k in ("buffer", "size")]
        if clash:
            yield problem("MS150", f"`{text}` is the name of a {clash[0]} and of an axis or a `let`")
    for text in dict.fromkeys((p.name, *kinds, *local)):
        if text in RESERVED or "`" in text or "\n" in text:
            yield problem("MS150", f"{text!r} cannot be a name")


def _several(kinds: list[str]) -> str:
    counts = Counter(kinds)
    return " and ".join(f"{n} {k}s" if n > 1 else f"a {k}" for k, n in counts.items())


def _annotations(notes: Annotations, here: Visible) -> Found:
    for key, n in Counter(k for k, _ in notes).items():
        if n > 1:
            yield here.fault("MS150", f"the annotation `{key}` stands {n} times")
    for e in annotation_exprs(notes):
        yield from expression(e, replace(here, variables={}, buffers={}))


# ------------------------------------------------------------------ buffers and regions
def _buffers(buffers: Iterable[Buffer], here: Visible) -> Found:
    for b in buffers:
        if parts(b.dtype) is None:
            yield here.fault("MS155", f"`{b.dtype}`, the type of `{b.name}`, is not an element type")
        if b.scope not in SCOPES:
            yield here.fault("MS155", f"`{b.scope}`, the scope of `{b.name}`, is none")
        for x in b.shape:
            yield from size(x, here, f"a dimension of `{b.name}`")
        if b.strides is not None and len(b.strides) != len(b.shape):
            yield here.fault("MS154", f"`{b.name}` has {len(b.shape)} dimensions, but {len(b.strides)} strides")
        for x in (*(b.strides or ()), *(() if b.offset is None else (b.offset,))):
            yield from typed(x, INDEX, here, f"a stride or the offset of `{b.name}`")
        if b.align is not None and (b.align < 1 or b.align & (b.align - 1)):
            yield here.fault("MS154", f"`{b.name}` cannot be aligned to {b.align} bytes", "that is not a power of two")


def _layout(b: Buffer, written: bool, here: Visible, *, allocated: bool = True) -> Found:
    """Strides of memory of its own: none is negative; in what is written each steps over all that smaller ones reach,
    so that no two elements share a place. Of parameters, strides that hold a size of the call are checked there."""
    if b.strides is None or len(b.strides) != len(b.shape):
        return
    known = [
        (int(step.value), int(extent.value))
        for step, extent in zip(b.strides, b.shape, strict=True)
        if isinstance(step, Const) and isinstance(extent, Const) and extent.value > 1
    ]
    for step, _ in known:
        if step < 0:
            why = "its memory begins with the first element"
            yield here.fault("MS154", f"`{b.name}` has a negative stride, {step}", why)
    forward = [x for x in known if x[0] >= 0]
    why_shared = shared_places([s for s, _ in forward], [n for _, n in forward], written=written)
    if why_shared is not None:
        yield here.fault("MS154", f"elements of `{b.name}`, which is written, share memory", why_shared)
    elif allocated and any(map(is_dynamic, (*b.strides, *b.shape))) and not provably_apart(b.strides, b.shape):
        why = "its strides hold a size of the call, and are not known to exceed the reach of the smaller ones"
        yield here.fault("MS154", f"elements of `{b.name}`, which is written, may share memory", why)


def _region(r: Region, here: Visible) -> Found:
    known = here.buffers.get(r.buffer)
    if known is None:
        yield here.fault("MS152", f"there is no buffer `{r.buffer}` for this region")
    elif len(known.shape) != len(r.ranges):
        yield here.fault("MS154", f"the region of `{r.buffer}` has {len(r.ranges)} dimensions, not {len(known.shape)}")
    for e in (x for d in r.ranges for x in (d.start, d.extent)):
        yield from typed(e, INDEX, here, f"in a region of `{r.buffer}`,")
        if any(isinstance(x, Load) for x in walk_expr(e)):
            yield here.fault("MS154", f"the region of `{r.buffer}` depends on data")


def _views(views: tuple[View, ...], here: Visible) -> Iterator[Diagnostic | Visible]:
    """The faults of a block's views, and at last what is visible with them."""
    for v in views:
        before = list(_region(v.source, here))
        yield from before
        yield from _buffers((v.buffer,), here)
        if not before:
            yield from _view_fits(v, here.buffers[v.source.buffer], here)
        here = replace(here, buffers={**here.buffers, v.buffer.name: v.buffer})
    yield here


def _view_fits(v: View, of: Buffer, here: Visible) -> Found:
    name, ranges = v.buffer.name, v.source.ranges
    dropped = len(ranges) - len(v.buffer.shape)
    if v.buffer.dtype != of.dtype:
        yield here.fault("MS153", f"`{name}` views `{of.dtype}` elements as `{v.buffer.dtype}`")
    if dropped < 0 or any(r.extent != ONE for r in ranges[:dropped]):
        yield here.fault(
            "MS154",
            f"`{name}` has other dimensions than what it views",
            "only leading dimensions of extent 1 may be left out",
        )
        return
    for n, r in zip(v.buffer.shape, ranges[dropped:], strict=True):
        if decide(Binary("==", n, r.extent)) is Verdict.REFUTED:
            yield here.fault("MS154", f"a dimension of `{name}` has another extent than what it views")


# ------------------------------------------------------------------ statements
class _Statements:
    """Checks statements; `buffers` are all of the program's, `inputs` those that may not be written."""

    def __init__(self, buffers: Mapping[str, Buffer], inputs: frozenset[str]) -> None:
        self.buffers = buffers
        self.inputs = inputs

    def body(self, body: tuple[Stmt, ...], here: Visible) -> Found:
        for k, s in enumerate(body):
            if isinstance(s, Let) and k < len(body) - 1:
                yield here.fault(
                    "MS159",
                    f"statements follow `let {s.name}` in its list",
                    "a `let` holds the rest of its list as its body",
                )
            yield from self.statement(s, here)

    def statement(self, s: Stmt, here: Visible) -> Found:
        match s:
            case Store():
                yield from self.store(s, here)
            case Let(name=n, value=v, body=b):
                yield from expression(v, here)
                yield from self.hides(n, here)
                yield from self.body(b, here.adding({n: dtype_of(v)}))
            case If(condition=c, then=t, otherwise=o):
                yield from typed(c, "bool", here, "the condition")
                yield from self.body(t, here)
                yield from self.body(o, here)
            case While(condition=c, body=b):
                yield from typed(c, "bool", here, "the condition")
                yield from self.body(b, here)
            case Evaluate(value=v):
                yield from expression(v, here)
                if not isinstance(v, Call):
                    yield here.fault("MS159", "only a call can be a statement")
            case For():
                yield from self.loop(s, here)
            case Block():
                yield from self.block(s, here)

    def hides(self, name: str, here: Visible) -> Found:
        if name in here.variables:
            yield here.fault("MS150", f"`{name}` hides another variable of this name")

    def store(self, s: Store, here: Visible) -> Found:
        before = [d for x in (*s.indices, s.value) for d in expression(x, here)]
        yield from before
        if not before:
            yield from access(s.buffer, s.indices, dtype_of(s.value), here)
        if s.buffer in self.inputs:
            yield here.fault("MS159", f"`{s.buffer}` is an input and cannot be written")

    def loop(self, s: For, here: Visible) -> Found:
        at = here.at(f"loop `{s.var}`")
        yield from typed(s.start, INDEX, at, "the start")
        yield from typed(s.extent, INDEX, at, "the extent")
        if s.kind not in LOOP_KINDS:
            yield at.fault("MS155", f"`{s.kind}` is not a kind of loop")
        yield from self.hides(s.var, at)
        yield from _annotations(s.annotations, at)
        yield from self.body(s.body, here.adding({s.var: INDEX}))

    # -------------------------------------------------------------- blocks
    def block(self, b: Block, here: Visible) -> Found:
        outside = here.at(f"block `{b.name}`")
        yield from self.axes(b, outside)
        axes = {a.name: INDEX for a in b.axes}
        yield from typed(b.predicate, "bool", outside.adding(axes), "the predicate")
        inner = replace(outside, variables=axes)
        before = [d for r in (*b.reads, *b.writes) for d in _region(r, inner)]
        yield from _annotations(b.annotations, inner)
        yield from _buffers(b.allocs, inner)
        for x in b.allocs:
            yield from _layout(x, True, inner)
        inner = replace(inner, buffers={**inner.buffers, **{x.name: x for x in b.allocs}})
        for found in _views(b.views, inner):
            if isinstance(found, Diagnostic):
                before.append(found)
            else:
                inner = found
        before += [*self.init(b, inner), *self.body(b.body, inner)]
        yield from before
        if not before:
            yield from self.covered(b, inner)

    def axes(self, b: Block, outside: Visible) -> Found:
        for name, n in Counter(a.name for a in b.axes).items():
            if n > 1:
                yield outside.fault("MS150", f"{n} axes are called `{name}`")
        for a in b.axes:
            yield from size(a.extent, outside, f"the extent of axis `{a.name}`")
            yield from typed(a.binding, INDEX, outside, f"the binding of axis `{a.name}`,")
            if a.kind not in AXIS_KINDS:
                yield outside.fault("MS155", f"`{a.kind}` is not a kind of axis")

    def init(self, b: Block, inner: Visible) -> Found:
        if b.init is None:
            return
        if not b.init:
            yield inner.fault("MS156", "the init is empty", "a block without init has None")
        yield from self.body(b.init, inner)
        written = {r.buffer for r in b.writes} | {x.name for x in b.allocs}
        reduced = {a.name for a in b.axes if a.kind == "reduce"}
        for name in sorted(stored(b.init) - written - {v.buffer.name for v in b.views}):
            yield inner.fault("MS156", f"the init writes `{name}`, which the block does not")
        for s in walk(b.init):
            if isinstance(s, Store) and reduced & free_vars(s.value).union(*(free_vars(x) for x in s.indices)):
                yield inner.fault("MS156", "the init names a reduction axis", "it runs where all of them are 0")

    def covered(self, b: Block, inner: Visible) -> Found:
        """Each access is to a buffer whose region is declared, and none is provably outside of it."""
        ranges = {a.name: Range(ZERO, a.extent) for a in b.axes}
        # Without the buffers' shapes, accesses that have no common box are listed apart, not widened to dimensions.
        unknown = touched_by_data(b)
        try:
            reads, writes = infer_regions(b, {name: self.buffers[name] for name in unknown if name in self.buffers})
        except MsError:  # (an index that cannot be bounded, as a product of loops: it may be any of the dimension)
            reads, writes = infer_regions(b, self.buffers)
        for found, declared, verb in ((reads, b.reads, "reads"), (writes, b.writes, "writes")):
            for r in found:
                if r in declared or r.buffer in hidden(b, verb.removesuffix("s")):
                    continue
                same = [d for d in declared if d.buffer == r.buffer]
                if not same:
                    yield inner.fault("MS157", f"`{r.buffer}` is not among the {verb} of the block")
                elif r.buffer not in unknown and self.outside(r, hull := self.hull(same, ranges), ranges):
                    ends = boxes_at_ends(b, r.buffer, write=verb == "writes")
                    if not any(self.outside(Region(r.buffer, box), hull, ranges) for box in ends):
                        continue
                    yield inner.fault("MS157", f"the {verb} of `{r.buffer}` are outside of the declared region")

    def hull(self, declared: Sequence[Region], ranges: Mapping[str, Range]) -> Region:
        """The hull of the regions of a buffer that a block declares."""
        first, *rest = declared
        box = first.ranges
        for d in rest:
            box = union_box(box, d.ranges, whole(self.buffers[d.buffer]), ranges)
        return Region(first.buffer, box)

    def outside(self, found: Region, declared: Region, ranges: Mapping[str, Range]) -> bool:
        """Is what is accessed provably not within a region, nor the part of it that lies in the buffer? (The hull of
        what is accessed may be larger than the buffer, though no access is outside.)"""
        inside = intersect_box(found.ranges, whole(self.buffers[found.buffer]), ranges)
        return all(covers(declared.ranges, box, ranges) is Verdict.REFUTED for box in (found.ranges, inside))
