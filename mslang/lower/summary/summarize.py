"""From a lowered kernel, whose decisions may have no values yet, to its summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mslang.ir import arith
from mslang.ir.annotations import MAX_STEPS, PREFETCH
from mslang.ir.arith.convert import read_size
from mslang.ir.dtype import size_of
from mslang.ir.expr import ONE, ZERO, Binary, Const, Expr, Load, Var, dtype_of
from mslang.ir.program import Buffer, Range
from mslang.ir.visit import free_vars, loads_of, substitute
from mslang.kernel.nodes import Allocate, Atomic, Body, Evaluate, For, If, Invoke, Let, Module, Stmt, Store, While
from mslang.kernel.visit import bodies
from mslang.lower.analysis import MAX_UNROLLED
from mslang.lower.summary.accesses import Around, Reference, accesses, choose, footprints, iterations, references
from mslang.lower.summary.arithmetic import arithmetic
from mslang.lower.summary.footprint import over, product, times
from mslang.lower.summary.values import Access, Allocated, Loop, Nest, Statement, Summary
from mslang.target.description import Target

BASE_REGISTERS = 16
"""Registers of a thread for addresses and counters."""


def summarize(module: Module, target: Target) -> Summary:
    """What a kernel does, in numbers over its decisions.

    Args:
        module: buffers placed and compacted, loops bound to threads still loops, predicates not resolved; as
            `lower_symbolic` gives it.
        target: gives the sizes of a cache line (field `line`, else 64 bytes) and of a register (`vector_bits`; 32 bits
            where threads have their own, as `Target.has_threads` says).

    Returns:
        The summary. Loops whose trip count depends on outer loops count with the largest; one whose trip count depends
        on data, as a `while`, counts as one iteration; both branches of a condition count.
    """
    threads = target.has_threads
    machine = _Machine(int(target.fields.get("line", 64)), 4 if threads else target.vector_bits // 8)
    found = _Found([], [], [])
    start = _Place(machine, _global_buffers(module), (), {}, False, "", -1)
    for function in module.functions:
        for s in function.body:
            _visit(s, start, found)
    nests = tuple(_nest(top, k, found, threads) for k, top in enumerate(found.tops))
    return Summary(module.name, machine.line, tuple(found.statements), tuple(found.buffers), nests)


def _global_buffers(module: Module) -> dict[str, Buffer]:
    return {b.name: b for b in (*(p.buffer for p in module.params), *module.workspaces)}


class _Machine(NamedTuple):
    """Bytes of a cache line and of a register: a vector register, or a thread's on a GPU."""

    line: int
    register: int


class _Found(NamedTuple):
    """What the walk collects; `tops` are the outermost loops and statements."""

    statements: list[Statement]
    buffers: list[Allocated]
    tops: list[Stmt]


class _Place(NamedTuple):
    """A place in the kernel: buffers by name, loops around, what names stand for; nest -1 is outside all nests."""

    machine: _Machine
    buffers: Mapping[str, Buffer]
    loops: tuple[tuple[Loop, Range], ...]
    values: Mapping[str, Expr]
    guarded: bool
    instruction: str
    nest: int

    def put_in(self, e: Expr) -> Expr:
        """An expression over the loops around alone."""
        return substitute(e, self.values)


# ------------------------------------------------------------------ the walk
def _visit(s: Stmt, place: _Place, found: _Found) -> None:
    match s:
        case Allocate(buffer=b):
            found.buffers.append(_allocated(b, place))
            inner = place._replace(buffers={**place.buffers, b.name: b})
        case Let(name=n, value=v):
            inner = place._replace(values={**place.values, n: place.put_in(v)})
        case If():
            inner = place._replace(guarded=True)
        case _:
            if place.nest < 0:
                place = place._replace(nest=len(found.tops))
                found.tops.append(s)
            inner = _within(s, place, found)
    for body in bodies(s):
        for x in body:
            _visit(x, inner, found)


def _within(s: Stmt, place: _Place, found: _Found) -> _Place:
    """The place inside a statement; what it does itself is noted."""
    match s:
        case For():
            return _in_loop(s, place)
        case While():
            loop = (Loop("while", "while", ONE), Range(ZERO, ONE))
            return place._replace(loops=(*place.loops, loop), guarded=True)
        case Invoke(name=n):
            return place._replace(instruction=n)
        case Store(buffer=b, indices=xs, value=v, stream=stream):
            on = ZERO if stream is None else arith.simplify(stream)
            found.statements.append(replace(_store(b, xs, v, place), stream=on))
        case Atomic(buffer=b, indices=xs, value=v):
            updated = Load(b, xs, place.buffers[b].dtype)
            found.statements.append(_store(b, xs, Binary(s.op, updated, v), place))
        case Evaluate(value=v):
            found.statements.append(_store(None, (), v, place))
    return place


