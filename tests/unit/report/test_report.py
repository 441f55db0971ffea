"""The report: what explains times, charts that are well-formed, text that is escaped, runs that are found."""

import json
import math
import os
import random
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from mslang.cli.main import main
from mslang.diagnostics import MsError
from mslang.ir.print import print_program
from mslang.report.chart import Axis, Series, chart, key
from mslang.report.figures import best_so_far, predicted
from mslang.report.gather import gather
from mslang.report.highlight import highlighted
from mslang.report.importance import flat, importance
from mslang.report.page import page
from mslang.report.rated import Roof
from mslang.runtime.timing import Timing
from mslang.sema.program import parse_program
from mslang.target.description import Target
from mslang.target.limits import MachineLimits
from mslang.target.machine import this_machine
from mslang.tune.database import Database
from mslang.tune.quality import rank_correlation
from mslang.tune.record import Outcome, Record, Result, Run, Verification, Workload

TEXT = "program p[N = 64](A: f32[N], out B: f32[N]) { block b[i: N] { B[i] = A[i] * 2.0 } }"


# ---------------------------------------------------------------- importance
def test_the_decision_that_makes_the_time_is_the_important_one() -> None:
    chance = random.Random(0)
    points = []
    for _ in range(400):
        decisions = {"tile": [chance.choice([1, 2, 4]), chance.choice([8, 16])], "idle": chance.randrange(5)}
        points.append((decisions, 2.0 ** decisions["tile"][0] * math.exp(chance.gauss(0, 0.01))))
    found = dict(importance(points))
    assert found["tile[0]"] > 0.99 and found["tile[1]"] < 0.02 and found["idle"] < 0.03


def test_two_independent_decisions_share_what_they_explain() -> None:
    points = [({"a": a, "b": b}, math.exp(a + b)) for a in (0, 1) for b in (0, 1) for _ in range(50)]
    assert dict(importance(points)) == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.01)


def test_what_is_different_everywhere_or_nowhere_explains_nothing() -> None:
    points = [({"each": k, "same": 1}, 1.0 + k) for k in range(20)]
    assert importance(points) == [] and importance(points[:3]) == []


def test_each_factor_of_a_tile_is_a_decision() -> None:
    assert dict(flat({"t": [4, 8], "pack": "none"})) == {"t[0]": "4", "t[1]": "8", "pack": "none"}


# ---------------------------------------------------------------- pieces
def test_whole_numbers_have_whole_ticks_and_given_ends_hold() -> None:
    assert Axis("trials", str, whole=True).ticks(0, 2) == [0.0, 1.0, 2.0]
    assert Axis("seconds", str).ticks(0, 2) != [0.0, 1.0, 2.0]
    made = chart([Series([(1, 0.5), (2, 0.6)], "dot")], Axis("x", str), Axis("y", "{:g}".format, ends=(-1.0, 1.0)), "t")
    assert ">-1<" in made and ">1<" in made


@pytest.mark.parametrize(("least", "most"), [(3.0e-5, 3.1e-5), (2.5e-3, 2.6e-3), (1e-6, 1.01e-6), (7.0, 7.0)])
def test_times_that_are_close_together_have_numbers_on_their_axis(least: float, most: float) -> None:
    axis = Axis("time", str, log=True)
    assert len(axis.ticks(least / 1.2, most * 1.2)) >= 2
    assert all(least / 1.2 <= t <= most * 1.2 for t in axis.ticks(least / 1.2, most * 1.2))


def test_negative_values_stand_inside_the_box() -> None:
    axis = Axis("x", str)
    made = ElementTree.fromstring(chart([Series([(-9, -2), (-8, -1)], "dot")], axis, axis, "t"))
    assert all(64 <= float(c.attrib["cx"]) <= 426 for c in made if c.tag == "circle")


def test_what_lies_beyond_the_ends_stands_at_the_edge() -> None:
    axis = Axis("x", str, log=True, ends=(1.0, 10.0))
    made = ElementTree.fromstring(chart([Series([(5, 10), (5, 1000), (5, 1), (5, 0)], "dot")], axis, axis, "t"))
    heights = [c.attrib["cy"] for c in made if c.tag == "circle"]
    assert heights[0] == heights[1] and heights[2] == heights[3] != heights[0]


