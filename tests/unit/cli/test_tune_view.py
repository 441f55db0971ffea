"""What a search tells a person: a pipe gets plain lines, a program gets JSON, the summary fits a narrow terminal."""

import io
import json
import math
from collections import Counter

import msgspec
import pytest
from rich.console import Console

from mslang.cli.views.board import Board
from mslang.cli.views.choose import view_for
from mslang.cli.views.live import LiveTable
from mslang.cli.views.summary import overview, summary
from mslang.diagnostics import problem
from mslang.runtime.timing import Timing
from mslang.tune.comparison import Gap
from mslang.tune.progress import (
    Confirming,
    Event,
    Failed,
    Finished,
    Generation,
    Planned,
    PlannedTask,
    Preparing,
    Started,
    Tally,
    Trial,
    Warned,
)
from mslang.tune.record import Outcome, Record, Result, Verification
from mslang.tune.scale import Scale

SCALE = Scale(2_000_000, 100e9)
LONG = "on sparse integers C[0, 3] is 4 instead of 5 (12 of 1024 elements differ), which is a rather long reason " * 3


def record(trial: int, seconds: float | None, outcome: Outcome = Outcome.MEASURED) -> Record:
    timing = None if seconds is None else Timing((seconds, seconds * 1.01, seconds * 0.99), 3)
    result = Result(outcome, "" if timing else "too odd", timing, (Verification("sparse integers", 0.0),))
    return Record(
        "w",
        "gemm",
        "host",
        "cpu × 2",
        "llvm",
        f"c{trial}",
        "schedule gemm_best …\n",
        "",
        "{}",
        result,
        "r",
        trial,
        0,
        "0.1.0",
        id=trial + 1,
    )


def finished(best: Record | None, confirmed: bool = True) -> Finished:
    whys = {LONG: 3, **{f"why {k}": 1 for k in range(4)}}
    tally = Tally(
        Counter({Outcome.MEASURED: 5, Outcome.WRONG_RESULT: 7, Outcome.DUPLICATE: 2}),
        Counter({(Outcome.WRONG_RESULT, why): n for why, n in whys.items()}),
    )
    return Finished("12 trials done", tally, best, 3.21, confirmed=confirmed)


EVENTS: tuple[Event, ...] = (
    Preparing("gemm", task="gemm"),
    Started("gemm", "tiled", "host", "run1", "r.db", 12, task="gemm"),
    Trial(record(0, 2e-3), True, task="gemm"),
    Trial(record(1, None, Outcome.CRASH), False, task="gemm"),
    Trial(record(2, 1e-3), True, task="gemm"),
    Confirming("12 trials done", 2, task="gemm"),
    finished(record(2, 1e-3)),
)


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with view_for({"gemm": SCALE}) as view:
        for event in EVENTS:
            view(event)
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert told.out == "" and "\x1b" not in told.err
    assert lines[1] == "tuning gemm in tiled for host (run run1)"
    assert lines[2].startswith("* trial 1/12  best 2 ms  1 GFLOP/s, 1 % of peak  (") and "s to go)" in lines[2]
    assert lines[3].startswith("* trial 3/12  best 1 ms  2 GFLOP/s, 2 % of peak  (")
    assert lines[4] == "12 trials done; measuring the best again"


