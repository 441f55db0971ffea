"""Equal tasks are tuned once: which of them are equal, and what the result of one is for another."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from mslang.ir.equal import correspondence
from mslang.schedule.renaming import renamed
from mslang.tune.record import Record
from mslang.tune.recording import candidate_of
from mslang.tune.tasks import Named


class Group(msgspec.Struct, frozen=True):
    """Equal tasks: the first, which is tuned, and the others, which get its result."""

    first: Named
    others: tuple[Named, ...] = ()


def grouped(tasks: Sequence[Named]) -> list[Group]:
    """The tasks in their order, equal ones together.

    In the automatic space two tasks are equal if their programs are the same workload, whatever its names are; in a
    space that was written they are if the space is the same item of the same file.
    """
    groups: dict[Hashable, list[Named]] = {}
    for task in tasks:
        groups.setdefault(_key(task), []).append(task)
    return [Group(first, tuple(others)) for first, *others in groups.values()]


def _key(named: Named) -> Hashable:
    task = named.task
    shared = task.workload.hash, task.target, task.allow_native, task.compiler.version()
    # The automatic space has the name of its program.
    return shared if named.space == named.program else (*shared, task.file, named.space)


def schedule_for(best: Record, tuned: Named, wanted: Named) -> str:
    """The best schedule of a task as `.ms` text for another task of its group.

    Args:
        best: what was found for `tuned`.
        tuned: the task that was tuned.
        wanted: the task whose program is to be scheduled.
    """
    if wanted == tuned or wanted.space != wanted.program:
        return best.schedule
    names = correspondence(tuned.task.program, wanted.task.program)
    assert names is not None  # they are one workload
    trace = candidate_of(best, tuned.task.space).trace
    return renamed(trace, names, wanted.task.program).as_ms(wanted.best)


def names_of(tasks: Sequence[Named]) -> list[str]:
    """A name for each task, unlike the others: the program; with its space, or its file, where that is needed."""
    parts = ["" if t.bucket is None else f"[{t.bucket.text}]" for t in tasks]
    forms = tuple(
        [name + part for name, part in zip(names, parts, strict=True)]
        for names in (
            [t.program for t in tasks],
            [t.program if t.space == t.program else f"{t.program}:{t.space}" for t in tasks],
            [f"{t.task.file}:{t.space}" for t in tasks],
        )
    )
    for names in forms:
        if len(set(names)) == len(names):
            return names
    return [f"{name} {number}" for number, name in enumerate(forms[-1], 1)]
