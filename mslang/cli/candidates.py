"""The candidate that a command line selects by a schedule, space or bare program of a file, sizes, pins, a seed, or a
record."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mslang.backend.registry import compiling
from mslang.cli.common import UsageError, add_back_end, add_native, add_pins, add_sizes, natural, shell_word, split_item
from mslang.cli.items import load_clean, only, program_of, sizes_for, unknown_item
from mslang.diagnostics import Diagnostic, MsError, Severity, problem
from mslang.schedule.decisions import PinError, shown
from mslang.schedule.interpret import World
from mslang.schedule.pins import parse_pin
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.automatic import automatic_space, space_named
from mslang.schedule.space import Candidate, Space
from mslang.schedule.strategies import machine_of, space_of
from mslang.sema.module import Found, Module
from mslang.target.description import Target
from mslang.target.named import named_target

if TYPE_CHECKING:
    from mslang.apply.passes import Applied, Case
    from mslang.backend.backend import BackEnd
    from mslang.ir.program import Program
    from mslang.schedule.instruction import Value
    from mslang.schedule.statements import Step
    from mslang.tune.record import Record


class Chosen(msgspec.Struct, frozen=True):
    """A candidate, its space, the name of the item, the target that the item is `on`, the file's module, and what
    serves buckets of dynamic sizes. `own` compiles it in place of the target's back end."""

    candidate: Candidate
    space: Space
    name: str
    target: Target
    module: Module
    cases: tuple[Case, ...] = ()
    own: BackEnd[Any] | None = None

    def at(self, sizes: Mapping[str, int]) -> Candidate:
        """What serves some values of the dynamic sizes."""
        case = next((c for c in self.cases if c.bucket.holds(sizes)), None)
        return self.candidate if case is None else self.serving(case)

    def own_at(self, sizes: Mapping[str, int]) -> BackEnd[Any] | None:
        """What compiles it for some values of the dynamic sizes in place of the target's back end."""
        case = next((c for c in self.cases if c.bucket.holds(sizes)), None)
        return self.own if case is None else case.applied.backend

    def serving(self, case: Case) -> Candidate:
        """The candidate of a bucket."""
        return _served(self.candidate, case.applied)


def candidate_arguments(parser: argparse.ArgumentParser) -> None:
    """`FILE:NAME --set --seed --pin --strict`."""
    parser.add_argument(
        "item",
        metavar="FILE:NAME",
        help="a schedule or space, or a program as it is (FILE alone: its only schedule, else its only program)",
    )
    parser.add_argument("--seed", type=natural, metavar="N", help="open decisions are drawn from it (default 0)")
    add_sizes(parser)
    add_pins(parser)
    parser.add_argument("--strict", action="store_true", help="a pin that does not fit is an error, not repaired")
    add_native(parser)
    add_back_end(parser)


def apply_argument(parser: argparse.ArgumentParser) -> None:
    """`--apply`, for a program without a schedule."""
    parser.add_argument(
        "--apply",
        metavar="PASSES",
        help="a program takes the best schedule known for it: db, dispatch, default, library, in the order given "
        "(`db,default`)",
    )


def program_target_argument(parser: argparse.ArgumentParser) -> None:
    """`--target`, for a program without a schedule: what it is scheduled and compiled for."""
    parser.add_argument(
        "--target",
        dest="program_target",
        metavar="NAME",
        help="what a program without a schedule is for (default: this machine)",
    )


def compiler(args: argparse.Namespace, chosen: Chosen) -> tuple[BackEnd[Any], Target]:
    """What compiles a candidate, and for which target: that of `--target`; else the machine at hand, on which a
    schedule for another one of its kind is tried."""
    from mslang.target.detect import host

    at_hand = host() if args.program_target is None else chosen.target
    return compiling(chosen.target, at_hand, args.backend)


