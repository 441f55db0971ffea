"""Completion in `use`: modules of the library and the names they have."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ide.candidates import Candidate, Sort
from mslang.ide.cursor import Cursor
from mslang.ops.infos import info_of
from mslang.sema.module import Whole, exported, member
from mslang.sema.modules import library_modules, load, read_disk
from mslang.sema.native import MODULES


def used_names(cursor: Cursor) -> Iterator[Candidate]:
    """What can follow in a `use` whose tokens stand before the cursor."""
    tokens = cursor.before[1:]
    texts = [t.text for t in tokens]
    if "{" in texts:
        dotted = "".join(texts[:texts.index("{")]).rstrip(".")
        if "}" not in texts:
            yield from _exports(dotted, frozenset(texts[texts.index("{"):]))
        return
    if tokens and tokens[-1].kind not in ("DOT", "DANGLING_DOT"):
        return
    prefix = "".join(texts)
    following = dict.fromkeys(m.removeprefix(prefix).split(".")[0] for m in (*library_modules(), *MODULES)
                              if m.startswith(prefix))
    yield from (Candidate(name, Sort.MODULE, "module") for name in following if name)
    if prefix:
        yield from _exports(prefix.rstrip("."), frozenset())


def _exports(dotted: str, taken: frozenset[str]) -> Iterator[Candidate]:
    # A module that only uses the wanted one brings all its names, whether or not the text here is whole.
    whole = load("completion.ms", f"use {dotted} as wanted\n", read_disk).imports.get("wanted")
    if not isinstance(whole, Whole):
        return
    for name in exported(whole):
        thing = member(whole, name)
        if thing is not None and name not in taken:
            known = info_of(thing, name)
            yield Candidate(name, Sort(known.role), known.header)
