"""The run that the records of a search belong to: a new one, or the last one like it."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from mslang import __version__
from mslang.diagnostics import MsError, problem
from mslang.tune.budget import Budget
from mslang.tune.database import Database
from mslang.tune.instances import instances_text
from mslang.tune.origin import drawn_hash
from mslang.tune.record import Run
from mslang.tune.task import OWN, Settings, Task, name_of


class _Arguments(msgspec.Struct, frozen=True):
    """What a run is resumed with."""

    budget: Budget = Budget(None)
    strategy: str = "replay_trace"
    """Runs that say nothing are from before there was another one."""
    cost_model: str | None = None
    features: str | None = None
    mutators: str | None = None
    cache: Literal["warm", "cold"] | None = None
    drawn: str = ""
    """What stands for the space, see `drawn_hash`; older runs do not say."""
    compiler: str = ""
    version: str = ""
    """What compiled the candidates, and which mslang; older runs do not say."""
    sizes: str | None = None
    """The dynamic sizes that candidates are timed at, as `instances_text` writes them."""


def _begun(run: Run) -> _Arguments | None:
    """What a run was begun with; None if that cannot be read, as it may be of one that was imported."""
    try:
        return msgspec.json.decode(run.arguments or "{}", type=_Arguments)
    except (msgspec.MsgspecError, ValueError):
        return None


def _as_begun(settings: Settings, run: Run) -> Settings:
    """The settings with what decides a run's candidates and what its times say: seed, strategy, model and features, the
    trials planned with, the caches."""
    begun = _begun(run) or _Arguments()
    # Values of the user's own are those that the run had: `_obstacle` has seen to it.
    return msgspec.structs.replace(
        settings,
        seed=run.seed,
        strategy=settings.strategy if _is_own(begun.strategy) else begun.strategy,
        planned=begun.budget.trials,
        cost_model=settings.cost_model if _is_own(begun.cost_model) else begun.cost_model,
        features=settings.features if _is_own(begun.features) else begun.features,
        limits=msgspec.structs.replace(settings.limits, cache=begun.cache or settings.limits.cache),
    )


def run_of(
    store: Database, task: Task, settings: Settings, resume: bool, taken: Collection[str] = ()
) -> tuple[str, Settings]:
    """The identity of the run, and the settings with its seed.

    Args:
        store: the record store; a new run is put into it.
        task: what is tuned.
        settings: the seed and the budget of a new run.
        resume: take the last run of this program, space, target and machine, with the space, the compiler, the
            sizes that are measured, and what is the user's own of the settings as they are now.
        taken: runs that other tasks have taken.

    Raises:
        MsError: MS503, there is no run to resume.
    """
    workload = task.workload
    arguments = _Arguments(
        settings.budget,
        name_of(settings.strategy),
        None if settings.cost_model is None else name_of(settings.cost_model),
        None if settings.features is None else name_of(settings.features),
        _mutators(settings),
        settings.limits.cache,
        drawn_hash(task.space),
        task.compiled_by,
        __version__,
        instances_text(task.instances) or None,
    )
    if resume:
        wanted = (workload.source, task.space.name, task.target.name, task.machine.key)
        runs = (r for r in store.runs() if r.id not in taken)
        named = [r for r in runs if (r.source, r.space, r.target, r.machine) == wanted]
        like = [r for r in named if _obstacle(r, arguments) is None]
        if not like:
            raise _nothing_to_resume(store, task, named, arguments)
        return like[-1].id, _as_begun(settings, like[-1])
    run = Run(
        secrets.token_hex(4),
        task.file,
        task.space.name,
        workload.hash,
        task.target.name,
        settings.seed,
        msgspec.json.encode(arguments).decode(),
        machine=task.machine.key,
        source=workload.source,
    )
    store.add_workload(workload)
    store.add_machine(task.machine)
    store.add_run(run)
    return run.id, settings


class _Obstacle(NamedTuple):
    """Why a run does not go on as another search would, and what to change so that it does."""

    why: str
    way: str


def _obstacle(run: Run, now: _Arguments) -> _Obstacle | None:
    """What keeps a run of the same program, space, target and machine from going on; None if it can.

    Its records count as the search's own: so they are of the same candidates, whose times may be compared.
    """
    begun = _begun(run)
    if begun is None:
        return _Obstacle(f"the arguments of run {run.id} cannot be read", "restore the record store")
    if begun.drawn not in ("", now.drawn):
        why = f"the space of run {run.id} made other candidates than {run.space} makes now"
        return _Obstacle(why, "restore the space (its text, `--rules`)")
    if begun.compiler not in ("", now.compiler):
        why = f"run {run.id} compiled its candidates with {begun.compiler}, not with {now.compiler}"
        return _Obstacle(why, "use that compiler (`--backend`, its version)")
    if begun.version not in ("", now.version):
        why = f"mslang {begun.version} began run {run.id}, this is mslang {now.version}"
        return _Obstacle(why, "use that version")
    if begun.sizes != now.sizes:
        why = f"run {run.id} was timed at {begun.sizes or 'unknown sizes'}, not at {now.sizes or 'unknown sizes'}"
        return _Obstacle(why, "give its sizes (`--likely`)")
    for what, had, has in (
        ("strategy", begun.strategy, now.strategy),
        ("cost_model", begun.cost_model, now.cost_model),
        ("features", begun.features, now.features),
        ("mutators", begun.mutators, now.mutators),
    ):
        if had != has and (_is_own(had) or _is_own(has)):
            why = f"run {run.id} began with {what}={_shown(had)}, this search has {what}={_shown(has)}"
            return _Obstacle(why, f"give `{what}` as it began")
    return None


def _mutators(settings: Settings) -> str | None:
    """The mutators that were given, all of which are the user's own choice; None if none were."""
    given = settings.mutators
    return None if given is None else OWN + ", ".join(f"{name_of(m).removeprefix(OWN)} {m.name!r}" for m in given)


def _is_own(name: str | None) -> bool:
    """Whether a name in a run's arguments is that of a value of the user's own, which only the user can give again."""
    return name is not None and name.startswith(OWN)


def _shown(name: str | None) -> str:
    return repr(name) if name is None or not _is_own(name) else name.removeprefix(OWN)


def _nothing_to_resume(store: Database, task: Task, named: Sequence[Run], now: _Arguments) -> MsError:
    """Why there is no run to resume, though perhaps some of a space of this name."""
    obstacle = _obstacle(named[-1], now) if named else None
    why, way = f"{store.name} has none of this program, space, target and machine", "leave out --resume to start one"
    if not store.keeps_runs:
        why = f"{store.name} keeps no runs: its class has no `add_run` and `runs`"
    if obstacle is not None:
        why, way = obstacle.why, f"{obstacle.way}, or {way}"
    return MsError(
        problem("MS503", f"there is no run of {task.program.name} in {task.space.name} to resume", why=why, help=way)
    )
