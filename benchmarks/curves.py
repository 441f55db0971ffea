"""The picture of `tuning_curve.py`: best-so-far against seconds, a panel for each workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mslang.brevity import seconds_text
from mslang.report.chart import HEIGHT, WIDTH, Axis, Series, chart

ACROSS = 2
"""Panels side by side."""

TITLE, LEGEND, GAP = 26.0, 34.0, 16.0
"""Heights of a panel's title and of the legend, and the room between panels."""

SIDES = (("points", "took", "ours", "mslang"), ("tvm_points", "tvm_took", "tvm", "TVM MetaSchedule"))
"""Of each side the keys of its points and of its time in a row, its style and its name."""

STYLE = """
:root { --text: #1f2328; --grid: #d8dee4; --page: #ffffff; --ours: #0969da; --tvm: #bc4c00 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --grid: #30363d; --page: #0d1117; --ours: #58a6ff; --tvm: #f0883e }
}
text { font: 12px system-ui, sans-serif; fill: var(--text) }
.title { font-weight: 600; font-size: 14px }
.page { fill: var(--page) }
.grid { stroke: var(--grid) }
.ours, .tvm { fill: none; stroke-width: 2 }
.ours { stroke: var(--ours) }
.tvm { stroke: var(--tvm); stroke-dasharray: 6 3 }
"""


def drawing(rows: Sequence[Mapping[str, Any]]) -> str:
    """An SVG page with a line for each side and seed: seconds since the command began, time of a run as measured again.

    Args:
        rows: those of `tuning_curve.py`.
    """
    names = list(dict.fromkeys(r["workload"] for r in rows))
    high = HEIGHT + TITLE + GAP
    width = ACROSS * WIDTH + (ACROSS + 1) * GAP
    height = LEGEND + -(-len(names) // ACROSS) * high
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">',
        f'<style>{STYLE}</style><rect class="page" width="100%" height="100%"/>',
        *_legend(),
    ]
    for number, name in enumerate(names):
        x = GAP + number % ACROSS * (WIDTH + GAP)
        y = LEGEND + number // ACROSS * high
        parts.append(f'<text class="title" x="{x:g}" y="{y + 18:g}">{escape(name)}</text>')
        panel = _panel([r for r in rows if r["workload"] == name], name)
        place = f'x="{x:g}" y="{y + TITLE:g}" width="{WIDTH:g}" height="{HEIGHT:g}" '
        parts.append(panel.replace("<svg ", f"<svg {place}", 1))
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    found = []
    for k, (_, _, style, name) in enumerate(SIDES):
        x = GAP + 130.0 * k
        found.append(f'<path class="{style}" d="M{x:g} 18h28"/><text x="{x + 36:g}" y="22">{name}</text>')
    return found


def _panel(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """The chart of one workload."""
    series = [
        Series(staircase(row[points], row[took]), style, "step")
        for points, took, style, _ in SIDES
        for row in rows
        if row.get(points)
    ]
    x = Axis("seconds since the command began", "{:g}".format, log=True)
    y = Axis("time of a run, measured again", seconds_text, log=True)
    return chart(series, x, y, f"best time so far of {name} against time")


def staircase(points: Sequence[Mapping[str, Any]], end: float) -> list[tuple[float, float]]:
    """The corners of a best-so-far that holds to the end of tuning."""
    corners = [(float(p["after"]), float(p["seconds"])) for p in points]
    return [*corners, (max(end, corners[-1][0]), corners[-1][1])]
