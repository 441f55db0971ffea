"""Charts as inline SVG: lines and points on axes that may be logarithmic. Colours are CSS variables of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

WIDTH, HEIGHT = 560.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 10.0, 40.0


class Series(msgspec.Struct, frozen=True):
    """Points of one kind: `style` is a class of the page's style sheet; `joined` draws steps or a line through them."""

    points: Sequence[tuple[float, float]]
    style: str
    joined: str = ""
    """"": dots; "step": a staircase; "line": straight."""
    label: str = ""


class Axis(msgspec.Struct, frozen=True):
    """An axis: its title, how its numbers read, and whether it is logarithmic.

    `whole`: its values are whole numbers, and so are its ticks. `ends` are its bounds, if not those of the points.
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
        if self.log:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            steps = (1, 2, 5) if last - first <= 2 else (1,)
            every = max(1, (last - first) // 6)
            found = [s * 10.0**e for e in range(first, last + 1, every) for s in steps]
            within = [t for t in found if low * 0.999 <= t <= high * 1.001]
            # Bounds that are close together have hardly any power of ten between them.
            return within if len(within) > 1 else _evenly(low, high, 0.0)
        return _evenly(low, high, 1.0 if self.whole else 0.0)


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
        u, v = (
            (axis.place(value) - axis.place(low)) / ((axis.place(high) - axis.place(low)) or 1.0)
            for value, axis, (low, high) in ((px, x, bounds[0]), (py, y, bounds[1]))
        )
        return LEFT + u * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - v * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{_escaped(title)}">']
    for tick in y.ticks(*bounds[1]):
        _, ty = at(bounds[0][0], tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{ty:.1f}" y2="{ty:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{ty + 4:.1f}" text-anchor="end">{_escaped(y.text(tick))}</text>')
    for tick in x.ticks(*bounds[0]):
        tx, _ = at(tick, bounds[1][0])
        parts.append(f'<line class="grid" x1="{tx:.1f}" x2="{tx:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(
            f'<text x="{tx:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_escaped(x.text(tick))}</text>'
        )
    for s in series:
        parts += _drawn(s, at)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{_escaped(x.title)}</text>')
    parts.append(
        f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{_escaped(y.title)}</text></svg>'
    )
    return "".join(parts)


def _drawn(s: Series, at: Callable[[float, float], tuple[float, float]]) -> list[str]:
    places = [at(*p) for p in s.points]
    if not places:
        return []
    if not s.joined:
        return [f'<circle class="{s.style}" cx="{px:.1f}" cy="{py:.1f}" r="2.5"/>' for px, py in places]
    path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    for px, py in places[1:]:
        path += f"H{px:.1f}V{py:.1f}" if s.joined == "step" else f"L{px:.1f} {py:.1f}"
    drawn = [f'<path class="{s.style}" d="{path}"/>']
    if s.label:
        px, py = places[-1]
        drawn.append(f'<text x="{px - 4:.1f}" y="{py - 6:.1f}" text-anchor="end">{_escaped(s.label)}</text>')
    return drawn


def _widened(values: Sequence[float], axis: Axis) -> tuple[float, float]:
    """The bounds of an axis: a logarithmic one has a little room, a linear one has 0 on it."""
    if axis.ends is not None:
        return axis.ends
    low, high = min(values), max(values)
    if axis.log:
        return low / 1.2, high * 1.2
    return min(low, 0.0), (max(high, 0.0) * 1.05) or 1.0


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
