"""Where records are looked up: a store is a protocol; files, memory and unions of stores are built in.

`open_store("team.db")` opens a file, `open_store("union:mine.db,team.db")` several. A user's own kind is found by entry
point, if its package is allowed (`--extension PACKAGE`):

    [project.entry-points."mslang.databases"]
    folder = "package.module:FolderStore"

It is called with the text after the colon and gives a `Store`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from mslang.diagnostics import Diagnostic, MsError, problem
from mslang.extensions import Function, allowed, declared, load
from mslang.ir.program import Program
from mslang.suggestions import did_you_mean
from mslang.target.machine import this_machine
from mslang.tune.connection import MEMORY
from mslang.tune.database import Database
from mslang.tune.ranking import alike, ranked, require_count
from mslang.tune.record import Record, Workload

DATABASES = "mslang.databases"
"""The group of entry points that name kinds of stores."""


@runtime_checkable
class Store(Protocol):
    """What holds records. `Database` is one; `fastest` helps to write others."""

    def add_workload(self, workload: Workload) -> None:
        """Keep a program's text."""

    def add(self, record: Record) -> Record:
        """Keep a record, and give it back with its number; it is safe when this returns."""

    def records(self, program: Program | str | None = None) -> Iterator[Record | Diagnostic]:
        """The records of a program or workload hash (None: all), oldest first; one that cannot be read as a warning."""

    def top(
        self,
        program: Program | str | None = None,
        n: int = 10,
        *,
        target: str | None = None,
        machine: str | None = None,
        compiler: str | None = None,
    ) -> list[Record]:
        """The `n` fastest candidates for a target on one machine (None: this one), fastest first.

        Args:
            program: whose candidates (None: all programs').
            n: how many.
            target: only those for this target, by name.
            machine: the key of the machine.
            compiler: only those that this compiler made.
        """

    def texts(self, workload: str | None = None) -> list[Workload]:
        """The programs that are kept, of one workload hash or all."""

    def close(self) -> None:
        """Let go of what is open."""


def fastest(
    records: Iterable[Record], n: int, *, target: str | None, machine: str | None, compiler: str | None = None
) -> list[Record]:
    """The `n` fastest of records in the order they were made; of a candidate measured several times the last counts.

    Those count that were timed with the caches and at the dynamic sizes of the last one (`ranking.alike`).

    Raises MsError: MS706, `n` is not a number from 0 on.
    """
    require_count(n)
    wanted = machine if machine is not None else this_machine().key
    fit = (r for r in records if r.machine == wanted and target in (None, r.target) and compiler in (None, r.compiler))
    return ranked(fit)[:n]


def text_of(store: Store, record: Record) -> Workload | None:
    """The program in whose names a record's trace is; None if the store does not hold it."""
    return next((w for w in store.texts(record.workload) if w.source == record.source), None)


class Union:
    """Several stores as one: the fastest record of all of them counts. What is added goes to the first.

    >>> with Database(":memory:") as mine, Database(":memory:") as theirs:
    ...     list(Union([mine, theirs]).records())
    []
    """

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = tuple(stores)

    def add_workload(self, workload: Workload) -> None:
        """Keep a program's text in the first store."""
        self._stores[0].add_workload(workload)

    def add(self, record: Record) -> Record:
        """Keep a record in the first store."""
        return self._stores[0].add(record)

    def records(self, program: Program | str | None = None) -> Iterator[Record | Diagnostic]:
        """The records of all stores, one store after the other."""
        for store in self._stores:
            yield from store.records(program)

    def top(
        self,
        program: Program | str | None = None,
        n: int = 10,
        *,
        target: str | None = None,
        machine: str | None = None,
        compiler: str | None = None,
    ) -> list[Record]:
        """The fastest of all stores."""
        found = [r for s in self._stores for r in s.top(program, n, target=target, machine=machine, compiler=compiler)]
        return sorted(alike(sorted(found, key=lambda r: r.created)), key=lambda r: r.cost or 0.0)[:n]

    def texts(self, workload: str | None = None) -> list[Workload]:
        """The programs of all stores."""
        return list(dict.fromkeys(w for s in self._stores for w in s.texts(workload)))

    def close(self) -> None:
        """Close all stores."""
        for store in self._stores:
            store.close()