def _in_loop(s: For, place: _Place) -> _Place:
    same = next((x.var for x, _ in place.loops if x.kind == s.kind and s.kind.startswith("threadIdx.")), None)
    if same is not None:
        # Loops of one thread axis inside each other are one thread index.
        return place._replace(values={**place.values, s.var: Var(same)})
    extent = _number(place.put_in(s.extent), place)
    start = place.put_in(s.start)
    kind = "instruction" if place.instruction else s.kind
    copies = _copies(s, extent) if kind == "unrolled" else ONE
    return place._replace(loops=(*place.loops, (Loop(s.var, kind, extent, copies, _ahead(s)), Range(start, extent))))


def _ahead(s: For) -> Expr:
    """The largest distance at which a loop fetches memory."""
    most: Expr = ZERO
    for key, value in s.annotations:
        if key.startswith(PREFETCH) and isinstance(value, Expr | int):
            most = arith.simplify(Binary("max", most, value if isinstance(value, Expr) else Const(value)))
    return most


def _number(extent: Expr, place: _Place) -> Expr:
    """A trip count over decisions alone: the largest where it depends on loops around, 1 where it depends on data.

    A loop that never runs has 0.
    """
    if any(loads_of(extent)):
        return ONE
    found = arith.simplify(extent)
    if free_vars(extent):
        ends = arith.bounds(extent, {x.var: r for x, r in place.loops})
        found = ONE if ends is None or free_vars(ends[1]) else ends[1]
    return ZERO if isinstance(found, Const) and found.value < 0 else found


def _copies(s: For, extent: Expr) -> Expr:
    """How often the body of an unrolled loop is written out."""
    return _written(s, extent, _weight(s.body))


def _written(s: For, extent: Expr, weight: Expr) -> Expr:
    """As `_copies`, of a loop whose body has so many statements."""
    limit = dict(s.annotations).get(MAX_STEPS, MAX_UNROLLED)
    most = limit if isinstance(limit, Expr) else Const(int(limit) if isinstance(limit, int) else MAX_UNROLLED)
    fits = Binary("<=", times(extent, weight), Const(MAX_UNROLLED))
    return choose(_both(arith.simplify(Binary("<=", extent, most)), arith.simplify(fits)), extent, ONE)


def _both(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) or isinstance(b, Const):
        known, other = (a, b) if isinstance(a, Const) else (b, a)
        return other if isinstance(known, Const) and known.value else known
    return Binary("and", a, b)


def _weight(body: Body) -> Expr:
    """Statements of a body, its unrolled loops written out."""
    total: Expr = ZERO
    for s in body:
        inner: Expr = ZERO
        for b in bodies(s):
            inner = arith.add(inner, _weight(b))
        match s:
            case For(kind="unrolled", extent=n) if not free_vars(n):
                inner = arith.mul(_written(s, n, inner), inner)
            case Store() | Evaluate():
                inner = ONE
            case Invoke(text=text):
                inner = Const(text.count("\n") + 1)
        total = arith.add(total, inner)
    return total


def _allocated(b: Buffer, place: _Place) -> Allocated:
    elements = product(map(read_size, b.shape))
    if b.strides is not None:
        reach = read_size(ONE)
        for stride, n in zip(b.strides, b.shape, strict=True):
            reach = reach + (read_size(n) - 1) * read_size(stride)
        elements = product((reach,))
    size = times(elements, Const(size_of(b.dtype)))
    if not b.scope.startswith(("global", "shared")):
        # Virtual threads are one thread, which has the buffers of all of them.
        virtual = product(read_size(x.extent) for x, _ in place.loops if x.kind.startswith("vthread"))
        size = times(virtual, size)
    return Allocated(b.name, b.dtype, b.scope, b.shape, size, tuple(x.var for x, _ in place.loops), place.nest)


# ------------------------------------------------------------------ statements
def _store(buffer: str | None, indices: tuple[Expr, ...], value: Expr, place: _Place) -> Statement:
    indices, value = tuple(map(place.put_in, indices)), place.put_in(value)
    used = [r for e in (value, *indices) for r in references(e, place.guarded)]
    if buffer is not None:
        used = [Reference(buffer, tuple(map(arith.simplify, indices)), True, place.guarded), *used]
    loops = tuple(x for x, _ in place.loops)
    ranges = tuple((x.var, r) for x, r in place.loops)
    found = accesses(used, place.buffers, Around(ranges, place.machine.line))
    dtype = dtype_of(value) if buffer is None else place.buffers[buffer].dtype
    totals, lines = footprints(found, len(loops) + 1)
    lanes = product(read_size(x.extent) for x in loops if x.kind == "vectorized")
    vectors = over(times(lanes, Const(size_of(dtype))), max(place.machine.register, size_of(dtype)))
    copies = product(read_size(x.copies) for x in loops if x.kind == "unrolled")
    return Statement(
        buffer or "",
        dtype,
        place.nest,
        loops,
        place.guarded,
        place.instruction,
        arithmetic(value),
        found,
        iterations(ranges),
        totals,
        lines,
        product(read_size(x.extent) for x in loops if x.kind == "parallel"),
        lanes,
        vectors,
        times(copies, vectors),
        _accumulators(found, loops, vectors),
        _operands(found, loops, vectors),
    )


_WRITTEN_OUT = ("unrolled", "vectorized", "instruction")


