"""What `ms.tune` and `ms.tune_all` are given of a search: strategy, cost model, features, mutators, builder, runner,
callbacks.

Each is known by name, or is a value of the user's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from mslang.api.arguments import require_lists, require_seed
from mslang.brevity import brief
from mslang.diagnostics import MsError, problem

if TYPE_CHECKING:
    from mslang.search.features.extractor import Extractor
    from mslang.search.models.registry import Factory as ModelFactory
    from mslang.search.mutators import Mutator
    from mslang.search.strategy import Factory as StrategyFactory
    from mslang.tune.builder import Builder
    from mslang.tune.callbacks import Callback
    from mslang.tune.runner import Runner
    from mslang.tune.task import Settings

_T = TypeVar("_T")


def settings_of(
    verb: str,
    seed: int,
    strategy: StrategyFactory | str,
    cost_model: ModelFactory | str | None,
    features: Extractor | str | None,
    mutators: Iterable[Mutator] | None,
    cache: Literal["warm", "cold"] | None,
) -> Settings:
    """The settings of a search without a budget.

    Raises:
        MsError: MS706, one of them is something else, or the strategy does not use it; MS515, MS525, MS271, there is
            none of this name; MS272, its package is not allowed; MS212 or MS213, it cannot be loaded.
    """
    from msgspec.structs import replace

    from mslang.search.features.extractor import Extractor
    from mslang.search.features.registry import extractor_named
    from mslang.search.models.registry import model_named
    from mslang.search.registry import strategy_named, unused
    from mslang.search.strategy import MODELS, MUTATORS
    from mslang.tune.task import Settings

    require_seed(verb, seed)
    if isinstance(strategy, str):
        strategy_named(strategy)
    elif not callable(strategy):
        raise _refused(verb, "strategy", strategy, "the name of a strategy, or a function from a `Problem` to one")
    if isinstance(cost_model, str):
        model_named(cost_model)
    elif cost_model is not None and not callable(cost_model):
        wanted = "the name of a cost model, or a function of the features' names and a seed that makes one"
        raise _refused(verb, "cost_model", cost_model, wanted)
    named_or_own(verb, "features", features, extractor_named, Extractor, "an extractor of features")
    if cache not in ("warm", "cold", None):
        raise _refused(verb, "cache", cache, '"warm" or "cold", or None for what suits the target')
    own = _mutators_of(verb, mutators)
    for name, given, part in (
        ("cost_model", cost_model, MODELS),
        ("features", features, MODELS),
        ("mutators", own, MUTATORS),
    ):
        found = None if given is None else unused(strategy, part)
        if found is not None:
            said = f"`{name}` of `ms.{verb}` has no effect: {found.why}"
            raise MsError(problem("MS706", said, help=found.help))
    made = Settings(seed, strategy=strategy, cost_model=cost_model, features=features, mutators=own)
    return replace(made, limits=replace(made.limits, cache=cache))


def _mutators_of(verb: str, given: Iterable[Mutator] | None) -> tuple[Mutator, ...] | None:
    """The mutators of a search, each an object that has what `Mutator` asks for; None if none are given.

    Raises:
        MsError: MS706, they are no list, or one of them is something else.
    """
    from mslang.search.mutators import Mutator

    if given is None:
        return None
    require_lists(verb, mutators=given)
    found = tuple(given)
    for each in found:
        if isinstance(each, type) or not isinstance(each, Mutator):
            help = f"write `{each.__name__}()`" if isinstance(each, type) else None
            raise _refused(verb, "mutators", each, "objects with the methods of `mslang.search.mutators.Mutator`", help)
    return found


def workers_of(
    verb: str, builder: Builder | str | None, runner: Runner | str | None
) -> tuple[Builder | None, Runner | None]:
    """What compiles the candidates of a search, and what measures them.

    Raises:
        MsError: MS706, one of them is something else; MS271, there is none of this name; MS272, its package is not
            allowed; MS212 or MS213, it cannot be loaded.
    """
    from mslang.tune.builder import Builder, builder_named
    from mslang.tune.runner import Runner, runner_named

    return (
        named_or_own(verb, "builder", builder, builder_named, Builder, "a builder"),
        named_or_own(verb, "runner", runner, runner_named, Runner, "a runner"),
    )


def callbacks_of(
    verb: str, callbacks: Iterable[Callback], log: str | os.PathLike[str] | None
) -> list[tuple[str, Callback]]:
    """What is called with each event, by name: the callbacks, and what keeps a log.

    Raises:
        MsError: MS706, the callbacks are no list.
    """
    from mslang.tune.log_folder import LogFolder

    require_lists(verb, callbacks=callbacks)
    named = [(getattr(each, "__name__", type(each).__name__), each) for each in callbacks]
    return [*named, *([] if log is None else [("log folder", LogFolder(Path(log)))])]


def named_or_own(
    verb: str, name: str, given: _T | str | None, load: Callable[[str], _T], kind: type, wanted: str
) -> _T | None:
    """A value of the user's own, or that of a name; None where nothing is given.

    Args:
        verb: the function that it is given to.
        name: the argument.
        given: what is given.
        load: gives the value of a name.
        kind: the protocol of values.
        wanted: what to call one.

    Raises:
        MsError: MS706, it is neither; what `load` raises.
    """
    if given is None:
        return None
    if isinstance(given, str) and given:
        return load(given)
    if isinstance(given, type) and isinstance(given, kind):
        # A class has the methods, too, but nothing to call them on.
        raise _refused(verb, name, given, wanted, help=f"write `{name}={given.__name__}()`")
    if not isinstance(given, str) and isinstance(given, kind):
        return given
    raise _refused(verb, name, given, f"{wanted} or the name of one")


def _refused(verb: str, name: str, given: object, wanted: str, help: str | None = None) -> MsError:
    return MsError(
        problem("MS706", f"`{name}` of `ms.{verb}` is {brief(repr(given))}", why=f"it is {wanted}", help=help)
    )
