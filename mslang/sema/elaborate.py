"""From the statements of a program to IR: blocks with their loops, axes, regions and init."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from mslang.diagnostics import MsError, Note, Span
from mslang.ir.expr import ONE, Const, Expr, Var, dtype_of
from mslang.ir.find import blocks_of
from mslang.ir.program import (
    AXIS_KINDS,
    Annotations,
    AttrValue,
    Axis,
    Block,
    Buffer,
    For,
    If,
    Let,
    Region,
    Stmt,
    View,
    While,
)
from mslang.ir.region import Regions, infer_regions
from mslang.ir.visit import conjunction, conjuncts
from mslang.sema import buffers as parts
from mslang.sema.adapt import text_of
from mslang.sema.assign import assignment
from mslang.sema.declare import Declarations, refuse_shadow
from mslang.sema.evaluation_limits import excess, too_much
from mslang.sema.expressions import condition, index, infer, typed
from mslang.sema.report import failure, fault, unknown
from mslang.sema.scope import Broken, BufferName, Meaning, Scope, SizeName, Variable
from mslang.sema.starts import init_fault, start_of, written_by_init
from mslang.syntax import tree

FOREIGN = {
    tree.Sample: ("`~`", "decisions are drawn in schedules"),
    tree.Fork: ("`fork`", "structures are chosen in schedules"),
    tree.Require: ("`require`", "constraints on draws stand in schedules"),
    tree.Check: ("`check`", "checks stand in tests"),
    tree.Snapshot: ("`snapshot`", "snapshots stand in tests"),
    tree.Return: ("`return`", "a program gives its results in `out` parameters"),
}


class Part(msgspec.Struct):
    """What the declarations among the statements of a block (or of the program) say about it.

    `own` are the statements that stand in it directly: only among them may a clause (`init`, `reads`, …) be.
    """

    own: tuple[tree.Stmt, ...] = ()
    allocs: list[Buffer] = []
    views: list[View] = []
    attrs: list[tuple[str, AttrValue]] = []
    declared: list[tuple[tree.Name, Meaning]] = []
    seen: dict[str, Span] = {}

    @property
    def annotations(self) -> Annotations:
        """The annotations in their order."""
        return tuple(self.attrs)

    def scope_of_clauses(self, scope: Scope) -> Scope:
        """The scope of the block's clauses: its axes and its buffers, no `let`."""
        for name, meaning in self.declared:
            scope = scope.with_name(name.text, meaning, name.span)
        return scope


class Clauses(msgspec.Struct):
    """What a block's clauses say; None where the text is silent."""

    init: tuple[Stmt, ...] | None = None
    reads: Regions | None = None
    writes: Regions | None = None


