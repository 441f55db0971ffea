"""The interpreter of schedule items: what `schedule`, `rule`, `fn` and `space` do to a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from mslang.diagnostics import ScheduleError, problem
from mslang.ir.visit import all_buffers, blocks_of
from mslang.ops.signature import Group
from mslang.ops.table import OPERATIONS
from mslang.schedule import statements, values
from mslang.schedule.expressions import arguments, evaluate
from mslang.schedule.frames import Address, Frame, Place
from mslang.schedule.handles import Handle, Site
from mslang.schedule.items import ItemValue, NativeValue
from mslang.schedule.session import Names, Session
from mslang.schedule.statements import Returned, Step, run_body
from mslang.schedule.values import Location, describe
from mslang.sema.module import Found, Module
from mslang.sema.report import nearest
from mslang.sema.targets import describe as describe_target
from mslang.syntax import tree
from mslang.target.description import GENERIC, Target
from mslang.transform.outcome import BlockRef

Native = Callable[["Interpreter", Sequence[object], Mapping[str, object]], object]
"""A native function or rule: gets the interpreter and its arguments."""

Natives = Mapping[str, Native]
"""Native functions and rules by dotted name (`std.testing.equiv`)."""

NO_NATIVES: Natives = MappingProxyType({})

DEPTH = 64
"""How deep fns may call each other."""

Builtin = Callable[[Sequence[object], Mapping[str, object], tree.Call, Frame], object]


class Interpreter:
    """Runs items on a session.

    Args:
        session: the schedule's state.
        machine: what `machine` says.
        natives: what the library's native names do.
        sizes: the program's sizes, by name.
        on_step: called after every statement, for editors.
    """

    def __init__(self, session: Session, machine: Target = GENERIC, natives: Natives = NO_NATIVES,
                 sizes: Mapping[str, object] = MappingProxyType({}), on_step: Callable[[Step], None] | None = None) -> None:
        self.session = session
        self.machine = machine
        self.natives = natives
        self._sizes = sizes
        self._on_step = on_step
        self._builtins: Mapping[str, Builtin] = {
            "apply": self._apply, "len": self._len, "min": self._extreme, "max": self._extreme, "at": self._location,
            "enter_postproc": self._enter_postproc,
        }

    # ------------------------------------------------------------------ names
    def program_name(self, name: str) -> object | None:
        """The block, buffer or size of the program that a name stands for."""
        return self.session.thing(name) or self._sizes.get(name)

    def block_names(self) -> tuple[str, ...]:
        """The names of blocks and buffers, to suggest one."""
        program = self.session.program
        return (*(b.name for b in blocks_of(program.body)), *all_buffers(program))

    def target(self, module: Module, name: str) -> Target:
        """The machine that a name of a module stands for."""
        return describe_target(module, name)

    def truth(self, e: tree.Expr, frame: Frame) -> bool:
        """Whether a condition holds."""
        return statements.truth(self, e, frame)

    def stepped(self, step: Step) -> None:
        """Note that a statement ran."""
        if self._on_step is not None:
            self._on_step(step)

    def judge(self, s: tree.Check | tree.Snapshot, frame: Frame) -> None:
        """`check` and `snapshot` outside tests are faults."""
        raise ScheduleError(problem("MS207", "`check` and `snapshot` belong in a test", help="use `require`"))

    # ------------------------------------------------------------------ items
    def run_schedule(self, found: Found, args: Sequence[object] = (), kwargs: Mapping[str, object] = MappingProxyType({}),
                     ) -> None:
        """Run a schedule item that has a body."""
        item = found.item
        assert isinstance(item, tree.Schedule) and item.body is not None
        self.run_text(item, place_of(found), args, kwargs)

    def run_text(self, item: tree.Schedule, place: Place, args: Sequence[object] = (),
                 kwargs: Mapping[str, object] = MappingProxyType({})) -> None:
        """Run a schedule whose body is at hand."""
        assert item.body is not None
        frame = Frame(place)
        frame.names.update(self._parameters(item.params, item.name.text, args, kwargs, frame))
        try:
            run_body(self, item.body, frame)
        except Returned:
            return

    def run_fn(self, found: Found, args: Sequence[object], kwargs: Mapping[str, object], address: Address, depth: int,
               ) -> object:
        """Run an fn; gives what it returns."""
        item = found.item
        assert isinstance(item, tree.Fn)
        if depth > DEPTH:
            raise ScheduleError(problem("MS265", f"`{item.name.text}` calls itself without end",
                                        why=f"the calls are {DEPTH} deep"))
        frame = Frame(place_of(found), address=address, depth=depth)
        frame.names.update(self._parameters(item.params, item.name.text, args, kwargs, frame))
        try:
            run_body(self, item.body, frame)
        except Returned as returned:
            return returned.value
        return None

    def run_rule(self, found: Found, block: Handle, args: Sequence[object] = (),
                 kwargs: Mapping[str, object] = MappingProxyType({})) -> bool:
        """Run a rule on one block, if its `when` holds; gives whether it did."""
        item = found.item
        assert isinstance(item, tree.Rule)
        prefix = f"{item.name.text}:{self.session.handles.resolve(block).name}/"
        frame = Frame(place_of(found), address=Address(prefix=prefix))
        frame.names.update(self._parameters(item.params, item.name.text, (block, *args), kwargs, frame))
        if item.when is not None and not self.truth(item.when, frame):
            return False
        try:
            run_body(self, item.body, frame)
        except Returned:
            return True
        return True

    def apply_rule(self, rule: object) -> None:
        """Apply a rule to each block of the program, in the order that it asks for.

        Raises:
            ScheduleError: MS203, it is no rule.
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

    def _parameters(self, params: Sequence[tree.Param], name: str, args: Sequence[object], kwargs: Mapping[str, object],
                    frame: Frame) -> dict[str, object]:
        if len(args) > len(params):
            raise ScheduleError(problem("MS205", f"`{name}` takes {len(params)} arguments, {len(args)} are given"))
        bound = {p.name.text: a for p, a in zip(params, args)}
        known = [p.name.text for p in params]
        for key, value in kwargs.items():
            if key not in known or key in bound:
                near = nearest(key, known)
                raise ScheduleError(problem("MS205", f"`{name}` has no parameter `{key}`" if key not in known else
                                            f"`{key}` of `{name}` is given twice",
                                            help=f"did you mean `{near}`?" if near and key not in known else None))
            bound[key] = value
        for p in params:
            if p.name.text not in bound:
                if p.default is None:
                    raise ScheduleError(problem("MS205", f"`{name}` lacks `{p.name.text}`"))
                bound[p.name.text] = evaluate(self, p.default, frame)
        return bound

    # ------------------------------------------------------------------ calls
    def operation(self, name: str, args: Sequence[object], kwargs: Mapping[str, object], names: Names, site: Site) -> object:
        """Apply a primitive, or ask a getter."""
        result = self.session.call(name, args, kwargs, names=names, site=site)
        signature = OPERATIONS[name]
        if signature.group is not Group.PRIMITIVE or signature.many:
            return result
        assert isinstance(result, tuple)
        return None if not result else result[0] if len(result) == 1 else result

    def builtin(self, name: str) -> Builtin | None:
        """A function of the language itself."""
        return self._builtins.get(name)

    def has_method(self, value: object, name: str) -> bool:
        """Whether a value has a method that is no operation of schedules."""
        return False

    def method(self, value: object, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Call such a method."""
        raise ScheduleError(problem("MS202", f"{describe(value)} has no operation `{name}`"))

    def call_value(self, value: object, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame,
                   ) -> object:
        """Call what a name stands for: an fn runs, a rule runs on its block, a schedule takes its arguments."""
        match value:
            case ItemValue(found=found, item=tree.Fn()):
                return self.run_fn(found, args, kwargs, frame.address.called(), frame.depth + 1)
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
        run = self.natives.get(value.native.address)
        if run is None:
            raise ScheduleError(problem("MS266", f"`{value.native.address}` cannot run here",
                                        why="nothing that implements it is loaded"))
        return run(self, value.args, dict(value.kwargs))

    # ------------------------------------------------------------------ builtins
    def _apply(self, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame) -> object:
        if len(args) != 1 or kwargs:
            raise ScheduleError(problem("MS205", "`apply` takes a rule"))
        self.apply_rule(args[0])
        return None

    def _len(self, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame) -> object:
        if len(args) != 1 or not isinstance(args[0], tuple):
            raise ScheduleError(problem("MS205", "`len` takes a list"))
        return len(args[0])

    def _extreme(self, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame) -> object:
        assert isinstance(e.callee, tree.Ref)
        op = e.callee.name.text
        items = args[0] if len(args) == 1 and isinstance(args[0], tuple) else tuple(args)
        if not items:
            raise ScheduleError(problem("MS205", f"`{op}` takes sizes, or a list of them"))
        found = items[0]
        for other in items[1:]:
            found = values.combine(op, found, other)
        return found

    def _location(self, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame) -> object:
        if len(args) != 1 or not isinstance(args[0], Handle) or args[0].kind != "loop":
            raise ScheduleError(problem("MS205", "`at` takes a loop"))
        return Location(f"at({self.session.handles.resolve(args[0]).name})", args[0])

    def _enter_postproc(self, args: Sequence[object], kwargs: Mapping[str, object], e: tree.Call, frame: Frame) -> object:
        self.session.enter_postproc()
        return None


def place_of(found: Found) -> Place:
    """Where the statements of an item stand."""
    return Place(found.module, found.module.path, found.placed.start, found.placed.parsed.text)


def evaluate_arguments(it: Interpreter, args: Sequence[tree.Arg], place: Place) -> tuple[list[object], dict[str, object]]:
    """The arguments of a call that stands outside of a body."""
    return arguments(it, args, Frame(place))


def _call_text(e: tree.Call, frame: Frame) -> str:
    return " ".join(frame.place.text[e.span.start:e.span.end].split())


def _order(attributes: Sequence[tree.Attribute]) -> str:
    for attribute in attributes:
        if attribute.name.text == "order" and attribute.args and isinstance(attribute.args[0].value, tree.Ref):
            return attribute.args[0].value.name.text
    return "producers_first"
