"""Tuning: one program or space, or several with one budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from mslang.api.arguments import (
    compiler_of,
    likely_instance,
    misused,
    require_lists,
    require_numbers,
    require_seconds,
    require_store,
    require_weights,
    space_in,
)
from mslang.api.searching import callbacks_of, named_or_own, settings_of, workers_of
from mslang.api.source import Source
from mslang.backend.backend import BackEnd
from mslang.brevity import brief
from mslang.diagnostics import MsError, problem
from mslang.ir.program import Program
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.space import Space
from mslang.target.description import Target

if TYPE_CHECKING:
    from mslang.ir.buckets import Bucket
    from mslang.search.features.extractor import Extractor
    from mslang.search.models.registry import Factory as ModelFactory
    from mslang.search.mutators import Mutator
    from mslang.search.strategy import Factory as StrategyFactory
    from mslang.tune.builder import Builder
    from mslang.tune.callbacks import Callback
    from mslang.tune.progress import Event
    from mslang.tune.result import Tuned
    from mslang.tune.runner import Runner
    from mslang.tune.stores import Store
    from mslang.tune.task_scheduler import TaskScheduler

NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})


def tune(
    space: Space | Program | Source,
    *,
    trials: int | None = 64,
    seconds: float | None = None,
    patience: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    target: Target | str | None = None,
    database: Store | str | os.PathLike[str] = ".mslang/records.db",
    resume: bool = False,
    strategy: StrategyFactory | str = "auto",
    cost_model: ModelFactory | str | None = None,
    features: Extractor | str | None = None,
    mutators: Iterable[Mutator] | None = None,
    cache: Literal["warm", "cold"] | None = None,
    listen: Callable[[Event], None] = lambda _: None,
    callbacks: Iterable[Callback] = (),
    log: str | os.PathLike[str] | None = None,
    allow_native: bool = False,
    backend: BackEnd[Any] | str | None = None,
    builder: Builder | str | None = None,
    runner: Runner | str | None = None,
) -> Tuned:
    """Search for the fastest schedule, measuring on this machine; see `mslang.tune.tune.tune`.

    Args:
        space: a space; or a program, or a source that holds one and nothing else, which is searched in the automatic
            space (tiling, parallel and vectorized loops). One with dynamic sizes is measured at sizes that stand for
            their whole range; `ms.tune_all` tunes parts of it apart.
        trials: stop after so many candidates.
        seconds: stop after so much wall time.
        patience: stop after so many candidates without a faster one.
        seed: the same seed draws the same candidates.
        workers: processes that compile.
        target: the machine or its name (default: this one).
        database: the record store: its file, the name of one (`folder:records`), or a `Store` (`mslang.tune.stores`).
        resume: go on with the last run of the space, with its seed, strategy, cost model and features.
        strategy: chooses the candidates: a name, or a function from a `Problem` (`mslang.search.strategy`).
        cost_model: ranks them: a name, or a function of the features' names and a seed (`mslang.search.models.model`;
            default: XGBoost where it is installed).
        features: what the cost model learns from (`mslang.search.features.extractor`; default: `"per-store"`).
        mutators: all that change candidates in evolutionary search (`mslang.search.mutators`; default: the built-in
            ones and those of allowed packages).
        cache: time with warm or cold caches (default: warm; on a GPU cold).
        listen: called with each event.
        callbacks: called with each event, after `listen`; an error in one is a warning (MS545).
        log: a folder in which a log of each search is kept.
        allow_native: that of `build`.
        backend: that of `build`; worker processes import its functions.
        builder: compiles candidates in worker processes (default: the back end; `mslang.tune.builder`).
        runner: verifies and times them there (default: wall time; `mslang.tune.runner`).

    A strategy, a cost model, features, a builder and a runner of one's own are given as a value, or by name where a
    package that `ms.allowing` allows declares them. What the strategy does not use must not be given: a strategy says
    by its attribute `uses` that it uses the models or the mutators (`mslang.search.strategy`).

    Raises:
        MsError: there is nothing to tune, or the search cannot begin.

    >>> tune("gemm")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mslang.diagnostics.MsError: error[MS706]: `ms.tune` takes a space or a program, not 'gemm'...
    """
    from mslang.tune.budget import Budget
    from mslang.tune.result import Tuned
    from mslang.tune.task import Task
    from mslang.tune.tasks import default_of, over_whole_range
    from mslang.tune.tune import tune as run

    made_by, machine = compiler_of(backend, target)
    require_numbers("tune", trials=trials, patience=patience, workers=workers)
    require_seconds("tune", seconds)
    require_store("tune", database)
    settings = settings_of("tune", seed, strategy, cost_model, features, mutators, cache)
    compiles, measures = workers_of("tune", builder, runner)
    called = callbacks_of("tune", callbacks, log)
    searched = space_in(space, machine)
    task = Task(
        searched.program,
        searched,
        machine,
        "python",
        allow_native=allow_native,
        backend=made_by,
        builder=compiles,
        runner=measures,
    )
    task = over_whole_range(task)
    # What the program would get without tuning is timed along with the best, so that tuning gives nothing slower.
    beside = None if isinstance(space, Space) else default_of(task)
    done = run(
        task,
        replace(settings, budget=Budget(trials, seconds, patience)),
        database=database,
        workers=workers,
        resume=resume,
        incumbent=beside,
        listen=listen,
        callbacks=called,
    )
    return Tuned(task, done)


def tune_all(
    items: Mapping[str, Space | Program | Source],
    *,
    weights: Mapping[str, float] = NO_WEIGHTS,
    likely: Sequence[tuple[Mapping[str, int], int]] = (),
    scheduler: TaskScheduler | str = "gradient",
    trials: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    target: Target | str | None = None,
    database: Store | str | os.PathLike[str] = ".mslang/records.db",
    resume: bool = False,
    strategy: StrategyFactory | str = "auto",
    cost_model: ModelFactory | str | None = None,
    features: Extractor | str | None = None,
    mutators: Iterable[Mutator] | None = None,
    cache: Literal["warm", "cold"] | None = None,
    listen: Callable[[Event], None] = lambda _: None,
    callbacks: Iterable[Callback] = (),
    log: str | os.PathLike[str] | None = None,
    allow_native: bool = False,
    backend: BackEnd[Any] | str | None = None,
    builder: Builder | str | None = None,
    runner: Runner | str | None = None,
) -> dict[str, Tuned]:
    """Tune several programs with one budget; see `mslang.tune.tune.tune_all`.

    Args:
        items: what to tune, by name: what `ms.tune` takes. A program with dynamic sizes is a task for each bucket of
            their range, called `name[M = 17..32]`.
        likely: values of dynamic sizes that calls are likely to have, each with how often, relative to the others:
            buckets without any are skipped (default: all buckets, at their least, middle and greatest sizes).
        weights: how much a second of each counts (default 1), for the task scheduler.
        scheduler: what shares the trials among the tasks, or its name: `"gradient"`, `"round-robin"`.
        trials: candidates to try in all (default: 64 for each).
        patience: a task is over after so many candidates without a faster one.
        resume: go on with the last run of each.

    The other arguments are those of `ms.tune`. Returns what was found, by name.

    Raises:
        MsError: there is nothing to tune, or one of them cannot be tuned; the others were, and are on record.

    >>> tune_all({})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mslang.diagnostics.MsError: error[MS706]: `ms.tune_all` was given nothing to tune...
    """
    from mslang.tune.budget import Budget
    from mslang.tune.result import Tuned
    from mslang.tune.session import Item
    from mslang.tune.task import Task
    from mslang.tune.task_scheduler import TaskScheduler, scheduler_named
    from mslang.tune.tasks import by_bucket, default_of, over_whole_range
    from mslang.tune.tune import tune_all as run

    if not isinstance(items, Mapping):
        raise misused("tune_all", items, "programs and spaces by name, as `{'a': program}`")
    if not items:
        raise MsError(problem("MS706", "`ms.tune_all` was given nothing to tune", help="name a program or a space"))
    require_numbers("tune_all", trials=trials, patience=patience, workers=workers)
    require_seconds("tune_all", seconds)
    require_store("tune_all", database)
    settings = settings_of("tune_all", seed, strategy, cost_model, features, mutators, cache)
    compiles, measures = workers_of("tune_all", builder, runner)
    called = callbacks_of("tune_all", callbacks, log)
    shared = named_or_own("tune_all", "scheduler", scheduler, scheduler_named, TaskScheduler, "a task scheduler")
    require_lists("tune_all", likely=likely)
    instances = [likely_instance(x) for x in likely]
    require_weights(weights, items)
    made_by, machine = compiler_of(backend, target)
    made: list[Item] = []
    buckets = 0
    for name, what in items.items():
        space = space_in(what, machine)
        whole = Task(
            space.program,
            space,
            machine,
            "python",
            allow_native=allow_native,
            backend=made_by,
            builder=compiles,
            runner=measures,
        )
        parts: Iterable[tuple[Task, Bucket | None]] = [(over_whole_range(whole), None)]
        if not isinstance(what, Space):
            parts = by_bucket(whole, instances, lambda p: automatic_space(p, machine))
        for task, bucket in parts:
            buckets += bucket is not None
            own = name if bucket is None else f"{name}[{bucket.text}]"
            weight = weights.get(name, 1.0) * (1 if bucket is None else sum(i.weight for i in task.instances))
            made.append(Item(own, task, weight=weight, incumbent=None if isinstance(what, Space) else default_of(task)))
    if instances and not buckets:
        why = "it goes with programs that have sizes known only at the call"
        said = f"`likely` of `ms.tune_all` has {brief(repr(likely[0]))}"
        raise MsError(problem("MS706", said, why=why))
    found = run(
        made,
        replace(settings, budget=Budget(64 * len(made) if trials is None else trials, seconds, patience)),
        database=database,
        scheduler=shared,
        workers=workers,
        resume=resume,
        listen=listen,
        callbacks=called,
    )
    for done in found:
        if isinstance(done, MsError):
            raise done
    return {item.name: Tuned(item.task, done) for item, done in zip(made, found) if not isinstance(done, MsError)}