def space_to_show(args: argparse.Namespace, target: Target, rules: str | None) -> tuple[str, Space]:
    """The space that the arguments name: of a schedule or space, or a program's automatic one, of a set of rules."""
    path, name = split_item(args.item)
    module = load_clean(path, name)
    items = {**module.schedules, **module.spaces}
    name = _named(module, name, program=getattr(args, "apply", None) is not None)
    sizes = _sizes(module, dict(args.sizes))
    wanted = args.program_target
    if name in items:
        if wanted is not None or rules is not None:
            raise UsageError("--target and --rules go with a program", f"`{name}` is a schedule or space")
        return name, space_of(module, name, world=World(machine=target), sizes=sizes)
    machine = target if wanted is None else named_target(wanted)
    program = program_of(module, name, sizes)
    if rules is None:
        return name, automatic_space(program, machine, module=module)
    return name, space_named(program, machine, rules, module=module)


def _named(module: Module, name: str | None, program: bool) -> str:
    """The name of an item: the one given, or the file's only schedule, else its only program; with `program` that."""
    items = {} if program else {**module.schedules, **module.spaces}
    if name is None:
        return only(items, "schedule", module.path) if items else only(module.programs, "program", module.path)
    known = (*module.schedules, *module.spaces, *module.programs)
    if name not in known:
        raise unknown_item("schedule, space or program", name, known, module.path)
    return name


def choose(
    args: argparse.Namespace,
    target: Target,
    on_step: Callable[[Step], None] | None = None,
    *,
    among_others: bool = False,
) -> Chosen:
    """The candidate that the arguments select; prints warnings about repaired pins.

    Args:
        args: those of `candidate_arguments`.
        target: the machine.
        on_step: is called with each step of the schedule.
        among_others: sizes that the program does not have are those of other items.
    """
    path, name = split_item(args.item)
    module = load_clean(path, name)
    items = {**module.schedules, **module.spaces}
    name = _named(module, name, program=getattr(args, "apply", None) is not None)
    sizes = sizes_for(module, name, args.sizes) if among_others else _sizes(module, dict(args.sizes))
    world = World(machine=target, on_step=on_step)
    space = _space(module, name, sizes, world)
    found: Applied | None = None
    if getattr(args, "apply", None) is not None:
        if name in items:
            raise UsageError("--apply goes with a program", f"`{name}` is a schedule or space")
        found = _applied(args, module, path, space, getattr(args, "program_target", None), target)
        candidate = _served(space.sample(0), found)
    elif getattr(args, "record", None) is None:
        candidate = _sampled(space, args.seed or 0, pins_of(args.pins), args.strict)
    else:
        record, program = _record(args, path, space.program)
        if program is not space.program:
            space = _space(module, name, sizes, world, program)
        if name in items:
            candidate = space.replay(msgspec.json.decode(record.decisions), strict=args.strict)
            _warn_of_another(candidate, record, f"{module.path}:{space.program.name}")
        else:
            candidate = space_of_text(record.trace, space.program, world, module).sample(0, strict=args.strict)
    warn(candidate)
    item = module.find(name)
    wanted = getattr(args, "program_target", None)
    if name in items and wanted is not None:
        raise UsageError("--target goes with a program; a schedule or space names its own", f"`{name}` is one")
    given = target if wanted is None else named_target(wanted)
    machine = machine_of(item, target) if name in items and isinstance(item, Found) else given
    served = () if found is None else (found.cases, found.backend)
    return Chosen(candidate, space, name, machine, module, *served)


def _space(module: Module, name: str, sizes: Mapping[str, int], world: World, program: Program | None = None) -> Space:
    """The space of a schedule or space; of a program, which is its only candidate as it is. `program`: what is
    scheduled (None: the item's program, with `sizes`)."""
    if name in module.schedules or name in module.spaces:
        return space_of(module, name, program, world, sizes)
    return Space(program or program_of(module, name, sizes), lambda _: None, name=name, item=False)