class Elaborator:
    """Builds one program. `exact` reads a long form: nothing is renamed, folded into sizes, or warned about."""

    def __init__(self, exact: bool, reserved: Iterable[str] = ()) -> None:
        self.exact = exact
        self.declared = Declarations(reserved)
        self.diagnostics = self.declared.diagnostics
        self._reducing: list[str] = []

    # -------------------------------------------------------------- statements
    def statements(self, body: tuple[tree.Stmt, ...], scope: Scope, part: Part) -> tuple[Stmt, ...]:
        """The IR of some statements; what they declare for their block is put into `part`."""
        out: list[Stmt] = []
        self.declared.see(scope)
        for k, s in enumerate(body):
            try:
                match s:
                    case tree.Let():
                        made, inner = self._let(s, scope)
                        rest = self.statements(body[k + 1 :], inner, part)
                        return (*out, *((Let(made.name, made.value, rest),) if made is not None else rest))
                    case tree.Alloc():
                        scope = self._alloc(s, scope, part)
                        self.declared.see(scope)
                    case tree.View():
                        scope = self._view(s, scope, part)
                        self.declared.see(scope)
                    case _:
                        out.extend(self._statement(s, scope, part))
            except MsError as e:
                self.declared.report(e)
        return tuple(out)

    def _statement(self, s: tree.Stmt, scope: Scope, part: Part) -> tuple[Stmt, ...]:
        match s:
            case tree.Block():
                return self.block(s, scope)
            case tree.For():
                return self._for(s, scope, part)
            case tree.Assign():
                return (assignment(s, scope, anywhere=self.exact),)
            case tree.If(condition=c, body=then, otherwise=otherwise):
                when = condition(c, scope)
                if isinstance(when, Const) and scope.block is None and not self.exact:
                    return self._taken(then if when.value else otherwise, scope, part)
                other = () if otherwise is None else self.statements(otherwise.statements, scope, part)
                return (If(when, self.statements(then.statements, scope, part), other),)
            case tree.While(condition=c, body=b):
                return (While(condition(c, scope), self.statements(b.statements, scope, part)),)
            case tree.CallStmt(call=call, pins=pins):
                if pins is not None:
                    raise failure("MS110", s, "`with` pins stand in schedules only")
                typed(call, scope)
                raise failure(
                    "MS110",
                    s,
                    "a call has no effect in a program",
                    why="functions of programs only compute",
                    help=f"store its result: `x[i] = {text_of(call)}`",
                )
            case tree.AttrSet(key=key, value=value):
                self._once(part, f"attr {key}", s)
                part.attrs.append((key, parts.attribute(value, scope)))
            case tree.Init() | tree.Reads() | tree.Writes() | tree.Where():
                if scope.block is None or not any(s is x for x in part.own):
                    raise failure("MS110", s, f"`{type(s).__name__.lower()}` stands directly in a block only")
            case tree.Bad():
                raise MsError
            case _:
                what, why = FOREIGN.get(type(s), ("this statement", None))
                raise failure("MS110", s, f"{what} has no place in a program", why=why)
        return ()

    def _taken(self, branch: tree.Body | None, scope: Scope, part: Part) -> tuple[Stmt, ...]:
        """The branch that the sizes choose."""
        return () if branch is None else self.statements(branch.statements, scope, part)

    def _once(self, part: Part, key: str, s: tree.Stmt) -> None:
        if key in part.seen:
            raise failure("MS102", s, f"`{key}` stands twice", notes=(Note("first one here", part.seen[key]),))
        part.seen[key] = s.span

    def _let(self, s: tree.Let, scope: Scope) -> tuple[Let | None, Scope]:
        match s.binders:
            case (tree.Binder(name=tree.Name() as name, star=False),):
                pass
            case _:
                raise failure(
                    "MS110",
                    s,
                    "a `let` of a program binds one name",
                    why="several names, `_` and `*name` take apart what a primitive gives, in schedules",
                )
        try:
            refuse_shadow(name, scope)
            value = infer(s.value, scope)
            if value.size and scope.block is None and not self.exact:
                over = excess(value.expr)
                if over is not None:
                    raise MsError(too_much(over).at(s.value.span))
                return None, scope.with_name(name.text, SizeName(value.expr), name.span)
            expr = typed(s.value, scope)
        except MsError as e:
            self.declared.report(e)
            return None, scope.with_name(name.text, Broken(), name.span)
        var = Var(name.text, dtype_of(expr))
        return Let(name.text, expr, ()), scope.with_name(name.text, Variable(var, "let"), name.span)

    def _alloc(self, s: tree.Alloc, scope: Scope, part: Part) -> Scope:
        if s.value is not None:
            self.diagnostics.append(
                fault("MS110", s.value, "an `alloc` has no initial value", help="write the value in a block of its own")
            )
        scope, made = self.declared.buffer(s.name, s.type, scope, "alloc")
        part.declared.append((s.name, scope.names[s.name.text].meaning))
        if made is not None:
            part.allocs.append(made)
        return scope

    def _view(self, s: tree.View, scope: Scope, part: Part) -> Scope:
        if scope.block is None:
            raise failure("MS110", s, "a `view` stands in a block only")
        try:
            source = parts.region(s.source, scope)
        except MsError as e:
            self.declared.report(e)
            return scope.with_name(s.name.text, Broken(), s.name.span)
        of = scope.get(source.buffer)
        assert isinstance(of, BufferName)
        scope, made = self.declared.buffer(s.name, s.type, scope, of.direction, of)
        part.declared.append((s.name, scope.names[s.name.text].meaning))
        if made is not None:
            if made.dtype != of.buffer.dtype:
                raise failure("MS104", s.type, f"a view of `{of.buffer.dtype}` elements as `{made.dtype}`")
            _check_shape(made, source, s)
            part.views.append(View(made, source))
        return scope

    def _for(self, s: tree.For, scope: Scope, part: Part) -> tuple[Stmt, ...]:
        headers: list[For] = []
        for loop in s.loops:
            found = parts.domain(loop.domain, scope)
            kind, notes = parts.loop_place(loop.place, scope)
            refuse_shadow(loop.name, scope)
            var = self.declared.loop(loop.name)
            headers.append(For(var, found.extent, (), kind, found.start, notes))
            scope = scope.with_name(loop.name.text, Variable(Var(var), "loop"), loop.name.span)
        body = self.statements(s.body.statements, scope, part)
        if s.where is not None:
            body = _guarded(body, condition(s.where, scope))
        return _nested(headers, body)

    # -------------------------------------------------------------- blocks
    def block(self, s: tree.Block, scope: Scope) -> tuple[Stmt, ...]:
        """A block within the loops of those of its axes that have no binding."""
        self.declared.block(s.name, scope)
        headers: list[For] = []
        axes: list[Axis] = []
        inner = scope.inside(s.name.text)
        where = scope
        for a in s.axes or ():
            made, loop = self._axis(a, scope, s)
            meaning: Meaning = Broken() if made is None else Variable(Var(a.name.text), "axis")
            if any(x.name.text == a.name.text for x in (s.axes or ())[: len(axes)]):
                self.diagnostics.append(fault("MS102", a.name, f"axis `{a.name.text}` is declared twice"))
            inner = inner.with_name(a.name.text, meaning, a.name.span)
            where = where.with_name(a.name.text, meaning, a.name.span)
            self.declared.axes[s.name.text, a.name.text] = a.name.span
            if made is not None:
                axes.append(made)
            if loop is not None:
                headers.append(loop)
        part = Part(own=s.body.statements)
        body = self._body(s, inner, part, axes)
        clauses = self._clauses(s, part.scope_of_clauses(inner), part)
        made_block = Block(
            s.name.text,
            tuple(axes),
            (),
            (),
            body,
            clauses.init or None,
            self._predicate(s, where),
            tuple(part.allocs),
            tuple(part.views),
            part.annotations,
        )
        return _nested(headers, (self._finished(made_block, clauses, s, inner),))

    def _body(self, s: tree.Block, scope: Scope, part: Part, axes: list[Axis]) -> tuple[Stmt, ...]:
        self.declared.write(written_by_init(s), scope, s.name.span)
        reduces = any(a.kind == "reduce" for a in axes)
        self._reducing += [s.name.text] if reduces else []
        body = self.statements(s.body.statements, scope, part)
        if reduces:
            self._reducing.pop()
        return body

    def _clauses(self, s: tree.Block, scope: Scope, part: Part) -> Clauses:
        said = Clauses()
        for c in s.body.statements:
            try:
                match c:
                    case tree.Init(body=b):
                        self._once(part, "init", c)
                        said.init = self.statements(b.statements, scope, Part())
                    case tree.Reads(regions=rs):
                        self._once(part, "reads", c)
                        said.reads = tuple(parts.region(r, scope) for r in rs)
                    case tree.Writes(regions=rs):
                        self._once(part, "writes", c)
                        said.writes = tuple(parts.region(r, scope) for r in rs)
            except MsError as e:
                self.declared.report(e)
        return said

    def _axis(self, a: tree.Axis, scope: Scope, s: tree.Block) -> tuple[Axis | None, For | None]:
        try:
            if not self.exact:
                refuse_shadow(a.name, scope, allowed=("loop", "axis", "let"))
            extent = index(a.extent, scope)
            kind = "reduce" if a.reduce else "spatial"
            if a.place is not None:
                if a.place.text not in AXIS_KINDS:
                    raise MsError(
                        unknown(
                            "MS116",
                            a.place.path_span,
                            "axis kind",
                            a.place.text,
                            AXIS_KINDS,
                            help="axes are `spatial`, `reduce`, `scan` or `opaque`",
                        )
                    )
                kind = a.place.text
            if a.binding is not None:
                return Axis(a.name.text, extent, kind, index(a.binding, scope)), None
            var = self.declared.loop(a.name)
            return Axis(a.name.text, extent, kind, Var(var)), For(var, extent, ())
        except MsError as e:
            self.declared.report(e)
            return None, None

    def _predicate(self, s: tree.Block, scope: Scope) -> Expr:
        found: list[Expr] = []
        for w in s.body.statements:
            if isinstance(w, tree.Where):
                try:
                    found.append(condition(w.condition, scope))
                except MsError as e:
                    self.declared.report(e)
        return found[0] if len(found) == 1 else conjunction(tuple(x for p in found for x in conjuncts(p)))

    def _finished(self, b: Block, said: Clauses, s: tree.Block, scope: Scope) -> Block:
        """The block with init and regions inferred where the text does not say them."""
        if said.init is None:
            b = replace(b, init=start_of(b, self.declared, scope))
            around = self._reducing[-1] if self._reducing else None
            fault_found = None if self.exact else init_fault(b, s.name, around, self.declared, scope)
            self.diagnostics.extend(() if fault_found is None else (fault_found,))
        reads, writes = infer_regions(b, self.declared.types)
        b = replace(
            b, reads=reads if said.reads is None else said.reads, writes=writes if said.writes is None else said.writes
        )
        self.declared.write((r.buffer for r in b.writes), scope, s.name.span)
        return b


