"""What `mslang tune` is to tune: the tasks of the files and items that a command line names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mslang.cli.candidates import warn
from mslang.cli.common import UsageError, note, split_item
from mslang.cli.items import load_clean, require_known, size_names, unknown_item
from mslang.diagnostics import RequireFailed, ScheduleError
from mslang.schedule.space import NoCandidate
from mslang.tune.tasks import Named, spaces_for, tasks_of

if TYPE_CHECKING:
    from mslang.sema.module import Module
    from mslang.target.description import Target
    from mslang.tune.instances import Instance

STALE = "MS254"
"""The code of an invalid pin."""


class _Wanted(NamedTuple):
    """What one argument names: a file, perhaps an item of it, and what is tuned, with the sizes of its program."""

    path: Path
    name: str | None
    module: Module
    items: Mapping[str, frozenset[str]]


def planned(args: argparse.Namespace, target: Target) -> list[Named]:
    """The tasks of all arguments. Sizes of `--set` and `--likely` are those of the programs that have them.

    Raises:
        MsError: MS703, no file has such an item, or no program such a size; or a file or an item is faulty.
        UsageError: an option does not go with what is named.
    """
    wanted = [_wanted(text, args.rules) for text in args.files]
    programs = [sizes for w in wanted for sizes in w.items.values()]
    require_known(args.sizes, frozenset().union(*programs), args.files)
    # A likely size that is one of no program is given to all, which say why they do not take it.
    stray = [i for i in args.likely if not any(i.sizes.keys() <= sizes for sizes in programs)]
    return [named for each in wanted for named in _planned(each, args, target, stray)]


def _wanted(text: str, rules: str | None) -> _Wanted:
    path, name = split_item(text)
    module = load_clean(path, name)
    known = (*module.programs, *module.spaces, *module.schedules)
    if name is not None and name not in known:
        raise unknown_item("program, space or schedule", name, known, module.path)
    if rules is not None and name is not None and name not in module.programs:
        raise UsageError("--rules goes with a program", f"`{name}` is a schedule or space")
    items = _tuned_of_file(module, rules) if name is None else [name]
    return _Wanted(path, name, module, {item: frozenset(size_names(module, item)) for item in items})


def _tuned_of_file(module: Module, rules: str | None) -> list[str]:
    """The programs that are tuned of a file: those that spaces are written for, if there are any and they count."""
    written = [p for p in module.programs if spaces_for(module, p)] if rules is None else []
    return written or list(module.programs)


def _planned(wanted: _Wanted, args: argparse.Namespace, target: Target, stray: Sequence[Instance]) -> list[Named]:
    """The tasks of one argument."""
    path, name, module, items = wanted
    tasks = list(_tasks(wanted, args, target, stray))
    for program in module.programs:
        if name is None and all(program != t.program for t in tasks):
            note(f"passing over {program}: there is no schedule or space for it in {path}")
    likely = [i for i in args.likely if i in stray or any(i.sizes.keys() <= sizes for sizes in items.values())]
    if likely and all(task.bucket is None for task in tasks):
        given = ", ".join(likely[0].sizes)
        raise UsageError(f"--likely: {name or path} has no size `{given}` that is known only at the call")
    for task in tasks:
        _look_at_pins(task, args.seed, args.strict)
    return [_placed(task, path, args) for task in tasks]


def _tasks(wanted: _Wanted, args: argparse.Namespace, target: Target, stray: Sequence[Instance]) -> Iterator[Named]:
    """The tasks of each item, with the sizes of its program."""
    if not wanted.items:
        # It raises that there is nothing to tune.
        yield from tasks_of(wanted.module, None, {}, target)
    for item, names in wanted.items.items():
        sizes = {size: value for size, value in args.sizes if size in names}
        likely = [i for i in args.likely if i in stray or i.sizes.keys() <= names]
        yield from tasks_of(wanted.module, item, sizes, target, args.backend, args.rules, likely)


def _placed(named: Named, path: Path, args: argparse.Namespace) -> Named:
    """The task with the path that the user gave, compiled and run as asked."""
    from mslang.tune.builder import builder_named
    from mslang.tune.runner import runner_named

    task = msgspec.structs.replace(
        named.task,
        file=str(path),
        allow_native=args.allow_native,
        builder=builder_named(args.builder) if args.builder else None,
        runner=runner_named(args.runner) if args.runner else None,
    )
    return msgspec.structs.replace(named, task=task)


def _look_at_pins(named: Named, seed: int, strict: bool) -> None:
    """Print warnings about stale pins in the space; with `strict`, raise them."""
    try:
        warn(named.task.space.sample(seed, strict=strict))
    except (NoCandidate, RequireFailed):
        # The search itself reports why no draw is valid.
        return
    except ScheduleError as error:
        if strict and error.diagnostic.code == STALE:
            raise
