"""Tuning into any store: a table in memory answers what a search asks, and every write goes to the store first.

So a `Store` needs no queries of its own. What it may have beyond the protocol is in `RunStore`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Protocol, runtime_checkable

from msgspec.structs import replace

from mslang.attribution import ExtensionError, attributed
from mslang.diagnostics import Diagnostic
from mslang.tune.connection import MEMORY, StoreError
from mslang.tune.database import Database
from mslang.tune.record import Record, Run, Workload, dated
from mslang.tune.stores import Store, open_store, open_to_add


@runtime_checkable
class RunStore(Protocol):
    """What a store may have so that a run can be resumed and listed: it keeps what runs began with."""

    def add_run(self, run: Run) -> None:
        """Keep what a run searches; it is safe when this returns."""

    def runs(self) -> list[Run]:
        """Every run, oldest first."""


class MirroredStore(Database):
    """A store as a database. A record is in the store before `add` returns; what is read is what was there when this
    was opened, and what was added since.

    Args:
        store: the store. It stays open when this is closed.
        name: what messages call it.

    Raises:
        StoreError: MS549, a method of the store failed; nothing more can be kept.
    """

    def __init__(self, store: Store, name: str) -> None:
        super().__init__(MEMORY)
        self._store, self._name = store, name
        self.keeps_runs = isinstance(store, RunStore)
        self._damaged: list[Diagnostic] = []
        with self._asked("texts"):
            texts = list(store.texts())
        with self._asked("records"):
            records = list(store.records())
        with self.together():
            for text in texts:
                super().add_workload(text)
            for record in records:
                self._damaged.append(record) if isinstance(record, Diagnostic) else super().add(record)
            for run in self._runs_before():
                super().add_run(run)

    def _runs_before(self) -> list[Run]:
        if not isinstance(self._store, RunStore):
            return []
        with self._asked("runs"):
            return list(self._store.runs())

    @property
    def name(self) -> str:
        """What messages call the store."""
        return self._name

    def add_workload(self, workload: Workload) -> None:
        """Keep a program's text in the store."""
        with self._asked("add_workload"):
            self._store.add_workload(workload)
        super().add_workload(workload)

    def add_run(self, run: Run) -> None:
        """Keep what a run searches, if the store keeps runs."""
        run = dated(run)
        if isinstance(self._store, RunStore):
            with self._asked("add_run"):
                self._store.add_run(run)
        super().add_run(run)

    def add(self, record: Record) -> Record:
        """Keep a record in the store; gives it back with the store's number."""
        with self._asked("add"):
            kept = self._store.add(replace(dated(record), id=None))
            if not isinstance(kept, Record) or kept.id is None:
                raise TypeError("it gives no record with a number")
        super().add(kept)
        return kept

    def check(self) -> Diagnostic | None:
        """The first record that the store could not read, as a warning."""
        return next(iter(self._damaged), None)

    @contextmanager
    def _asked(self, method: str) -> Iterator[None]:
        try:
            with attributed("record store", self._store, method):
                yield
        except ExtensionError as error:
            raise StoreError(*error.diagnostics) from error.__cause__


@contextmanager
def opened_to_tune(given: Store | str | os.PathLike[str]) -> Iterator[Database]:
    """A store to tune into: a file, which is made if it is not there, a kind of an allowed package, or a store, which
    stays open.

    Raises:
        MsError: as `open_to_add`; MS549, a method of the store failed.
    """
    if not isinstance(given, str | os.PathLike):
        yield given if isinstance(given, Database) else MirroredStore(given, type(given).__name__)
        return
    with closing(open_to_add(given)) as store:
        yield store if isinstance(store, Database) else MirroredStore(store, os.fspath(given))


@contextmanager
def opened_to_read(name: str | os.PathLike[str]) -> Iterator[Database]:
    """A store that is only read, as a database.

    Raises:
        MsError: as `open_store`; MS549, a method of the store failed.
    """
    with closing(open_store(name)) as store:
        yield store if isinstance(store, Database) else MirroredStore(store, os.fspath(name))
