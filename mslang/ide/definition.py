"""Go to definition: where the name at the cursor is declared, in this file, in one it uses, or in the library."""

from __future__ import annotations

import msgspec

from mslang.diagnostics import Span
from mslang.ide.snapshot import Snapshot
from mslang.ide.target import Target, target_at
from mslang.ops.infos import info_of


class Location(msgspec.Struct, frozen=True):
    """A place in a file; offsets count from the file's start."""

    path: str
    span: Span


def definition(snapshot: Snapshot, path: str, offset: int) -> Location | None:
    """Where the name at an offset is declared; None if it is not declared in any file.

    Raises:
        MsError: the file cannot be read.
    """
    target = target_at(snapshot, path, offset)
    return None if target is None else declared_at(target)


def declared_at(target: Target) -> Location | None:
    """Where what a word means is declared; None if it is not declared in any file."""
    if target.mention is not None and target.mention.bound is not None:
        return Location(target.module.path, target.mention.bound.shifted(target.placed.start))
    if target.name is not None:
        owner = target.program
        module, start = (target.module, target.placed.start) if owner is None else (owner.module, owner.placed.start)
        return Location(module.path, target.name.span.shifted(start))
    if target.thing is None:
        return None
    known = info_of(target.thing, target.text)
    return None if known.path is None else Location(known.path, known.span or Span(0, 0))
