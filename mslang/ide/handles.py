"""The names that a schedule, rule, fn or test binds itself."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mslang.caching import cached
from mslang.diagnostics import Span
from mslang.ide.keyed import Keyed
from mslang.sema.refer import nodes
from mslang.syntax import tree


class Binder(msgspec.Struct, frozen=True):
    """A place that binds a name. `conditional` says that it stands in a branch, a case or a loop, so that a later use
    of the name may mean this binder or another of the same name. `scoped` are binders seen in one expression only."""

    text: str
    span: Span
    conditional: bool = False
    scoped: bool = False


def binders(placed: tree.PlacedItem) -> tuple[Binder, ...]:
    """Every binder of an item that is not a program, in the order of the text."""
    return _binders(Keyed(placed.parsed.text, placed.item))


@cached(budget=1 << 20, weight=lambda found, item: 100 + len(item.key), key=lambda item: item.key)
def _binders(work: Keyed[tree.AnyItem]) -> tuple[Binder, ...]:
    item = work.value
    found: list[Binder] = []
    match item:
        case tree.Schedule(params=params) | tree.Rule(params=params) | tree.Fn(params=params):
            found += (Binder(p.name.text, p.name.span) for p in params)
    match item:
        case tree.Schedule(body=tree.Body() as body) | tree.Rule(body=body) | tree.Fn(body=body) | tree.Test(body=body):
            found += _inside(body, False)
    found += _scoped(item)
    return tuple(sorted(found, key=lambda b: b.span))


def same_handle(placed: tree.PlacedItem, span: Span) -> Span:
    """The first binder of the name that is bound at `span`, where several may be meant by one use: the binders of a
    name of which one is conditional count as one. Else the span itself."""
    own = next((b for b in binders(placed) if b.span == span), None)
    if own is None or own.scoped:
        return span
    same = [b for b in binders(placed) if b.text == own.text and not b.scoped]
    return min(b.span for b in same) if any(b.conditional for b in same) else span


def _inside(body: tree.Body, conditional: bool) -> Iterator[Binder]:
    for s in body.statements:
        match s:
            case tree.Let(binders=names):
                yield from (Binder(b.name.text, b.name.span, conditional) for b in names if b.name is not None)
            case tree.Sample(name=name):
                yield Binder(name.text, name.span, conditional)
            case tree.For(loops=loops, body=inner):
                yield from (Binder(x.name.text, x.name.span, True) for x in loops)
                yield from _inside(inner, True)
            case tree.While(body=inner):
                yield from _inside(inner, True)
            case tree.If(body=inner, otherwise=other):
                yield from _inside(inner, True)
                if other is not None:
                    yield from _inside(other, True)
            case tree.Fork(name=own, cases=cases):
                if own is not None:
                    yield Binder(own.text, own.span, conditional)
                for case in cases:
                    if isinstance(case, tree.Case):
                        yield from _inside(case.body, True)


def _scoped(item: tree.AnyItem) -> Iterator[Binder]:
    for n in nodes(item):
        match n:
            case tree.Comprehension(binders=names):
                yield from (Binder(b.name.text, b.name.span, scoped=True) for b in names if b.name is not None)
            case tree.IndexMap(params=params):
                yield from (Binder(p.text, p.span, scoped=True) for p in params)
