"""Calls in schedules: arguments beside the parameters that they are for, and what a call gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mslang.diagnostics import Diagnostic
from mslang.ops.signature import Group, Kind, Param, Required, Signature
from mslang.ops.table import OPERATIONS
from mslang.schedule.check.kinds import ANY, NOTHING, Static, list_of, of_kind
from mslang.sema.report import fault, unknown
from mslang.syntax import tree
from mslang.transform.registries import REGISTRY, Registry

Given = Sequence[tuple[str | None, tree.Expr, Static]]
"""Arguments as they are written: the name (`*` for a splat, none for a place), the expression, its value."""


def check_parameters(
    item: tree.Fn | tree.Rule | tree.Schedule | tree.Space,
    name: tree.Name,
    given: Given,
    report: Callable[[Diagnostic], None],
) -> None:
    """Arguments of a function of the module: how many, and by which names."""
    params = () if isinstance(item, tree.Space) else item.params
    if any(n == "*" for n, _, _ in given) or (isinstance(item, tree.Rule) and not given):
        return
    known = [p.name.text for p in params]
    for n, at, _ in given:
        if n is not None and n not in known:
            report(unknown("MS205", at, f"argument of `{name.text}`", n, known))
    positional = sum(n is None for n, _, _ in given)
    if positional > len(params):
        report(fault("MS205", name, f"`{name.text}` takes {len(params)} arguments, {positional} are given"))
    named = {n for n, _, _ in given if n is not None}
    missing = [p.name.text for p in params[positional:] if p.default is None and p.name.text not in named]
    if missing and not isinstance(item, tree.Rule):
        report(fault("MS205", name, f"`{name.text}` lacks {', '.join(f'`{m}`' for m in missing)}"))


def bind(
    signature: Signature, name: tree.Name, given: Given, report: Callable[[Diagnostic], None]
) -> list[tuple[Param, tree.Expr, Static]]:
    """The arguments of an operation beside the parameters that they are for."""
    positional = [p for p in signature.params if not p.keyword]
    bound: list[tuple[Param, tree.Expr, Static]] = []
    position, splat = 0, False
    for n, at, value in given:
        if n == "*" or n is None:
            splat = splat or n == "*"
            if position >= len(positional):
                report(fault("MS205", at, f"`{signature.name}` takes no further argument", help=signature.text))
                continue
            param = positional[position]
            position += not param.variadic
            bound.append((param, at, ANY if n == "*" and not param.variadic else value))
            continue
        found = next((p for p in signature.params if p.name == n), None)
        if found is None:
            known = [p.name for p in signature.params[1:]]
            report(unknown("MS205", at, f"argument of `{signature.name}`", n, known, help=signature.text))
        elif any(p is found for p, _, _ in bound):
            report(fault("MS205", at, f"`{n}` of `{signature.name}` is given twice"))
        else:
            bound.append((found, at, value))
    there = {p.name for p, _, _ in bound}
    missing = [p.name for p in signature.params if isinstance(p.default, Required) and p.name not in there]
    if missing and not splat:
        report(
            fault(
                "MS205",
                name,
                f"`{signature.name}` lacks {', '.join(f'`{m}`' for m in missing)}",
                help=signature.text,
            )
        )
    return bound


def results_of(signature: Signature, bound: Sequence[tuple[Param, tree.Expr, Static]]) -> Static | tuple[Static, ...]:
    """What an operation gives for these arguments."""
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
    """How many factors a tile has, where `n` is written as a number."""
    for a in e.args:
        if a.name is not None and a.name.text == "n" and isinstance(a.value, tree.Number):
            return int(a.value.value)
    if signature is None or isinstance(e.callee, tree.Member):
        return None
    position = next((k for k, p in enumerate(signature.params) if p.name == "n"), None)
    if position is None or position >= len(e.args) or e.args[position].name is not None:
        return None
    at = e.args[position].value
    return int(at.value) if isinstance(at, tree.Number) else None


def methods_of(kind: Kind, registry: Registry = REGISTRY) -> tuple[Signature, ...]:
    """The operations that a value of a kind has."""
    wanted = {kind, Kind.LOOP_OR_BLOCK} if kind in (Kind.LOOP, Kind.BLOCK) else {kind}
    return tuple(s for s in registry.operations.values() if s.receiver in wanted and s.group is not Group.SAMPLER)


_NEW_AXES = frozenset({"rfactor", "transform_block_layout", "transform_layout"})


def may_give_axes(signature: Signature) -> bool:
    """Whether an operation may give blocks other axes: some do, and of users' own nothing is known."""
    return signature.name in _NEW_AXES or signature.name not in OPERATIONS
