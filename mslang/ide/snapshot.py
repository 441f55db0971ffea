"""The input of every editor feature: the open texts, and the files on disk, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.sema.module import Module
from mslang.sema.modules import Reader, load, read_disk
from mslang.syntax import tree
from mslang.syntax.query import item_at

NO_TEXTS: Mapping[str, str] = MappingProxyType({})


class Snapshot:
    """Texts by path; what is not among them is read by `reader`. `packages` are the installed packages
    whose primitives may be used (None: all). It never changes: `with_text` gives another.

    Modules are made when first asked for and kept as long as the snapshot; what is known of items that did not
    change is shared between snapshots.
    """

    def __init__(
        self,
        texts: Mapping[str, str] = NO_TEXTS,
        reader: Reader = read_disk,
        packages: frozenset[str] | None = None,
    ) -> None:
        self.texts = MappingProxyType(dict(texts))
        self._reader = reader
        self.packages = packages
        self._modules: dict[str, Module] = {}

    def with_text(self, path: str, text: str) -> Snapshot:
        """The snapshot in which a file has this text."""
        return Snapshot({**self.texts, path: text}, self._reader, self.packages)

    def without(self, path: str) -> Snapshot:
        """The snapshot in which a file is as it is on disk."""
        return Snapshot({p: t for p, t in self.texts.items() if p != path}, self._reader, self.packages)

    def read(self, path: str) -> str | None:
        """The text of a file, or None if there is none."""
        found = self.texts.get(path)
        return found if found is not None else self._reader(path)

    def module(self, path: str) -> Module:
        """The module of a file.

        Raises:
            MsError: there is no such file.
        """
        if path not in self._modules:
            self._modules[path] = load(path, self.read(path), self.read, self.packages)
        return self._modules[path]

    def item(self, path: str, offset: int) -> tree.PlacedItem | None:
        """The item of a file at an offset."""
        return item_at(self.module(path).file, offset)