@pytest.mark.parametrize(("high", "numbers"), [(10.0, [1, 2, 5, 10]), (500.0, [1, 3, 10, 30, 100, 300])])
def test_numbers_of_a_logarithmic_axis(high: float, numbers: list[float]) -> None:
    assert Axis("x", str, log=True).ticks(1.0, high) == numbers


def test_numbers_of_the_horizontal_axis_do_not_overlap_or_leave_the_chart() -> None:
    x = Axis("x", lambda v: f"{v:.1f} ms", log=True, ends=(0.5, 1.44))
    made = ElementTree.fromstring(chart([Series([(0.5, 1), (1.4, 2)], "dot")], x, Axis("y", str), "t"))
    centers = [float(e.attrib["x"]) for e in made if e.text is not None and e.text.endswith("ms")]
    assert len(centers) < len(x.ticks(0.5, 1.44)) == len([e for e in made if e.attrib.get("x1") not in (None, "64")])
    assert all(b - a > 50 for a, b in pairwise(centers)) and centers[-1] < 416


def test_marks_say_what_they_are() -> None:
    axis = Axis("x", str)
    tips = ["trial 1: <fast>", "trial 2"]
    for form, tag in (("dot", "circle"), ("triangle", "path"), ("cross", "path")):
        made = ElementTree.fromstring(chart([Series([(1, 1), (2, 2)], "s", form, tips=tips)], axis, axis, "t"))  # type: ignore[arg-type]
        marks = [e for e in made if e.tag == tag and e.attrib["class"] == "s"]
        assert [m.findtext("title") for m in marks] == tips
        assert key("s", form).count("<title") == 0  # type: ignore[arg-type]


