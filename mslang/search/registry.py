"""Strategies by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mslang.diagnostics import MsError, problem
from mslang.search.replay_trace import ReplayTrace
from mslang.search.strategy import Factory
from mslang.suggestions import did_you_mean

STRATEGIES: Mapping[str, Factory] = MappingProxyType({"replay_trace": ReplayTrace})
"""The built-in strategies."""


def strategy_named(name: str) -> Factory:
    """The strategy of a name.

    Raises:
        MsError: MS515, there is none.

    Example:
        >>> strategy_named("replay_trace").name
        'replay_trace'
    """
    found = STRATEGIES.get(name)
    if found is None:
        raise MsError(
            problem(
                "MS515",
                f"unknown search strategy `{name}`",
                why=f"the strategies are {', '.join(STRATEGIES)}",
                help=did_you_mean(name, STRATEGIES),
            )
        )
    return found