def _check_shape(view: Buffer, source: Region, at: tree.View) -> None:
    """Refuse a view whose shape is not that of its region, dimensions of extent 1 in front dropped."""
    dropped = len(source.ranges) - len(view.shape)
    extents = tuple(r.extent for r in source.ranges)
    clash = [
        k
        for k, (n, m) in enumerate(zip(view.shape, extents[max(dropped, 0) :]))
        if isinstance(n, Const) and isinstance(m, Const) and n != m
    ]
    if dropped < 0 or clash or any(isinstance(n, Const) and n != ONE for n in extents[:dropped]):
        raise failure(
            "MS105",
            at.type,
            f"the shape of `{view.name}` is not that of the region it views",
            why="only leading dimensions of extent 1 may be left out",
        )


def _nested(headers: list[For], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for h in reversed(headers):
        body = (replace(h, body=body),)
    return body


def _guarded(body: tuple[Stmt, ...], when: Expr) -> tuple[Stmt, ...]:
    """The body with `when` added to the predicate of its blocks; without blocks, under an `if`."""
    if not blocks_of(body):
        return (If(when, body),)

    def add(s: Stmt) -> Stmt:
        match s:
            case Block(predicate=p):
                return replace(s, predicate=conjunction((*conjuncts(when), *conjuncts(p))))
            case For(body=b) | While(body=b) | Let(body=b):
                return replace(s, body=tuple(add(x) for x in b))
            case If(then=t, otherwise=o):
                return replace(s, then=tuple(add(x) for x in t), otherwise=tuple(add(x) for x in o))
        return s

    return tuple(add(s) for s in body)
