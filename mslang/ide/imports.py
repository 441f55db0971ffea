"""Completion in `use`: modules of the library and the names that they export."""

from __future__ import annotations

from collections.abc import Iterator

from mslang.ide.candidates import Candidate, Sort, named
from mslang.ide.cursor import Cursor
from mslang.ops.infos import info_of
from mslang.sema.module import Thing, Whole, exported, member
from mslang.sema.modules import Reader, library_modules, load
from mslang.sema.native import MODULES


def used_names(cursor: Cursor, reader: Reader) -> Iterator[Candidate]:
    """Candidates in a `use` statement, given the tokens before the cursor."""
    tokens = cursor.before[1:]
    texts = [t.text for t in tokens]
    if "{" in texts:
        dotted = "".join(texts[: texts.index("{")]).rstrip(".")
        if "}" not in texts:
            yield from _exports(cursor.module.path, dotted, frozenset(texts[texts.index("{") :]), reader)
        return
    if tokens and tokens[-1].kind not in ("DOT", "DANGLING_DOT"):
        return
    prefix = "".join(texts)
    following = dict.fromkeys(
        m.removeprefix(prefix).split(".")[0] for m in (*library_modules(), *MODULES) if m.startswith(prefix)
    )
    yield from (Candidate(name, Sort.MODULE, "module") for name in following if name)
    if prefix:
        yield from _exports(cursor.module.path, prefix.rstrip("."), frozenset(), reader)


def used_module(path: str, source: str, reader: Reader) -> Thing | None:
    """The module that `use source` would import into the file `path`."""
    return load(path, f"use {source} as wanted\n", reader).imports.get("wanted")


def _exports(path: str, source: str, taken: frozenset[str], reader: Reader) -> Iterator[Candidate]:
    whole = used_module(path, source, reader)
    if not isinstance(whole, Whole):
        return
    for name in exported(whole):
        thing = member(whole, name)
        if thing is not None and name not in taken:
            known = info_of(thing, name)
            yield named(name, Sort(known.role), known.header)
