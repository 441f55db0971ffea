"""What a row must satisfy beyond its types before it comes into a record store: numbers that the store can keep, times
that can be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from mslang.runtime.timing import Timing
from mslang.target.machine import Machine
from mslang.tune.record import Record, Run, Workload

LARGEST = 2**63 - 1
"""The largest number that a column keeps; the smallest is its negative."""

MOST_RECORDS = 10_000_000
"""The largest number of a record: a store counts them from 1 on, and keeps each number that is left out."""


def require_valid(row: Machine | Workload | Run | Record) -> None:
    """Refuse what would damage a store, or the order of its records.

    Raises:
        ValueError: why.
    """
    for name, number in _numbers(msgspec.to_builtins(row)):
        if isinstance(number, int) and abs(number) > LARGEST:
            raise ValueError(f"`{name}` is a number beyond 64 bits")
        if not math.isfinite(number):
            raise ValueError(f"`{name}` is {number}, which is not finite")
    if isinstance(row, Record):
        _require_valid_record(row)


def _require_valid_record(record: Record) -> None:
    if record.id is not None and not 1 <= record.id <= MOST_RECORDS:
        raise ValueError(f"`id` is {record.id}: records are numbered from 1 to {MOST_RECORDS}")
    try:
        msgspec.json.decode(record.decisions, type=dict)
    except msgspec.MsgspecError:
        raise ValueError("`decisions` is not the text of a JSON object") from None
    if record.result.timing is not None:
        _require_valid_timing(record.result.timing)


def _require_valid_timing(timing: Timing) -> None:
    if not timing.samples:
        raise ValueError("`samples` is empty: a time has one at least")
    positive: list[tuple[str, float | None]] = [("samples", s) for s in timing.samples]
    positive += [("runs", timing.runs), ("yardstick", timing.yardstick), ("core", timing.core)]
    positive += [("alone", timing.alone)]
    for name, number in positive:
        if number is not None and number <= 0:
            raise ValueError(f"`{name}` has {number:g}, which is not positive")


def _numbers(value: object, name: str = "") -> Iterator[tuple[str, int | float]]:
    """The numbers in a value, with the name of the field that each is in."""
    match value:
        case bool():
            return
        case int() | float():
            yield name, value
        case dict():
            for key, each in value.items():
                yield from _numbers(each, str(key))
        case list() | tuple():
            for each in value:
                yield from _numbers(each, name)
