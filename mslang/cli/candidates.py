"""The candidate that a command line means: a schedule or space of a file, sizes, pins, a seed, or a record."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mslang.cli.common import UsageError, add_pins, add_sizes, natural, split_item
from mslang.cli.items import load_clean, only, unknown_item
from mslang.diagnostics import MsError, problem
from mslang.schedule.interpret import World
from mslang.schedule.pins import parse_pin
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import space_of
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.schedule.statements import Step
    from mslang.schedule.trace import Value
    from mslang.sema.module import Module


class Chosen(msgspec.Struct, frozen=True):
    """A candidate, the space it is of, and the name of the item."""

    candidate: Candidate
    space: Space
    name: str


def candidate_arguments(parser: argparse.ArgumentParser) -> None:
    """`FILE:SCHEDULE --set --seed --pin --strict`."""
    parser.add_argument("item", metavar="FILE:SCHEDULE", help="a schedule or space (FILE alone: its only one)")
    parser.add_argument("--seed", type=natural, metavar="N", help="open decisions are drawn from it (default 0)")
    add_sizes(parser)
    add_pins(parser)
    parser.add_argument("--strict", action="store_true", help="a pin that does not fit is an error, not repaired")


def choose(args: argparse.Namespace, target: Target, on_step: Callable[[Step], None] | None = None) -> Chosen:
    """The candidate that the arguments mean; warnings of repaired pins are printed."""
    path, name = split_item(args.item)
    module = load_clean(path)
    items = {**module.schedules, **module.spaces}
    if name is None:
        name = only(items, "schedule", module.path)
    elif name not in items:
        raise unknown_item("schedule or space", name, items, module.path)
    world = World(machine=target, on_step=on_step)
    space = space_of(module, name, world=world, sizes=_sizes(module, dict(args.sizes)))
    if getattr(args, "record", None) is not None:
        candidate = _recorded(args, path, space)
    else:
        candidate = space.sample(args.seed or 0, pins_of(args.pins), strict=args.strict)
    warn(candidate)
    return Chosen(candidate, space, name)


def pins_of(pins: list[tuple[str, str]]) -> dict[str, Value]:
    """`--pin` options as decisions by address."""
    found: dict[str, Value] = {}
    for address, value in pins:
        if address in found:
            raise UsageError(f"--pin: `{address}` is pinned twice")
        try:
            found |= [parse_pin(f"{address} = {value}")]
        except MsError as error:
            raise UsageError(
                f"--pin: `{value}` is no value for `{address}`: {error.diagnostic.message}",
                "a number, a list of numbers, the name of a case, `at(loop)`, or a text in quotes",
            ) from error
    return found


def _recorded(args: argparse.Namespace, path: Path, space: Space) -> Candidate:
    from mslang.ir.equal import structural_hash
    from mslang.tune.database import Database

    if args.pins or args.seed is not None:
        raise UsageError("--record says every decision: leave out --pin and --seed")
    file = args.db or path.parent / ".mslang" / "records.db"
    with Database(file, read_only=True) as database:
        record = database.record(args.record)
    if record.workload != structural_hash(space.program):
        raise MsError(
            problem(
                "MS604",
                f"record {args.record} is of another program",
                why=f"it is of {record.program}, with other sizes or statements",
                help="name the program it was made for, with the same `--set`",
            )
        )
    return space.replay(msgspec.json.decode(record.decisions), strict=args.strict)


def _sizes(module: Module, sizes: Mapping[str, int]) -> dict[str, int]:
    known = {s.name.text for p in module.programs.values() for s in p.sizes}
    for size in sizes:
        if known and size not in known:
            raise unknown_item("size", size, sorted(known), module.path)
    return dict(sizes)


def warn(candidate: Candidate) -> None:
    """Print what was repaired of a candidate's pins."""
    import sys

    from mslang.cli.render import print_diagnostics

    print_diagnostics(candidate.warnings, stream=sys.stderr)