def _tile(loops: Sequence[Loop]) -> int:
    """Where the loops begin that are written out or run as vectors, up to the innermost."""
    first = len(loops)
    while first and loops[first - 1].kind in _WRITTEN_OUT:
        first -= 1
    return first


def _registers(a: Access, loops: Sequence[Loop], vectors: Expr) -> Expr:
    """Registers for what one iteration of the loops around the written-out ones accesses."""
    first = _tile(loops)
    out: Expr = ONE
    varying = [x for x, same in zip(loops[first:], a.invariant[first:], strict=True) if not same]
    if any(x.kind == "vectorized" for x in varying):
        out = vectors
    for x in varying:
        out = times(x.copies, out) if x.kind == "unrolled" else out
    return out


def _accumulators(found: Sequence[Access], loops: Sequence[Loop], vectors: Expr) -> Expr:
    first = _tile(loops)
    updated = next((a for a in found if a.stores and a.loads), None)
    if updated is None or first == 0 or loops[first - 1].kind != "serial" or not updated.invariant[first - 1]:
        return ZERO
    return _registers(updated, loops, vectors)


def _operands(found: Sequence[Access], loops: Sequence[Loop], vectors: Expr) -> Expr:
    loaded = [_registers(a, loops, vectors) for a in found if a.loads and not a.stores]
    if not loaded:
        return ZERO
    total = largest = loaded[0]
    for x in loaded[1:]:
        total, largest = _plus(total, x), _largest(largest, x)
    if isinstance(total, Const) and isinstance(largest, Const):
        return Const(int(total.value) - int(largest.value) + 1)
    return ONE if total == largest else Binary("+", Binary("-", total, largest), ONE)


def _plus(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) + int(b.value))
    return b if a == ZERO else a if b == ZERO else Binary("+", a, b)


def _largest(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(max(int(a.value), int(b.value)))
    return b if a in (b, ZERO) else a if b == ZERO else Binary("max", a, b)


# ------------------------------------------------------------------ nests
def _nest(top: Stmt, at: int, found: _Found, threads: bool) -> Nest:
    inside = [s for s in found.statements if s.nest == at]
    used_here = {a.buffer for s in inside for a in s.accesses}
    own = [b for b in found.buffers if b.nest == at or (b.nest < 0 and b.name in used_here)]
    grid, block = _axes(inside, "blockIdx"), _axes(inside, "threadIdx")
    local = _total(b.bytes for b in own if b.scope == "local")
    local = _plus(local, _of_lane(_total(b.bytes for b in own if b.scope == "warp"), block[0]))
    live = _most((_plus(s.accumulators, s.operands) for s in inside), ZERO)
    if threads:
        # A thread's own buffers are its registers; statements hold their operands, and addresses as well.
        live = _plus(_plus(over(local, 4), _most((s.operands for s in inside), ZERO)), Const(BASE_REGISTERS))
    vthreads = [product(read_size(x.extent) for x in s.loops if x.kind.startswith("vthread")) for s in inside]
    return Nest(
        top.var if isinstance(top, For) else top.buffer if isinstance(top, Store) else "",
        grid,
        block,
        product(map(read_size, block)),
        _most(vthreads, ONE),
        _total(b.bytes for b in own if b.scope.startswith("shared")),
        local,
        live,
        _most((times(s.lanes, _widest(s)) for s in inside), ZERO),
        _total(times(s.copies, Const(_instructions(s))) for s in inside),
    )


def _axes(inside: Sequence[Statement], axis: str) -> tuple[Expr, Expr, Expr]:
    def along(kind: str) -> Expr:
        return _most((x.extent for s in inside for x in s.loops if x.kind == kind), ONE)

    return along(f"{axis}.x"), along(f"{axis}.y"), along(f"{axis}.z")


def _of_lane(size: Expr, lanes: Expr) -> Expr:
    """Bytes that one lane of a row has of what all of them hold together."""
    if size == ZERO or lanes == ONE:
        return size
    return over(size, int(lanes.value)) if isinstance(lanes, Const) else Binary("//", size, lanes)


def _widest(s: Statement) -> Expr:
    """Bytes of the largest element that a statement accesses with a stride of one element from lane to lane.

    Decisions may determine the stride (that of `x // n`, `x % n` with an open `n`), so it is compared by value.
    """
    lanes = [k for k, x in enumerate(s.loops) if x.kind == "vectorized"]
    strides = [(size_of(a.dtype), a.strides[k]) for a in s.accesses for k in lanes]
    wide: Expr = ZERO
    for size, stride in sorted({(n, e) for n, e in strides if e is not None}, key=repr):
        wide = _largest(wide, choose(arith.simplify(Binary("==", stride, ONE)), Const(size), ZERO))
    return wide


def _instructions(s: Statement) -> int:
    return s.arithmetic.total - s.arithmetic.float_fma + sum(a.loads + a.stores for a in s.accesses)


def _most(xs: Iterable[Expr], least: Expr) -> Expr:
    out = least
    for x in dict.fromkeys(xs):
        out = x if out == least and least in (ZERO, ONE) else _largest(out, x)
    return out


def _total(xs: Iterable[Expr]) -> Expr:
    out: Expr = ZERO
    for x in xs:
        out = _plus(out, x)
    return out
