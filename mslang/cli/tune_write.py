"""The tasks of `mslang tune` with those equal to them, and writing what was found into their files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec.structs import replace

from mslang.brevity import seconds_text
from mslang.cli.common import read_text
from mslang.cli.items import load_clean, sizes_for
from mslang.cli.source_files import write_source
from mslang.diagnostics import MsError
from mslang.ir.equal import correspondence, structural_hash, workload_hash
from mslang.schedule.interpret import World
from mslang.schedule.renaming import renamed
from mslang.schedule.replay import space_of_text
from mslang.schedule.space import Candidate
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.tune.duplicates import Group, schedule_for
from mslang.tune.progress import Finished
from mslang.tune.scale import Scale
from mslang.tune.session import Item
from mslang.tune.tasks import Named, default_candidate
from mslang.tune.write_back import with_schedule


class Standing(msgspec.Struct, frozen=True):
    """A valid schedule that `--write` would replace; without a candidate if it is none of the first of its group."""

    candidate: Candidate | None


class Written(msgspec.Struct, frozen=True):
    """What `--write` did: where the schedules of each task are, what was left as it is and why, and what failed."""

    places: dict[str, list[str]] = {}
    left: tuple[str, ...] = ()
    faults: tuple[MsError, ...] = ()


class Chosen(msgspec.Struct, frozen=True):
    """A task of the session.

    Args:
        name: its name there.
        group: the equal tasks that it stands for.
        standing: the schedule of each of them that `--write` would replace, in the names of the first.
    """

    name: str
    group: Group
    standing: tuple[Standing | None, ...] = ()

    @property
    def members(self) -> tuple[Named, ...]:
        """All equal tasks."""
        return (self.group.first, *self.group.others)

    @property
    def incumbent(self) -> Candidate | None:
        """The standing schedule that is timed with the best: a session times one of each task."""
        return next((s.candidate for s in self.standing if s is not None and s.candidate is not None), None)

    def item(self, weights: Mapping[str, float]) -> Item:
        """The task as a session takes it; equal tasks add up their weights."""
        first = self.group.first
        weight = sum(weights.get(m.program, 1.0) * m.weight for m in self.members)
        others = tuple(f"{m.task.file}:{m.program}" for m in self.group.others)
        if all(m.program != self.name for m in self.members):
            weight = weights.get(self.name, weight)
        incumbent = self.incumbent or default_candidate(first)
        return Item(self.name, first.task, first.best, weight, first.small, incumbent, others)


def standing_in(group: Group, sizes: Iterable[tuple[str, int]]) -> tuple[Standing | None, ...]:
    """The schedule of each task of a group that `--write` would replace; None: there is none, or an invalid one.

    Args:
        group: equal tasks.
        sizes: those given on the command line.
    """
    given = tuple(sizes)
    found = ((member, _standing(member, given)) for member in (group.first, *group.others))
    return tuple(None if c is None else Standing(_in_names_of(group.first, m, c)) for m, c in found)


def _standing(named: Named, sizes: Iterable[tuple[str, int]]) -> Candidate | None:
    """The candidate of the best schedule in the file of a task; None if there is none or it is no longer valid."""
    try:
        module = load_clean(Path(named.task.file), named.best)
        if named.best not in module.schedules or named.best == named.space:
            return None
        world = World(machine=named.task.target)
        space = space_of(module, named.best, world=world, sizes=sizes_for(module, named.program, sizes))
        candidate = space.sample(0, strict=True)
    except MsError:
        return None
    return candidate if space.program == named.task.program else None


def _in_names_of(first: Named, member: Named, candidate: Candidate) -> Candidate | None:
    """The candidate of a task in the names of another one of its group; None if its text is not valid in that file."""
    if member == first:
        return candidate
    names = correspondence(member.task.program, first.task.program)
    if names is None:
        return None
    # The items that a pinned call and `on` name are those of the other file.
    trace = renamed(replace(candidate.trace, source=None, target=None), names, first.task.program)
    try:
        module = load(first.task.file, read_text(Path(first.task.file)))
        world = World(machine=first.task.target)
        found = space_of_text(trace.as_ms(first.best), first.task.program, world, module).sample(0, strict=True)
    except MsError:
        return None
    return found if workload_hash(found.program) == workload_hash(candidate.program) else None


def write_all(args: argparse.Namespace, tuned: list[tuple[Chosen, Finished]], scales: Mapping[str, Scale]) -> Written:
    """Write the best schedule of each program into its file."""
    places: dict[str, list[str]] = {}
    faults: list[MsError] = []
    left: dict[tuple[str, str], str] = {}
    fastest: dict[tuple[str, str], tuple[Chosen, Finished, Named, Standing | None]] = {}
    for one, done in tuned:
        if done.best is None:
            continue
        for member, standing in zip_longest(one.members, one.standing):
            key = member.task.file, member.best
            why = _why_not(one, done)
            if why is not None:
                left.setdefault(key, f"{member.task.file}:{member.best} is not written: {why}")
            elif key not in fastest or (done.best.cost or 0.0) < _cost(fastest[key][1]):
                fastest[key] = one, done, member, standing
    for one, done, member, standing in fastest.values():
        try:
            places.setdefault(one.name, []).append(_write(args, one, member, standing, done, scales[one.name]))
        except MsError as error:
            faults.append(error)
    return Written(places, tuple(why for key, why in left.items() if key not in fastest), tuple(faults))


def _why_not(one: Chosen, done: Finished) -> str | None:
    """Why the best schedule of a task is not written; None if it is."""
    if one.group.first.bucket is not None:
        return "a file has one schedule of a name, so those of buckets stay on record"
    return None if done.confirmed else f"the best of {one.name} was not measured again"


def _cost(done: Finished) -> float:
    return float("inf") if done.best is None or done.best.cost is None else done.best.cost


def _write(
    args: argparse.Namespace, one: Chosen, member: Named, standing: Standing | None, done: Finished, scale: Scale
) -> str:
    """Write the best schedule into the file, unless the present one is as fast or was not timed; returns its place."""
    path, best = Path(member.task.file), done.best
    assert best is not None and best.result.timing is not None
    if standing is not None:
        hash = None if standing.candidate is None else structural_hash(standing.candidate.program)
        if hash in (best.candidate, *(r.candidate for r in done.ties)):
            return f"{path}:{member.best} is kept: no faster one was found"
        if one.incumbent is None or hash != structural_hash(one.incumbent.program):
            return (
                f"{path}:{member.best} is kept: it was not timed; `mslang tune {path}:{member.program} --write` does so"
            )
    given = sizes_for(load(str(path), before := read_text(path)), member.program, args.sizes)
    sizes = "".join(f", {name} = {size}" for name, size in given.items())
    found = ", ".join(filter(None, (seconds_text(best.result.timing.median), scale.rate(best.result.timing))))
    doc = f"Found by `mslang tune`: {found}{sizes}\non {best.device}; record {best.id}."
    after = with_schedule(
        str(path), before, member.best, member.program, schedule_for(best, one.group.first, member), doc
    )
    write_source(path, before, after, replaced=(member.best,))
    return f"{path}:{member.best}"
