"""The tasks of the worker processes. Each takes texts, not objects; the process caches what it derives from them."""

from __future__ import annotations

from collections.abc import Mapping

from mslang.diagnostics import Diagnostic, MsError
from mslang.ide.program_at import ProgramAt, program_at
from mslang.ide.snapshot import Snapshot
from mslang.ide.trial import trial
from mslang.schedule.instruction import Value


def show(
    texts: Mapping[str, str],
    packages: frozenset[str],
    path: str,
    offset: int,
    seed: int,
    pins: Mapping[str, Value],
) -> ProgramAt | None:
    """The program at an offset; None if the file cannot be read."""
    try:
        return program_at(Snapshot(texts, packages=packages), path, offset, seed, pins)
    except MsError:
        return None


def run_trial(texts: Mapping[str, str], packages: frozenset[str], path: str, name: str) -> tuple[Diagnostic, ...]:
    """The findings of trial runs of a schedule."""
    try:
        return trial(Snapshot(texts, packages=packages), path, name)
    except MsError:
        return ()
