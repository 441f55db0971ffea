"""The run that the records of a search belong to: a new one, or the last one like it."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.tune.budget import Budget
from mslang.tune.database import Database
from mslang.tune.origin import drawn_hash
from mslang.tune.record import Run
from mslang.tune.task import Settings, Task


class _Arguments(msgspec.Struct, frozen=True):
    """What a run is resumed with."""

    budget: Budget = Budget(None)
    strategy: str = "replay_trace"
    """Runs that say nothing are from before there was another one."""
    cost_model: str | None = None
    cache: Literal["warm", "cold"] | None = None
    drawn: str = ""
    """What stands for the space, see `drawn_hash`; older runs do not say."""


def _begun(run: Run) -> _Arguments:
    return msgspec.json.decode(run.arguments or "{}", type=_Arguments)


def _as_begun(settings: Settings, run: Run) -> Settings:
    """The settings with what decides a run's candidates and what its times say: seed, strategy and model, the trials
    planned with, the caches."""
    begun = _begun(run)
    return msgspec.structs.replace(
        settings,
        seed=run.seed,
        strategy=begun.strategy,
        planned=begun.budget.trials,
        cost_model=begun.cost_model or settings.cost_model,
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
        resume: take the last run of this program, space, target and machine, with the space as it is now.
        taken: runs that other tasks have taken.

    Raises:
        MsError: MS503, there is no run to resume.
    """
    workload, drawn = task.workload, drawn_hash(task.space)
    if resume:
        wanted = (workload.source, task.space.name, task.target.name, task.machine.key)
        runs = (r for r in store.runs() if r.id not in taken)
        named = [r for r in runs if (r.source, r.space, r.target, r.machine) == wanted]
        like = [r for r in named if _begun(r).drawn in ("", drawn)]
        if not like:
            raise _nothing_to_resume(store, task, named)
        return like[-1].id, _as_begun(settings, like[-1])
    arguments = _Arguments(settings.budget, settings.strategy, settings.cost_model, settings.limits.cache, drawn)
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


def _nothing_to_resume(store: Database, task: Task, named: Sequence[Run]) -> MsError:
    """Why there is no run to resume, though perhaps some of a space of this name."""
    why = f"{store.path} has none of this program, space, target and machine"
    way = "leave out --resume to start one"
    if named:
        why = f"the space of run {named[-1].id} made other candidates than {task.space.name} makes now"
        way = f"restore the space (its text, `--rules`), or {way}"
    return MsError(
        problem("MS503", f"there is no run of {task.program.name} in {task.space.name} to resume", why=why, help=way)
    )