def _applied(
    args: argparse.Namespace, module: Module, path: Path, space: Space, wanted: str | None, target: Target
) -> Applied:
    """What passes make of the program, and of buckets of its sizes."""
    from mslang.cli.applying import applied
    from mslang.cli.common import note

    if args.pins or args.seed is not None or getattr(args, "record", None) is not None:
        raise UsageError("--apply says every decision: leave out --pin, --seed and --record")
    machine = target if wanted is None else named_target(wanted)
    (found,) = applied(args, args.apply, module, path, [space.program], machine)
    note(found.explanation())
    return found


def _served(plain: Candidate, found: Applied) -> Candidate:
    if found.served is None:
        return plain
    return msgspec.structs.replace(plain, program=found.program, trace=found.served.trace or plain.trace)


def _sampled(space: Space, seed: int, pins: Mapping[str, Value], strict: bool) -> Candidate:
    """A candidate with the pins of the command line, without repair.

    Raises:
        UsageError: a pin has a value that its decision cannot take.
    """
    try:
        candidate = space.sample(seed, pins, strict=strict)
    except PinError as error:
        d = error.diagnostic
        raise (UsageError(f"--pin: {d.message}: {d.why}") if pins else error) from error
    for address, value in pins.items():
        objection = candidate.objection(address, value)
        if objection is not None:
            raise UsageError(f"--pin: `{address} = {shown(value)}` does not fit: {objection}")
    return candidate


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
                f"--pin: `{value}` is not a value for `{address}`: {error.diagnostic.message}",
                "a number, a list of numbers, the name of a case, `at(loop)`, or a text in quotes",
            ) from error
    return found


def _record(args: argparse.Namespace, path: Path, program: Program) -> tuple[Record, Program]:
    """The record that `--record` names, and what it is of: this program, or this one for a bucket of its sizes."""
    from mslang.cli.common import note
    from mslang.ir.buckets import buckets_of, restricted
    from mslang.ir.equal import workload_hash
    from mslang.tune.mirrored import opened_to_read

    if args.pins or args.seed is not None:
        raise UsageError("--record says every decision: leave out --pin and --seed")
    file = args.db or path.parent / ".mslang" / "records.db"
    with opened_to_read(file) as database:
        record = database.record(args.record)
    if record.workload == workload_hash(program):
        return record, program
    for bucket in buckets_of(program):
        part = restricted(program, bucket)
        if record.workload == workload_hash(part):
            note(f"record {args.record} is for {bucket.text}")
            return record, part
    raise MsError(
        problem(
            "MS604",
            f"record {args.record} is of another program",
            why=f"it is of {record.program}, with other sizes or statements",
            help="name the program it was made for, with the same `--set`",
        )
    )


def _warn_of_another(candidate: Candidate, record: Record, program: str) -> None:
    """Print a warning if the decisions of a record do not reproduce its candidate."""
    from mslang.cli.render import print_diagnostics
    from mslang.ir.equal import structural_hash

    if structural_hash(candidate.program) == record.candidate:
        return
    changed = Diagnostic(
        "MS604",
        f"these decisions make another candidate here than record {record.id} is of",
        severity=Severity.WARNING,
        why="another schedule made the record, or this one has changed since",
        help=f"name the program to replay what was recorded: `mslang run {shell_word(program)} --record {record.id}`",
    )
    print_diagnostics((changed,), stream=sys.stderr)


def _sizes(module: Module, sizes: Mapping[str, int]) -> dict[str, int]:
    known = {s.name.text for p in module.programs.values() for s in p.sizes}
    for size in sizes:
        if known and size not in known:
            raise unknown_item("size", size, sorted(known), module.path)
    return dict(sizes)


def warn(candidate: Candidate) -> None:
    """Print the warnings about a candidate's repaired pins."""
    import sys

    from mslang.cli.render import print_diagnostics

    print_diagnostics(candidate.warnings, stream=sys.stderr)
