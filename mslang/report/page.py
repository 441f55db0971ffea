"""The report as one HTML page that needs no network."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from mslang import __version__
from mslang.brevity import seconds_text
from mslang.report.figures import best_so_far, predicted, quality, roofline
from mslang.report.gather import Found
from mslang.report.highlight import highlighted
from mslang.report.importance import flat

PARTS = {
    "prepare": "the unscheduled program",
    "draw": "choosing candidates",
    "model": "training the cost model",
    "text": "writing schedules",
    "build": "waiting for compilers",
    "measure": "waiting for the runner",
    "commit": "writing records",
    "confirm": "timing the fastest again",
    "lower": "schedules to loops",
    "compile": "loops to machine code",
    "verify": "comparing results",
    "time": "running the kernel",
}
"""What takes the time of each scope and stage."""


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
    text = environment.get_template("page.html.j2").render(
        sections=[_section(f) for f in found],
        where=where,
        parts=PARTS,
        versions={"mslang": __version__, "llvmlite": version("llvmlite"), "Python": platform.python_version()},
    )
    # Bytes of a file name that are no text cannot be written.
    return text.encode(errors="backslashreplace").decode()


def _section(f: Found) -> dict[str, object]:
    best, rated = f.best, f.rated
    timing = None if best is None else best.result.timing
    rate = None if timing is None or rated is None else rated.operations / timing.median
    share = None if timing is None or rated is None else rated.scale.share(timing)
    scopes = {k: v for k, v in f.scopes.items() if "/" not in k and k not in f.stages}
    return {
        "found": f,
        "made": _moment(f.run.created),
        "rate": None if rate is None else f"{rate / 1e9:.4g} GFLOP/s",
        "share": None if share is None else f"{100 * share:.0f} %",
        "seconds": None if timing is None else seconds_text(timing.median),
        "noise": None if timing is None else seconds_text(timing.mad, 3),
        "gain": _gain(f),
        "took": max((p.at for p in f.points), default=0.0),
        "rows": _rows(f),
        "rejected": sum(n for _, n in f.rejected),
        "by_trial": best_so_far(f, by_time=False),
        "by_time": best_so_far(f, by_time=True),
        "roofline": roofline(f),
        "quality": quality(f),
        "predicted": predicted(f),
        "importance": _importance(f),
        "total": sum(scopes.values()) or sum(f.stages.values()),
        "split": _shares(scopes),
        "stages": _shares(f.stages),
    }


def _gain(f: Found) -> str | None:
    """How many times as fast the best is as the schedule before; None where that is not known."""
    if f.best is None or f.before is None or not f.best.cost or f.before.cost is None:
        return None
    return f"{f.before.cost / f.best.cost:.3g} ×"


def _importance(f: Found) -> list[tuple[str, float, str]]:
    """Each decision's name, its share, and its value in the best schedule (empty where that has none)."""
    values = _decoded("{}" if f.best is None else f.best.decisions)
    best = dict(flat(values))
    return [(name, share, str(best.get(name, ""))) for name, share in f.importance]


def _shares(seconds: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Name, seconds and share of each part, longest first."""
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda pair: -pair[1])
    return [(name, s, s / total) for name, s in ordered if s > 0] if total else []


def _rows(f: Found) -> dict[str, object]:
    """Machine, versions and arguments of a run."""
    rows: dict[str, object] = {}
    if f.best is not None:
        rows["machine"] = f"{f.best.device} (key {f.best.machine[:8]})"
    if f.rated is not None and f.rated.limits is not None:
        limits = f.rated.limits
        memory = "" if limits.bandwidth is None else f", memory {limits.bandwidth / 1e9:.4g} GB/s"
        rows["limits"] = f"{limits.peak / 1e9:.4g} GFLOP/s ({f.rated.dtype}){memory}"
    rows["target"] = f.run.target
    given = _decoded(f.run.arguments)
    # Of another compiler's candidates no record can be the best: what the best says is also true of the run.
    rows["compiler"] = given.pop("compiler", None) if f.best is None else f.best.compiler
    rows["mslang"] = given.pop("version", None) if f.best is None else f.best.version
    rows |= {"seed": f.run.seed} | {k: _plain(v) for k, v in given.items() if k not in ("compiler", "version", "drawn")}
    rows |= {"strategy": f.strategy or rows.get("strategy"), "hash of the space": given.get("drawn")}
    return {name.replace("_", " "): value for name, value in rows.items() if value is not None}


def _decoded(text: str) -> dict[str, object]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _plain(value: object) -> object:
    """A value for people: of a budget, `64 trials`."""
    if not isinstance(value, dict):
        return value
    return ", ".join(f"{v} {k}" for k, v in value.items() if v is not None) or "none"


def _moment(created: str) -> str:
    """`2026-11-28 22:14 UTC`; what is no date as it stands."""
    try:
        return datetime.fromisoformat(created).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return created
