"""Schedules: their execution, their traces, and the spaces that they span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mslang.schedule.replay import replay, space_of_text
    from mslang.schedule.schedule import Schedule
    from mslang.schedule.sketch import Sketch
    from mslang.schedule.space import Candidate, Space
    from mslang.schedule.strategies import space_of
    from mslang.schedule.trace import Trace

_HOMES = {
    "Candidate": "space",
    "Schedule": "schedule",
    "Sketch": "sketch",
    "Space": "space",
    "Trace": "trace",
    "replay": "replay",
    "space_of": "strategies",
    "space_of_text": "replay",
}


def __getattr__(name: str) -> Any:
    """The public names, loaded on first use."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"mslang.schedule.{_HOMES[name]}"), name)


__all__ = ["Candidate", "Schedule", "Sketch", "Space", "Trace", "replay", "space_of", "space_of_text"]
