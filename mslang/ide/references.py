"""Find references: every place that names a declaration, in all files of the workspace."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

import msgspec

from mslang.diagnostics import MsError, Span
from mslang.ide.addresses import written_addresses
from mslang.ide.definition import Location, declared_at
from mslang.ide.dependencies import uses
from mslang.ide.handles import same_handle
from mslang.ide.snapshot import Snapshot
from mslang.ide.target import Target, target_at
from mslang.sema.module import Found, Module, Whole
from mslang.syntax import tree
from mslang.syntax.lexer import COMMENTS, WHITESPACE, Token, tokenize
from mslang.syntax.query import item_at


class Symbol(msgspec.Struct, frozen=True):
    """A declaration: its name, and where it stands. `whole` says that it is a file, known by the name of its path."""

    text: str
    place: Location
    whole: bool = False

    def same(self, other: Symbol | None) -> bool:
        """Whether both are one declaration."""
        return other is not None and self.key == other.key

    @property
    def key(self) -> tuple[str, int]:
        """What tells declarations apart, however their file is spelled."""
        return os.path.realpath(self.place.path), self.place.span.start


class Reference(msgspec.Struct, frozen=True):
    """A place that names a declaration; `declares` says that it is the declaration, or binds its name again."""

    place: Location
    declares: bool = False


class Words(msgspec.Struct, frozen=True):
    """The places of a word that name a declaration, those that name another, and those of which it is not known."""

    named: tuple[Reference, ...]
    others: tuple[Location, ...]
    unknown: tuple[Location, ...]


def references(snapshot: Snapshot, path: str, offset: int, files: Iterable[str]) -> tuple[Reference, ...]:
    """Every place in the files that names what the word at an offset names; none if it is declared in no file.

    Raises:
        MsError: the file cannot be read.
    """
    symbol = symbol_at(snapshot, path, offset)
    return (
        ()
        if symbol is None
        else words(snapshot, symbol, {path: None, symbol.place.path: None, **dict.fromkeys(files)}).named
    )


def highlights(snapshot: Snapshot, path: str, offset: int) -> tuple[Reference, ...]:
    """The places in the file itself.

    Raises:
        MsError: the file cannot be read.
    """
    symbol = symbol_at(snapshot, path, offset)
    return () if symbol is None else words(snapshot, symbol, (path,)).named


def symbol_at(snapshot: Snapshot, path: str, offset: int) -> Symbol | None:
    """The declaration that the word at an offset names; None if it is declared in no file.

    Raises:
        MsError: the file cannot be read.
    """
    target = target_at(snapshot, path, offset)
    return None if target is None else symbol_of(target)


def symbol_of(target: Target) -> Symbol | None:
    """The declaration that a word names; None if it is declared in no file."""
    local = target.mention is not None and target.mention.bound is not None
    if not local and target.name is None and (alias := _alias(target.module, target.text)) is not None:
        return Symbol(target.text, Location(target.module.path, alias))
    place = declared_at(target)
    if place is None:
        return None
    if local or target.name is not None:
        placed = target.placed if local or target.program is None else target.program.placed
        first = same_handle(placed, place.span.shifted(-placed.start))
        return Symbol(target.text, Location(place.path, first.shifted(placed.start)))
    return Symbol(target.text, place, whole=isinstance(target.thing, Whole))


def _alias(module: Module, text: str) -> Span | None:
    """Where a file gives a name of its own to what it uses: `use a.b as text`."""
    if text in module.items:
        return None
    for placed in module.file.items:
        if isinstance(placed.item, tree.Use) and placed.item.alias is not None and placed.item.alias.text == text:
            return placed.item.alias.span.shifted(placed.start)
    return None


# ------------------------------------------------------------------ the places of a word
def words(snapshot: Snapshot, symbol: Symbol, files: Iterable[str]) -> Words:
    """The places of a declaration's name in the files."""
    named: dict[tuple[str, Span], Reference] = {}
    others: dict[tuple[str, Span], Location] = {}
    unknown: dict[tuple[str, Span], Location] = {}
    for path in files:
        text = snapshot.read(path)
        if text is None or symbol.text not in text:
            continue
        try:
            module = snapshot.module(path)
        except MsError:
            continue
        for span in places(module, symbol.text):
            target = target_at(snapshot, path, span.start)
            key = os.path.realpath(path), span
            if target is None or (found := symbol_of(target)) is None:
                if target is None or not _settled(target):
                    unknown.setdefault(key, Location(path, span))
            elif found.same(symbol):
                own = Location(path, target.span)
                named.setdefault(key, Reference(own, _declares(target, symbol)))
            else:
                others.setdefault(key, Location(path, span))
    return Words(tuple(named.values()), tuple(others.values()), tuple(unknown.values()))


