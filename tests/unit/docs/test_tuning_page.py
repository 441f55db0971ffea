"""docs/tuning.md: the fields of JSON lines are those that are printed."""

import re
from collections import Counter
from pathlib import Path

from mslang.diagnostics import problem
from mslang.tune.event_json import as_builtins
from mslang.tune.progress import (
    Confirming,
    Ended,
    Event,
    Failed,
    Finished,
    Generation,
    Planned,
    PlannedTask,
    Preparing,
    Sketched,
    Started,
    Tally,
    Trial,
    Warned,
)
from mslang.tune.record import Outcome, Record, Result

PAGE = Path(__file__).parents[3] / "docs" / "tuning.md"

RECORD = Record("w", "p", "host", "cpu", "llvm", "c", "", "", "{}", Result(Outcome.CRASH, "why"), "r", 0, 0, "0.1.0")

EVENTS: tuple[Event, ...] = (
    Planned((PlannedTask("p", "p", "s", "f", "host"),), "Gradient", 1, None, "r.db"),
    Preparing("p"),
    Started("p", "s", "host", "r", "r.db", 1),
    Sketched(0, ""),
    Trial(RECORD, False),
    Generation(0, 1),
    Confirming("done", 1),
    Finished("done", Tally(Counter()), None, 1.0),
    Ended(1.0),
)


def documented() -> dict[str, str]:
    rows = re.findall(
        r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text().partition("### JSON lines")[2].partition("###")[0], re.M
    )
    return dict(rows)


def test_every_kind_and_every_field_is_documented() -> None:
    told = documented()
    for event in EVENTS:
        made = as_builtins(event)
        text = told[made.pop("kind")]
        plain = re.sub(r"\([^)]*\)", "", text)
        assert set(re.findall(r"`(\w+)`", plain)) == set(made), event
    assert set(told) == {as_builtins(e)["kind"] for e in EVENTS} | {"diagnostic"}


def test_the_fields_of_a_task_are_documented() -> None:
    [task] = as_builtins(EVENTS[0])["tasks"]
    inner = re.search(r"\(each: ([^)]*)\)", documented()["planned"])
    assert inner is not None and set(re.findall(r"`(\w+)`", inner[1])) == set(task)


def test_warnings_and_failures_are_diagnostics() -> None:
    for event in (Warned(problem("MS545", "m")), Failed(problem("MS502", "m"), "p")):
        made = as_builtins(event)
        assert (
            made["kind"] == "diagnostic" and made["task"] == event.task and {"code", "message", "severity"} <= set(made)
        )
