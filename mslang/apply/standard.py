"""The standard passes by name, in the order that a user gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from mslang.apply.default import ByDefault
from mslang.apply.dispatch import dispatch
from mslang.apply.library import PREFIX, library_call, library_calls
from mslang.apply.passes import Pass
from mslang.apply.recorded import FromRecords
from mslang.backend.registry import serving
from mslang.diagnostics import MsError, problem
from mslang.sema.module import Module
from mslang.suggestions import did_you_mean
from mslang.target.description import Target
from mslang.tune.database import machine_for
from mslang.tune.stores import Store

ORDER = ("db", "dispatch", "default")
"""The passes that are tried where a user names none: what was measured on this machine before what was not."""

NAMES = (*ORDER, "library")
"""All passes; code of another library serves only where it is asked for."""


class Sources(msgspec.Struct, frozen=True):
    """What the standard passes draw on.

    Args:
        target: what will run the programs.
        store: the records; None: there are none, and `db` is left out where it was not asked for.
        module: where names of traces are looked up.
        patterns: modules whose programs with schedules are patterns of `dispatch`, before the library's.
        machine: the key of the machine whose records count (None: this one).
    """

    target: Target
    store: Store | None = None
    module: Module | None = None
    patterns: tuple[Module, ...] = ()
    machine: str | None = None


def standard_passes(names: Iterable[str | Pass], sources: Sources) -> tuple[Pass, ...]:
    """The passes of some names; a pass of a user's own is taken as it is.

    Raises:
        MsError: MS611, there is no pass of a name; MS212, MS213, MS271 or MS272, a library call cannot be loaded.
    """
    wanted = tuple(names)
    return tuple(
        _pass(n, sources, "default" in wanted[k + 1 :]) if isinstance(n, str) else n for k, n in enumerate(wanted)
    )


def _pass(name: str, sources: Sources, before_default: bool) -> Pass:
    back_end = serving(sources.target)
    match name:
        case "db":
            store = sources.store if sources.store is not None else _nothing()
            other = ByDefault(back_end) if before_default else None
            machine = sources.machine or machine_for(back_end).key
            return FromRecords(store, machine, back_end.version(), sources.module, back_end, other)
        case "dispatch":
            return dispatch(sources.patterns)
        case "default":
            return ByDefault(back_end)
        case "library":
            return library_calls()
    if name.startswith(PREFIX):
        return library_call(name.removeprefix(PREFIX))
    raise MsError(
        problem(
            "MS611",
            f"there is no pass `{name}`",
            why=f"the passes are {', '.join(NAMES)}, and {PREFIX}NAME",
            help=did_you_mean(name, NAMES),
        )
    )


def _nothing() -> Store:
    from mslang.tune.connection import MEMORY
    from mslang.tune.database import Database

    return Database(MEMORY)


def pass_names(text: str) -> Sequence[str]:
    """The names in `db,default`."""
    return [n for n in (part.strip() for part in text.split(",")) if n]
