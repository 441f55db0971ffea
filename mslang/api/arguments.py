"""What the functions of the API are given: the program, space or back end that is meant, and what is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mslang.api.source import Source
from mslang.backend.backend import BackEnd
from mslang.backend.registry import back_end, runnable_target, serving
from mslang.brevity import brief
from mslang.diagnostics import MsError, problem
from mslang.ir.program import Program
from mslang.schedule.instruction import Value
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.schedule import Schedule
from mslang.schedule.space import Candidate, Space
from mslang.sema.literals import limits
from mslang.target.description import Target
from mslang.target.named import target_of

if TYPE_CHECKING:
    from mslang.tune.instances import Instance


def compiler_of(given: BackEnd[Any] | str | None, target: Target | str | None) -> tuple[BackEnd[Any], Target]:
    """What compiles, and for which machine."""
    if given is not None and not isinstance(given, str | BackEnd):
        why = "it is a back end or its name"
        raise MsError(problem("MS706", f"`backend` is {brief(repr(given))}", why=why))
    if given is None:
        machine = runnable_target(target)
        return serving(machine), machine
    machine = target_of(target)
    return (back_end(given) if isinstance(given, str) else given), machine


def program_in(what: object, seed: int, pins: Mapping[str, Value]) -> Program:
    """The program to compile."""
    from mslang.apply.passes import Applied
    from mslang.tune.result import Tuned

    match what:
        case Space():
            return what.sample(seed, pins, strict=True).program
        case Program():
            found = what
        case Schedule() | Candidate() | Tuned() | Applied():
            found = what.program
        case Source():
            found = only_program(what, "build")
        case _:
            raise misused("build", what, "a program, a schedule, a space or a candidate")
    for address in pins:
        why = f"only a space has open decisions; this is {brief(repr(what))}"
        help = "build `source.space(name)` with these pins"
        raise MsError(problem("MS251", f"no decision has the address `{address}`", why=why, help=help))
    return found


def space_in(what: object, machine: Target) -> Space:
    """The space to search."""
    match what:
        case Space():
            return what
        case Program():
            return automatic_space(what, machine)
        case Source():
            return automatic_space(only_program(what, "tune"), machine)
    raise misused("tune", what, "a space or a program")


def only_program(source: Source, verb: str) -> Program:
    """The program of a source that holds nothing else."""
    if source.spaces or len(source.programs) != 1:
        calls = [f"source.space({n!r})" for n in source.spaces] + [f"source.program({n!r})" for n in source.programs]
        why = f"{source.module.path} has {', '.join((*source.programs, *source.spaces)) or 'no program'}"
        help = f"say which: `ms.{verb}({calls[0]})`" if calls else None
        raise MsError(problem("MS704", f"`ms.{verb}` takes one program or space", why=why, help=help))
    return source.program()


def require_numbers(verb: str, **given: object) -> None:
    """Raise MsError MS706 unless each argument is a whole number from 1 on, or None; workers are not too many."""
    from mslang.workers.pool import most_workers

    for name, number in given.items():
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            why = "it is a whole number from 1 on"
            raise MsError(problem("MS706", f"`{name}` of `ms.{verb}` is {brief(repr(number))}", why=why))
        if name == "workers" and number is not None and number > most_workers():
            why = f"at most {most_workers()} are of use on this machine"
            raise MsError(problem("MS706", f"`workers` of `ms.{verb}` is {number}", why=why))


def require_seconds(verb: str, seconds: object, *, limit: bool = True) -> None:
    """Raise MsError MS706 unless a time is a finite number of seconds, or, of a limit, None."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= sys.float_info.max
    if not number and not (limit and seconds is None):
        why = "it is a number of seconds above 0" + (", or None for no limit" if limit else "")
        raise MsError(problem("MS706", f"`seconds` of `ms.{verb}` is {brief(repr(seconds))}", why=why))


def require_lists(verb: str, **given: object) -> None:
    """Raise MsError MS706 unless each argument is a list or the like; a text is none."""
    for name, what in given.items():
        if isinstance(what, str) or not isinstance(what, Iterable):
            shown = repr([what]) if isinstance(what, str) else "[…]"
            help = f"write `{name}={brief(shown)}`"
            said = f"`{name}` of `ms.{verb}` is {brief(repr(what))}"
            raise MsError(problem("MS706", said, why="it is a list", help=help))


def require_seed(verb: str, seed: object) -> None:
    """Raise MsError MS706 unless a seed is one that records can keep."""
    most = limits("i64")[1]
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= most:
        why = f"it is a whole number from 0 to {most}"
        raise MsError(problem("MS706", f"`seed` of `ms.{verb}` is {brief(repr(seed))}", why=why))


def require_weights(weights: object, items: Iterable[str]) -> None:
    """Raise MsError MS706 unless these are positive numbers of items, by name."""
    if not isinstance(weights, Mapping):
        raise misused("tune_all", weights, "weights by name, as `{'a': 2.0}`")
    for name, weight in weights.items():
        number = isinstance(weight, int | float) and 0 < weight < float("inf")
        if name not in items or not number:
            why = f"the items are {', '.join(items)}; a weight is a positive number"
            said = f"`weights` of `ms.tune_all` has {brief(repr(name))}: {brief(repr(weight))}"
            raise MsError(problem("MS706", said, why=why))


def likely_instance(given: object) -> Instance:
    """A size that calls are likely to have, with how often: `({"M": 100}, 3)`."""
    from mslang.tune.instances import Instance

    match given:
        case (Mapping() as sizes, int() as often) if often > 0 and all(isinstance(n, int) for n in sizes.values()):
            return Instance({str(name): n for name, n in sizes.items()}, often)
    why = 'it is a list of sizes, each with how often, as `({"M": 100}, 3)`'
    raise MsError(problem("MS706", f"`likely` of `ms.tune_all` has {brief(repr(given))}", why=why))


def require_store(verb: str, database: object) -> None:
    """Raise MsError MS706 unless this is a record store or the name of one."""
    from mslang.tune.stores import Store

    if not isinstance(database, str | os.PathLike | Store):
        why = "it is a file, the name of a record store, or a `Store` (`mslang.tune.stores`)"
        raise MsError(problem("MS706", f"`database` of `ms.{verb}` is {brief(repr(database))}", why=why))


def misused(verb: str, what: object, wanted: str) -> MsError:
    """The error of a function that is given something else than it takes (MS706)."""
    help = None
    if isinstance(what, str | os.PathLike):
        help = f"`ms.load(path)` reads a file, `ms.parse(text)` a text; `ms.{verb}` takes what they give"
    elif isinstance(what, Schedule):
        help = "write it as a `schedule` in `.ms` text, where `~` leaves decisions open, and take `source.space(name)`"
    return MsError(problem("MS706", f"`ms.{verb}` takes {wanted}, not {brief(repr(what))}", help=help))
