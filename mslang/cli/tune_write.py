"""The tasks of `mslang tune` with those equal to them, and writing what was found into their files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mslang.brevity import seconds_text
from mslang.cli.common import read_text
from mslang.cli.source_files import write_source
from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash
from mslang.schedule.space import Candidate
from mslang.tune.duplicates import Group, schedule_for
from mslang.tune.progress import Finished
from mslang.tune.scale import Scale
from mslang.tune.session import Item
from mslang.tune.tasks import Named, default_candidate
from mslang.tune.write_back import with_schedule


class Chosen(msgspec.Struct, frozen=True):
    """A task of the session.

    Args:
        name: its name there.
        group: the equal tasks that it stands for.
        incumbent: the schedule that `--write` would replace.
    """

    name: str
    group: Group
    incumbent: Candidate | None

    @property
    def members(self) -> tuple[Named, ...]:
        """All equal tasks."""
        return (self.group.first, *self.group.others)

    def item(self, weights: Mapping[str, float]) -> Item:
        """The task as a session takes it; equal tasks add up their weights."""
        first = self.group.first
        weight = sum(weights.get(m.program, 1.0) * m.weight for m in self.members)
        others = tuple(f"{m.task.file}:{m.program}" for m in self.group.others)
        if all(m.program != self.name for m in self.members):
            weight = weights.get(self.name, weight)
        incumbent = self.incumbent or default_candidate(first)
        return Item(self.name, first.task, first.best, weight, first.small, incumbent, others)


def write_all(
    args: argparse.Namespace, tuned: list[tuple[Chosen, Finished]], scales: Mapping[str, Scale]
) -> tuple[dict[str, list[str]], list[MsError]]:
    """Write the best schedule of each program into its file; where they are by task, and what could not be written."""
    places: dict[str, list[str]] = {}
    faults: list[MsError] = []
    fastest: dict[tuple[str, str], tuple[Chosen, Finished, Named]] = {}
    for one, done in tuned:
        if done.best is None or not done.confirmed or one.group.first.bucket is not None:
            # The best of each bucket stays on record: a file has one schedule of a name.
            continue
        for member in one.members:
            key = member.task.file, member.best
            if key not in fastest or (done.best.cost or 0.0) < _cost(fastest[key][1]):
                fastest[key] = one, done, member
    for one, done, member in fastest.values():
        try:
            places.setdefault(one.name, []).append(_write(args, one, member, done, scales[one.name]))
        except MsError as error:
            faults.append(error)
    return places, faults


def _cost(done: Finished) -> float:
    return float("inf") if done.best is None or done.best.cost is None else done.best.cost


def _write(args: argparse.Namespace, one: Chosen, member: Named, done: Finished, scale: Scale) -> str:
    """Write the best schedule into the file, unless the present one measured equally fast; returns its place."""
    path, best = Path(member.task.file), done.best
    assert best is not None and best.result.timing is not None
    if one.incumbent is not None and member is one.group.first:
        standing = structural_hash(one.incumbent.program)
        if standing in (best.candidate, *(r.candidate for r in done.ties)):
            return f"{path}:{member.best} is kept: no faster one was found"
    sizes = "".join(f", {name} = {size}" for name, size in args.sizes)
    found = ", ".join(filter(None, (seconds_text(best.result.timing.median), scale.rate(best.result.timing))))
    doc = f"Found by `mslang tune`: {found}{sizes}\non {best.device}; record {best.id}."
    before = read_text(path)
    after = with_schedule(
        str(path), before, member.best, member.program, schedule_for(best, one.group.first, member), doc
    )
    write_source(path, before, after, replaced=(member.best,))
    return f"{path}:{member.best}"
