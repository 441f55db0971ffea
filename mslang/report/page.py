"""The report as one HTML page that needs no network."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from mslang import __version__
from mslang.brevity import seconds_text
from mslang.report.chart import Axis, Series, chart
from mslang.report.gather import Found
from mslang.report.highlight import highlighted
from mslang.tune.quality import LEAST, rank_correlation


def page(found: Sequence[Found], where: str) -> str:
    """The page of some runs.

    Args:
        found: what `gather` found.
        where: the name of the store, for the heading.
    """
    environment = Environment(
        loader=PackageLoader("mslang.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"time": seconds_text, "ms": highlighted}
    sections = [_section(f) for f in found]
    text = environment.get_template("page.html.j2").render(
        sections=sections,
        where=where,
        versions={"mslang": __version__, "llvmlite": version("llvmlite"), "Python": platform.python_version()},
    )
    # Bytes of a file name that are no text cannot be written.
    return text.encode(errors="backslashreplace").decode()


def _section(f: Found) -> dict[str, object]:
    best, rated = f.best, f.rated
    timing = None if best is None else best.result.timing
    rate = None if timing is None or rated is None else rated.operations / timing.median
    share = None if timing is None or rated is None else rated.scale.share(timing)
    return {
        "found": f,
        "rate": None if rate is None else f"{rate / 1e9:.4g} GFLOP/s",
        "share": None if share is None else f"{100 * share:.0f} %",
        "seconds": None if timing is None else seconds_text(timing.median),
        "noise": None if timing is None else seconds_text(timing.mad),
        "took": max((p.at for p in f.points), default=0.0),
        "budget": _budget(f.run.arguments),
        "by_trial": _curve(f, by_time=False),
        "by_time": _curve(f, by_time=True),
        "roofline": _roofline(f),
        "quality": _quality(f),
        "predicted": _predicted(f),
        "split": _shares(
            {k: v for k, v in f.scopes.items() if "/" not in k and k not in f.stages}
            if any("/" not in k for k in f.scopes)
            else {}
        ),
        "stages": _shares(f.stages),
    }


def _number(value: float) -> str:
    return f"{value:g}"


def _curve(f: Found, by_time: bool) -> str:
    def x_of(trial: int, at: float) -> float:
        return at if by_time else float(trial)

    dots = [(x_of(p.trial, p.at), p.cost) for p in f.points if p.cost is not None]
    if len(dots) < 2:
        return ""
    best = [(x_of(p.trial, p.at), p.best) for p in f.points if p.best is not None]
    x = Axis("seconds of the run, without pauses" if by_time else "trials", _number, whole=not by_time)
    title = f"best time so far of {f.program} against {'time' if by_time else 'trials'}"
    y = Axis("time at the nominal speed", seconds_text, log=True)
    return chart([Series(dots, "dot"), Series(best, "best", "step")], x, y, title)


def _roofline(f: Found) -> str:
    rated, best = f.rated, f.best
    if rated is None or best is None or best.result.timing is None:
        return ""
    rate = rated.operations / best.result.timing.median
    series = []
    if rated.limits is not None:
        limits = rated.limits
        ridge = limits.peak / limits.bandwidth
        span = min(rated.intensity, ridge) / 8, max(rated.intensity, ridge) * 8
        roof = [(i, min(i * limits.bandwidth, limits.peak) / 1e9) for i in (span[0], ridge, span[1])]
        series.append(Series(roof, "roof", "line", f"{limits.peak / 1e9:.4g} GFLOP/s"))
    tried = [(rated.intensity, rated.operations / p.seconds / 1e9) for p in f.points if p.seconds]
    series += [Series(tried, "dot"), Series([(rated.intensity, rate / 1e9)], "mark")]
    x = Axis("operations for each byte of the parameters", _number, log=True)
    return chart(series, x, Axis("GFLOP/s", _number, log=True), f"roofline of {f.program}")


def _quality(f: Found) -> str:
    if len(f.quality) < 2:
        return ""
    points = [(float(g), q) for g, q in f.quality]
    x, y = Axis("generation", _number, whole=True), Axis("rank correlation", _number, ends=(-1.0, 1.0))
    return chart([Series(points, "best", "line"), Series(points, "dot")], x, y, "quality of the cost model")


def _predicted(f: Found) -> tuple[str, float | None]:
    """The predictions of the cost model against the times, and the rank correlation of all of them."""
    if len(f.predicted) < LEAST:
        return "", None
    values = [x for x, _ in f.predicted]
    room = 0.05 * (max(values) - min(values)) or 1.0
    ends = min(values) - room, max(values) + room
    x = Axis("predicted: binary logarithm of the time, relative", _number, ends=ends)
    y = Axis("measured, at the nominal speed", seconds_text, log=True)
    return chart([Series(f.predicted, "dot")], x, y, "predicted and measured times"), rank_correlation(f.predicted)


def _shares(seconds: dict[str, float]) -> list[tuple[str, float, float]]:
    """Name, seconds and share of each part, longest first."""
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda pair: -pair[1])
    return [(name, s, s / total) for name, s in ordered if s > 0] if total else []


def _budget(arguments: str) -> dict[str, object]:
    try:
        given = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}
    return {k: _plain(v) for k, v in given.items() if v is not None} if isinstance(given, dict) else {}


def _plain(value: object) -> object:
    """A value for people: of a budget, `64 trials`."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{v} {k}" for k, v in value.items() if v is not None) or "none"
