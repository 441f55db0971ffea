"""Addresses of decisions where they are written: pins, keyword arguments of `sample`; and what their parts name."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mslang.caching import cached
from mslang.diagnostics import Span
from mslang.ide.declarations import Name, Role
from mslang.ide.keyed import Keyed
from mslang.ops.library import LIBRARY
from mslang.schedule.check.addresses import DEPTH
from mslang.sema.module import Found, Module
from mslang.sema.native import Native
from mslang.sema.refer import dotted_name, nodes
from mslang.syntax import tree
from mslang.transform.registry import OPERATIONS


class Written(msgspec.Struct, frozen=True):
    """An address in the text of an item: its place without quotes, and the expression whose decision it names."""

    span: Span
    address: str
    of: tree.Strategy | None


class Part(msgspec.Struct, frozen=True):
    """A part of an address: its place in the address, and the declaration that it names in `owner`."""

    span: Span
    owner: Found
    name: Name


def written_addresses(module: Module, placed: tree.PlacedItem) -> Iterator[Written]:
    """Every address of a decision that an item writes."""
    text = placed.parsed.text
    if "with" not in text and "sample" not in text:
        return
    for callee, written in _written_in(Keyed(text, placed)):
        if callee is None or _is_sample(module, callee):
            yield from written


@cached(budget=1 << 20, weight=lambda found, item: 100 + len(item.key), key=lambda item: item.key)
def _written_in(item: Keyed[tree.PlacedItem]) -> tuple[tuple[tree.Expr | None, tuple[Written, ...]], ...]:
    """The addresses that an item writes if a callee is `sample`, and (None) those that it writes anyway."""
    text = item.value.parsed.text
    found: list[tuple[tree.Expr | None, tuple[Written, ...]]] = []
    for n in nodes(item.value.item):
        match n:
            case tree.Schedule(source=source, pins=tuple() as pins):
                found.append((None, tuple(_written(text, p.span.start, p.address, source) for p in pins)))
            case tree.Pinned(strategy=strategy, pins=pins):
                found.append((None, tuple(_written(text, p.span.start, p.address, strategy) for p in pins)))
            case tree.CallStmt(call=call, pins=tuple() as pins):
                found.append((None, tuple(_written(text, p.span.start, p.address, call) for p in pins)))
            case tree.Call(callee=callee, args=args) if args:
                named = [a.name for a in args if a.name is not None and a.name.text not in _OF_SAMPLE]
                of = args[0].value
                found.append((callee, tuple(_written(text, name.span.start, name.text, of) for name in named)))
    return tuple((callee, written) for callee, written in found if written)


_OF_SAMPLE = frozenset(p.name for p in LIBRARY["sample"].params)
"""The arguments of `sample` that are not addresses."""


def _written(text: str, start: int, address: str, of: tree.Strategy | None) -> Written:
    start += text[start] in '"`'
    return Written(Span(start, start + len(address)), address, of)


def _is_sample(module: Module, callee: tree.Expr) -> bool:
    name = dotted_name(callee)
    thing = None if name is None else module.find(name)
    return isinstance(thing, Native) and thing.address == "sample"


def parts_of(module: Module, written: Written) -> tuple[Part, ...] | None:
    """What the parts of an address name; a decision with an address of its own has none. None if not known."""
    if written.of is None:
        return None
    found = list(_named(module, written.of, written.address, 0))
    places = {tuple((p.owner.module.path, p.owner.placed.start, p.name.span) for p in parts) for parts in found}
    return found[0] if len(places) == 1 else None


def part_at(module: Module, written: Written, offset: int) -> Part | None:
    """The part of an address at an offset of the item; None if there is none or it is not known what it names."""
    for part in parts_of(module, written) or ():
        if part.span.start <= offset - written.span.start <= part.span.end:
            return part
    return None


# ------------------------------------------------------------------ what an address names
def _named(module: Module, e: tree.Strategy, address: str, depth: int) -> Iterator[tuple[Part, ...]]:
    """The parts of an address, once for each decision in a strategy that has this address."""
    match e:
        case tree.Union(parts=parts) | tree.Sequence(parts=parts):
            for p in parts:
                yield from _named(module, p, address, depth)
            return
        case tree.Pinned(strategy=inner) | tree.Group(items=(inner,)):
            yield from _named(module, inner, address, depth)
            return
    name = dotted_name(e.callee if isinstance(e, tree.Call) else e)
    found = None if name is None else module.find(name)
    if not isinstance(found, Found) or depth > DEPTH:
        return
    match found.item:
        case tree.Schedule(source=source, body=None) if source is not None:
            yield from _named(found.module, source, address, depth + 1)
        case tree.Schedule(body=tree.Body() as body):
            yield from _inside(found, body, address, 0, depth)
        case tree.Space(strategy=strategy):
            yield from _named(found.module, strategy, address, depth + 1)
        case tree.Fn(body=body, name=own) if address.startswith(f"{own.text}/"):
            start = len(own.text)
            first = Part(Span(0, start), found, _name(own, found.item))
            for rest in _inside(found, body, address[start + 1 :], start + 1, depth):
                yield (first, *rest)


def _inside(owner: Found, body: tree.Body, address: str, at: int, depth: int) -> Iterator[tuple[Part, ...]]:
    """The parts of an address in a body; `at` is where it begins in the whole address."""

    def part(name: tree.Name, node: tree.Node) -> Part:
        return Part(Span(at, at + len(name.text)), owner, _name(name, node))

    for s in body.statements:
        match s:
            case tree.Sample(name=name, address=None) if name.text == address:
                yield (part(name, s),)
            case tree.Sample(address=tree.String(value=fixed)) if fixed == address:
                yield ()
            case tree.Fork(name=own, cases=cases):
                if own is not None and own.text == address:
                    yield (part(own, s),)
                elif own is None and address == "fork":
                    yield ()
                for case in cases:
                    if isinstance(case, tree.Case):
                        yield from _inside(owner, case.body, address, at, depth)
            case tree.If(body=then, otherwise=otherwise):
                yield from _inside(owner, then, address, at, depth)
                if otherwise is not None:
                    yield from _inside(owner, otherwise, address, at, depth)
            case tree.Let(binders=binders, value=value):
                first = next((b.name for b in binders if b.name is not None), None)
                if first is not None and address.startswith(f"{first.text}/") and depth < DEPTH:
                    start = len(first.text) + 1
                    for fn in _called(owner.module, value):
                        assert isinstance(fn.item, tree.Fn)
                        for rest in _inside(fn, fn.item.body, address[start:], at + start, depth + 1):
                            yield (part(first, s), *rest)


def _called(module: Module, value: tree.Expr) -> Iterator[Found]:
    """The fns that an expression calls."""
    for n in nodes(value):
        if isinstance(n, tree.Call) and isinstance(n.callee, tree.Ref | tree.Member):
            whole, last = dotted_name(n.callee), n.callee.name.text
            thing = None if whole is None or last in OPERATIONS else module.find(whole)
            thing = module.find(last) if thing is None and last not in OPERATIONS else thing
            if isinstance(thing, Found) and isinstance(thing.item, tree.Fn):
                yield thing


def _name(name: tree.Name, node: tree.Node) -> Name:
    return Name(name.text, Role.LET, name.span, node, node.span)