def test_rank_correlation_needs_five_pairs_and_shares_ranks() -> None:
    assert rank_correlation([(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]) is None
    assert rank_correlation([(float(k), -float(k)) for k in range(5)]) == pytest.approx(-1.0)
    assert rank_correlation([(0.0, 0.0), (0.0, 1.0), (1.0, 2.0), (1.0, 3.0), (2.0, 4.0)]) == pytest.approx(0.948683)


@pytest.mark.parametrize("log", [False, True])
def test_charts_are_well_formed_and_inside_their_box(log: bool) -> None:
    axis = Axis("a < b & c", str, log)
    made = chart([Series([(1, 1), (5, 90), (7, 3)], "best", "step", "x<y"), Series([(2, 2)], "dot")], axis, axis, '"t"')
    svg = ElementTree.fromstring(made)
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    circles = [e for e in svg if e.tag == "circle"]
    assert len(circles) == 1
    assert all(0 <= float(c.attrib["cx"]) <= width and 0 <= float(c.attrib["cy"]) <= height for c in circles)
    assert len([e for e in svg if e.attrib.get("class") == "grid"]) >= 4


def test_a_chart_of_nothing_or_of_one_point() -> None:
    axis = Axis("", str)
    assert chart([Series([], "dot")], axis, axis, "t") == ""
    ElementTree.fromstring(chart([Series([(0.0, 0.0)], "dot")], axis, axis, "t"))


def test_highlighting_keeps_the_text_and_escapes_it() -> None:
    text = 'schedule s for p { # <b>\n    require 1 <= 2, "a & b"\n}\n'

    class Plain(HTMLParser):
        text = ""

        def handle_data(self, data: str) -> None:
            self.text += data

    marked, plain = highlighted(text), Plain()
    plain.feed(marked)
    assert plain.text == text and '<span class="k">schedule</span>' in marked and "<b>" not in marked


# ---------------------------------------------------------------- the page
def record(run: str, trial: int, seconds: float | None, **more: object) -> Record:
    timing = None if seconds is None else Timing((seconds, seconds, seconds), 3)
    outcome = Outcome.CRASH if seconds is None else Outcome.MEASURED
    result = Result(
        outcome, "" if timing else "ended <by> & signal", timing, (Verification("dense", 0.0),), {"time": 0.5}
    )
    w = workload()
    return Record(
        workload=w.hash,
        program="p",
        target="host",
        device="cpu × 2",
        compiler="llvm",
        candidate=f"c{trial}",
        schedule="schedule p_best for p {\n}\n",
        trace="schedule p_best for p {\n}\n",
        decisions=f'{{"a": {trial % 2}, "b<i>": [{trial % 3}, 1]}}',
        result=result,
        run=run,
        trial=trial,
        seed=0,
        version="0.1.0",
        machine="elsewhere",
    )


def workload() -> Workload:
    return Workload("w" * 64, "p", print_program(parse_program(TEXT)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "r.db") as db:
        db.add_workload(workload())
        for name in ("first", "second"):
            db.add_run(
                Run(
                    name,
                    "p.ms",
                    name,
                    "w" * 64,
                    "host",
                    0,
                    '{"budget":{"trials":20,"seconds":null}}',
                    source=workload().source,
                )
            )
            for trial in range(20):
                db.add(record(name, trial, None if trial == 3 else 1e-3 / (1 + trial % 2) + 1e-6 * trial))
        yield db


def test_the_page_shows_each_run_and_stands_alone(store: Database) -> None:
    found = gather(store)
    text = page(found, "r.db")
    assert text.count("<h2") == 2 and text.count("<svg") >= 4
    for piece in ("1 ×", "crash: ended &lt;by&gt; &amp; signal", "b&lt;i&gt;[0]", '<span class="k">schedule</span>'):
        assert piece in text, piece
    for outside in ("http", "<script", "src=", "@import", "url("):
        assert outside not in text
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text
    assert [p.best for p in found[0].points][-1] == found[0].best.cost  # type: ignore[union-attr]
    assert found[0].importance[0][0] == "a" and found[0].importance[0][1] > 0.9
    assert "The limits of the machine are not known here" in text
    assert ">20 trials</td>" in text


def luminance(color: str) -> float:
    """The relative luminance of `#rgb` or `#rrggbb`, as WCAG defines it."""
    digits = color[1:] if len(color) == 7 else "".join(2 * c for c in color[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """The contrast of two colors, 1 to 21."""
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out(store: Database, scheme: str) -> None:
    text = page(gather(store), "r.db")
    light, dark = re.findall(r":root {([^}]*)}", text)
    colors = dict(re.findall(r"--(\w+): (#\w+)", light if scheme == "light" else dark))
    assert len(colors) == 12
    for name in ("ink", "soft", "accent", "warm", "keyword", "number", "string"):
        assert min(contrast(colors[name], colors[ground]) for ground in ("paper", "panel")) >= 4.5, name
    for name in ("dot", "fail"):
        assert contrast(colors[name], colors["panel"]) >= 3.0, name


def test_slow_trials_do_not_hide_the_others(store: Database) -> None:
    store.add(record("first", 20, 1.0))
    cut = record("first", 21, 3e-3)
    store.add(replace(cut, result=replace(cut.result, outcome=Outcome.CUT_OFF)))
    (found,) = gather(store, "first")
    figure = best_so_far(found, by_time=False)
    svg = ElementTree.fromstring(figure.svg)
    marks = {c: [e for e in svg if e.attrib.get("class") == c] for c in ("dot", "slow", "fail")}
    assert {c: len(e) for c, e in marks.items()} == {"dot": 19, "slow": 2, "fail": 1}
    assert [m.findtext("title") for m in marks["slow"]] == ["trial 21: 1 s", "trial 22: cut off, at least 3 ms"]
    assert marks["fail"][0].findtext("title") == "trial 4: crash"
    heights = [float(m.attrib["cy"]) for m in marks["dot"]]
    assert max(heights) - min(heights) > 30
    assert [text for _, text in figure.legend] == ["trial", "at least this slow", "failed", "best so far"]


def test_the_schedule_before_is_what_the_best_is_compared_with(store: Database) -> None:
    assert "as fast as the schedule before" not in page(gather(store, "first"), "r.db")
    store.add(replace(record("first", -1, 1.5e-3), candidate="old"))
    (found,) = gather(store, "first")
    assert found.before is not None and found.before.cost == 1.5e-3
    text = page([found], "r.db")
    assert "<b>2.99 ×</b>" in text and "schedule before</li>" in text
    # One that is slower than what is shown leaves the axis as it is.
    store.add(replace(record("first", -1, 0.5), candidate="old"))
    assert "schedule before</li>" not in page(gather(store, "first"), "r.db")


def test_a_run_that_found_nothing_valid_has_a_page(store: Database) -> None:
    store.add_run(Run("third", "p.ms", "third", "w" * 64, "host", 0, "no arguments", source=workload().source))
    store.add(record("third", 0, None))
    text = page(gather(store, "third"), "r.db")
    assert "nothing valid" in text and "<svg viewBox" not in text
    assert "Why trials failed" in text and "Best schedule" not in text and "Machine and versions" in text


def test_decisions_stand_beside_their_values_in_the_best(store: Database) -> None:
    text = page(gather(store, "first"), "r.db")
    rows = re.findall(r'<td class="name">([^<]*)</td>.*?<td class="n value">([^<]*)</td>', text)
    assert dict(rows) == {"a": "1", "b&lt;i&gt;[0]": "1"}


def test_a_pinned_schedule_stands_beside_the_flat_one(store: Database) -> None:
    (found,) = gather(store, "first")
    assert found.best is not None and "Step by step" not in page([found], "r.db")
    pinned = replace(found.best, schedule="schedule p_best for p = s with { a = 1 }\n")
    text = page([replace(found, best=pinned)], "r.db")
    assert '<span class="k">with</span>' in text and "Step by step" in text


def test_several_runs_have_a_table_of_contents(store: Database) -> None:
    assert 'class="runs"' not in page(gather(store, "first"), "r.db")
    text = page(gather(store), "r.db")
    assert text.count('<a href="#') == 2 and 'href="#first"' in text and 'id="first"' in text


def test_a_run_without_a_date(store: Database) -> None:
    (found,) = gather(store, "first")
    dated = replace(found, run=replace(found.run, created="2026-01-01T10:00:00.000+02:00"))
    assert "2026-01-01 08:00 UTC" in page([dated], "r.db")
    assert "· once</p>" in page([replace(found, run=replace(found.run, created="once"))], "r.db")


def test_the_share_of_the_peak_is_of_that_at_the_speed_of_the_moment(store: Database) -> None:
    (found,) = gather(store, "first")
    assert found.best is not None and found.rated is not None and found.rated.operations == 64
    timing = Timing((1e-6,), 1, yardstick=1e8)
    best = replace(found.best, result=replace(found.best.result, timing=timing))
    rated = replace(found.rated, limits=Roof(256e6, 1e9), core=2e8)
    text = page([replace(found, best=best, rated=rated)], "r.db")
    assert "50 % of peak" in text and rated.scale.rate(timing) == "0.064 GFLOP/s, 50 % of peak"


def test_a_run_is_rated_by_what_its_target_can_do(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(target: Target | None = None, dtype: str = "f32", refresh: bool = False) -> MachineLimits:
        rate = 1e9 if target is not None and target.name == "avx2" else 2e9
        return MachineLimits(rate, rate, 1e9)

    for module in ("report.rated", "target.limits"):
        monkeypatch.setattr(f"mslang.{module}.measured_limits", limits)
    for target, peak in (("avx2", 1e9), ("host", 2e9), ("of_the_file", 2e9)):
        store.add_run(Run(target, "p.ms", target, "w" * 64, target, 0, "{}", machine=this_machine().key))
        store.add(record(target, 0, 1e-3))
        (found,) = gather(store, target)
        assert found.rated is not None and found.rated.limits is not None and found.rated.limits.peak == peak


def test_a_limit_of_memory_that_is_not_known_is_not_drawn(store: Database) -> None:
    (found,) = gather(store, "first")
    assert found.rated is not None
    known, unknown = (replace(found, rated=replace(found.rated, limits=Roof(256e6, b))) for b in (1e9, None))
    text = page([known], "r.db")
    assert "limits of the machine: 1 GB/s, 0.256 GFLOP/s" in text and "0.256 GFLOP/s (f32), memory 1 GB/s" in text
    text = page([unknown], "r.db")
    assert "limit of the machine: 0.256 GFLOP/s" in text and "GB/s" not in text


def test_a_run_without_records_leaves_the_one_before_it_in_the_report(store: Database) -> None:
    # It tried nothing, or only what was known.
    for space, name in (("second", "third"), ("other", "fourth")):
        store.add_run(Run(name, "p.ms", space, "w" * 64, "host", 0, "{}", source=workload().source))
    assert [f.run.id for f in gather(store)] == ["first", "second"]


def test_a_run_without_records_is_said_to_have_none(store: Database) -> None:
    store.add_run(Run("third", "p.ms", "second", "w" * 64, "host", 0, "{}", source=workload().source))
    with pytest.raises(MsError) as error:
        gather(store, "thi")
    assert error.value.diagnostic.code == "MS547"
    assert "third has no record of its own" in str(error.value.diagnostic.why)


def test_what_the_search_did_not_propose_is_none_of_its_outcomes(store: Database) -> None:
    default = replace(record("first", -1, 1e-4), decisions='{"other": 1}', candidate="default")
    store.add(default)
    # The best that the search proposed is timed with it once more, and counts once.
    store.add(record("first", 1, 6e-4))
    (found,) = gather(store, "first")
    assert found.outcomes == {"measured": 19, "crash": 1} and len(found.points) == 20
    assert "other" not in dict(found.importance)
    assert found.best is not None and found.best.candidate == "default"


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="names of files are text there")
def test_a_store_whose_name_is_no_text(store: Database, tmp_path: Path) -> None:
    store.close()
    named = tmp_path / os.fsdecode(b"r\xff.db")
    (tmp_path / "r.db").rename(named)
    assert main(["report", str(named), "-o", str(tmp_path / "r.html")]) == 0
    assert r"r\udcff.db" in (tmp_path / "r.html").read_text()


def test_the_verb_reports_the_store_that_is_named(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, runs in ((["--db", "r.db"], "2 runs"), (["r.db"], "2 runs"), (["first", "--db", "r.db"], "1 run")):
        assert main(["report", *words, "-o", "r.html"]) == 0
        assert capsys.readouterr().err == f"r.html: {runs}\n"
    assert main(["report", "r.db", "--db", "r.db"]) == 2 and "[MS701]" in capsys.readouterr().err
    assert main(["report"]) == 1 and ".mslang/records.db" in capsys.readouterr().err


def test_one_run_by_the_beginning_of_its_name(store: Database) -> None:
    assert [f.run.id for f in gather(store, "sec")] == ["second"]
    with pytest.raises(MsError) as error:
        gather(store, "third")
    assert error.value.diagnostic.code == "MS548" and "first, second" in str(error.value.diagnostic.why)


def test_the_page_shows_how_well_the_model_ordered_what_it_chose(store: Database, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "first"
    log.mkdir(parents=True)
    lines = [{"candidate": "d", "predicted": None, "cost": 1e-3}]
    lines += [{"candidate": f"c{k}", "predicted": float(k), "cost": 1e-3 * (k + 1)} for k in range(8)]
    lines += [{**lines[1], "predicted": 9.0}, {"candidate": "e", "predicted": 1e9, "cost": 1e-3}]
    (log / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = gather(store, "first")
    assert found[0].predicted == tuple((1e-3 * 2.0**k, 1e-3 * (k + 1)) for k in range(8))
    text = page(found, "r.db")
    assert "Predicted and measured" in text and "8 trials that the model chose; rank correlation of all 1.00" in text
    svg = ElementTree.fromstring(predicted(found[0]).svg)
    assert len([e for e in svg if e.tag == "circle"]) == 8
    assert "Predicted and measured" not in page(gather(store, "second"), "r.db")


def test_a_prediction_is_relative_to_the_best_before(store: Database, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "first"
    log.mkdir(parents=True)
    times = [(0.0, 8e-3), (1.0, 4e-3), (1.0, 6e-3), (-1.0, None), (-1.0, 3e-3)]
    lines = [{"candidate": f"c{k}", "predicted": p, "cost": c} for k, (p, c) in enumerate(times)]
    (log / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = gather(store, "first")
    # Of the first trial nothing says what it is relative to.
    assert found.predicted == ((16e-3, 4e-3), (8e-3, 6e-3), (2e-3, 3e-3))


def test_the_log_says_what_records_do_not(store: Database, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "first"
    log.mkdir(parents=True)
    lines = [
        '{"number": 0, "rejected": {"too <wide>": 4}, "quality": 0.5}',
        "torn {",
        '{"number": 0, "drafted": 1200, "duplicates": 3, "rejected": {"too <wide>": 7}, "quality": 0.25}',
        '{"number": 1, "drafted": 34, "quality": 0.75}',
    ]
    (log / "generations.jsonl").write_text("\n".join(lines))
    (log / "profile.json").write_text('{"draw": 1.0, "measure": 3.0, "workers/time": 9.0}')
    (log / "events.jsonl").write_text('{"kind": "started", "strategy": "exhaustive: 40 points"}\n')
    [found] = gather(store, "first")
    assert found.rejected == (("too <wide>", 7),) and found.quality == ((0, 0.25), (1, 0.75))
    text = page([found], "r.db")
    assert "too &lt;wide&gt;" in text and "Quality of the cost model" in text and "75.0 %" in text
    assert '<td class="n">1,234</td><td>candidates considered' in text and '<td class="n">3</td><td>duplicates' in text
    assert "exhaustive: 40 points" in text and "waiting for the runner" in text


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("generations.jsonl", {"quality": 0.5}),
        ("generations.jsonl", {"number": [1], "quality": 0.5}),
        ("generations.jsonl", {"number": 1, "rejected": {"why": "many"}}),
        ("trials.jsonl", {"candidate": "c9", "predicted": "low", "cost": 1e-3}),
        ("trials.jsonl", {"candidate": "c9", "predicted": 1.0, "cost": -1e-3}),
        ("events.jsonl", {"kind": "started", "resumed": "yes"}),
    ],
)
def test_a_line_of_a_log_that_is_damaged_is_left_out(
    store: Database, tmp_path: Path, file: str, line: dict[str, object]
) -> None:
    log = tmp_path / "logs" / "first"
    log.mkdir(parents=True)
    good = [{"candidate": f"c{k}", "predicted": float(k), "cost": 1e-3 * (k + 1)} for k in range(8)]
    (log / "trials.jsonl").write_text("".join(json.dumps(x) + "\n" for x in good))
    (log / "generations.jsonl").write_text('{"number": 0, "rejected": {"why": 2}}\n')
    before = gather(store, "first")
    with (log / file).open("a") as text:
        text.write(json.dumps(line) + "\n")
    assert gather(store, "first") == before and "7 trials that the model chose" in page(before, "r.db")


def test_the_pause_before_a_run_was_resumed_is_no_time_of_it(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as db:
        db.add_workload(workload())
        db.add_run(Run("one", "p.ms", "s", "w" * 64, "host", 0, "{}", "2026-01-01T10:00:00.000+00:00"))
        for trial, when in enumerate(("01T10:00:05", "01T10:00:07", "02T23:00:00", "02T23:00:03")):
            db.add(replace(record("one", trial, 1e-3), created=f"2026-01-{when}.000+00:00"))
        # Without a log nothing tells a pause from a long trial.
        assert gather(db)[0].points[-1].at > 36 * 3600
        log = tmp_path / "logs" / "one"
        log.mkdir(parents=True)
        (log / "events.jsonl").write_text(
            '{"kind": "started", "resumed": 0}\n{"kind": "finished"}\n{"kind": "started", "resumed": 2}\n'
        )
        [found] = gather(db)
    assert [p.at for p in found.points] == [5.0, 7.0, 7.5, 10.5]
    assert "trials in 10.5 s" in page([found], "r.db")


def test_nothing_to_report_is_one_diagnostic(tmp_path: Path) -> None:
    with Database(tmp_path / "empty.db") as db, pytest.raises(MsError) as error:
        gather(db)
    assert error.value.diagnostic.code == "MS547"
