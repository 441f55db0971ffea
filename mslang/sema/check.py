"""Static checks of the items of a module, without replaying a schedule: programs, consts, targets, headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from mslang.diagnostics import Diagnostic, MsError, Span
from mslang.sema.intrin import implementing, intrin_faults
from mslang.sema.library_names import library_help
from mslang.sema.module import Found, Module, Thing, Whole, role_of
from mslang.sema.native import TARGET_KINDS, Native
from mslang.sema.program import as_program, checked, consts_of
from mslang.sema.refer import dotted_name
from mslang.sema.report import fault, unknown
from mslang.sema.targets import described, target_names
from mslang.sema.values import value_of
from mslang.suggestions import listed
from mslang.syntax import tree

ATTRIBUTES: Mapping[type, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        tree.Rule: {"order": ("producers_first", "consumers_first")},
    }
)
"""What may stand after `@` before an item, and the words that it takes."""

STRATEGIES = frozenset({"schedule", "space", "rule", "fn"})
"""What a space may be made of."""


def check_items(module: Module) -> Iterator[Diagnostic]:
    """The diagnostics of each item of a module, with offsets in the file."""
    for placed in module.file.items:
        for d in (*_attributes(placed.item), *_item(module, placed.item)):
            yield d.placed(module.path, placed.start)


def _attributes(item: tree.AnyItem) -> Iterator[Diagnostic]:
    known = ATTRIBUTES.get(type(item), {})
    for a in () if isinstance(item, tree.BadItem) else item.attributes:
        if a.name.text not in known:
            yield unknown("MS116", a.name, f"attribute of a {role_of(item)}", a.name.text, known)
            continue
        words = known[a.name.text]
        for x in a.args:
            name = dotted_name(x.value)
            if name not in words:
                yield unknown(
                    "MS116",
                    x,
                    f"argument of `@{a.name.text}`:",
                    name or "…",
                    words,
                    help="it is " + " or ".join(f"`{w}`" for w in words),
                )


def _item(module: Module, item: tree.AnyItem) -> Iterable[Diagnostic]:
    match item:
        case tree.Program():
            return checked(item, consts_of(module, item))
        case tree.Const():
            return _faults(lambda: value_of(module, item))
        case tree.Target():
            return _faults(lambda: described(module, item))
        case tree.Intrin():
            return _intrin(module, item)
        case tree.Schedule():
            return (*_header(module, item), *_source(module, item))
        case tree.Space():
            return (*_header(module, item), *_strategy(module, item.strategy))
    return ()


def _faults(check: Callable[[], object]) -> tuple[Diagnostic, ...]:
    try:
        check()
    except MsError as e:
        return e.diagnostics
    return ()


def _intrin(module: Module, item: tree.Intrin) -> Iterator[Diagnostic]:
    yield from _target(module, item.target)
    yield from checked(as_program(item), consts_of(module, item))
    for impl in item.impls:
        if impl.body is not None:
            yield from checked(as_program(item, impl.body), consts_of(module, item))
        elif impl.backend is not None and impl.backend.text not in (known := implementing()):
            yield unknown("MS124", impl.backend, "back end", impl.backend.text, known)
    yield from intrin_faults(item)


def _header(module: Module, item: tree.Schedule | tree.Space) -> Iterator[Diagnostic]:
    if item.program is not None:
        name = ".".join(n.text for n in item.program)
        at = item.program[0].span.to(item.program[-1].span)
        yield from _role(module, name, at, ("program",), "program", module.programs)
    yield from _target(module, item.target)


def _target(module: Module, target: tree.Expr | None) -> Iterator[Diagnostic]:
    """Checks `on t`, or `on cuda(sm >= 70)`."""
    if target is None or isinstance(target, tree.Bad):
        return
    callee = target.callee if isinstance(target, tree.Call) else target
    name = dotted_name(callee)
    if name is None:
        yield fault("MS128", target, "a target is named here")
    elif name not in TARGET_KINDS:
        yield from _role(module, name, callee, ("target",), "target", target_names(module))


def _role(
    module: Module, name: str, at: tree.Node | Span, roles: tuple[str, ...], what: str, candidates: Iterable[str]
) -> Iterator[Diagnostic]:
    if name in module.lost or name.partition(".")[0] in module.lost:
        return
    thing = module.find(name)
    if thing is None:
        known = tuple(candidates)
        yield unknown("MS101", at, what, name, known, help=library_help(name) or _where(what, known))
    elif role(thing) not in roles:
        yield fault("MS128", at, f"`{name}` is a {role(thing)}, not a {what}")


def _where(what: str, known: tuple[str, ...]) -> str | None:
    """Where a program may come from, as help."""
    if what != "program":
        return None
    here = f"the programs here are {listed([f'`{n}`' for n in known], 'and')}" if 0 < len(known) < 9 else ""
    return here or "declare it in this file, or name it in a `use`: `use std.workloads.gemm.{gemm}`"


def role(thing: Thing) -> str:
    """What sort of thing a name means: the item's keyword, or "module"."""
    match thing:
        case Whole():
            return "module"
        case Native(role=r):
            return r
        case Found():
            return thing.role


def _source(module: Module, item: tree.Schedule) -> Iterator[Diagnostic]:
    """Checks the schedule that `= source with { … }` pins."""
    if item.source is None:
        return
    callee = item.source.callee if isinstance(item.source, tree.Call) else item.source
    name = dotted_name(callee)
    if name is not None:
        yield from _role(module, name, callee, ("schedule", "space"), "schedule", (*module.schedules, *module.spaces))


def _strategy(module: Module, strategy: tree.Strategy) -> Iterator[Diagnostic]:
    match strategy:
        case tree.Union(parts=ps) | tree.Sequence(parts=ps):
            for p in ps:
                yield from _strategy(module, p)
        case tree.Pinned(strategy=inner):
            yield from _strategy(module, inner)
        case tree.Call(callee=callee):
            yield from _strategy(module, callee)
        case tree.Ref() | tree.Member():
            name = dotted_name(strategy)
            if name is not None:
                known = [n for n in module.names if (t := module.find(n)) is not None and role(t) in STRATEGIES]
                yield from _role(module, name, strategy, tuple(sorted(STRATEGIES)), "schedule, rule or space", known)
