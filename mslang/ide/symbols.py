"""The outline of a file: items, and in them blocks, buffers, forks with their cases, and decisions; and the search for
symbols in many files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mslang.diagnostics import MsError, Span
from mslang.ide.snapshot import Snapshot
from mslang.sema.module import NAMED, role_of
from mslang.syntax import tree


class Symbol(msgspec.Struct, frozen=True):
    """An entry: `span` is all of it, `name_span` the name; both count from the file's start. `kind` is the keyword of
    an item, or block, buffer, fork, case, decision."""

    name: str
    kind: str
    span: Span
    name_span: Span
    detail: str = ""
    children: tuple[Symbol, ...] = ()


def symbols(snapshot: Snapshot, path: str) -> tuple[Symbol, ...]:
    """The outline of a file, in the order of the text.

    Raises:
        MsError: the file cannot be read.
    """
    return tuple(s for p in snapshot.module(path).file.items for s in _item(p))


def _item(placed: tree.PlacedItem) -> Iterator[Symbol]:
    item = placed.item
    match item:
        case tree.Use():
            return
        case tree.Test(title=title):
            name, at = title.value, title.span
        case tree.BadItem(name=None):
            return
        case tree.BadItem(name=tree.Name() as found):
            name, at = found.text, found.span
        case _:
            assert isinstance(item, NAMED)
            name, at = item.name.text, item.name.span
    inner = tuple(_shifted(s, placed.start) for s in _children(item))
    kind = role_of(item)
    yield Symbol(name, kind, item.span.shifted(placed.start), at.shifted(placed.start), _detail(item), inner)


def _detail(item: tree.AnyItem) -> str:
    match item:
        case tree.Schedule(program=tuple() as program) | tree.Space(program=tuple() as program):
            return "for " + ".".join(n.text for n in program)
    return ""


def _children(item: tree.AnyItem) -> Iterator[Symbol]:
    match item:
        case tree.Program(body=body) | tree.Rule(body=body) | tree.Fn(body=body) | tree.Intrin(desc=body):
            yield from _body(body)
        case tree.Schedule(body=tree.Body() as body):
            yield from _body(body)


def _body(body: tree.Body) -> Iterator[Symbol]:
    for s in body.statements:
        match s:
            case tree.Block(name=name, body=inner):
                yield Symbol(name.text, "block", s.span, name.span, children=tuple(_body(inner)))
            case tree.Alloc(name=name) | tree.View(name=name):
                yield Symbol(name.text, "buffer", s.span, name.span)
            case tree.Sample(name=name, address=address):
                yield Symbol(name.text if address is None else address.value, "decision", s.span, name.span)
            case tree.Fork(name=fork, cases=cases):
                label = fork.span if fork is not None else Span(s.span.start, s.span.start + len("fork"))
                inside = tuple(
                    Symbol(c.name.text, "case", c.span, c.name.span, children=tuple(_body(c.body)))
                    for c in cases
                    if isinstance(c, tree.Case)
                )
                yield Symbol("fork" if fork is None else fork.text, "fork", s.span, label, children=inside)
            case tree.For(body=inner) | tree.While(body=inner):
                yield from _body(inner)
            case tree.If(body=inner, otherwise=other):
                yield from _body(inner)
                if other is not None:
                    yield from _body(other)


def _shifted(s: Symbol, by: int) -> Symbol:
    return Symbol(
        s.name,
        s.kind,
        s.span.shifted(by),
        s.name_span.shifted(by),
        s.detail,
        tuple(_shifted(c, by) for c in s.children),
    )


class FoundSymbol(msgspec.Struct, frozen=True):
    """A symbol of a file of the workspace; `within` is the item or block that holds it."""

    path: str
    symbol: Symbol
    within: str = ""


def workspace_symbols(snapshot: Snapshot, query: str, files: Iterable[str]) -> tuple[FoundSymbol, ...]:
    """The symbols of files whose name has the letters of the query in their order, exact and early matches first."""
    found = [s for path in files for s in _of_file(snapshot, path) if _matches(query, s.symbol.name)]
    lower = query.lower()
    return tuple(sorted(found, key=lambda s: (lower not in s.symbol.name.lower(), len(s.symbol.name), s.path)))


def _of_file(snapshot: Snapshot, path: str) -> Iterator[FoundSymbol]:
    try:
        outline = symbols(snapshot, path)
    except MsError:
        return
    queue = [(s, "") for s in outline]
    while queue:
        symbol, within = queue.pop()
        yield FoundSymbol(path, symbol, within)
        queue += [(s, symbol.name) for s in symbol.children]


def _matches(query: str, name: str) -> bool:
    letters = iter(name.lower())
    return all(c in letters for c in query.lower())
