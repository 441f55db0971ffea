"""The addresses of an item's decisions, as far as they can be derived without running it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from mslang.sema.module import Found, Module
from mslang.sema.native import BUILTINS, Native
from mslang.sema.refer import dotted_name, nodes
from mslang.syntax import tree
from mslang.transform.registry import OPERATIONS

DEPTH = 16
"""The call depth to which fns are followed."""


class _Unknown(Exception):
    """An address depends on a value known only at run time: a list's element, or a block that a rule matches."""


def addresses_of(module: Module, e: tree.Expr, depth: int = 0) -> frozenset[str] | None:
    """The addresses of the decisions of a schedule, space or fn that an expression names; None if not known."""
    with suppress(_Unknown):
        return frozenset(a.text for a in _named(module, e, depth))
    return None


class _Address(NamedTuple):
    """An address; one that is `stated` has no prefix where an fn is called."""

    text: str
    stated: bool = False

    def under(self, binder: str) -> _Address:
        return self if self.stated else _Address(f"{binder}/{self.text}")


def unnamed_samplers(module: Module, s: tree.Stmt) -> Iterator[tree.Call]:
    """The calls in a statement, but not in its bodies, of fns that sample, where no binder of a `let` names them."""
    for part in _outside_let(s):
        for call in nodes(part):
            if isinstance(call, tree.Call):
                found = _fn_called(module, call)
                if found is not None and _samples(found):
                    yield call


def _outside_let(s: tree.Stmt) -> tuple[tree.Node, ...]:
    match s:
        case tree.Let(binders=binders, value=value):
            return () if any(b.name is not None and not b.star for b in binders) else (value,)
        case tree.CallStmt(call=call):
            return (call,)
        case tree.Return(values=values):
            return values
        case tree.Require(condition=condition) | tree.If(condition=condition):
            return (condition,)
        case tree.Sample(distribution=distribution):
            return (distribution,)
        case tree.For(loops=loops):
            return tuple(loop.domain for loop in loops)
    return ()


def _fn_called(module: Module, call: tree.Call) -> Found | None:
    name = dotted_name(call.callee)
    last = call.callee.name.text if isinstance(call.callee, tree.Ref | tree.Member) else None
    if last is None or last in OPERATIONS:
        return None
    thing = module.find(name) if name is not None else None
    thing = module.find(last) if thing is None else thing
    return thing if isinstance(thing, Found) and isinstance(thing.item, tree.Fn) else None


def _samples(fn: Found) -> bool:
    """Whether an fn, or an fn that it calls, draws a decision."""
    queue, seen = [fn], {id(fn.item)}
    for each in queue:
        for node in nodes(each.item):
            match node:
                case tree.Sample() | tree.Fork():
                    return True
                case tree.Call():
                    inner = _fn_called(each.module, node)
                    if inner is not None and id(inner.item) not in seen:
                        seen.add(id(inner.item))
                        queue.append(inner)
    return False


def _named(module: Module, e: tree.Expr, depth: int) -> Iterator[_Address]:
    name = dotted_name(e.callee if isinstance(e, tree.Call) else e)
    found = module.find(name) if name is not None else None
    if not isinstance(found, Found) or depth > DEPTH:
        raise _Unknown
    match found.item:
        case tree.Schedule(source=source, body=None) if source is not None:
            yield from _named(found.module, source, depth + 1)
        case tree.Schedule(body=body) as item if body is not None:
            yield from _body(found.module, body, depth, _local(item))
        case tree.Fn(body=body, name=fn) as item:
            yield from (a.under(fn.text) for a in _body(found.module, body, depth, _local(item)))
        case _:
            raise _Unknown


def _local(item: tree.Schedule | tree.Fn) -> frozenset[str]:
    """The names that an item binds: a call of one calls a value."""
    binders = (b for n in nodes(item) if isinstance(n, tree.Let) for b in n.binders)
    return frozenset([b.name.text for b in binders if b.name is not None] + [p.name.text for p in item.params])


def _body(module: Module, body: tree.Body, depth: int, local: frozenset[str]) -> Iterator[_Address]:
    for s in body.statements:
        match s:
            case tree.Sample(name=name, address=address):
                yield _Address(name.text) if address is None else _Address(address.value, stated=True)
            case tree.Fork(name=name, cases=cases):
                yield _Address("fork" if name is None else name.text)
                for case in cases:
                    if isinstance(case, tree.Case):
                        yield from _body(module, case.body, depth, local)
            case tree.If(body=then, otherwise=otherwise):
                yield from _body(module, then, depth, local)
                if otherwise is not None:
                    yield from _body(module, otherwise, depth, local)
            case tree.For(body=inner):
                if any(True for _ in _body(module, inner, depth, local)):
                    raise _Unknown
            case tree.Let(binders=binders, value=value):
                first = next((b.name.text for b in binders if b.name is not None and not b.star), None)
                for a in _called(module, value, depth, local):
                    if first is None or any(isinstance(n, tree.Comprehension) for n in nodes(value)):
                        raise _Unknown  # Elements are part of addresses in a comprehension.
                    yield a.under(first)
            case tree.Bad():
                raise _Unknown
            case _:
                for _ in _called(module, s, depth, local):
                    raise _Unknown


def _called(module: Module, node: tree.Node, depth: int, local: frozenset[str]) -> Iterator[_Address]:
    """The addresses in the fns that a statement calls."""
    if depth > DEPTH:
        raise _Unknown
    for call in nodes(node):
        if not isinstance(call, tree.Call):
            continue
        name = dotted_name(call.callee)
        last = call.callee.name.text if isinstance(call.callee, tree.Ref | tree.Member) else None
        if last in OPERATIONS:
            continue
        if last in local:
            raise _Unknown
        thing = module.find(name) if name is not None else None
        thing = thing if thing is not None or last is None else module.find(last)
        match thing:
            case Found(item=tree.Fn(body=body) as fn):
                yield from _body(thing.module, body, depth + 1, _local(fn))
            case Found(item=tree.Rule()):
                raise _Unknown
            case Native(name=own) if own in BUILTINS and own != "apply":
                continue
            case None:
                # A user's own primitive, or an error that is reported elsewhere.
                continue
            case _:
                raise _Unknown
