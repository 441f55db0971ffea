"""Kinds of expressions in schedules: constants, operators, members and elements."""

from __future__ import annotations

from collections.abc import Callable

from mslang.diagnostics import Diagnostic, Fix
from mslang.ir.text import name_text
from mslang.ops.signature import Kind
from mslang.schedule.check.arguments import methods_of
from mslang.schedule.check.calls import Calls
from mslang.schedule.check.forks import compared
from mslang.schedule.check.kinds import (
    ANY,
    BOOL,
    FLOAT,
    HOLE,
    INDEX_MAP,
    LOOP,
    SIZE,
    STR,
    Binding,
    Environment,
    Static,
    describe,
    list_of,
)
from mslang.schedule.check.names import Mentioned, Names
from mslang.sema.module import Module
from mslang.sema.report import fault, unknown
from mslang.syntax import tree
from mslang.transform.registries import REGISTRY, Registry
from mslang.transform.registry import OPERATIONS

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or"})


class Expressions:
    """The expression part of one item's check."""

    def __init__(
        self, module: Module, report: Callable[[Diagnostic], None], mention: Mentioned, registry: Registry = REGISTRY
    ) -> None:
        self._reporter = report
        self._mention = mention
        self._quiet = 0
        self.names = Names(module, registry, self._report, mention)
        self.calls = Calls(self.names, self.value, self._report, mention)

    def _report(self, diagnostic: Diagnostic) -> None:
        if not self._quiet:
            self._reporter(diagnostic)

    def value(self, e: tree.Expr, names: Environment, quiet: bool = False) -> Static:
        """The value of an expression with a single value."""
        self._quiet += quiet
        found = self.results(e, names)
        self._quiet -= quiet
        if isinstance(found, tuple):
            return list_of(found[0] if found else ANY, len(found))
        return found

    def results(self, e: tree.Expr, names: Environment) -> Static | tuple[Static, ...]:
        """The value of an expression; a tuple for a call with several results."""
        match e:
            case tree.Number(value=v):
                return FLOAT if isinstance(v, float) else SIZE
            case tree.Size():
                return SIZE
            case tree.String():
                return STR
            case tree.Bool():
                return BOOL
            case tree.Hole():
                return HOLE
            case tree.Ref(name=name):
                return self.names.value(name, names)
            case tree.Member():
                return self._member(e, names)
            case tree.Call():
                return self.calls.results(e, names)
            case tree.Index():
                return self._index(e, names)
            case tree.Binary(op="..", left=a, right=b):
                self.value(a, names), self.value(b, names)
                return list_of(SIZE)
            case tree.Binary(op="==" | "!=", left=a, right=b) if fork := compared(a, b, names, self._report):
                self.value(fork, names)
                return BOOL
            case tree.Binary():
                return self._binary(e, names)
            case tree.Unary(op=op, operand=x):
                inner = self.value(x, names)
                return BOOL if op == "not" else inner
            case tree.List(items=items):
                values = [self.value(x, names) for x in items]
                plain = [v for v in values if v is not HOLE]
                same = plain[0] if plain and all(v.kind == plain[0].kind for v in plain) else ANY
                return list_of(same, len(items))
            case tree.Group(items=(inner,)):
                return self.results(inner, names)
            case tree.Group(items=items):
                return tuple(self.value(x, names) for x in items)
            case tree.Comprehension():
                return self._comprehension(e, names)
            case tree.IndexMap(params=params, results=results):
                known = {**names, **{p.text: Binding(SIZE, p.span) for p in params}}
                for x in results:
                    self.value(x, known)
                return INDEX_MAP
        return ANY

    def _member(self, e: tree.Member, names: Environment) -> Static:
        if (item := self.names.dotted(e, names)) is not None:
            return item
        base = self.value(e.base, names)
        name = e.name.text
        match base.kind:
            case Kind.BLOCK:
                if base.axes is not None and name not in base.axes and not base.more_axes:
                    known = (*base.axes, *(s.name for s in methods_of(Kind.BLOCK, self.names.registry)))
                    self._report(
                        unknown(
                            "MS204", e.name, "axis", name, known, help=f"the axes are {', '.join(base.axes) or 'none'}"
                        )
                    )
                elif name in OPERATIONS:
                    self._report(fault("MS207", e.name, f"`{name}` is not called", help=f"write `.{name}(…)`"))
                self._mention(e.name.span, name, LOOP, None)
                return LOOP
            case Kind.SCOPE | Kind.AXIS:
                return base
            case Kind.LOOP | Kind.BUFFER | Kind.SIZE | Kind.TILE | Kind.VALUES:
                if name in OPERATIONS:
                    self._report(fault("MS207", e.name, f"`{name}` is not called", help=f"write `.{name}(…)`"))
                else:
                    self._report(fault("MS204", e.name, f"{describe(base)} has no member `{name}`"))
        return ANY

    def _index(self, e: tree.Index, names: Environment) -> Static:
        base = self.value(e.base, names)
        for x in e.items:
            self.value(x, names)
        match base.kind:
            case Kind.TILE:
                if base.length is not None and len(e.items) == 1 and isinstance(e.items[0], tree.Number):
                    at = e.items[0].value
                    if isinstance(at, int) and not -base.length <= at < base.length:
                        self._report(
                            fault(
                                "MS203",
                                e.items[0],
                                f"there is no factor {at}",
                                why=f"{base.length} are drawn, counted from 0",
                            )
                        )
                return SIZE
            case Kind.VALUES | Kind.LOOPS | Kind.BLOCKS:
                return base.element or ANY
            case Kind.PROGRAM:
                return base
            case Kind.LOOP | Kind.BLOCK | Kind.SIZE:
                self._report(_no_elements(e, base))
        return ANY

    def _binary(self, e: tree.Binary, names: Environment) -> Static:
        left, right = self.value(e.left, names), self.value(e.right, names)
        handles = (Kind.BLOCK, Kind.BUFFER)
        for side, value in ((e.left, left), (e.right, right)):
            if value.kind in handles and e.op not in ("==", "!="):
                self._report(fault("MS203", side, f"`{e.op}` does not apply to {describe(value)}"))
        about_loops = {Kind.LOOP, Kind.CONDITION} & {left.kind, right.kind}
        if e.op in _COMPARISONS:
            same = e.op in ("==", "!=") and left.kind is right.kind is Kind.LOOP
            return Static(Kind.CONDITION) if about_loops and not same else BOOL
        if about_loops:
            return Static(Kind.LOOP)
        if FLOAT.kind in (left.kind, right.kind):
            return FLOAT
        return SIZE if SIZE.kind in (left.kind, right.kind) else ANY

    def _comprehension(self, e: tree.Comprehension, names: Environment) -> Static:
        source = self.value(e.source, names)
        element = source.element or ANY
        made = {b.name.text: Binding(element, b.name.span) for b in e.binders if b.name is not None}
        inner = {**names, **made}
        if e.condition is not None:
            self.value(e.condition, inner)
        return list_of(self.value(e.element, inner))


def _no_elements(e: tree.Index, base: Static) -> Diagnostic:
    """The error of indexing what is not a list; a block's axis by its name in quotes is a member."""
    match base.kind, e.base, e.items:
        case Kind.BLOCK, tree.Ref(name=block), (tree.String(value=axis),) if axis in (base.axes or ()):
            right = f"{name_text(block.text)}.{name_text(axis)}"
            fixes = (Fix(f"write `{right}`", e.span, right),)
            return fault("MS203", e, f"{describe(base)} has no elements", help=f"write `{right}`", fixes=fixes)
    return fault("MS203", e, f"{describe(base)} has no elements")
