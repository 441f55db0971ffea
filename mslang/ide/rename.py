"""Rename: one declaration and every place that names it, or a refusal that says why the meaning could change.

The new name is put in, and the result is read again: every word must mean what it meant, every program must be the same
workload, and no error may be new. So no name is captured, hidden or lost.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from mslang.diagnostics import Diagnostic, MsError, Note, Severity, Span, problem
from mslang.ide.definition import Location
from mslang.ide.derived import derived
from mslang.ide.findings import findings
from mslang.ide.references import Symbol, concerned, item_key, places, symbol_at, symbol_of, words
from mslang.ide.snapshot import Snapshot
from mslang.ide.target import target_at
from mslang.ir.equal import workload_hash
from mslang.sema.module import NAMED
from mslang.sema.program import consts_of, elaborated
from mslang.syntax import tree
from mslang.syntax.format import Edit
from mslang.syntax.lexer import tokenize

Editable = Callable[[str], bool]
"""Whether a file may be edited: whether it belongs to the workspace."""


class Renamable(msgspec.Struct, frozen=True):
    """A word that can be renamed, and its place."""

    text: str
    span: Span


def renamable(snapshot: Snapshot, path: str, offset: int, editable: Editable) -> Renamable:
    """The word at an offset, if it can be renamed.

    Raises:
        MsError: MS280, it cannot, or the file cannot be read.
    """
    symbol = _symbol(snapshot, path, offset, editable)
    target = target_at(snapshot, path, offset)
    assert target is not None
    return Renamable(symbol.text, target.span)


def rename(
    snapshot: Snapshot, path: str, offset: int, new: str, files: Iterable[str], editable: Editable
) -> Mapping[str, tuple[Edit, ...]]:
    """The edits that rename what the word at an offset names, by file.

    Args:
        snapshot: the texts.
        path: the file of the word.
        offset: where the word is.
        new: the new name.
        files: all files of the workspace.
        editable: whether a file may be edited.

    Raises:
        MsError: MS280, the name cannot be changed, or not to this one, without a change of meaning.
    """
    symbol = _symbol(snapshot, path, offset, editable)
    new = _checked_name(new)
    if new == symbol.text:
        return {}
    every = tuple({os.path.realpath(p): p for p in (*files, symbol.place.path, path)}.values())
    found = words(snapshot, symbol, every)
    concern = concerned(snapshot, symbol, every)
    for place in found.unknown:
        if item_key(snapshot, place) in concern or (_is_item(snapshot, symbol) and _quoted(snapshot, place)):
            raise _refused(
                f"cannot rename `{symbol.text}`",
                "it is not known which declaration this word names",
                Note(f"`{symbol.text}` here", place.span, place.path),
                help="rename this one by hand first",
            )
    made = derived(snapshot, symbol, found, every, concern)
    for place in made.unknown:
        raise _refused(
            f"cannot rename `{symbol.text}`",
            "it is not known whether this word is made from the name",
            Note("the word", place.span, place.path),
            help="give what the operation makes a name of its own with `let`",
        )
    edits: dict[str, tuple[Edit, ...]] = {}
    named = (*(r.place for r in found.named), *made.named)
    for p in dict.fromkeys(place.path for place in named):
        if not editable(p):
            raise _refused(f"cannot rename `{symbol.text}`", f"`{p}` uses it and is not in the workspace")
        spans = sorted({place.span for place in named if place.path == p})
        edits[p] = tuple(Edit(s, _written(snapshot, p, s, new)) for s in spans)
    _verify(snapshot, symbol, new, edits, every, made.named)
    return edits


def edited(text: str, edits: Sequence[Edit]) -> str:
    """A text after edits, which do not overlap."""
    for e in sorted(edits, key=lambda e: e.span, reverse=True):
        text = text[: e.span.start] + e.text + text[e.span.end :]
    return text


# ------------------------------------------------------------------ what can be renamed
def _symbol(snapshot: Snapshot, path: str, offset: int, editable: Editable) -> Symbol:
    symbol = symbol_at(snapshot, path, offset)
    if symbol is None:
        raise _refused("this cannot be renamed", "no file declares it")
    if symbol.whole:
        raise _refused(f"cannot rename `{symbol.text}`", "it is the name of a file", help="write `use … as NAME`")
    if not editable(symbol.place.path):
        raise _refused(
            f"cannot rename `{symbol.text}`", f"`{symbol.place.path}`, where it is declared, is not in the workspace"
        )
    return symbol


def _is_item(snapshot: Snapshot, symbol: Symbol) -> bool:
    """Whether a declaration is that of an item, which other files may name in a string: `named("rule")`."""
    placed = snapshot.item(symbol.place.path, symbol.place.span.start)
    if placed is None or not isinstance(placed.item, NAMED):
        return False
    return placed.item.name.span.shifted(placed.start) == symbol.place.span


def _quoted(snapshot: Snapshot, place: Location) -> bool:
    return (snapshot.read(place.path) or "")[place.span.start - 1 : place.span.start] == '"'


_IDENTIFIER = re.compile(r"[A-Za-z]\w*|_\w+")


def _checked_name(new: str) -> str:
    plain = new.strip().strip("`")
    if _IDENTIFIER.fullmatch(plain) is None:
        raise _refused(f"`{new}` is not a name", "a name begins with a letter, and has letters, digits and `_`")
    return plain


def _written(snapshot: Snapshot, path: str, span: Span, new: str) -> str:
    """The new name as it is written in place of the old one: a keyword, where it is a whole word, needs
    backticks."""
    text = snapshot.module(path).file.text
    (token,) = tokenize(new)
    word = not (_PART.match(text[span.start - 1 : span.start]) or _PART.match(text[span.end : span.end + 1]))
    return f"`{new}`" if token.kind != "NAME" and word else new


_PART = re.compile(r"[\w\"/{}]")
"""What stands next to a name that is a part of a word, an address or a text."""


# ------------------------------------------------------------------ whether the meaning is the same
def _verify(
    snapshot: Snapshot,
    symbol: Symbol,
    new: str,
    edits: Mapping[str, tuple[Edit, ...]],
    files: Sequence[str],
    made: Sequence[Location],
) -> None:
    after = snapshot
    for path, some in edits.items():
        wrong = next((d for d in findings(snapshot.module(path)) if d.severity is Severity.ERROR), None)
        if wrong is not None:
            raise _refused(
                f"cannot rename `{symbol.text}`", f"`{path}` has errors", _note(wrong), help="fix them first"
            )
        after = after.with_text(path, edited(snapshot.module(path).file.text, some))
    for path in files:
        _no_new_findings(snapshot, after, path, symbol.text, new, edits.get(path, ()))
    moved = _Moved(edits)
    renamed = {(os.path.realpath(p), moved.offset(p, e.span.start)) for p, some in edits.items() for e in some}
    own = os.path.realpath(symbol.place.path), moved.offset(symbol.place.path, symbol.place.span.start)
    for path in files:
        text = after.read(path)
        if text is None or new not in text:
            continue
        before = _meanings(snapshot, path, new, moved)
        for span in places(after.module(path), new):
            target = target_at(after, path, span.start)
            means = None if target is None else symbol_of(target)
            here = os.path.realpath(path), span.start
            expected = own if here in renamed else before.get(here)
            if (None if means is None else means.key) != expected:
                note = Note(f"`{new}` here", Span(moved.back(path, span.start), moved.back(path, span.end)), path)
                raise _refused(f"cannot rename `{symbol.text}` to `{new}`", "a word would mean something else", note)
    for place in made:
        if symbol_at(after, place.path, moved.offset(place.path, place.span.start)) is not None:
            note = Note("the word", place.span, place.path)
            raise _refused(f"cannot rename `{symbol.text}` to `{new}`", "a word made from it is declared", note)
    for path in edits:
        _same_programs(snapshot, after, path, symbol.text, new)


def _no_new_findings(before: Snapshot, after: Snapshot, path: str, old: str, new: str, edits: Sequence[Edit]) -> None:
    text = after.read(path)
    if text is None or (not edits and old not in text):
        return
    known = Counter(d.code for d in findings(before.module(path)))
    for d in findings(after.module(path)):
        known[d.code] -= 1
        if known[d.code] < 0:
            raise _refused(f"cannot rename `{old}` to `{new}`", d.message, *d.notes[:1])


def _meanings(snapshot: Snapshot, path: str, text: str, moved: _Moved) -> Mapping[tuple[str, int], tuple[str, int]]:
    """What each word of a text meant, in offsets after the rename."""
    found = {}
    for span in places(snapshot.module(path), text):
        target = target_at(snapshot, path, span.start)
        symbol = None if target is None else symbol_of(target)
        if symbol is not None:
            file, start = symbol.key
            here = os.path.realpath(path), moved.offset(path, span.start)
            found[here] = file, moved.offset(symbol.place.path, start)
    return found


def _same_programs(before: Snapshot, after: Snapshot, path: str, old: str, new: str) -> None:
    first = [p for p in before.module(path).file.items if isinstance(p.item, tree.Program)]
    second = [p for p in after.module(path).file.items if isinstance(p.item, tree.Program)]
    for a, b in zip(first, second, strict=True):
        if a.parsed.text != b.parsed.text and _hash(before, path, a) != _hash(after, path, b):
            raise _refused(f"cannot rename `{old}` to `{new}`", "a program would be another one")


def _hash(snapshot: Snapshot, path: str, placed: tree.PlacedItem) -> str:
    assert isinstance(placed.item, tree.Program)
    module = snapshot.module(path)
    made = elaborated(placed.item, (), consts_of(module, placed.item)).program
    return "" if made is None else workload_hash(made)


class _Moved:
    """Offsets after edits for offsets before them, and back."""

    def __init__(self, edits: Mapping[str, Sequence[Edit]]) -> None:
        self._edits = {os.path.realpath(p): sorted(some, key=lambda e: e.span) for p, some in edits.items()}

    def offset(self, path: str, offset: int) -> int:
        """Where an offset moves to."""
        some = self._edits.get(os.path.realpath(path), ())
        return offset + sum(len(e.text) - (e.span.end - e.span.start) for e in some if e.span.end <= offset)

    def back(self, path: str, offset: int) -> int:
        """Where an offset after the edits was before them; one inside of an edit was at the start of it."""
        by = 0
        for e in self._edits.get(os.path.realpath(path), ()):
            if e.span.start + by + len(e.text) > offset:
                return min(offset - by, e.span.start) if offset - by > e.span.start else offset - by
            by += len(e.text) - (e.span.end - e.span.start)
        return offset - by


def _note(d: Diagnostic) -> Note:
    return Note(d.message, d.span, d.path)


def _refused(message: str, why: str, *notes: Note, help: str | None = None) -> MsError:
    return MsError(problem("MS280", message, why=why, help=help, notes=notes))
