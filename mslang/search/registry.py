"""Strategies by name: the built-in ones, and those of installed packages that were allowed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from mslang.diagnostics import MsError, problem
from mslang.extensions import allowed, declared, load
from mslang.search.evolutionary import Evolutionary
from mslang.search.exhaustive import POINTS, Exhaustive
from mslang.search.leaves import Leaves
from mslang.search.ranking import NO_MODELS, Models
from mslang.search.replay_schedule import ReplaySchedule
from mslang.search.replay_trace import ReplayTrace
from mslang.search.strategy import Factory, Problem, Rejections, Strategy
from mslang.suggestions import did_you_mean

SMALL = 4
"""A space of at most so many points for each trial is searched exhaustively."""

GROUP = "mslang.strategies"
"""The entry points that name a user's own strategies: each a function from a `Problem` to a `Strategy`."""

AUTO = "auto"
"""The strategy that is chosen by the size of the space."""

RANKING = (AUTO, "evolutionary", "exhaustive")
"""The strategies that rank candidates by the cost model; those of packages are given the problem alone."""


def strategies(models: Models) -> Mapping[str, Factory]:
    """The built-in strategies, which rank candidates by some models."""
    return MappingProxyType(
        {
            AUTO: lambda problem: automatic(problem, models),
            "evolutionary": lambda problem: Evolutionary(problem, models),
            "exhaustive": lambda problem: Exhaustive(problem, models),
            "replay_trace": ReplayTrace,
            "replay_schedule": ReplaySchedule,
        }
    )


def automatic(problem: Problem, models: Models) -> Strategy:
    """Exhaustive search where the space is small for the number of trials, otherwise evolutionary search."""
    leaves = Leaves(problem.space, problem.target, problem.seed, Rejections())
    most = POINTS if problem.trials is None else min(SMALL * problem.trials, POINTS)
    return (Exhaustive if _is_small(leaves, most) else Evolutionary)(problem, models, leaves)


def _is_small(leaves: Leaves, most: int) -> bool:
    """Whether all valid points are known to be at most so many."""
    if not leaves.complete or leaves.points is None or leaves.points > POINTS:
        return False
    return sum(leaf.valid_count or 0 for leaf in leaves.all()) <= most


def strategy_named(name: str, models: Models = NO_MODELS) -> Factory:
    """The strategy of a name.

    Raises:
        MsError: MS515, there is none; MS271, MS272, MS212 or MS213, it is that of a package and cannot be loaded.

    Example:
        >>> strategy_named("replay_trace").name
        'replay_trace'
    """
    built_in = strategies(models)
    if name in built_in:
        return built_in[name]
    if name in declared(GROUP):
        return cast(Factory, load(GROUP, name, allowed()))
    known = (*built_in, *declared(GROUP))
    raise MsError(
        problem(
            "MS515",
            f"unknown search strategy `{name}`",
            why=f"the strategies are {', '.join(known)}",
            help=did_you_mean(name, known),
        )
    )


def strategy_of(given: Factory | str, models: Models = NO_MODELS) -> Factory:
    """The strategy that is given, or that of a name; see `strategy_named`.

    Example:
        >>> strategy_of(ReplayTrace).name
        'replay_trace'
    """
    return strategy_named(given, models) if isinstance(given, str) else given
