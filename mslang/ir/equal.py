"""Programs up to the names that do not matter, and hashes of that.

Two hashes: in `structural_hash` the names of buffers and of blocks count (schedules refer to them), those of loops,
axes and `let`s do not, nor does the program's own. In `workload_hash` no name counts: programs that differ in names
alone are one workload, whose records serve them all (`correspondence` maps the names). The text hashed is made from
the values alone, so it is the same in every process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from hashlib import sha256

import msgspec

from mslang.ir.annotations import PREFETCH, STREAM
from mslang.ir.dtype import is_float
from mslang.ir.expr import (
    Binary,
    Call,
    Cast,
    Choice,
    Const,
    Domain,
    DynamicRange,
    Expr,
    FreeTile,
    Load,
    PartitionedTile,
    PerfectTile,
    Select,
    Symbol,
    Unary,
    Uniform,
    Var,
)
from mslang.ir.program import (
    Annotations,
    AttrValue,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Packing,
    Program,
    Region,
    Stmt,
    Store,
    While,
)
from mslang.ir.region import HIDDEN

FORMAT = "mslang 1"
"""Changes when the text that is hashed does, so that old hashes match nothing by accident."""

_Names = Mapping[str, str]
"""What stands for a name in scope: `i` for a variable, `@A` for a buffer, `$M` for a size."""

_HIDING = frozenset(HIDDEN.values())


class Names(msgspec.Struct, frozen=True):
    """The names of a program in the order of their first occurrence; axes with the block that they are of."""

    buffers: tuple[str, ...]
    blocks: tuple[str, ...]
    loops: tuple[str, ...]
    axes: tuple[tuple[str, str], ...]
    sizes: tuple[str, ...]


class Correspondence(msgspec.Struct, frozen=True):
    """Which name of one program stands for which of another that is the same workload; axes by block and name."""

    buffers: Mapping[str, str]
    blocks: Mapping[str, str]
    loops: Mapping[str, str]
    axes: Mapping[tuple[str, str], str]
    sizes: Mapping[str, str]

    @property
    def trivial(self) -> bool:
        """Whether no name differs."""
        same = (self.buffers, self.blocks, self.loops, self.sizes)
        return all(a == b for m in same for a, b in m.items()) and all(a == b for (_, a), b in self.axes.items())


def structural_hash(p: Program) -> str:
    """A hexadecimal hash of a program, the same in every process and for all `alpha_equal` programs."""
    return sha256(canonical(p).encode()).hexdigest()


def workload_hash(p: Program) -> str:
    """A hexadecimal hash of what a program computes and how, without any name: the key of its records.

    Names of buffers, blocks, loops, axes, `let`s, dynamic sizes and of the program do not count; types, extents, the
    order and direction of parameters, operators and annotations do.

    >>> from mslang.sema.program import parse_program
    >>> text = "program p(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] + 1.0 } }"
    >>> renamed = "program q(X: f32[4], out Y: f32[4]) { block c[k: 4] { Y[k] = X[k] + 1.0 } }"
    >>> workload_hash(parse_program(text)) == workload_hash(parse_program(renamed))
    True
    """
    return sha256(" ".join(_Writer(named=False).program(p)).encode()).hexdigest()


def correspondence(p: Program, q: Program) -> Correspondence | None:
    """The names of `q` by those of `p`; None if they are not the same workload."""
    first, second = _Writer(named=False), _Writer(named=False)
    if list(first.program(p)) != list(second.program(q)):
        return None
    a, b = first.names(), second.names()

    def by_place(old: tuple[str, ...], new: tuple[str, ...]) -> dict[str, str]:
        return dict(zip(old, new, strict=True))

    return Correspondence(
        by_place(a.buffers, b.buffers),
        by_place(a.blocks, b.blocks),
        by_place(a.loops, b.loops),
        {old: new for old, (_, new) in zip(a.axes, b.axes, strict=True)},
        by_place(a.sizes, b.sizes),
    )


def alpha_equal(p: Program, q: Program) -> bool:
    """Whether two programs differ at most in the names of loops, axes and lets, their own, and the ranges of inputs."""
    return p is q or canonical(p) == canonical(q)


def canonical(p: Program) -> str:
    """The text that stands for a program without the names that do not matter.

    It distinguishes what Python calls equal: 0.0 and -0.0, 1 and true.
    """
    return " ".join(_Writer().program(p))


class _Writer:
    """Numbers names as they are bound: those of variables, and, unless `named`, of buffers and sizes."""

    def __init__(self, named: bool = True) -> None:
        self.bound = 0
        self.named = named
        self.known: dict[str, str] = {}
        """What stands for buffers and sizes, which are seen everywhere."""
        self.buffers: list[str] = []
        self.blocks: list[str] = []
        self.loops: list[str] = []
        self.axes: list[tuple[str, str]] = []
        self.sizes: list[str] = []

    def names(self) -> Names:
        """The names that were met."""
        return Names(tuple(self.buffers), tuple(self.blocks), tuple(self.loops), tuple(self.axes), tuple(self.sizes))

    def declare(self, *buffers: Buffer) -> None:
        """Number buffers, where their names do not count."""
        for b in buffers:
            if not self.named:
                self.known[f"@{b.name}"] = f"@{len(self.buffers)}"
            self.buffers.append(b.name)

    def bind(self, names: _Names, *new: str) -> dict[str, str]:
        """The names with new ones in scope."""
        made = dict(names)
        for n in new:
            made[n] = f"%{self.bound}"
            self.bound += 1
        return made

    def program(self, p: Program) -> Iterator[str]:
        yield FORMAT if self.named else f"{FORMAT} workload"
        self.declare(*(q.buffer for q in p.params), *p.allocs)
        for size in p.dynamic:
            if isinstance(size, Symbol):
                if not self.named:
                    self.known[f"${size.name}"] = f"${len(self.sizes)}"
                self.sizes.append(size.name)
        names = dict(self.known)
        for q in p.params:
            yield "const" if q.constant else q.direction
            yield from _buffer(q.buffer, names)
            if q.packing is not None:
                yield self.packing(q.packing)
        for b in p.allocs:
            yield from _buffer(b, names)
        yield f"dynamic {_exprs(p.dynamic, names)}"
        yield _annotations(p.annotations, names)
        yield from self.body(p.body, names)

    def packing(self, packing: Packing) -> str:
        """How a parameter is packed."""
        inside = self.bind(self.known, *packing.params)
        pad = "anything" if packing.pad is None else _expr(packing.pad, self.known)
        return f"packed {_exprs(packing.shape, self.known)} -> {_exprs(packing.results, inside)} {pad}"

    def body(self, body: tuple[Stmt, ...], names: _Names) -> Iterator[str]:
        yield "{"
        for s in body:
            yield from self.statement(s, names)
        yield "}"

    def statement(self, s: Stmt, names: _Names) -> Iterator[str]:
        match s:
            case Store(buffer=b, indices=xs, value=v):
                yield f"{_named(b, names)}[{_exprs(xs, names)}] = {_expr(v, names)}"
            case Let(name=n, value=v, body=b):
                yield f"let {_expr(v, names)}"
                yield from self.body(b, self.bind(names, n))
            case If(condition=c, then=t, otherwise=o):
                yield f"if {_expr(c, names)}"
                yield from self.body(t, names)
                yield from self.body(o, names)
            case While(condition=c, body=b):
                yield f"while {_expr(c, names)}"
                yield from self.body(b, names)
            case Evaluate(value=v):
                yield f"do {_expr(v, names)}"
            case For(var=v, extent=e, body=b, kind=k, start=a, annotations=notes):
                yield f"for {_expr(a, names)} {_expr(e, names)} {k} {_annotations(notes, names)}"
                self.loops.append(v)
                yield from self.body(b, self.bind(names, v))
            case Block():
                yield from self.block(s, names)

    def block(self, b: Block, names: _Names) -> Iterator[str]:
        self.blocks.append(b.name)
        self.axes += ((b.name, a.name) for a in b.axes)
        self.declare(*b.allocs, *(v.buffer for v in b.views))
        axes = self.bind(self.known, *(a.name for a in b.axes))
        bindings = (f"{a.kind} {_expr(a.extent, names)} {_expr(a.binding, names)}" for a in b.axes)
        yield f"block {repr(b.name) if self.named else ''} ({', '.join(bindings)})"
        yield f"where {_expr(b.predicate, {**names, **axes})}"
        yield f"reads {'; '.join(_region(r, axes) for r in b.reads)}"
        yield f"writes {'; '.join(_region(r, axes) for r in b.writes)}"
        yield _annotations(b.annotations, axes)
        for x in b.allocs:
            yield from _buffer(x, axes)
        for v in b.views:
            yield "view"
            yield from _buffer(v.buffer, axes)
            yield _region(v.source, axes)
        if b.init is not None:
            yield "init"
            yield from self.body(b.init, axes)
        yield from self.body(b.body, axes)


def _expr(e: Expr, names: _Names) -> str:
    match e:
        case Const(value=v, dtype=d):
            return f"{_number(v, d)}:{d}"
        case Var(name=n, dtype=d):
            return f"{names.get(n, repr(n))}:{d}"
        case Symbol(name=n, domain=d, position=k):
            return f"{names.get(f'${n}') or f'${n!r}'} {k} {_domain(d)}"
        case Load(buffer=b, indices=xs, dtype=d):
            return f"{_named(b, names)}[{_exprs(xs, names)}]:{d}"
        case Binary(op=op, left=a, right=b):
            return f"({_expr(a, names)} {op} {_expr(b, names)})"
        case Unary(op=op, operand=x):
            return f"({op} {_expr(x, names)})"
        case Select(condition=c, then=t, otherwise=o):
            return f"({_expr(c, names)} ? {_expr(t, names)} : {_expr(o, names)})"
        case Cast(dtype=d, operand=x):
            return f"({d} <- {_expr(x, names)})"
        case Call(name=n, args=xs, dtype=d):
            return f"{n!r}({_exprs(xs, names)}):{d}"
    raise TypeError(f"not an expression: {e!r}")


def _named(buffer: str, names: _Names) -> str:
    return names.get(f"@{buffer}") or repr(buffer)


def _exprs(xs: tuple[Expr, ...], names: _Names) -> str:
    return ", ".join(_expr(x, names) for x in xs)


def _number(value: int | float | bool, dtype: str) -> str:
    if dtype.startswith("bool"):
        return str(bool(value))
    return _float(float(value)) if is_float(dtype) else str(int(value))


def _float(value: float) -> str:
    return "nan" if math.isnan(value) else value.hex()


def _domain(d: Domain) -> str:
    match d:
        case DynamicRange(lo=lo, hi=hi, multiple=m, buckets=buckets):
            return f"dyn {lo} {hi} {m}" + (f" {buckets}" if buckets else "")
        case PerfectTile(extent=e, n=n, max_inner=cap):
            return f"perfect {_expr(e, {})} {n} {cap}"
        case FreeTile(extent=e, n=n, max_inner=cap):
            return f"free {_expr(e, {})} {n} {cap}"
        case PartitionedTile(extent=e, n=n, at=at, factor=f):
            return f"partitioned {_expr(e, {})} {n} {at} {f}"
        case Choice(values=vs, weights=ws):
            return f"choice {vs} {None if ws is None else [_float(w) for w in ws]}"
        case Uniform(lo=lo, hi=hi):
            return f"uniform {lo} {hi}"
    raise TypeError(f"not a domain: {d!r}")


def _region(r: Region, names: _Names) -> str:
    ranges = (f"{_expr(d.start, names)} + {_expr(d.extent, names)}" for d in r.ranges)
    return f"{_named(r.buffer, names)}[{', '.join(ranges)}]"


def _buffer(b: Buffer, names: _Names) -> Iterator[str]:
    yield f"{_named(b.name, names)}: {b.dtype}[{_exprs(b.shape, names)}] {b.scope} {b.align}"
    if b.strides is not None:
        yield f"strides {_exprs(b.strides, names)}"
    if b.offset is not None:
        yield f"offset {_expr(b.offset, names)}"


def _annotations(notes: Annotations, names: _Names) -> str:
    def value(v: AttrValue) -> str:
        match v:
            case Expr():
                return _expr(v, names)
            case tuple():
                return f"[{', '.join(value(x) for x in v)}]"
            case float():
                return _float(v)
        return repr(v)

    def hiding(v: AttrValue) -> str:
        return (
            f"[{', '.join(_named(x, names) if isinstance(x, str) else value(x) for x in v)}]"
            if isinstance(v, tuple)
            else value(v)
        )

    def told(key: str) -> str:
        about = next((x for x in (PREFETCH, STREAM) if key.startswith(x)), None)
        return repr(key) if about is None else f"{about!r} {_named(key.removeprefix(about), names)}"

    texts = (f"{told(key)} = {hiding(v) if key in _HIDING else value(v)}" for key, v in notes)
    return f"<{', '.join(texts)}>"
