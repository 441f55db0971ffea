"""Strategies by name: the built-in ones, and those of installed packages that were allowed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

from mslang.diagnostics import MsError, problem
from mslang.extensions import Function, allowed, declared, load
from mslang.search.evolutionary import Evolutionary
from mslang.search.exhaustive import POINTS, Exhaustive
from mslang.search.leaves import Leaves
from mslang.search.replay_schedule import ReplaySchedule
from mslang.search.replay_trace import ReplayTrace
from mslang.search.strategy import MODELS, MUTATORS, Factory, Problem, Rejections, Strategy, uses
from mslang.suggestions import did_you_mean

SMALL = 4
"""A space of at most so many points for each trial is searched exhaustively."""

GROUP = "mslang.strategies"
"""The entry points that name a user's own strategies: each a function from a `Problem` to a `Strategy`."""

AUTO = "auto"
"""The strategy that is chosen by the size of the space."""


class Automatic:
    """Exhaustive search where the space is small for the number of trials, otherwise evolutionary search."""

    uses = Evolutionary.uses

    def __call__(self, problem: Problem) -> Strategy:
        """The strategy for a problem."""
        leaves = Leaves(problem.space, problem.target, problem.seed, Rejections())
        most = POINTS if problem.trials is None else min(SMALL * problem.trials, POINTS)
        return (Exhaustive if _is_small(leaves, most) else Evolutionary)(problem, leaves)


STRATEGIES: Mapping[str, Factory] = MappingProxyType(
    {
        AUTO: Automatic(),
        "evolutionary": Evolutionary,
        "exhaustive": Exhaustive,
        "replay_trace": ReplayTrace,
        "replay_schedule": ReplaySchedule,
    }
)
"""The built-in strategies."""


def _is_small(leaves: Leaves, most: int) -> bool:
    """Whether all valid points are known to be at most so many."""
    if not leaves.complete or leaves.points is None or leaves.points > POINTS:
        return False
    return sum(leaf.valid_count or 0 for leaf in leaves.all()) <= most


def strategy_named(name: str) -> Factory:
    """The strategy of a name.

    Raises:
        MsError: MS515, there is none; MS271, MS272, MS212 or MS213, it is that of a package and cannot be loaded.

    Example:
        >>> strategy_named("replay_trace").name
        'replay_trace'
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    if name in declared(GROUP):
        return cast(Factory, load(GROUP, name, allowed(), Function))
    known = (*STRATEGIES, *declared(GROUP))
    raise MsError(
        problem(
            "MS515",
            f"unknown search strategy `{name}`",
            why=f"the strategies are {', '.join(known)}",
            help=did_you_mean(name, known),
        )
    )


def strategy_of(given: Factory | str) -> Factory:
    """The strategy that is given, or that of a name; see `strategy_named`.

    Example:
        >>> strategy_of(ReplayTrace).name
        'replay_trace'
    """
    return strategy_named(given) if isinstance(given, str) else given


class Unused(NamedTuple):
    """Why what was asked of a search would have no effect, and what to do."""

    why: str
    help: str


def unused(strategy: Factory | str, what: str) -> Unused | None:
    """Why a strategy uses no `models`, or no `mutators`; None if it does.

    Raises:
        MsError: as `strategy_named`.

    >>> print(unused("replay_trace", MODELS).why)
    the strategy `replay_trace` does not rank candidates
    >>> unused("auto", MUTATORS) is None
    True
    """
    make = strategy_of(strategy)
    if uses(make, what):
        return None
    name = strategy if isinstance(strategy, str) else getattr(make, "name", getattr(make, "__name__", "strategy"))
    does = {MODELS: "rank candidates", MUTATORS: "mutate candidates"}[what]
    *able, last = (f"`{n}`" for n, known in STRATEGIES.items() if uses(known, what))
    help = f"leave it out, or search with {', '.join(able)} or {last}"
    if make not in STRATEGIES.values():
        return Unused(
            f"the strategy `{name}` does not say that it can {does}",
            f'{help}; a strategy of your own that uses the problem\'s {what} has `uses = ("{what}",)`',
        )
    return Unused(f"the strategy `{name}` does not {does}", help)
