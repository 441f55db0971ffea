"""The interpreter of schedule items: runs `schedule`, `rule`, `fn` and `space` on a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.ir.expr import Expr, Symbol
from mslang.ir.find import all_buffers, blocks_of
from mslang.ops.library import LIBRARY
from mslang.ops.signature import Group
from mslang.schedule import statements, values
from mslang.schedule.arguments import refuse_keywords
from mslang.schedule.expressions import evaluate
from mslang.schedule.frames import Address, Frame, Place
from mslang.schedule.handles import Handle, Site
from mslang.schedule.items import ItemValue, NativeValue
from mslang.schedule.rules.natives import NATIVES
from mslang.schedule.rules.rule import Rule
from mslang.schedule.session import Names, Session
from mslang.schedule.statements import Returned, Step, run_body
from mslang.schedule.values import Location, describe
from mslang.sema.evaluation_limits import DEPTH, STEPS_OF_PRIMITIVE, Meter
from mslang.sema.module import Found, Module
from mslang.sema.targets import describe as describe_target
from mslang.suggestions import did_you_mean
from mslang.syntax import tree
from mslang.syntax.one_line import one_line
from mslang.target.description import GENERIC, Target
from mslang.transform.outcome import BlockRef
from mslang.transform.registries import REGISTRY, Registry

Judge = Callable[["Interpreter", tree.Check | tree.Snapshot, Frame], None]
"""The handler of `check` and `snapshot`."""

Method = Callable[["Interpreter", object, str, tree.Call, Frame], object]
"""A method call on a value that is not a schedule value: takes the receiver, the method's name, and the call."""

Native = Callable[["Interpreter", Sequence[object], Mapping[str, object]], object]
"""A native function or rule: takes the interpreter and its arguments."""

Natives = Mapping[str, Native]
"""Native functions and rules by dotted name (`std.testing.equiv`)."""

NO_NATIVES: Natives = MappingProxyType({})


Builtin = Callable[["Interpreter", Sequence[object], Mapping[str, object], tree.Call, Frame], object]
"""A function of the language itself: takes the interpreter, its arguments, the call and its frame."""


def _no_tests(it: Interpreter, s: tree.Check | tree.Snapshot, frame: Frame) -> None:
    raise ScheduleError(problem("MS207", "`check` and `snapshot` belong in a test", help="use `require`"))


class World(msgspec.Struct, frozen=True):
    """The environment of items besides the session: machine, native names (before the library's), the program's sizes.

    `functions` take precedence over the language's own, `method` serves calls on values of `receivers`, `judge` runs
    `check` and `snapshot`; tests provide them. `on_step` is called after every statement, for editors. `registry`
    holds the available primitives; `rules` those that may be called by name besides those of `module`, the file.
    """

    machine: Target = GENERIC
    natives: Natives = NO_NATIVES
    sizes: Mapping[str, object] = MappingProxyType({})
    functions: Mapping[str, Builtin] = MappingProxyType({})
    receivers: tuple[type, ...] = ()
    method: Method | None = None
    judge: Judge = _no_tests
    on_step: Callable[[Step], None] | None = None
    registry: Registry = REGISTRY
    rules: tuple[Rule, ...] = ()
    module: Module | None = None


PLAIN = World()