class OrderedUnion(Union):
    """Several stores as one: the first that has a time of a program serves it, however fast the others' are."""

    def top(
        self,
        program: Program | str | None = None,
        n: int = 10,
        *,
        target: str | None = None,
        machine: str | None = None,
        compiler: str | None = None,
    ) -> list[Record]:
        """The fastest of the first store that has any."""
        first = next((s for s in self._stores if s.top(program, 1, target=target, machine=machine)), None)
        return [] if first is None else first.top(program, n, target=target, machine=machine, compiler=compiler)


def _file(rest: str) -> Store:
    return Database(Path(rest), read_only=True)


def _memory(rest: str) -> Store:
    return Database(MEMORY)


def _union(rest: str) -> Store:
    return Union([open_store(part) for part in rest.split(",")])


def _ordered(rest: str) -> Store:
    return OrderedUnion([open_store(part) for part in rest.split(",")])


KINDS: dict[str, Callable[[str], Store]] = {"sqlite": _file, "memory": _memory, "union": _union, "ordered": _ordered}
"""What opens each built-in kind of store."""

_KIND = re.compile(r"([a-z][a-z_]+):(.*)")


def names_kind(name: str | os.PathLike[str]) -> bool:
    """Whether the name of a store is a kind and what it takes, and not a file.

    >>> names_kind("union:mine.db,team.db"), names_kind("./a:b.db")
    (True, False)
    """
    return _KIND.fullmatch(os.fspath(name)) is not None


def open_store(name: str | os.PathLike[str]) -> Store:
    """Open a store to read from.

    Args:
        name: a file, or a kind and what it takes: `sqlite:FILE`, `memory:`, `union:A,B` (the fastest record of all),
            `ordered:A,B` (the first that has any), or a kind of an allowed package.

    Raises:
        MsError: MS609, there is no such kind; MS271, MS272, its package is not there or not allowed; MS601 to MS603,
            the file cannot be used.
    """
    found = _KIND.fullmatch(os.fspath(name))
    if found is None:
        return _file(os.fspath(name))
    kind, rest = found.groups()
    return KINDS[kind](rest) if kind in KINDS else _own(kind, rest)


def open_to_add(name: str | os.PathLike[str]) -> Store:
    """Open a store to add records to: a file, which is made if it is not there, or a kind of an allowed package.

    Raises:
        MsError: MS609, there is no such kind, or it is one of several stores; MS271, MS272, its package is not there or
            not allowed; MS601 to MS603, the file cannot be used.
    """
    found = _KIND.fullmatch(os.fspath(name))
    kind, rest = ("sqlite", os.fspath(name)) if found is None else found.groups()
    if kind == "sqlite":
        return Database(Path(rest))
    if kind in KINDS:
        why = f"`{kind}:` is a view of other stores" if kind != "memory" else "`memory:` ends with the command"
        help = f"name a file; a file of that name is `./{name}`"
        raise MsError(problem("MS609", f"records cannot be added to `{name}`", why=why, help=help))
    return _own(kind, rest)


def require_file(name: str | os.PathLike[str], verb: str) -> None:
    """Refuse a store that is no file, for a verb that changes more than it adds.

    Raises:
        MsError: MS609, the name is a kind of store.
    """
    if names_kind(name):
        help = f"give a file, and add its records to the other store: `mslang db merge FILE --db {name}`"
        raise MsError(problem("MS609", f"`mslang db {verb}` takes a file, and `{name}` is none", help=help))


def _own(kind: str, rest: str) -> Store:
    """A store of a kind that a package declares."""
    if kind in declared(DATABASES):
        make = load(DATABASES, kind, allowed(), Function)
        assert isinstance(make, Function)
        made = make(rest)
        if isinstance(made, Store):
            return made
        why = f"it makes {made!r:.60}, which is not a Store"
        raise MsError(problem("MS609", f"the extension `{kind}` makes no record store", why=why))
    known = (*KINDS, *declared(DATABASES))
    raise MsError(
        problem(
            "MS609",
            f"there is no kind of record store `{kind}`",
            why=f"the kinds are {', '.join(known)}",
            help=did_you_mean(kind, known) or f"a file of that name is `./{kind}:{rest}`",
        )
    )
