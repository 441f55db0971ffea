"""Hashes of what the decisions of a record depend on: the text of its space, the rules, the library."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from mslang.diagnostics import MsError, ScheduleError, problem
from mslang.resources import stdlib_folder
from mslang.schedule import rules
from mslang.schedule.sketch import Sketch
from mslang.schedule.space import Space
from mslang.tune.record import Record, Sources


def space_hash(text: str) -> str:
    """The hash of the text that a space is written in; of none, where it is not written."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16] if text else ""


DRAWN = 4
"""So many sketches stand for a space."""


def drawn_hash(space: Space) -> str:
    """The hash of the sketches that the first draws of a space give: where it differs, the space is another one."""
    return space_hash("\n".join(_drawn(space, attempt) for attempt in range(DRAWN)))


def _drawn(space: Space, attempt: int) -> str:
    try:
        found = space.structure(0, attempt)
    except MsError as error:
        return error.diagnostic.message
    return found.trace.as_ms(unpinned=True) if isinstance(found, Sketch) else found.diagnostic.message


@cache
def rules_hash() -> str:
    """The hash of the rules that make automatic spaces."""
    return _hash(Path(rules.__file__).parent.rglob("*.py"))


@cache
def library_hash() -> str:
    """The hash of the library."""
    return _hash(stdlib_folder().rglob("*.ms"))


def _hash(files: Iterable[Path]) -> str:
    made = hashlib.sha256()
    for path in sorted(files):
        made.update(path.name.encode())
        made.update(path.read_bytes())
    return made.hexdigest()[:16]


def complete(sources: Sources) -> Sources:
    """Hashes of a space with those of the rules and the library of this installation."""
    return replace(sources, rules=rules_hash(), library=library_hash())


def changed_since(sources: Sources) -> tuple[str, ...]:
    """What has changed since a record was made, as far as it says."""
    now = {"the rules": (sources.rules, rules_hash()), "the library": (sources.library, library_hash())}
    return tuple(name for name, (then, here) in now.items() if then and then != here)


def stale(record: Record, why: str) -> MsError:
    """The error of a record whose trace no longer means what was measured."""
    changed = " and ".join(changed_since(record.sources))
    since = f"; {changed} changed since" if changed else ""
    return ScheduleError(
        problem(
            "MS610",
            f"record {record.id} is stale",
            why=f"{why}; mslang {record.version} made it{since}",
            help="`mslang tune` measures it again",
        )
    )
