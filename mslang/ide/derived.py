"""Words that are made from a name: `C_local` of a buffer `C`, and the texts of snapshots and implementations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from mslang.diagnostics import Span
from mslang.ide.declarations import declarations
from mslang.ide.definition import Location
from mslang.ide.dependencies import reached
from mslang.ide.handles import binders
from mslang.ide.references import Symbol, Words, item_key, symbol_of
from mslang.ide.snapshot import Snapshot
from mslang.ide.target import programs_of, target_at
from mslang.ir.intrin import PLACEHOLDER
from mslang.sema.module import Found, Module
from mslang.syntax import tree
from mslang.syntax.lexer import tokenize


class Derived(msgspec.Struct, frozen=True):
    """The places of a name in words that are made from it, and words that may be made from it or from another."""

    named: tuple[Location, ...]
    unknown: tuple[Location, ...]


def derived(
    snapshot: Snapshot, symbol: Symbol, found: Words, files: Iterable[str], concern: frozenset[tuple[str, int]]
) -> Derived:
    """What is made from a declaration's name, in the items that it concerns. `found` are the places of the name itself.

    Raises:
        MsError: a file cannot be read.
    """
    named: list[Location] = []
    unknown: list[Location] = []
    alone = not any(item_key(snapshot, place) in concern for place in found.others)
    for path in files:
        text = snapshot.read(path)
        if text is None or symbol.text not in text:
            continue
        module = snapshot.module(path)
        for placed in module.file.items:
            if (
                symbol.text not in placed.parsed.text
                or item_key(snapshot, Location(path, _start(placed))) not in concern
            ):
                continue
            named += _at(path, placed, _implemented(placed, symbol))
            for whole, part in _printed(module, placed, symbol.text):
                (named if alone and part is not None else unknown).extend(_at(path, placed, (part or whole,)))
            for whole, part in _words(snapshot, module, placed, symbol.text):
                (unknown if part is None else named).extend(_at(path, placed, (part or whole,)))
    return Derived(tuple(named), tuple(unknown))


def _start(placed: tree.PlacedItem) -> Span:
    return Span(placed.start, placed.start)


def _at(path: str, placed: tree.PlacedItem, spans: Iterable[Span]) -> Iterator[Location]:
    return (Location(path, s.shifted(placed.start)) for s in spans)


def _implemented(placed: tree.PlacedItem, symbol: Symbol) -> Iterator[Span]:
    """The places of a parameter in implementations: `{src.stride}`."""
    match placed.item:
        case tree.Intrin(params=params, impls=impls):
            if symbol.place.span.start not in {p.name.span.start + placed.start for p in params}:
                return
            for impl in impls:
                if impl.text is not None:
                    start = impl.text.span.start
                    for m in PLACEHOLDER.finditer(impl.text.raw):
                        if m[1] == symbol.text:
                            yield Span(start + m.start(1), start + m.end(1))


def _printed(module: Module, placed: tree.PlacedItem, name: str) -> Iterator[tuple[Span, Span | None]]:
    """The words in what a test expects to be printed that are the name or hold it: their spans, and the name's if they
    are made from it. A word that is declared itself is not: `mm_i` where a handle is called so."""
    if not isinstance(placed.item, tree.Test):
        return
    scopes = _scopes(Found(module, placed))
    longer = {n for names in scopes for n in names if n != name and _parts(n, name)}
    for s in placed.item.body.statements:
        if not isinstance(s, tree.Snapshot):
            continue
        for m in re.finditer(r"\w+", s.text.raw):
            word, start = m[0], s.text.span.start + m.start()
            if word in longer and all(word in names for names in scopes):
                continue
            others = [p for n in longer for p in _parts(word, n)]
            for part in _parts(word, name):
                own = not any(p.start <= part.start and part.end <= p.end for p in others)
                yield Span(start, start + len(word)), part.shifted(start) if own else None


def _scopes(test: Found) -> tuple[frozenset[str], ...]:
    """The names declared for each schedule that a test runs; in the test itself if it runs none."""
    runs = [f for f in reached(test) if isinstance(f.placed.item, tree.Schedule) and f.placed.item.body is not None]
    return tuple(frozenset(n for f in reached(run) for n in _declared(f.module, f.placed)) for run in runs or [test])


def _words(
    snapshot: Snapshot, module: Module, placed: tree.PlacedItem, name: str
) -> Iterator[tuple[Span, Span | None]]:
    """The words that nothing declares and that hold the name: their spans, and the name's if they are made from it."""
    for token in tokenize(placed.parsed.text):
        if token.kind != "NAME" or token.text == name or not _parts(token.text, name):
            continue
        target = target_at(snapshot, module.path, token.start + placed.start)
        if target is None or target.plain or target.thing is not None or symbol_of(target) is not None:
            continue
        known = {*_declared(module, placed)} - {name}
        longer = any(token.text == n or token.text.startswith(f"{n}_") for n in known)
        own = token.text.startswith(f"{name}_") and not longer
        yield Span(token.start, token.end), Span(token.start, token.start + len(name)) if own else None


def _parts(word: str, name: str) -> tuple[Span, ...]:
    """Where a name is a part of a word, or all of it: parts are joined by `_`."""
    return tuple(Span(*m.span()) for m in re.finditer(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", word))


def _declared(module: Module, placed: tree.PlacedItem) -> Iterator[str]:
    """The names from which operations of an item may make others."""
    yield from (b.text for b in binders(placed))
    for program in programs_of(module, placed.item):
        if isinstance(program, Found) and isinstance(program.item, tree.Program):
            yield from (n.text for n in declarations(program.item))
