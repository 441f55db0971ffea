"""The charts of a run: what is drawn on which axes, with a legend."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mslang.brevity import seconds_text
from mslang.report.chart import Axis, Form, Series, chart, key
from mslang.report.gather import Found, Point
from mslang.report.rated import Roof
from mslang.tune.quality import LEAST, rank_correlation

SLOWEST = 10.0
"""Axes of times end at so many times the best: what is slower is drawn at the edge."""

NOMINAL = "at the nominal speed"
"""What the times are that are compared: those of a core of the nominal speed."""


class Figure(msgspec.Struct, frozen=True):
    """A chart as SVG (empty: there is nothing to draw), its legend as marks with texts, and a note below it."""

    svg: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    note: str = ""


def best_so_far(f: Found, by_time: bool) -> Figure:
    """The time of each trial and the best so far, against the number of trials or the time of the run."""
    costs = [p.cost for p in f.points if p.cost]
    if len(costs) < 2:
        return Figure()
    before = f.before.cost if f.before is not None else None
    best = min(costs)
    top = min(max(*costs, before or 0.0) * 1.1, SLOWEST * best)
    # A label below the line of the best needs an eighth of the height.
    ends = best / max(top / best, 1.2) ** 0.15, top

    def x_of(p: Point) -> float:
        return p.at if by_time else float(p.trial)

    def marks(points: Sequence[Point], style: str, form: Form) -> Series:
        # A failure has no time: it stands at the edge.
        places = [(x_of(p), p.cost or p.bound or top) for p in points]
        return Series(places, style, form, tips=[_tip(p) for p in points])

    shown = [p for p in f.points if p.cost is not None and p.cost <= top]
    slower = [p for p in f.points if p.bound or (p.cost is not None and p.cost > top)]
    failed = [p for p in f.points if p.cost is None and not p.bound]
    line = [(x_of(p), p.best) for p in f.points if p.best is not None]
    drawn = [
        (marks(shown, "dot", "dot"), "trial"),
        (marks(slower, "slow", "triangle"), "at least this slow"),
        (marks(failed, "fail", "cross"), "failed"),
        (Series(line, "best", "step", seconds_text(best)), "best so far"),
    ]
    if before is not None and before <= top:
        ends_of_line = [(0.0, before), (x_of(f.points[-1]), before)]
        drawn.insert(0, (Series(ends_of_line, "before", "line"), "schedule before"))
    x = Axis("seconds of the run, without pauses" if by_time else "trials", _number, whole=not by_time)
    y = Axis(f"time {NOMINAL}", seconds_text, log=True, ends=ends)
    title = f"best time so far of {f.program} against {'time' if by_time else 'trials'}"
    return Figure(chart([s for s, _ in drawn], x, y, title), _legend(drawn))


def roofline(f: Found) -> Figure:
    """The rate of each trial below the limits of the machine, where these are known."""
    rated, best = f.rated, f.best
    if rated is None or best is None or best.result.timing is None:
        return Figure()
    rate = rated.operations / best.result.timing.median / 1e9
    tried = [p for p in f.points if p.seconds]
    rates = [(rated.intensity, rated.operations / p.seconds / 1e9) for p in tried if p.seconds]
    drawn = [(Series(rates, "dot", tips=[_tip(p) for p in tried]), "trial")]
    if rated.limits is not None:
        drawn.append(_roof(rated.limits, rated.intensity))
    drawn.append((Series([(rated.intensity, rate)], "mark", radius=4.0), f"best: {rate:.4g} GFLOP/s"))
    x = Axis("operations for each byte of the parameters", _number, log=True)
    svg = chart([s for s, _ in drawn], x, Axis("GFLOP/s", _number, log=True), f"roofline of {f.program}")
    note = ""
    if rated.elsewhere:
        note = "The limits of the machine are not known here: the run was made on another."
    elif rated.limits is None:
        note = "The limits of the device are not known."
    return Figure(svg, _legend(drawn), note)


def _roof(limits: Roof, intensity: float) -> tuple[Series, str]:
    """The line of the limits around an intensity; level where the bandwidth of memory is not known."""
    peak = limits.peak / 1e9
    if limits.bandwidth is None:
        level = Series([(intensity / 8, peak), (intensity * 8, peak)], "roof", "line")
        return level, f"limit of the machine: {peak:.4g} GFLOP/s"
    memory = limits.bandwidth / 1e9
    ridge = peak / memory
    low, high = min(intensity, ridge) / 8, max(intensity, ridge) * 8
    roof = Series([(low, low * memory), (ridge, peak), (high, peak)], "roof", "line")
    return roof, f"limits of the machine: {memory:.4g} GB/s, {peak:.4g} GFLOP/s"


def quality(f: Found) -> Figure:
    """The rank correlation of predicted and measured times by generation."""
    if len(f.quality) < 2:
        return Figure()
    points = [(float(g), q) for g, q in f.quality]
    x, y = Axis("generation", _number, whole=True), Axis("rank correlation", _number, ends=(-1.0, 1.0))
    zero = Series([(0.0, 0.0), (points[-1][0], 0.0)], "before", "line")
    svg = chart([zero, Series(points, "best", "line"), Series(points, "end")], x, y, "quality of the cost model")
    note = "Rank correlation (Spearman) of predicted and measured times, by generation; 1 is the right order."
    return Figure(svg, note=note)


def predicted(f: Found) -> Figure:
    """What the cost model predicted against what was measured, and the rank correlation of all of it."""
    if len(f.predicted) < LEAST:
        return Figure()
    best, slowest = (of(cost for _, cost in f.predicted) for of in (min, max))
    least, most = (of(time for time, _ in f.predicted) for of in (min, max))
    top = SLOWEST * best
    x_ends, y_ends = (least / 1.1, max(min(most, top), least) * 1.1), (best / 1.1, min(slowest * 1.1, top))
    ends = max(x_ends[0], y_ends[0]), min(x_ends[1], y_ends[1])
    drawn = [
        (Series([(t, t) for t in ends if ends[0] < ends[1]], "before", "line"), "as predicted"),
        (Series([p for p in f.predicted if p[1] <= y_ends[1]], "dot"), "trial"),
        (Series([p for p in f.predicted if p[1] > y_ends[1]], "slow", "triangle"), "at least this slow"),
    ]
    x = Axis(f"predicted, {NOMINAL}", seconds_text, log=True, ends=x_ends)
    y = Axis(f"measured, {NOMINAL}", seconds_text, log=True, ends=y_ends)
    correlation = rank_correlation(f.predicted)
    note = f"{len(f.predicted)} trials that the model chose"
    if correlation is not None:
        note += f"; rank correlation of all {correlation:.2f}. The model is trained again after each generation."
    return Figure(chart([s for s, _ in drawn], x, y, "predicted and measured times"), _legend(drawn), note)


def _legend(drawn: Sequence[tuple[Series, str]]) -> tuple[tuple[str, str], ...]:
    """A mark and a text for each kind that is there."""
    return tuple((key(s.style, s.form), text) for s, text in drawn if s.points)


def _tip(p: Point) -> str:
    if p.cost is not None:
        return f"trial {p.trial}: {seconds_text(p.cost)}"
    return f"trial {p.trial}: {p.outcome}" + (f", at least {seconds_text(p.bound)}" if p.bound else "")


def _number(value: float) -> str:
    return f"{value:g}"
