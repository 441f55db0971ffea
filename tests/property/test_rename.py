"""A rename of any name in the files of the library and the examples keeps what their programs and schedules mean, and
renaming back restores the texts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from mslang.diagnostics import MsError, Severity
from mslang.ide.findings import findings
from mslang.ide.references import symbol_at
from mslang.ide.rename import edited, rename
from mslang.ide.snapshot import Snapshot
from mslang.ir.equal import workload_hash
from mslang.resources import stdlib_folder
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.sema.program import consts_of, elaborated
from mslang.syntax import tree
from mslang.syntax.lexer import tokenize

ROOT = Path(__file__).parents[2]
FILES = [str(p) for folder in (stdlib_folder(), ROOT / "examples") for p in sorted(folder.rglob("*.ms"))]
NEW = "zz_renamed"
ONE_IN = 300
"""The share of the names that are renamed in the default run; all are in the campaign."""

UNSETTLED = "it is not known which declaration this word names"
"""Why `i` is not renamed where a `fn` names the axis `i` of any block."""


@cache
def on_disk() -> Snapshot:
    """All files as they are, read once: a snapshot never changes."""
    return Snapshot()


def names(snapshot: Snapshot, path: str) -> Iterator[tuple[int, str]]:
    """The first place and the text of every name in a file that some file declares; none of a file with errors, such as
    an example whose package is not installed, where a rename is refused."""
    if any(d.severity is Severity.ERROR for d in findings(snapshot.module(path))):
        return
    seen = set()
    for placed in snapshot.module(path).file.items:
        for token in tokenize(placed.parsed.text):
            if token.kind != "NAME":
                continue
            symbol = symbol_at(snapshot, path, placed.start + token.start)
            if symbol is not None and not symbol.whole and symbol.key not in seen:
                seen.add(symbol.key)
                yield placed.start + token.start, symbol.text


def items(snapshot: Snapshot, path: str) -> list[tree.PlacedItem]:
    return list(snapshot.module(path).file.items)


def programs(snapshot: Snapshot, path: str) -> list[str | None]:
    """The programs of a file without their names."""
    module = snapshot.module(path)
    made = [
        elaborated(p.item, (), consts_of(module, p.item)).program
        for p in items(snapshot, path)
        if isinstance(p.item, tree.Program)
    ]
    return [None if p is None else workload_hash(p) for p in made]


def space(snapshot: Snapshot, path: str, placed: tree.PlacedItem) -> Space | None:
    assert isinstance(placed.item, tree.Schedule | tree.Space)
    try:
        return space_of(snapshot.module(path), placed.item.name.text)
    except MsError:
        return None  # its target is not here, or it is for no program


def draw(space: Space, pins: dict[str, object] | None = None) -> Candidate | str:
    try:
        return space.sample(0, pins, strict=pins is not None)  # type: ignore[arg-type]
    except MsError as error:
        return error.diagnostic.code


def follows(before: Snapshot, after: Snapshot, path: str, old: str) -> None:
    """The schedules of a file that changed make the same programs, from the same decisions."""
    for a, b in zip(items(before, path), items(after, path), strict=True):
        if a.parsed.text == b.parsed.text or not isinstance(a.item, tree.Schedule | tree.Space):
            continue
        first, second = space(before, path, a), space(after, path, b)
        assert (first is None) is (second is None)
        if first is None or second is None:
            continue
        made = draw(first)
        known = draw(second)
        if isinstance(made, str) or isinstance(known, str):
            assert made == known
            continue
        # A draw depends on the decision's address, so the decisions are handed over.
        pins = {
            a if a in known.decisions else "/".join(NEW if x == old else x for x in a.split("/")): v
            for a, v in made.decisions.items()
        }
        again = draw(second, pins)
        assert isinstance(again, Candidate), again
        # Names of instructions count in the hash.
        same = str(again.program).replace(NEW, old) == str(made.program)
        assert same or workload_hash(again.program) == workload_hash(made.program)


def check(path: str, offset: int, old: str, run: bool = True) -> bool:
    """Whether a name was renamed; a refusal must say that one word is not settled."""
    before = on_disk()
    try:
        edits = rename(before, path, offset, NEW, FILES, lambda p: True)
    except MsError as error:
        assert (error.diagnostic.code, error.diagnostic.why) == ("MS280", UNSETTLED)
        return False
    after = before
    for p, some in edits.items():
        after = after.with_text(p, edited(before.module(p).file.text, some))
    for p in edits:
        assert programs(before, p) == programs(after, p)
        if run:
            follows(before, after, p, old)
    moved = offset + sum(len(NEW) - (e.span.end - e.span.start) for e in edits[path] if e.span.end <= offset)
    back = rename(after, path, moved, old, FILES, lambda p: True)
    assert {os.path.realpath(p) for p in back} == {os.path.realpath(p) for p in edits}
    for p, some in back.items():
        assert edited(after.module(p).file.text, some) == before.module(p).file.text
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda p: Path(p).relative_to(Path(p).parents[2]).as_posix())
@pytest.mark.one_in(2)
def test_some_names(path: str) -> None:
    some = [(o, n) for o, n in names(on_disk(), path) if crc32(f"{Path(path).name}:{n}:{o}".encode()) % ONE_IN == 0]
    for offset, name in some:
        check(path, offset, name)


@pytest.mark.campaign
def test_every_name() -> None:
    done = [check(path, offset, name) for path in FILES for offset, name in names(on_disk(), path)]
    assert done.count(False) <= 0.05 * len(done), f"{done.count(False)} of {len(done)} refused"


def test_most_names_of_the_examples_are_renamed() -> None:
    for name in ("matmul.ms", "gemm.ms"):
        path = str(ROOT / "examples" / name)
        assert all(check(path, offset, n, run=False) for offset, n in list(names(on_disk(), path))[::16])