def _settled(target: Target) -> bool:
    return target.plain or target.thing is not None


def _declares(target: Target, symbol: Symbol) -> bool:
    binds = target.mention is not None and target.mention.binds
    return binds or (os.path.realpath(target.module.path), target.span.start) == symbol.key


def places(module: Module, text: str) -> Iterator[Span]:
    """Where a file may name a declaration called `text`: as a word, or as a part of a decision's address. Other strings
    count where they are that word and nothing else."""
    for placed in module.file.items:
        if text not in placed.parsed.text:
            continue
        addresses = {w.span: w.address for w in written_addresses(module, placed)} if _has_strings(placed) else {}
        for token in tokenize(placed.parsed.text):
            if token.kind == WHITESPACE or token.kind in COMMENTS:
                continue
            yield from (span.shifted(placed.start) for span in _in_token(token, text, addresses))


def _has_strings(placed: tree.PlacedItem) -> bool:
    return '"' in placed.parsed.text


def _in_token(token: Token, text: str, addresses: dict[Span, str]) -> Iterator[Span]:
    if token.kind != "STRING":
        if token.text.strip("`") == text and (token.text[0].isidentifier() or token.text[0] == "`"):
            yield Span(token.start, token.end)
        return
    inner = token.text.strip('"')
    start = token.start + (len(token.text) - len(token.text.lstrip('"')))
    if Span(start, start + len(inner)) in addresses:
        yield from (Span(start + m.start(), start + m.end()) for m in re.finditer(r"[^/:\[\]]+", inner) if m[0] == text)
    elif inner == text:
        yield Span(start, start + len(inner))


# ------------------------------------------------------------------ which items a declaration concerns
def concerned(snapshot: Snapshot, symbol: Symbol, files: Iterable[str]) -> frozenset[tuple[str, int]]:
    """The items that can name a declaration, by file and start: the one that it stands in, those that use it through
    others, and all that these use."""
    edges: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for path in files:
        try:
            module = snapshot.module(path)
        except MsError:
            continue
        for placed in module.file.items:
            _follow(Found(module, placed), edges)
    home = snapshot.item(symbol.place.path, symbol.place.span.start)
    if home is None:
        return frozenset()
    own = os.path.realpath(symbol.place.path), home.start
    if isinstance(home.item, tree.Intrin) and home.item.name.span.shifted(home.start) != symbol.place.span:
        return frozenset({own})  # nothing inside of an instruction is seen from outside
    through = {x for x in edges if own in _reached(x, edges)} | {own}
    return frozenset(y for x in through for y in _reached(x, edges))


def _follow(found: Found, edges: dict[tuple[str, int], set[tuple[str, int]]]) -> tuple[str, int]:
    place = os.path.realpath(found.module.path), found.placed.start
    if place in edges:
        return place
    mine = edges[place] = set()
    mine |= {_follow(thing, edges) for _, thing in uses(found) if isinstance(thing, Found)}
    return place


def _reached(start: tuple[str, int], edges: dict[tuple[str, int], set[tuple[str, int]]]) -> set[tuple[str, int]]:
    seen, queue = {start}, [start]
    while queue:
        for following in edges.get(queue.pop(), ()):
            if following not in seen:
                seen.add(following)
                queue.append(following)
    return seen


def item_key(snapshot: Snapshot, place: Location) -> tuple[str, int]:
    """The item that a place is in, as `concerned` counts them."""
    placed = item_at(snapshot.module(place.path).file, place.span.start)
    return os.path.realpath(place.path), -1 if placed is None else placed.start
