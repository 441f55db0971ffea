"""The run that the records of a search belong to: a new one, or the last one like it."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Literal

import msgspec

from mslang.diagnostics import MsError, problem
from mslang.tune.budget import Budget
from mslang.tune.database import Database
from mslang.tune.record import Run
from mslang.tune.task import Settings, Task


class _Arguments(msgspec.Struct, frozen=True):
    """What a run is resumed with."""

    budget: Budget = Budget(None)
    strategy: str = "replay_trace"
    """Runs that say nothing are from before there was another one."""
    cost_model: str | None = None
    cache: Literal["warm", "cold"] | None = None


def _as_begun(settings: Settings, run: Run) -> Settings:
    """The settings with what decides a run's candidates and what its times say: seed, strategy and model, the trials
    planned with, the caches."""
    begun = msgspec.json.decode(run.arguments or "{}", type=_Arguments)
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
        resume: take the last run of this program, space, target and machine that has records.
        taken: runs that other tasks have taken.

    Raises:
        MsError: MS503, there is no run to resume.
    """
    workload = task.workload
    if resume:
        wanted = (workload.source, task.space.name, task.target.name, task.machine.key)
        runs = (r for r in store.runs() if r.id not in taken)
        like = [r for r in runs if (r.source, r.space, r.target, r.machine) == wanted]
        if not like:
            raise MsError(
                problem(
                    "MS503",
                    f"there is no run of {task.program.name} in {task.space.name} to resume",
                    why=f"{store.path} has none of this program, space, target and machine",
                    help="leave out --resume to start one",
                )
            )
        # One that found nothing has nothing to go on with.
        last = next((r for r in reversed(like) if any(store.records(run=r.id))), like[-1])
        return last.id, _as_begun(settings, last)
    arguments = _Arguments(settings.budget, settings.strategy, settings.cost_model, settings.limits.cache)
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