def test_json_tells_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    with view_for({"gemm": SCALE}, as_json=True) as view:
        for event in EVENTS:
            view(event)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [t["kind"] for t in told] == ["preparing", "started", "trial", "trial", "trial", "confirming", "finished"]
    assert told[3]["outcome"] == "crash" and told[3]["reason"] == "too odd" and told[3]["seconds"] is None
    assert told[-1]["outcomes"]["wrong result"] == 7 and told[-1]["best"]["id"] == 3
    assert {"outcome": "wrong result", "reason": LONG, "count": 3} in told[-1]["reasons"]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_summary_fits(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = summary(finished(record(2, 1e-3)), SCALE, "r.db", ["gemm.ms:gemm_best"])
    table = text.split("best  ")[0].splitlines()
    assert max(map(len, table)) <= min(max(columns, 60), 120)
    for word in (
        "3 × on sparse",
        "1 × why 3",
        "2 × for 2 other reasons",
        "2 GFLOP/s, 2 % of peak",
        "gemm.ms:gemm_best",
        "100 GFLOP/s (f32), the most seen",
        "3 in r.db",
    ):
        assert word in " ".join(text.split()), word


def tied(*gaps: Gap) -> Finished:
    ties = tuple(record(5 + k, 1e-3) for k in range(len(gaps)))
    return msgspec.structs.replace(finished(record(2, 1e-3)), ties=ties, gaps=gaps)


def test_ties_are_shown_with_their_intervals() -> None:
    lines = summary(tied(Gap(1.012, 0.02)), SCALE, "r.db").splitlines()
    assert "tied      within the noise of it, timed in turn: record 6 (+1.2 ± 2.0 %)" in lines
    assert next(x for x in lines if x.startswith("best")).startswith("best      1 ms ± ")


def test_a_single_sample_has_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    one = record(2, 1e-3)
    one = msgspec.structs.replace(one, result=msgspec.structs.replace(one.result, timing=Timing((1e-3,), 1)))
    done = msgspec.structs.replace(tied(Gap(1.1, math.inf)), best=one)
    lines = summary(done, SCALE, "r.db").splitlines()
    assert "tied      perhaps: the noise of a single sample is not known: record 6 (+10.0 %)" in lines
    assert "±" not in next(x for x in lines if x.startswith("best"))
    with view_for({"gemm": SCALE}, as_json=True) as view:
        view(done)
    [tie] = json.loads(capsys.readouterr().out)["ties"]
    assert tie["ratio"] == 1.1 and tie["noise"] is None


def test_the_summary_of_a_search_without_a_trial_says_so() -> None:
    spent = Finished("the budget of 20 s is spent", Tally(), None, 16.0)
    assert summary(spent, SCALE, "r.db").splitlines() == [
        "the budget of 20 s is spent; 0 trials in 16.0 s",
        "no candidate was tried; a larger `--budget` leaves time for some",
    ]


def test_the_summary_says_what_was_not_done() -> None:
    assert summary(finished(None), SCALE, "r.db").endswith("nothing valid was found")
    text = summary(finished(record(2, 1e-3), confirmed=False), SCALE, "r.db")
    assert "not measured again" in text and text.endswith("schedule gemm_best …")


# ---------------------------------------------------------------- several tasks
class Clock:
    """A clock that goes on by a second for each look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def session(names: tuple[str, ...] = ("gemm", "a_very_long_name_of_a_convolution")) -> list[Event]:
    tasks = tuple(PlannedTask(n, n, "tiled", "f.ms", "host") for n in names)
    events: list[Event] = [Planned(tasks, "Gradient", 40, None, "r.db")]
    for name in names[:2]:
        events += [Preparing("gemm", task=name), Started("gemm", "tiled", "host", "r1", "r.db", 20, task=name)]
        events += [Trial(record(0, 2e-3), True, task=name), Trial(record(1, None, Outcome.CRASH), False, task=name)]
        events += [Generation(0, 2, 9, {"too large": 5, "too small": 2}, task=name)]
    return events


def test_the_board_keeps_the_score_of_each_task() -> None:
    board = Board({"gemm": SCALE}, Clock())
    for event in session():
        board.take(event)
    gemm = board.of("gemm")
    assert (gemm.trials, gemm.failed, gemm.rejected, gemm.time) == (2, 1, 7, "2 ms")
    assert (gemm.gflops, gemm.share) == ("1", "1 %") and board.trials == 4
    other = board.of("a_very_long_name_of_a_convolution")
    assert (other.gflops, other.share, other.state) == ("", "", "searching")
    assert board.wanted == 40 and board.left is not None and board.left > 0
    board.take(Failed(problem("MS502", "no"), "gemm"))
    assert gemm.state == "failed"


def test_a_resumed_run_shows_its_best_until_there_is_a_better_one() -> None:
    board = Board({}, Clock())
    begun = Started("gemm", "tiled", "host", "r1", "r.db", 100, resumed=1, best=record(0, 2e-3), task="gemm")
    for event, time in (
        (begun, "2 ms"),
        (Trial(record(1, 3e-3), False, task="gemm"), "2 ms"),
        (Trial(record(2, 1e-3), True, task="gemm"), "1 ms"),
    ):
        board.take(event)
        assert board.of("gemm").time == time


def test_resumed_trials_do_not_count_as_fast_ones() -> None:
    board = Board({}, Clock())
    board.take(Started("gemm", "tiled", "host", "r1", "r.db", 100, resumed=90, task="gemm"))
    assert board.trials == 90 and board.rate == 0 and board.left is None


@pytest.mark.parametrize("width", [50, 80, 120])
def test_the_live_table_fits_the_terminal(width: int) -> None:
    console = Console(width=width, height=30, file=io.StringIO(), force_terminal=True, color_system=None)
    table = LiveTable({"gemm": SCALE}, Clock(), console)
    for event in session():
        table(event)
    with console.capture() as capture:
        console.print(table.render())
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    for word in ("gemm", "2 ms", "GFLOP/s", "peak   trials", "1 %        2", "4/40 trials", "to go"):
        assert word in text, word
    assert ("rejected" in text) == (width >= 72) and ("searching" in text) == (width >= 100)


def test_a_long_table_shows_the_task_at_hand() -> None:
    names = tuple(f"task{k}" for k in range(40))
    console = Console(width=100, height=20, file=io.StringIO())
    table = LiveTable({}, Clock(), console)
    for event in session(names):
        table(event)
    table(Preparing("p", task="task30"))
    with console.capture() as capture:
        console.print(table.render())
    text = capture.get()
    assert "task30" in text and "task0 " not in text and "… and 28 more" in text


def test_quiet_shows_diagnostics_only(capsys: pytest.CaptureFixture[str]) -> None:
    with view_for({}, quiet=True) as view:
        for event in (*session(), Warned(problem("MS545", "the callback failed"))):
            view(event)
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1 and "MS545" in told.err


def test_the_overview_has_a_line_for_each_task() -> None:
    text = overview([("gemm", finished(record(2, 1e-3)), SCALE), ("none", finished(None), SCALE)])
    lines = text.splitlines()
    assert len(lines) == 4 and lines[2].split()[:3] == ["gemm", "1", "ms"] and "nothing valid" in lines[3]
