"""From a program to Python source that runs it, with or without its checks.

Loops become Python loops (runs of plain ones a single loop over a product), buffers flat lists, axes and regions
local names computed when a block is entered. Deep nests are cut into local functions, because Python allows
twenty loops within each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import msgspec
from msgspec.structs import replace

from mslang.backend.reference.expressions import Expressions, Level, Name, Scope, Storage, Window, unsupported
from mslang.backend.reference.faults import Site
from mslang.backend.reference.numeric import literal, poison
from mslang.backend.reference.promises import Promise, promise_of, runs_once
from mslang.backend.reference.sharing import Sharing, is_concurrent, sharing_of
from mslang.ir.dtype import parts
from mslang.ir.expr import TRUE, Binary, Const, Expr, Var
from mslang.ir.program import Block, Buffer, Evaluate, For, If, Let, Program, Region, Stmt, Store, While
from mslang.ir.visit import conjuncts, free_vars, loads_of

DEEPEST = 14
"""Python loops within each other before a nest is cut."""

WHILE_LIMIT = 1 << 24


class Line(msgspec.Struct, frozen=True):
    """A line of source: the block it belongs to, and the Python names of the loops and axes that hold there."""

    text: str
    block: str | None
    around: tuple[str, ...]


class Source(msgspec.Struct, frozen=True):
    """Generated source of a function `run(_k, parameters…)`. `names` gives the loop or axis that a Python name is."""

    lines: tuple[Line, ...]
    sites: tuple[Site, ...]
    names: Mapping[str, str]

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(line.text for line in self.lines)


def generate(program: Program, check: bool) -> Source:
    """The source of a program without symbols."""
    return _Generator(program, check).source()


class _Generator:
    def __init__(self, program: Program, check: bool) -> None:
        self.program, self.check = program, check
        self.e = Expressions(check)
        self.lines: list[Line] = []
        self.around: tuple[str, ...] = ()
        self.block: str | None = None
        self.depth, self.loops = 0, 0
        self.labels: dict[str, str] = {}
        self.sharing: dict[str, Sharing] = sharing_of(program) if check else {}
        self.concurrent = any(s.raced for s in self.sharing.values())

    def source(self) -> Source:
        params = [q.buffer for q in self.program.params]
        scope = Scope()
        names = []
        for k, q in enumerate(self.program.params):
            storage = self._storage(q.buffer, f"p{k}", q.direction == "out", 0)
            names.append(storage.text)
            scope = replace(scope, buffers={**scope.buffers, q.buffer.name: storage})
        self._line(f"def run({', '.join(('_k', *names))}):")
        self.depth += 1
        if self.concurrent:
            self._line("_ctx, _levels = 0, ()")
        for b in params:
            self._shadows(scope.buffers[b.name])
        scope = self._allocate(self.program.allocs, scope)
        self._body(self.program.body, scope)
        self._line("return None")
        return Source(tuple(self.lines), tuple(self.e.sites), self.labels)

    def _line(self, text: str) -> None:
        self.lines.append(self._made(text))

    def _made(self, text: str) -> Line:
        return Line(" " * self.depth + text, self.block, self.around)

    def _named(self, name: str, stem: str) -> str:
        text = self.e.temporary(stem)
        self.labels[text] = name
        return text

    # -------------------------------------------------------------- buffers
    def _storage(self, b: Buffer, text: str, fresh: bool, level: int) -> Storage:
        found = parts(b.dtype)
        if found is None or found.lanes != 1:
            raise unsupported(f"elements of type `{b.dtype}`")
        sharing = self.sharing.get(b.name)
        return Storage(
            text,
            b.name,
            b.dtype,
            tuple(known(n) for n in b.shape),
            fresh and self.check,
            sharing is not None and sharing.raced,
            level,
        )

    def _allocate(self, allocs: tuple[Buffer, ...], scope: Scope) -> Scope:
        for b in allocs:
            storage = self._storage(b, self.e.temporary("b"), True, len(scope.levels))
            nothing = "None" if self.check else literal(poison(b.dtype), b.dtype)
            self._line(f"{storage.text} = [{nothing}] * {prod(storage.shape)}")
            self._shadows(storage)
            scope = replace(scope, buffers={**scope.buffers, b.name: storage})
        return scope

    def _shadows(self, s: Storage | Window) -> None:
        if not isinstance(s, Storage) or not self.check:
            return
        self._line(f"{s.text}_o = {{}}")
        if s.raced:
            sharing = self.sharing[s.name]
            private, joined = (tuple(sorted(x)) for x in (sharing.private, sharing.joined))
            self._line(f"{s.text}_s = _k.shadow({s.shape}, {private}, {joined})")

    # -------------------------------------------------------------- statements
    def _body(self, body: tuple[Stmt, ...], scope: Scope) -> None:
        if not body:
            self._line("pass")
        for s in body:
            self._statement(s, scope)

    def _statement(self, s: Stmt, scope: Scope) -> None:
        match s:
            case For():
                self._for(s, scope)
            case Block():
                self._block(s, scope)
            case Store():
                self._store(s, scope)
            case Let(name=n, value=v, body=b):
                text = self._named(n, "l")
                self._line(f"{text} = {self.e.expr(v, scope)}")
                name = Name(text, data=self.e.from_data(v, scope))
                self._body(b, replace(scope, names={**scope.names, n: name}))
            case If(condition=c, then=t, otherwise=o):
                self._nested(f"if {self.e.expr(c, scope)}:", t, scope)
                if o:
                    self._nested("else:", o, scope)
            case While(condition=c, body=b):
                self._while(c, b, scope)
            case Evaluate(value=v):
                self._line(self.e.expr(v, scope))

    def _nested(self, head: str, body: tuple[Stmt, ...], scope: Scope) -> None:
        self._line(head)
        self.depth += 1
        self._body(body, scope)
        self.depth -= 1

    def _while(self, condition: Expr, body: tuple[Stmt, ...], scope: Scope) -> None:
        count = self.e.temporary("n")
        counted = replace(scope, whiles=(*scope.whiles, count))
        self._line(f"{count} = 0")
        self._line(f"while {self.e.expr(condition, scope)}:")
        self._inside((), f"if ({count} := {count} + 1) > {WHILE_LIMIT}: _k.endless({scope.block!r})", body, counted)

    # -------------------------------------------------------------- loops
    def _for(self, s: For, scope: Scope) -> None:
        if self.loops >= DEEPEST:
            self._cut(s, scope)
            return
        if self.concurrent and is_concurrent(s):
            self._concurrent(s, scope)
            return
        nest = [s]
        while (
            len(s.body) == 1
            and isinstance(inner := s.body[0], For)
            and not (self.concurrent and is_concurrent(inner))
            and not (free_vars(inner.start) | free_vars(inner.extent)) & {x.var for x in nest}
            and not any(loads_of(e) for e in (inner.start, inner.extent))
        ):
            nest.append(inner)
            s = inner
        made = [self._variable(x, scope) for x in nest]
        ranges = [text for _, text in made]
        names = [name.text for name, _ in made]
        over = ranges[0] if len(nest) == 1 else f"product({', '.join(ranges)})"
        self._line(f"for {', '.join(names)} in {over}:")
        self._inside(names, "", s.body, scope.under({x.var: name for x, (name, _) in zip(nest, made, strict=True)}))

    def _inside(self, names: Sequence[str], first: str, body: tuple[Stmt, ...], scope: Scope) -> None:
        """The inside of a Python loop over `names`; `first` is a line put before the body."""
        around = self.around
        self.around = (*around, *names)
        self.depth, self.loops = self.depth + 1, self.loops + 1
        if first:
            self._line(first)
        self._body(body, scope)
        self.depth, self.loops = self.depth - 1, self.loops - 1
        self.around = around

    def _variable(self, s: For, scope: Scope) -> tuple[Name, str]:
        start, extent = self.e.expr(s.start, scope), self.e.expr(s.extent, scope)
        text = self._named(s.var, "i")
        if isinstance(s.start, Const) and isinstance(s.extent, Const):
            lo, n = int(s.start.value), int(s.extent.value)
            return Name(text, lo, lo + n - 1), f"range({lo}, {lo + n})"
        return Name(text), f"range({start}, {start} + {extent})"

    def _concurrent(self, s: For, scope: Scope) -> None:
        name, over = self._variable(s, scope)
        outer, levels, execution = self.e.temporary("c"), self.e.temporary("c"), self.e.temporary("x")
        self._line(f"{outer}, {levels} = _ctx, _levels")
        self._line(f"{execution} = _k.execution({s.var!r}, {self.e.expr(s.start, scope)})")
        self._line(f"for {name.text} in {over}:")
        first = f"_levels = (*{levels}, ({execution}.first, _ctx := _k.enter({execution}), {execution}))"
        self._inside((name.text,), first, s.body, scope.under({s.var: name}))
        self._line(f"_ctx, _levels = {outer}, {levels}")

    def _cut(self, s: For, scope: Scope) -> None:
        name = self.e.temporary("f")
        context = "_ctx, _levels" if self.concurrent else ""
        before, self.loops = self.loops, 0
        self._nested(f"def {name}({context}):", (s,), scope)
        self.loops = before
        self._line(f"{name}({context})")

    # -------------------------------------------------------------- blocks
    def _block(self, b: Block, scope: Scope) -> None:
        depth, outside = self.depth, (self.block, self.around)
        self.block = b.name
        bound = dict(scope.names)
        inner: dict[str, Name] = {}
        for a in b.axes:
            name, simple = self._axis_name(a.binding, known(a.extent), scope), self.e.expr(a.binding, scope)
            if name is None:
                text = self._named(a.name, "a")
                self._line(f"{text} = {simple}")
                self.around = (*self.around, text)
                name = Name(text)
            bound[a.name] = inner[a.name] = name
        if b.predicate != TRUE:
            whole = replace(scope, names=bound)
            self._line(f"if {' and '.join(self.e.expr(c, whole) for c in conjuncts(b.predicate))}:")
            self.depth += 1
        if self.check:
            inner = {a.name: self._checked_axis(b.name, a.name, inner[a.name], known(a.extent)) for a in b.axes}
        at = len(self.lines)
        boxes: dict[tuple[Region, int], tuple[str, str]] = {}

        def box(r: Region, d: int) -> tuple[str, str]:
            return boxes.setdefault((r, d), (self.e.temporary("r"), self.e.temporary("r")))

        around = (*_axes_around(scope), *scope.whiles)
        level = Level(b, box, runs_once(b, scope.loops), around, tuple(n.text for n in inner.values()))
        body = Scope(inner, scope.buffers, (*scope.levels, level), whiles=scope.whiles)
        body = self._views(b, self._allocate(b.allocs, body))
        self._init(b, body)
        self._body(b.body, body)
        self.lines[at:at] = [
            self._made(line)
            for (r, d), (lo, hi) in boxes.items()
            for line in (
                f"{lo} = {self.e.expr(r.ranges[d].start, body)}",
                f"{hi} = {lo} + {self.e.expr(r.ranges[d].extent, body)}",
            )
        ]
        self.depth, (self.block, self.around) = depth, outside

    def _axis_name(self, binding: Expr, extent: int, scope: Scope) -> Name | None:
        """The loop variable itself, where an axis is bound to one that stays within the axis's extent."""
        if isinstance(binding, Var) and (found := scope.names.get(binding.name)) is not None and found.within(extent):
            return found
        return None

    def _checked_axis(self, block: str, axis: str, name: Name, extent: int) -> Name:
        if name.within(extent):
            return name
        self._line(f"if not 0 <= {name.text} < {extent}: _k.axis({block!r}, {axis!r}, {name.text}, {extent})")
        return Name(name.text, 0, extent - 1)

    def _views(self, b: Block, scope: Scope) -> Scope:
        for v in b.views:
            starts = []
            for r in v.source.ranges:
                text = self.e.temporary("w")
                self._line(f"{text} = {self.e.expr(r.start, scope)}")
                starts.append(text)
            shape = tuple(known(n) for n in v.buffer.shape)
            window = Window(v.source.buffer, tuple(starts), len(starts) - len(shape), shape, len(scope.levels))
            scope = replace(scope, buffers={**scope.buffers, v.buffer.name: window})
        return scope

    def _init(self, b: Block, scope: Scope) -> None:
        if b.init is None:
            return
        first = [f"{scope.names[a.name].text} == 0" for a in b.axes if a.kind == "reduce"]
        if first:
            self._nested(f"if {' and '.join(first)}:", b.init, scope)
        else:
            self._body(b.init, scope)

    # -------------------------------------------------------------- stores
    def _store(self, s: Store, scope: Scope) -> None:
        value = self.e.stored(s.value, scope)
        if not self.check:
            _, flat, storage = self.e.access(s.buffer, s.indices, scope, True)
            self._line(f"{storage.text}[{flat}] = {value}")
            return
        kept = self.e.temporary("v")
        self._line(f"{kept} = {value}")
        checks, flat, storage = self.e.access(s.buffer, s.indices, scope, True)
        site = len(self.e.sites) - 1
        for c in checks:
            self._line(c)
        at = self.e.temporary()
        self._line(f"{at} = {flat}")
        if storage.raced:
            shadow = f"{storage.text}_s"
            self._line(
                f"if {shadow}.writer[{at}] != _ctx or {shadow}.reader[{at}] != _ctx:"
                f" _k.write({shadow}, {at}, _ctx, _levels, {site})"
            )
        self._owned(s, storage, at, kept, scope, site)
        self._line(f"{storage.text}[{at}] = {kept}")

    def _owned(self, s: Store, storage: Storage, at: str, value: str, scope: Scope, site: int) -> None:
        """Check that instances of a block are independent: what `spatial` promises."""
        if not scope.levels or not (wanted := promise_of(s, scope.levels[-1], scope.viewed)):
            return
        own = [scope.names[a.name].text for a in scope.levels[-1].block.axes if a.kind == "spatial"]
        before, now = self.e.temporary("o"), self.e.temporary("o")
        self._line(
            f"{before}, {now} = {storage.text}_o.get({at}),"
            f" ({scope.block!r}, {_tuple(scope.levels[-1].around)}, {_tuple(own)}, {value})"
        )
        self._line(
            f"if {before} is not None and {before}[:2] == {now}[:2] and ({before}[2] != {now}[2]"
            + (f" or ({before}[3] != {value} and {value} == {value})" if wanted is Promise.SAME else "")
            + f"): _k.twice({site}, {before}[2], {now}[2], ({before}[3], {value}))"
        )
        self._line(f"{storage.text}_o[{at}] = {now}")


def known(e: Expr) -> int:
    """The number that a size is, symbols having been replaced."""
    match e:
        case Const(value=v):
            return int(v)
        case Binary():
            from mslang.ir.arith import evaluate

            return int(evaluate(e, {}))
    raise unsupported("a size that is not a number")


def _axes_around(scope: Scope) -> tuple[str, ...]:
    return tuple(x for level in scope.levels for x in level.own)


def _tuple(texts: Iterable[str]) -> str:
    return f"({''.join(x + ', ' for x in texts)})"
