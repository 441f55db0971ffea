"""Statements of TVMScript, from Python's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from mslang.interop.closed import Let
from mslang.interop.tvmscript.aliases import element
from mslang.interop.tvmscript.attributes import applies_to_rest, attributed, launch
from mslang.interop.tvmscript.blocks import block, declare_axes
from mslang.interop.tvmscript.buffers import ALLOCATIONS, Declared, allocation, bind_place, pointed, pointer_of, view
from mslang.interop.tvmscript.call_arguments import bound, dotted, needed
from mslang.interop.tvmscript.calls import cast
from mslang.interop.tvmscript.constants import is_macro, macro_of, size_type
from mslang.interop.tvmscript.expressions import Expressions
from mslang.interop.tvmscript.frame import Frame, notes_of
from mslang.interop.tvmscript.instructions import instruction
from mslang.interop.tvmscript.jumps import breaks, jumps, returns_nothing, straightened
from mslang.interop.tvmscript.loops import launched, loops
from mslang.interop.tvmscript.macros import called, expanded
from mslang.interop.tvmscript.scope import Array, Names, Pointer, Scope, Unnamed, Value, one_element
from mslang.interop.tvmscript.source import Refusal, refuse, text_of
from mslang.interop.tvmscript.values import Number, as_data, binary, condition, constant, data, index, plain_index
from mslang.interop.tvmscript.vectors import elements, stored
from mslang.ir import program as ir
from mslang.ir.expr import FALSE, TRUE, ZERO, Binary, Expr, Load, Symbol, Unary, Var, dtype_of
from mslang.ir.program import Stmt
from mslang.ir.visit import loads_of

_IN_PLACE: Mapping[type[ast.operator], str] = MappingProxyType(
    {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
)
_BLOCKS = frozenset({"block", "sblock"})
_HINTS = frozenset({"assume", "start_profile_intrinsic", "end_profile_intrinsic"})
"""Hints to the compiler without influence on the results."""


def _running(flag: ir.Buffer) -> Expr:
    return Unary("not", Load(flag.name, (), flag.dtype))


def _declares_nothing(s: ast.stmt) -> bool:
    match s:
        case ast.Expr() | ast.AugAssign() | ast.Assign(targets=[ast.Subscript()]):
            return True
    return False


class Statements:
    """Reads the statements of one function, `top`."""

    def __init__(self, read: Expressions, names: Names, top: list[ast.stmt], report: Callable[[Refusal], None]) -> None:
        self.top = top
        self.read = read
        self.names = names
        self.report = report
        self.declared = Declared(names)
        self.record = ir.Program("", (), ())
        """The known instructions."""
        self.result: ir.Buffer | None = None
        """What takes the number that the function returns."""
        self.stops: list[ir.Buffer] = []
        """The flags of the loops around that `break` ends."""
        self.macros: list[str] = []
        """The macros whose statements are being read."""
        self.orders: dict[str, str] = {}
        """The order in which fragments hold their tiles: by rows or by columns."""
        self.block_names: dict[str, str] = {}
        """Our name of each block by TVM's name (of the first block with that name)."""
        self.shared_names: set[str] = set()
        """TVM's names shared by several blocks, which TVM cannot look up."""

    # -------------------------------------------------------------- lists of statements
    def body(self, statements: list[ast.stmt], scope: Scope, frame: Frame) -> tuple[Stmt, ...]:
        """The statements of a body. A refusal in one of them is reported and the others are still read,
        unless it declares a name that they need."""
        made: list[Stmt] = []
        for k, s in enumerate(statements):
            call = applies_to_rest(s, self.read.aliases)
            if call is not None:
                nothing: list[ast.stmt] = [ast.copy_location(ast.Pass(), s)]
                around = ast.With([ast.withitem(call)], statements[k + 1 :] or nothing)
                return (*made, *self.body([ast.copy_location(around, s)], scope, frame))
            try:
                last = not made and statements is self.top and k == len(statements) - 1
                root = self._root(s, scope, frame) if last else None
                found = self.statement(s, scope, frame) if root is None else root
            except Refusal as refusal:
                if not _declares_nothing(s):
                    raise
                self.report(refusal)
                continue
            if isinstance(found, ir.Let | ir.For):
                rest = self.body(statements[k + 1 :], scope, frame)
                return (*made, replace(found, body=rest))
            made += found
        return tuple(made)

    def _root(self, s: ast.stmt, scope: Scope, frame: Frame) -> tuple[Stmt, ...] | None:
        """The statements of a function's explicit root block, which belong to the function itself."""
        match s:
            case ast.With(items=[ast.withitem(context_expr=ast.Call() as e)], body=inside) if (
                dotted(e.func, self.read.aliases) in _BLOCKS
                and isinstance(name := bound(e, "name", "**").get("name"), ast.Constant)
                and name.value == "root"
            ):
                return self.body(inside, scope, frame)
        return None

    def statement(self, s: ast.stmt, scope: Scope, frame: Frame) -> tuple[Stmt, ...] | ir.Let | ir.For:
        """One statement; a `let` or a thread loop without its body, which follows it."""
        match s:
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                return stored(self, target, value, scope)
            case ast.Assign(targets=[target], value=value):
                return self.assign(target, value, scope, frame)
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value) if type(op) in _IN_PLACE:
                old = self.read.number(target, scope)
                return (self.store(target, binary(_IN_PLACE[type(op)], old, self.read.number(value, scope), s), scope),)
            case ast.AnnAssign(target=ast.Name() as target, value=value, annotation=kind):
                return self.annotated(target, kind, value, scope, frame)
            case ast.For(orelse=[]):
                return loops(self, s, scope, frame)
            case ast.While(test=test, body=inside, orelse=[]):
                when = condition(self.read.number(test, scope), test)
                body, flag = self.stopping(inside, scope.inner(), frame)
                if flag is None:
                    return (ir.While(when, body),)
                return (ir.Store(flag.name, (), FALSE), ir.While(Binary("and", _running(flag), when), body))
            case ast.If(test=test, body=then, orelse=otherwise):
                when = condition(self.read.number(test, scope), test)
                first = self.body(then, scope.inner(), frame)
                return (ir.If(when, first, self.body(otherwise, scope.inner(), frame)),)
            case ast.With(items=items, body=inside):
                return self.within(s, items, inside, scope, frame)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return ()
            case ast.Return(value=ast.expr() as value) if self.result is not None and not returns_nothing(s):
                returned = as_data(self.read.number(value, scope), self.result.dtype)
                return (ir.Store(self.result.name, (), returned),)
            case ast.Break() if self.stops:
                return (ir.Store(self.stops[-1].name, (), TRUE),)
            case ast.FunctionDef(name=name) if is_macro(s, self.read.aliases):
                scope.bind(name, macro_of(s, scope, self.read))
                return ()
            case ast.Expr(value=ast.Call() as call) if (macro := called(call, scope)) is not None:
                return expanded(self, macro, call, scope, frame)
            case ast.Expr(value=ast.Call() as call):
                return self.effect(call, scope, frame)
        raise refuse("MS731", s, f"`{text_of(s)}` has no counterpart here")

    def stopping(self, inside: list[ast.stmt], scope: Scope, frame: Frame) -> tuple[tuple[Stmt, ...], ir.Buffer | None]:
        """The body of a loop, and the flag that a `break` in it sets, if there is one."""
        if not jumps(inside):
            return self.body(inside, scope, frame), None
        if breaks(inside) is None:
            return self.body(straightened(inside), scope, frame), None
        flag = self.declared.add(ir.Buffer(self.names.declared("stopped"), "bool", (), "local"))
        frame.allocs.append(flag)
        self.stops.append(flag)
        body = self.body(straightened(inside), scope, frame)
        self.stops.pop()
        return (ir.If(_running(flag), body),), flag

    # -------------------------------------------------------------- stores and lets
    def store(self, target: ast.Subscript, value: Number, scope: Scope) -> Stmt:
        """`A[i] = value`; the value is converted to the buffer's type."""
        of = self.read.value(target.value, scope)
        if not isinstance(of, Array):
            raise refuse("MS733", target, f"`{text_of(target.value)}` is not a buffer")
        return self.put(of, self.read.indices(target, of.buffer, scope), value, scope)

    def put(self, of: Array, indices: tuple[Expr, ...], value: Number, scope: Scope) -> Stmt:
        """The store of a value, converted to the buffer's type."""
        held, at = element(of, indices, scope.ranges())
        return ir.Store(held.name, at, as_data(value, held.dtype))

    def assign(
        self, target: ast.expr, value: ast.expr, scope: Scope, frame: Frame
    ) -> tuple[Stmt, ...] | ir.Let | ir.For:
        """Bind a name to a buffer, an axis, a size or a value; store the value where the name is a buffer of one
        element."""
        made = self.declaration(target, value, scope, frame)
        if made is not None:
            return made
        found = self.read.value(value, scope)
        held = one_element(target, scope)
        if held is not None:
            return (self.put(held, (ZERO,), self.read.as_number(found, value, scope), scope),)
        return self.bind(target, found, scope, frame)

    def declaration(
        self, target: ast.expr, value: ast.expr, scope: Scope, frame: Frame
    ) -> tuple[Stmt, ...] | ir.For | None:
        """Bind a name to a buffer, an axis, a thread, or an expression itself; None for another value."""
        name = dotted(value.func, self.read.aliases) if isinstance(value, ast.Call) else None
        if isinstance(value, ast.Call) and name is not None:
            if name.startswith("axis."):
                declare_axes(self, target, value, scope, frame)
                return ()
            if name in ALLOCATIONS or name == "match_buffer":
                if not isinstance(target, ast.Name):
                    raise refuse("MS733", target, "a buffer has one name")
                self.buffer(target, value, name, scope, frame)
                return ()
            if name == "launch_thread" and isinstance(target, ast.Name):
                given = bound(value, "thread", "extent")
                tag = self.read.value(needed(value, given, "thread"), scope)
                return launched(self, target.id, tag, needed(value, given, "extent"), value, scope)
            if name == "meta_var" and isinstance(target, ast.Name):
                # The expression, which is evaluated where the name stands.
                scope.bind(target.id, self.read.value(value, scope))
                return ()
        return None

    def bind(self, target: ast.expr, value: Value, scope: Scope, frame: Frame) -> tuple[Stmt, ...] | ir.Let:
        """Bind a value to its name."""
        match target, value:
            case ast.Name(id=name), Unnamed(dtype=dtype) if name in self.declared.implicit:
                known = scope.names[name]
                assert isinstance(known, Number)
                scope.bind(name, index(known.expr, dtype))
                return ()
            case ast.Name(id=name), Unnamed(dtype=dtype):
                scope.bind(name, index(self.declared.symbol(name, dtype, target, frame), dtype))
                return ()
            case ast.Name(), Number():
                return self.let(target, value, scope)
            case ast.Name(id=name), _:
                scope.bind(name, value)
                return ()
            case ast.Tuple(elts=targets), tuple() if len(targets) == len(value):
                for t, v in zip(targets, value, strict=True):
                    if isinstance(v, Number):
                        raise refuse("MS731", target, "several values at once", help="write one assignment for each")
                    self.bind(t, v, scope, frame)
                return ()
        raise refuse("MS731", target, f"nothing can be assigned to `{text_of(target)}`")

    def let(self, target: ast.Name, value: Number, scope: Scope) -> ir.Let:
        """`let`: visible in the remainder of the body."""
        old = scope.names.get(target.id)
        if (
            isinstance(old, Number)
            and isinstance(old.expr, Var)
            and isinstance(scope.outer.get(old.expr.name), Let)
            and target.id not in scope.own
        ):
            raise refuse(
                "MS731", target, f"`{target.id}` is assigned again in a body inside",
                "a `let` never changes", "make it a buffer of one element",
            )  # fmt: skip
        name = self.names.inside(target.id, scope.outer)
        found = value.expr if value.index else data(value)
        scope.bind(target.id, Number(Var(name, dtype_of(found)), value.dtype, value.index))
        scope.outer[name] = Let(found)
        return ir.Let(name, found, ())

    def bound_later(self, call: ast.Call, scope: Scope) -> tuple[Stmt, ...] | ir.Let:
        """`T.bind(value, var=x)`: the value of a variable that is declared before."""
        found = bound(call, "value", "type_annotation", "var")
        variable = found.get("var")
        if variable is None:
            return ()
        known = scope.names.get(variable.id) if isinstance(variable, ast.Name) else None
        if not isinstance(variable, ast.Name) or not isinstance(known, Number) or not isinstance(known.expr, Symbol):
            raise refuse("MS731", call, f"`{text_of(variable)}` is not a variable without a value")
        return self.let(variable, self.read.number(needed(call, found, "value"), scope), scope)

    def annotated(
        self, target: ast.Name, kind: ast.expr, value: ast.expr | None, scope: Scope, frame: Frame
    ) -> tuple[Stmt, ...] | ir.Let | ir.For:
        """`x: T.let = value`, `x: T.float32 = value`, which converts the value, `n: T.int32`."""
        if value is None and isinstance(kind, ast.Subscript):
            raise refuse("MS731", kind, f"`{text_of(kind)}` has no counterpart here")
        if value is None:
            dtype = self.read.value(ast.copy_location(ast.Call(kind, [], []), kind), scope)
            return self.bind(target, dtype, scope, frame)
        made = self.declaration(target, value, scope, frame)
        if made is not None:
            return made
        found = self.read.value(value, scope)
        to = size_type(kind, self.read.aliases)
        if to is not None and isinstance(found, Number | Array):
            return self.let(target, cast(self.read.as_number(found, value, scope), to, folded=True), scope)
        return self.let(target, found, scope) if isinstance(found, Number) else self.bind(target, found, scope, frame)

    def buffer(self, target: ast.Name, call: ast.Call, name: str, scope: Scope, frame: Frame) -> None:
        """`match_buffer` of a parameter or of a region, or an allocation."""
        pointer = pointer_of(self.read, call, name, scope)
        if pointer is not None:
            scope.bind(target.id, pointed(self.read, self.declared, target, call, pointer, scope, frame))
            return
        if name != "match_buffer":
            made = allocation(self.read, self.declared, target, call, scope, frame)
            frame.allocs.append(made)
        else:
            found = view(self.read, self.declared, target, call, scope, frame)
            frame.views.append(found)
            made = found.buffer
            bind_place(self.declared, call, made, scope)
        scope.bind(target.id, Array(made))

    # -------------------------------------------------------------- with
    def within(
        self, s: ast.With, items: list[ast.withitem], inside: list[ast.stmt], scope: Scope, frame: Frame
    ) -> tuple[Stmt, ...]:
        """`with T.sblock(…)`, `with T.init()`, `with T.LetStmt(…) as x`."""
        first, *others = items
        if others:
            inside = [ast.copy_location(ast.With(others, inside), s)]
        call, target = first.context_expr, first.optional_vars
        name = dotted(call.func, self.read.aliases) if isinstance(call, ast.Call) else None
        assert isinstance(call, ast.Call) or name is None
        match name, call:
            case "block" | "sblock", ast.Call() if target is None:
                return (block(self, s, call, inside, scope),)
            case "init", ast.Call() if frame.init is None and not frame.function:
                frame.init = self.body(inside, scope.inner(), frame)
                return ()
            case "LetStmt" | "Let" | "Bind", ast.Call(args=[value, *_]):
                variable = bound(call, "value", "**", "var").get("var", target)
                if isinstance(variable, ast.Name):
                    inner = scope.inner()
                    found = self.let(variable, self.read.number(value, inner), inner)
                    return (ir.Let(found.name, found.value, self.body(inside, inner, frame)),)
            case "launch_thread", ast.Call():
                given = bound(call, "thread", "extent")
                thread, extent = needed(call, given, "thread"), needed(call, given, "extent")
                return (launch(self, thread, extent, call, inside, scope, frame, target),)
            case "attr", ast.Call() if target is None:
                return (attributed(self, call, inside, scope, frame),)
            case str(), ast.Call() if name in ALLOCATIONS and isinstance(target, ast.Name):
                inner = scope.inner()
                self.buffer(target, call, name, inner, frame)
                return self.body(inside, inner, frame)
        raise refuse("MS731", call, f"`with {text_of(call)}` has no counterpart here")

    # -------------------------------------------------------------- calls that are statements
    def effect(self, call: ast.Call, scope: Scope, frame: Frame) -> tuple[Stmt, ...] | ir.Let:
        """`T.reads(…)`, `T.where(…)`, `T.evaluate(…)`, …"""
        match call.func:
            case ast.Attribute(value=ast.Name() as of, attr="vstore"):
                given = bound(call, "indices", "value", "predicate")
                value = needed(call, given, "value")
                return stored(self, elements(call, of, ast.Store()), value, scope, given.get("predicate"))
        match dotted(call.func, self.read.aliases):
            case "reads":
                frame.reads = self.read.regions(call, scope)
            case "writes":
                frame.writes = self.read.regions(call, scope)
            case "where":
                for e in call.args:
                    found = plain_index(condition(self.read.number(e, scope), e))
                    frame.predicate = found if frame.predicate is None else Binary("and", frame.predicate, found)
            case "block_attr" | "sblock_attr":
                frame.notes += notes_of(self.read, needed(call, bound(call, "attrs"), "attrs"), scope)
            case "func_attr":
                frame.function_attributes(notes_of(self.read, needed(call, bound(call, "attrs"), "attrs"), scope))
            case "bind":
                return self.bound_later(call, scope)
            case "evaluate":
                return self.evaluate(needed(call, bound(call, "value"), "value"), scope, frame)
            case "buffer_store":
                found_args = bound(call, "buffer", "value", "indices", "**")
                at = needed(call, found_args, "indices")
                at = ast.copy_location(ast.Tuple(at.elts, ast.Load()), at) if isinstance(at, ast.List) else at
                target = ast.Subscript(needed(call, found_args, "buffer"), at, ast.Store())
                return stored(self, ast.copy_location(target, call), needed(call, found_args, "value"), scope)
            case str() as name if name.startswith("axis."):
                declare_axes(self, ast.copy_location(ast.Name("v", ast.Store()), call), call, scope, frame)
            case _:
                return self.evaluate(call, scope, frame)
        return ()

    def evaluate(self, e: ast.expr, scope: Scope, frame: Frame) -> tuple[Stmt, ...] | ir.Let:
        """A call for its effect. Our functions have no effects: the call is kept only for its reads."""
        if isinstance(e, ast.Call) and dotted(e.func, self.read.aliases) in _HINTS:
            return ()
        meaning = instruction(self, e, scope, frame)
        if meaning is not None:
            return meaning
        value = self.read.value(e, scope)
        if isinstance(value, Pointer):
            return ()
        n = self.read.as_number(value, e, scope)
        if constant(n) is not None or not any(isinstance(x, Load) for x in loads_of(n.expr)):
            return ()
        return self.let(ast.copy_location(ast.Name("unused", ast.Store()), e), n, scope)
