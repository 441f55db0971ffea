"""Spaces from text: run schedules, rules, fns, `a | b`, `a >> b` and pinned calls on a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.ir.buckets import Bucket, dynamic_sizes, restricted
from mslang.ir.expr import Const, DynamicRange, Expr
from mslang.ir.program import Program
from mslang.schedule.decisions import Alternatives
from mslang.schedule.expressions import evaluate
from mslang.schedule.frames import Address, Frame
from mslang.schedule.interpret import Interpreter, World, place_of
from mslang.schedule.items import ItemValue, NativeValue
from mslang.schedule.pins import pin_values
from mslang.schedule.session import Session
from mslang.schedule.space import Space
from mslang.schedule.values import describe
from mslang.sema.module import Found, Module
from mslang.sema.native import TARGET_KINDS, Native
from mslang.sema.program import instantiate, size_values
from mslang.sema.refer import dotted_name
from mslang.sema.targets import describe as describe_target
from mslang.suggestions import did_you_mean
from mslang.syntax import tree
from mslang.syntax.one_line import one_line
from mslang.target.description import GENERIC, Target
from mslang.transform.registries import registry_of

NO_SIZES: Mapping[str, int] = MappingProxyType({})


def space_of(
    module: Module,
    name: str,
    program: Program | None = None,
    world: World | None = None,
    sizes: Mapping[str, int] = NO_SIZES,
) -> Space:
    """The space that a schedule, space or rule of a module spans.

    Args:
        module: the module.
        name: the schedule, space or rule.
        program: the program to schedule (None: the item's `for`, with `sizes`).
        world: the machine at hand, native names; `machine` is the item's `on`, and the world's machine
            only where the item has none (None: nothing is known of the machine).
        sizes: sizes of the program; the others take their defaults.

    Raises:
        MsError: the item is unknown, or its program or target has errors.
    """
    found = module.find(name)
    if not isinstance(found, Found) or not isinstance(found.item, tree.Schedule | tree.Space | tree.Rule):
        known = [n for n, p in module.items.items() if isinstance(p.item, tree.Schedule | tree.Space | tree.Rule)]
        help = did_you_mean(name, known) or (f"there are {', '.join(known)}" if known else None)
        raise MsError(problem("MS201", f"there is no schedule, space or rule `{name}`", help=help))
    return space_of_value(ItemValue(found, name), program, world, sizes)


def space_of_value(
    value: ItemValue, program: Program | None = None, world: World | None = None, sizes: Mapping[str, int] = NO_SIZES
) -> Space:
    """The space of an item with the arguments that it was called with; see `space_of`."""
    found = value.found
    program = program_of(found, sizes) if program is None else program
    machine = machine_of(found, world.machine if world is not None else None)
    world = World(registry=registry_of(found.module)) if world is None else world
    world = replace(
        world,
        module=world.module or found.module,
        machine=machine,
        sizes={**sizes_of(found, program, sizes), **sizes, **world.sizes},
    )

    def recipe(session: Session) -> str | None:
        return run_item(session, value, world)

    return Space(program, recipe, name=value.text, target=_target_text(found), registry=world.registry)


def run_item(session: Session, value: ItemValue, world: World) -> str | None:
    """Run an item once on a session.

    Returns:
        The text of the schedule that ran, if it is one schedule and nothing else.

    Raises:
        MsError: a statement fails; the session keeps its state before that statement.
    """
    return _Runner(Interpreter(session, world), world.module or value.found.module).run(value, top=True)


def sizes_of(found: Found, program: Program, given: Mapping[str, int] = NO_SIZES) -> dict[str, Expr]:
    """The sizes of the program that an item is for, by name.

    Those that are dimensions of parameters are read off; others, such as strides, have the values given, or their
    defaults, where these make the program.
    """
    path = found.item.program if isinstance(found.item, tree.Schedule | tree.Space) else None
    name = "" if path is None else ".".join(n.text for n in path)
    thing = None if path is None else found.module.find(name)
    if not isinstance(thing, Found) or not isinstance(thing.item, tree.Program):
        return {}
    names = {s.name.text for s in thing.item.sizes}
    known: dict[str, Expr] = {}
    for declared, param in zip(thing.item.params, program.params, strict=False):
        for written, extent in zip(declared.type.shape or (), param.buffer.shape, strict=False):
            if isinstance(written, tree.Ref) and written.name.text in names:
                known.setdefault(written.name.text, extent)
    if names == known.keys():
        return known
    shaped = {n: int(e.value) for n, e in known.items() if isinstance(e, Const)}
    try:
        made = instantiate(found.module, name, {**shaped, **given})
        values = size_values(found.module, name, {**shaped, **given})
    except MsError:
        return known
    # Of a bucket of dynamic sizes the program is the same with other ranges.
    ranges = Bucket(tuple((s.text, s.domain) for s in dynamic_sizes(program) if isinstance(s.domain, DynamicRange)))
    return {**values, **known} if program in (made, restricted(made, ranges)) else known


def machine_of(found: Found, at_hand: Target | None = None) -> Target:
    """The machine that an item is `on`.

    Args:
        found: a schedule, space or rule.
        at_hand: the machine of an item without `on`; if it is a CPU, also that of an item `on cpu` or `on host`.

    Raises:
        MsError: the target has errors.
    """
    name = _target_text(found)
    if name is None:
        return at_hand or GENERIC
    described = describe_target(found.module, name)
    native = found.module.find(name) or TARGET_KINDS.get(name)
    general = isinstance(native, Native) and native.name in ("host", "cpu")
    return at_hand if at_hand is not None and general and at_hand.kind == described.kind else described


def program_of(found: Found, sizes: Mapping[str, int] = NO_SIZES) -> Program:
    """The program that an item is `for`.

    Raises:
        MsError: the item has no `for`, or the program has errors.
    """
    item = found.item
    path = item.program if isinstance(item, tree.Schedule | tree.Space) else None
    if path is None:
        raise MsError(
            problem(
                "MS267",
                f"`{item.name.text}` does not say which program it is for",
                help="write `for program`, or name one",
            )
        )
    return instantiate(found.module, ".".join(n.text for n in path), sizes)


def _target_text(found: Found) -> str | None:
    item = found.item
    target = item.target if isinstance(item, tree.Schedule | tree.Space) else None
    if target is None:
        return None
    return " ".join(found.placed.parsed.text[target.span.start : target.span.end].split())


class _Runner:
    """Runs strategies; each union has an address of its own. `home` is the file in whose names traces speak."""

    def __init__(self, it: Interpreter, home: Module) -> None:
        self.it, self.home = it, home

    def run(self, value: object, *, top: bool = False) -> str | None:
        """Run a schedule, space, rule or fn.

        Returns:
            The text of the schedule that ran, if it is one schedule and nothing else (`top`).
        """
        match value:
            case ItemValue(found=found, item=tree.Schedule(body=None)):
                with self.it.deeper(found.item.name.text):
                    return self._pinned_schedule(found, top and found.module is self.home)
            case ItemValue(found=found, item=tree.Schedule()):
                self.it.run_schedule(found, value.args, dict(value.kwargs))
                return value.text if top else None
            case ItemValue(found=found, item=tree.Space() as item):
                union = _Unions(item.name.text)
                with self.it.deeper(item.name.text):
                    return self._strategy(item.strategy, found, union, top and found.module is self.home)
            case ItemValue(item=tree.Rule()) | NativeValue():
                self.it.apply_rule(value)
                return None
            case ItemValue(found=found, item=tree.Fn() as fn):
                self.it.run_fn(found, value.args, dict(value.kwargs), Address(prefix=f"{fn.name.text}/"))
                return None
        raise ScheduleError(
            problem(
                "MS203",
                f"{describe(value)} cannot be part of a space",
                help="a space is made of schedules, rules, fns and other spaces",
            )
        )

    def _pinned_schedule(self, found: Found, top: bool) -> str | None:
        item = found.item
        assert isinstance(item, tree.Schedule) and item.source is not None
        frame = Frame(place_of(found))
        try:
            value = self._operand(item.source, found, frame)
            with self.it.session.draws.pinned(pin_values(item.pins or ())):
                return self.run(value, top=top)
        except MsError as error:
            raise frame.blame(error, item.source.span) from error

    def _operand(self, part: tree.Expr, found: Found, frame: Frame) -> object:
        """What a part of a strategy is: an item of the file, even if a block or buffer of the program is called so."""
        name = dotted_name(part) if isinstance(part, tree.Ref | tree.Member) else None
        thing = None if name is None else found.module.find(name)
        if isinstance(thing, Found) and isinstance(thing.item, tree.Schedule | tree.Space | tree.Rule | tree.Fn):
            return ItemValue(thing, str(name))
        return evaluate(self.it, part, frame)

    def _strategy(self, part: tree.Strategy, found: Found, unions: _Unions, top: bool) -> str | None:
        frame = Frame(place_of(found))
        try:
            match part:
                case tree.Union(parts=parts):
                    return self._union(parts, found, unions, top)
                case tree.Sequence(parts=parts):
                    for p in parts:
                        self._strategy(p, found, unions, False)
                    return None
                case tree.Pinned(strategy=inner, pins=pins):
                    with self.it.session.draws.pinned(pin_values(pins)):
                        return self._strategy(inner, found, unions, top)
                case tree.Group(items=(inner,)):
                    return self._strategy(inner, found, unions, top)
                case _:
                    return self.run(self._operand(part, found, frame), top=top)
        except MsError as error:
            raise frame.blame(error, part.span) from error

    def _union(self, parts: Sequence[tree.Strategy], found: Found, unions: _Unions, top: bool) -> str | None:
        address = unions.next()
        draws = self.it.session.draws
        draws.claim(address)
        labels = _labels(parts, found.placed.parsed.text)
        label = draws.choose(address, Alternatives(labels))
        source = self._strategy(parts[labels.index(str(label))], found, unions, top)
        if source is not None:
            draws.imply(address)
        return source


class _Unions:
    """The addresses of a space's unions: its name, numbered from the second on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def next(self) -> str:
        """The next address."""
        self._count += 1
        return self._name if self._count == 1 else f"{self._name}/{self._count}"


def _labels(parts: Sequence[tree.Strategy], text: str) -> tuple[str, ...]:
    """The labels of a union's alternatives: their text, numbered where equal."""
    labels: list[str] = []
    for p in parts:
        label = one_line(text[p.span.start : p.span.end])
        labels.append(label if label not in labels else f"{label} #{len(labels)}")
    return tuple(labels)
