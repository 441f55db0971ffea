"""The events of a replay, in order: enough to identify the structure it leads to."""

from __future__ import annotations

import msgspec

from mslang.schedule.decisions import Constraint, Decision, Question, Structural
from mslang.schedule.instruction import Label


class Chosen(msgspec.Struct, frozen=True):
    """A structural decision and its outcome; `implied` where that follows from a trace's source: from the schedule `s`
    for the union `s | r`."""

    choice: Structural
    label: Label
    implied: bool = False


class Branched(msgspec.Struct, frozen=True):
    """A question and its answer."""

    question: Question
    answer: bool


Event = Decision | Chosen | Branched | Constraint
"""The events of a replay, in order: numbers and constraints, and the answers that determine its structure."""