class Interpreter:
    """Runs items on a session."""

    def __init__(self, session: Session, world: World = PLAIN) -> None:
        self.session = session
        self.world = world
        self._meter = Meter()
        self._depth = 0

    def on(self, session: Session) -> Interpreter:
        """An interpreter of another session in the same world."""
        return Interpreter(session, self.world)

    @property
    def machine(self) -> Target:
        """The value of `machine`."""
        return self.world.machine

    # ------------------------------------------------------------------ limits
    def spend(self, steps: int, at: tree.Node) -> None:
        """Count steps against this item's limit.

        Raises:
            MsError: MS140, the limit is exceeded.
        """
        over = self._meter.spend(steps)
        if over is not None:
            raise MsError(over.at(at.span))

    @contextmanager
    def deeper(self, name: str) -> Iterator[None]:
        """Enter a call of an fn, a rule or a space.

        Raises:
            ScheduleError: MS265, the calls are nested too deeply.
        """
        endless = problem("MS265", f"`{name}` calls itself endlessly", why=f"the calls are {DEPTH} deep")
        if self._depth >= DEPTH:
            raise ScheduleError(endless)
        self._depth += 1
        try:
            yield
        except RecursionError:
            raise ScheduleError(endless) from None
        finally:
            self._depth -= 1

    # ------------------------------------------------------------------ names
    def program_name(self, name: str) -> object | None:
        """The block, buffer or size of the program that has a name."""
        found = self.session.thing(name)
        if found is None and name in self.world.sizes:
            size = self.world.sizes[name]
            return values.settle(size) if isinstance(size, Expr) else size
        if found is None:
            dynamic = self.session.program.dynamic
            return next((x for x in dynamic if isinstance(x, Symbol) and x.name == name), None)
        return found

    def block_names(self) -> tuple[str, ...]:
        """The names of blocks and buffers, for suggestions."""
        program = self.session.program
        return (*(b.name for b in blocks_of(program.body)), *all_buffers(program))

    def target(self, module: Module, name: str) -> Target:
        """The machine that a name of a module denotes."""
        return describe_target(module, name)

    def truth(self, e: tree.Expr, frame: Frame) -> bool:
        """Whether a condition holds."""
        return statements.truth(self, e, frame)

    def stepped(self, step: Step) -> None:
        """Report that a statement ran."""
        if self.world.on_step is not None:
            self.world.on_step(step)

    def judge(self, s: tree.Check | tree.Snapshot, frame: Frame) -> None:
        """Run a `check` or `snapshot`."""
        self.world.judge(self, s, frame)

    # ------------------------------------------------------------------ items
    def run_schedule(
        self, found: Found, args: Sequence[object] = (), kwargs: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """Run a schedule item that has a body."""
        item = found.item
        assert isinstance(item, tree.Schedule) and item.body is not None
        self.run_text(item, place_of(found), args, kwargs)

    def run_text(
        self,
        item: tree.Schedule,
        place: Place,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Run a schedule given its body."""
        assert item.body is not None
        frame = Frame(place)
        frame.names.update(self._parameters(item.params, item.name.text, args, kwargs, frame))
        try:
            run_body(self, item.body, frame)
        except Returned:
            return

    def run_fn(
        self,
        found: Found,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        address: Address,
    ) -> object:
        """Run an fn and return its result."""
        item = found.item
        assert isinstance(item, tree.Fn)
        frame = Frame(place_of(found), address=address)
        frame.names.update(self._parameters(item.params, item.name.text, args, kwargs, frame))
        try:
            with self.deeper(item.name.text):
                run_body(self, item.body, frame)
        except Returned as returned:
            return returned.value
        return None

    def run_rule(
        self,
        found: Found,
        block: Handle,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] = MappingProxyType({}),
    ) -> bool:
        """Run a rule on one block if its `when` holds; returns whether it ran."""
        item = found.item
        assert isinstance(item, tree.Rule)
        prefix = f"{item.name.text}:{self.session.handles.resolve(block).name}/"
        frame = Frame(place_of(found), address=Address(prefix=prefix))
        frame.names.update(self._parameters(item.params, item.name.text, (block, *args), kwargs, frame))
        if item.when is not None and not self.truth(item.when, frame):
            return False
        try:
            with self.deeper(item.name.text):
                run_body(self, item.body, frame)
        except Returned:
            return True
        return True

    def apply_rule(self, rule: object) -> None:
        """Apply a rule to each block of the program, in the order that the rule declares.

        Raises:
            ScheduleError: MS203, the value is not a rule.
        """
        match rule:
            case ItemValue(found=found, item=tree.Rule(attributes=attributes)):
                blocks = [self.session.handles.handle(BlockRef(b.name)) for b in blocks_of(self.session.program.body)]
                if _order(attributes) == "consumers_first":
                    blocks.reverse()
                for block in blocks:
                    if self.session.handles.alive(block):
                        self.run_rule(found, block, rule.args, dict(rule.kwargs))
            case NativeValue(native=native) if native.role == "rule":
                self._native(rule)
            case _:
                raise ScheduleError(problem("MS203", f"`apply` takes a rule, not {describe(rule)}"))

    def _parameters(
        self,
        params: Sequence[tree.Param],
        name: str,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        frame: Frame,
    ) -> dict[str, object]:
        if len(args) > len(params):
            raise ScheduleError(problem("MS205", f"`{name}` takes {len(params)} arguments, {len(args)} are given"))
        bound = {p.name.text: a for p, a in zip(params, args)}
        known = [p.name.text for p in params]
        for key, value in kwargs.items():
            if key not in known or key in bound:
                raise ScheduleError(
                    problem(
                        "MS205",
                        f"`{name}` has no parameter `{key}`"
                        if key not in known
                        else f"`{key}` of `{name}` is given twice",
                        help=did_you_mean(key, known) if key not in known else None,
                    )
                )
            bound[key] = value
        for p in params:
            if p.name.text not in bound:
                if p.default is None:
                    raise ScheduleError(problem("MS205", f"`{name}` lacks `{p.name.text}`"))
                bound[p.name.text] = evaluate(self, p.default, frame)
        return bound

    # ------------------------------------------------------------------ calls
    def operation(
        self,
        name: str,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        names: Names,
        site: Site,
    ) -> object:
        """Apply a primitive, or evaluate a getter."""
        signature = self.session.registry.signature(name)
        if signature.group is Group.PRIMITIVE:
            over = self._meter.spend(STEPS_OF_PRIMITIVE)
            if over is not None:
                raise ScheduleError(over)
        result = self.session.call(name, args, kwargs, names=names, site=site)
        if signature.group is not Group.PRIMITIVE or signature.many:
            return result
        assert isinstance(result, tuple)
        return None if not result else result[0] if len(result) == 1 else result

    def builtin(self, name: str) -> Builtin | None:
        """The function of the language itself with this name, if any."""
        return self.world.functions.get(name) or BUILTINS.get(name)

    def has_methods(self, value: object) -> bool:
        """Whether method calls on a value are served by `World.method`."""
        return isinstance(value, self.world.receivers)

    def method(self, value: object, name: str, e: tree.Call, frame: Frame) -> object:
        """Call a method of such a value through `World.method`."""
        assert self.world.method is not None
        return self.world.method(self, value, name, e, frame)

    def call_value(
        self, value: object, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame
    ) -> object:
        """Call the value of a name: an fn runs, a rule runs on its block, a schedule takes its arguments."""
        match value:
            case ItemValue(found=found, item=tree.Fn()):
                return self.run_fn(found, args, kwargs, frame.address.called())
            case ItemValue(found=found, item=tree.Rule()) if args and isinstance(args[0], Handle):
                return self.run_rule(found, args[0], args[1:], kwargs)
            case ItemValue(found=found, item=tree.Rule() | tree.Schedule() | tree.Space()):
                return ItemValue(found, _call_text(e, frame), tuple(args), tuple(kwargs.items()))
            case NativeValue(native=native) if native.role == "rule" and not (args and isinstance(args[0], Handle)):
                return NativeValue(native, tuple(args), tuple(kwargs.items()))
            case NativeValue(native=native):
                return self._native(NativeValue(native, tuple(args), tuple(kwargs.items())))
        raise ScheduleError(problem("MS203", f"{describe(value)} cannot be called"))

    def _native(self, value: NativeValue) -> object:
        run = self.world.natives.get(value.native.address) or NATIVES.get(value.native.address)
        if run is None:
            raise ScheduleError(
                problem("MS266", f"`{value.native.address}` cannot run here", why="no implementation of it is loaded")
            )
        signature = LIBRARY.get(value.native.address)
        if signature is not None:
            refuse_keywords(signature.name, (k for k, _ in value.kwargs), (p.name for p in signature.params))
        return run(self, value.args, dict(value.kwargs))


def place_of(found: Found) -> Place:
    """The place of an item's statements."""
    return Place(found.module, found.module.path, found.placed.start, found.placed.parsed.text)


def _call_text(e: tree.Call, frame: Frame) -> str:
    return one_line(frame.place.text[e.span.start : e.span.end])


def _order(attributes: Sequence[tree.Attribute]) -> str:
    for attribute in attributes:
        if attribute.name.text == "order" and attribute.args and isinstance(attribute.args[0].value, tree.Ref):
            return attribute.args[0].value.name.text
    return "producers_first"


# ------------------------------------------------------------------ functions of the language
def _apply(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame) -> object:
    if len(args) != 1 or kwargs:
        raise ScheduleError(problem("MS205", "`apply` takes a rule"))
    it.apply_rule(args[0])
    return None


def _len(it: Interpreter, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame) -> object:
    if len(args) != 1 or not isinstance(args[0], tuple):
        raise ScheduleError(problem("MS205", "`len` takes a list"))
    return len(args[0])


def _extreme(op: str) -> Builtin:
    def find(
        it: Interpreter,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        e: tree.Call,
        frame: Frame,
    ) -> object:
        items = args[0] if len(args) == 1 and isinstance(args[0], tuple) else tuple(args)
        if not items or kwargs:
            raise ScheduleError(problem("MS205", f"`{op}` takes sizes, or a list of them"))
        found = items[0]
        for other in items[1:]:
            found = values.combine(op, found, other)
        return found

    return find


def _location(
    it: Interpreter,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    e: tree.Call,
    frame: Frame,
) -> object:
    if len(args) != 1 or not isinstance(args[0], Handle) or args[0].kind != "loop":
        raise ScheduleError(problem("MS205", "`at` takes a loop"))
    return Location(f"at({it.session.handles.resolve(args[0]).name})", args[0])


def _enter_postproc(
    it: Interpreter,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    e: tree.Call,
    frame: Frame,
) -> object:
    it.session.enter_postproc()
    return None


BUILTINS: Mapping[str, Builtin] = MappingProxyType(
    {
        "apply": _apply,
        "len": _len,
        "min": _extreme("min"),
        "max": _extreme("max"),
        "at": _location,
        "enter_postproc": _enter_postproc,
    }
)
"""The functions that need no `use`."""
