"""Calls in schedules: arguments bound to parameters, and the kinds of a call's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mslang.diagnostics import Diagnostic, Span
from mslang.ops.signature import Group, Kind, Param, Required, Signature
from mslang.schedule.check.kinds import ANY, NOTHING, Static, list_of, of_kind
from mslang.schedule.sampling import PARTS
from mslang.sema.report import fault, unknown
from mslang.syntax import tree
from mslang.transform.registries import REGISTRY, Registry
from mslang.transform.registry import OPERATIONS


class Argument(NamedTuple):
    """An argument as written: its name (`*` for a splat, None for a positional one), expression and value."""

    name: str | None
    value: tree.Expr
    static: Static
    at: Span
    """The span of its name, or of the argument itself if it has no name."""


Given = Sequence[Argument]
"""The arguments of a call."""


def check_parameters(
    item: tree.Fn | tree.Rule | tree.Schedule | tree.Space,
    name: tree.Name,
    given: Given,
    report: Callable[[Diagnostic], None],
) -> None:
    """Check the number and the names of the arguments of a function of the module."""
    params = () if isinstance(item, tree.Space) else item.params
    strange = report_keywords(name.text, given, [p.name.text for p in params], report)
    if any(a.name == "*" for a in given) or (isinstance(item, tree.Rule) and not given):
        return
    positional = sum(a.name is None for a in given)
    if positional > len(params):
        report(fault("MS205", name, f"`{name.text}` takes {len(params)} arguments, {positional} are given"))
    named = {a.name for a in given if a.name is not None}
    missing = [p.name.text for p in params[positional:] if p.default is None and p.name.text not in named]
    if missing and not strange and not isinstance(item, tree.Rule):
        report(fault("MS205", name, f"`{name.text}` lacks {', '.join(f'`{m}`' for m in missing)}"))


def report_keywords(
    callee: str,
    given: Given,
    known: Sequence[str],
    report: Callable[[Diagnostic], None],
    help: str | None = None,
) -> bool:
    """Report named arguments that a call does not take or has twice.

    Returns whether any is unknown: it may be a missing argument under another name."""
    seen: set[str] = set()
    strange = False
    for a in given:
        if a.name is None or a.name == "*":
            continue
        if a.name not in known:
            strange = True
            report(unknown("MS205", a.at, "argument", a.name, known, help=help, of=callee))
        elif a.name in seen:
            report(fault("MS205", a.at, f"`{a.name}` of `{callee}` is given twice"))
        seen.add(a.name)
    return strange


def bind(
    signature: Signature, name: tree.Name, given: Given, report: Callable[[Diagnostic], None]
) -> list[tuple[Param, tree.Expr, Static]]:
    """The arguments of an operation, each with its parameter."""
    positional = [p for p in signature.params if not p.keyword]
    bound: list[tuple[Param, tree.Expr, Static]] = []
    position, splat, strange = 0, False, False
    for n, at, value, where in given:
        if n == "*" or n is None:
            splat = splat or n == "*"
            if position >= len(positional):
                report(fault("MS205", at, f"`{signature.name}` takes no further argument", help=signature.text))
                continue
            param = positional[position]
            position += not param.variadic
            bound.append((param, at, value if n is None else (param.variadic and value.element) or ANY))
            continue
        found = next((p for p in signature.params if p.name == n), None)
        if found is None:
            strange = True
            known = [p.name for p in signature.params[1:]]
            report(unknown("MS205", where, "argument", n, known, help=signature.text, of=signature.name))
        elif any(p is found for p, _, _ in bound):
            report(fault("MS205", where, f"`{n}` of `{signature.name}` is given twice"))
        else:
            bound.append((found, at, value))
    there = {p.name for p, _, _ in bound}
    missing = [p.name for p in signature.params if isinstance(p.default, Required) and p.name not in there]
    if missing and not splat and not strange:
        report(
            fault(
                "MS205",
                name,
                f"`{signature.name}` lacks {', '.join(f'`{m}`' for m in missing)}",
                help=signature.text,
            )
        )
    return bound


def list_help(param: Param, at: tree.Expr, value: Static) -> str | None:
    """What to write where a list stands for its elements, or an element for a list; None if it is another mistake."""
    match param.kind, value.kind, at:
        case Kind.FACTORS, Kind.SIZE | Kind.INT, tree.Number(value=n):
            return f"write a factor for each new loop: `[_, {n}]`"
        case _, Kind.VALUES, tree.List() if param.variadic:
            return "write the elements without brackets"
        case _, Kind.VALUES, _ if param.variadic:
            return "write `*` before the list: its elements are the arguments"
    return None


def check_library(signature: Signature, name: tree.Name, given: Given, report: Callable[[Diagnostic], None]) -> None:
    """Check the arguments of a function or rule of the library: named ones always, their number for plain functions."""
    if signature.name == "sample":
        return  # Further named arguments are pins.
    if signature.results in ((Kind.BOOL,), (Kind.LOOP,)):
        bind(signature, name, given, report)
    else:
        # Rules are named without arguments, too, and `min` and `max` take lists.
        report_keywords(signature.name, given, [p.name for p in signature.params], report, signature.text)


def results_of(signature: Signature, bound: Sequence[tuple[Param, tree.Expr, Static]]) -> Static | tuple[Static, ...]:
    """The results of an operation for these arguments."""
    if not signature.results:
        return NOTHING
    if not signature.many:
        if len(signature.results) > 1:
            return tuple(of_kind(k) for k in signature.results)
        only = of_kind(signature.results[0])
        if signature.name == "choose":
            values = next((v for p, _, v in bound if p.name == "values"), ANY)
            return values.element or only
        if signature.name == "permute":
            return next((v for p, _, v in bound if p.name == "values"), only)
        return only
    factors = next((v for p, _, v in bound if p.kind in (Kind.FACTORS, Kind.SIZES)), ANY)
    if factors.length is None:
        return list_of(of_kind(signature.results[-1]))
    return tuple(of_kind(signature.results[-1]) for _ in range(factors.length))


def tile_length(e: tree.Call, signature: Signature | None) -> int | None:
    """The number of factors of a tile, where `n` is written as a number."""
    for a in e.args:
        if a.name is not None and a.name.text == "n":
            return _parts(a.value)
    if signature is None or isinstance(e.callee, tree.Member):
        return None
    position = next((k for k, p in enumerate(signature.params) if p.name == "n"), None)
    if position is None or position >= len(e.args) or e.args[position].name is not None:
        return None
    return _parts(e.args[position].value)


def _parts(e: tree.Expr) -> int | None:
    """The value of a number if a tile may have so many parts; others are refused when the schedule is run."""
    whole = e.value if isinstance(e, tree.Number) and isinstance(e.value, int) else 0
    return whole if 1 <= whole <= PARTS else None


def methods_of(kind: Kind, registry: Registry = REGISTRY) -> tuple[Signature, ...]:
    """The operations available on a value of a kind."""
    wanted = {kind, Kind.LOOP_OR_BLOCK} if kind in (Kind.LOOP, Kind.BLOCK) else {kind}
    return tuple(s for s in registry.operations.values() if s.receiver in wanted and s.group is not Group.SAMPLER)


_NEW_AXES = frozenset({"rfactor", "rolling_update", "transform_block_layout", "transform_layout"})


def may_give_axes(signature: Signature) -> bool:
    """Whether an operation may change the axes of blocks; users' own primitives are assumed to."""
    return signature.name in _NEW_AXES or signature.name not in OPERATIONS
