"""The `.ms` files of the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from mslang.resources import stdlib_folder
from mslang_lsp.uris import is_file

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__"})
"""Folders of installed packages; those whose name begins with a dot are skipped, too."""


class Files:
    """The files of the workspace: those in its folders and the open ones; without a folder, those beside these.

    A file is the workspace's own if it may be edited by a request about another file: what is installed may not.
    """

    def __init__(self, folders: Iterable[str], open: Iterable[str]) -> None:
        opened = tuple(open)
        given = tuple(folders)
        inside = {os.path.realpath(p): p for f in given for p in _walk(f)}
        beside = {} if given else {os.path.realpath(p): p for o in opened for p in _beside(o)}
        # The spelling of an open file's path is the one by which its text is known.
        found = {**inside, **beside, **{os.path.realpath(p): p for p in opened if is_file(p)}}
        self.paths = (*found.values(), *(p for p in opened if not is_file(p)))
        library = os.path.realpath(stdlib_folder())
        self._own = {p for p in found if p in inside or not p.startswith(library + os.sep)}
        self._own |= {p for p in opened if not is_file(p)}

    def own(self, path: str) -> bool:
        """Whether a file is the workspace's own."""
        return path in self._own or os.path.realpath(path) in self._own


def _walk(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.startswith("."))
        yield from (str(Path(here, f)) for f in sorted(files) if f.endswith(".ms"))


def _beside(path: str) -> Iterator[str]:
    if is_file(path):
        yield from (str(p) for p in sorted(Path(path).parent.glob("*.ms")))
