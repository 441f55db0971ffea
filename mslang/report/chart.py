"""Charts as inline SVG: lines and points on axes that may be logarithmic. Colours are CSS variables of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Literal

import msgspec

WIDTH, HEIGHT = 440.0, 236.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 30.0, 42.0
"""Room around the plot: for numbers and titles in letters of up to 14 units, as the page has them on narrow screens."""

LETTER = 8.5
"""The width of a letter on narrow screens, about."""

Form = Literal["dot", "triangle", "cross", "step", "line"]
"""How points are drawn: marks, a staircase through them, or straight lines."""

MARKS = {
    "dot": '<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{r}"',
    "triangle": '<path class="{style}" d="M{x:.1f} {y:.1f}m-4 7l4 -7l4 7z"',
    "cross": '<path class="{style}" d="M{x:.1f} {y:.1f}m-3 1l6 6m0 -6l-6 6"',
}


class Series(msgspec.Struct, frozen=True):
    """Points of one kind: `style` is a class of the page's style sheet, which gives the colour.

    `label` stands below the last point; `tips` are what a browser shows at each mark.
    """

    points: Sequence[tuple[float, float]]
    style: str
    form: Form = "dot"
    label: str = ""
    tips: Sequence[str] = ()
    radius: float = 2.5


class Axis(msgspec.Struct, frozen=True):
    """An axis: its title, how its numbers read, and whether it is logarithmic.

    `whole`: its values are whole numbers, and so are its ticks. `ends` are its bounds, if not those of the points; what
    lies beyond is drawn at the edge.
    """

    title: str
    text: Callable[[float], str]
    log: bool = False
    whole: bool = False
    ends: tuple[float, float] | None = None

    def place(self, value: float) -> float:
        """Where a value stands before scaling."""
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self, low: float, high: float) -> list[float]:
        """Round values between two, about five."""
        if not self.log:
            return _evenly(low, high, 1.0 if self.whole else 0.0)
        decades = math.log10(high / low)
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        steps = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
        every = max(1, (last - first) // 6)
        found = [s * 10.0**e for e in range(first, last + 1, every) for s in steps]
        within = [t for t in found if low * 0.999 <= t <= high * 1.001]
        # Bounds that are close together have hardly any of these between them.
        return within if len(within) > 2 else _evenly(low, high, 0.0)


def _evenly(low: float, high: float, least: float) -> list[float]:
    """Multiples of a round number between two, about five; the number is no less than `least`."""
    raw = max((high - low) / 5 or 1.0, least)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= raw)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def chart(series: Sequence[Series], x: Axis, y: Axis, title: str) -> str:
    """An SVG element that shows series on two axes.

    Args:
        series: what is drawn, in order; empty ones are left out.
        x: the horizontal axis.
        y: the vertical axis.
        title: what a screen reader says.

    Returns the text of the element; empty where there is no point.
    """
    points = [p for s in series for p in s.points if math.isfinite(p[0]) and math.isfinite(p[1])]
    if not points:
        return ""
    bounds = [_widened([p[k] for p in points], axis) for k, axis in ((0, x), (1, y))]

    def at(px: float, py: float) -> tuple[float, float]:
        u, v = (_part(value, axis, *ends) for value, axis, ends in zip((px, py), (x, y), bounds, strict=True))
        return LEFT + u * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - v * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(title)}">']
    for tick in y.ticks(*bounds[1]):
        _, ty = at(bounds[0][0], tick)
        parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{ty:.1f}" y2="{ty:.1f}"/>')
        parts.append(_text(y.text(tick), LEFT - 6, ty + 4, "end"))
    end = 0.0
    for tick in x.ticks(*bounds[0]):
        tx, _ = at(tick, bounds[1][0])
        parts.append(f'<line class="grid" x1="{tx:.1f}" x2="{tx:.1f}" y1="{TOP:g}" y2="{HEIGHT - BOTTOM:g}"/>')
        number = x.text(tick)
        half = len(number) * LETTER / 2
        # A number that would be on another one, or outside, is left out.
        if tx - half >= end and tx + half <= WIDTH:
            parts.append(_text(number, tx, HEIGHT - BOTTOM + 16, "middle"))
            end = tx + half + LETTER
    parts.append(_text(y.title, 0, 14, "start"))
    parts.append(_text(x.title, WIDTH - RIGHT, HEIGHT - 6, "end"))
    return "".join([*parts, *(part for s in series for part in _drawn(s, at)), "</svg>"])


def key(style: str, form: Form) -> str:
    """An SVG element of the size of a letter: the mark of a series, for a legend.

    Example:
        >>> key("best", "line")
        '<svg class="key" viewBox="0 0 14 14" aria-hidden="true"><path class="best" d="M0 7H14"/></svg>'
    """
    if form in ("step", "line"):
        drawn = f'<path class="{style}" d="M0 7H14"/>'
    else:
        drawn = _mark(Series((), style, form, radius=3.5), 7.0, 7.0 if form == "dot" else 3.0)
    return f'<svg class="key" viewBox="0 0 14 14" aria-hidden="true">{drawn}</svg>'


def _part(value: float, axis: Axis, low: float, high: float) -> float:
    """Where a value stands between two, from 0 to 1."""
    least, most = axis.place(low), axis.place(high)
    return min(max((axis.place(value) - least) / ((most - least) or 1.0), 0.0), 1.0)


def _drawn(s: Series, at: Callable[[float, float], tuple[float, float]]) -> Iterable[str]:
    places = [at(*p) for p in s.points]
    if not places:
        return
    if s.form in ("step", "line"):
        path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
        for px, py in places[1:]:
            path += f"H{px:.1f}V{py:.1f}" if s.form == "step" else f"L{px:.1f} {py:.1f}"
        yield f'<path class="{s.style}" d="{path}"/>'
    else:
        tips = s.tips or [""] * len(places)
        yield from (_mark(s, px, py, tip) for (px, py), tip in zip(places, tips, strict=True))
    if s.label:
        px, py = places[-1]
        yield _text(s.label, px, py + 15, "end")


def _mark(s: Series, x: float, y: float, tip: str = "") -> str:
    opened = MARKS[s.form].format(style=s.style, x=x, y=y, r=s.radius)
    tag = "circle" if s.form == "dot" else "path"
    return f"{opened}><title>{escape(tip)}</title></{tag}>" if tip else f"{opened}/>"


def _text(text: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _widened(values: Sequence[float], axis: Axis) -> tuple[float, float]:
    """The bounds of an axis: a logarithmic one has a little room, a linear one has 0 on it."""
    if axis.ends is not None:
        return axis.ends
    low, high = min(values), max(values)
    if axis.log:
        return low / 1.2, high * 1.2
    return min(low, 0.0), (max(high, 0.0) * 1.05) or 1.0
