"""The profile of a kernel as a value, and as a table."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mslang.brevity import seconds_text

LEAST_REST = 0.005
"""What is left of a part outside its inner parts is shown from this share of the whole on."""


class Row(msgspec.Struct, frozen=True):
    """A part of a kernel, or the whole (`depth` 0).

    `seconds` of one run, the clock's cost taken off, averaged over the threads where the part stands in a parallel
    loop; `share` of the whole; `own` are the seconds outside of its inner parts. `blocks` are those that it runs,
    `line` is where the first of them is written. `operations` and `bytes` are `Work`'s, None where they are not
    known, `rate` and `traffic` those a second; the shares are of the machine's measured peak and bandwidth of memory:
    `of_bandwidth` is above 1 where caches serve the part. `uncertain`: the clock took a fifth of its time or more.
    `parallel`: it is a parallel loop, of which `own` includes the time that threads wait.
    """

    name: str
    depth: int
    blocks: tuple[str, ...]
    line: str | None
    entries: int
    seconds: float
    own: float
    share: float
    operations: int | None
    bytes: int | None
    rate: float | None
    traffic: float | None
    of_peak: float | None
    of_bandwidth: float | None
    uncertain: bool = False
    parallel: bool = False


class KernelProfile(msgspec.Struct, frozen=True):
    """Where the time of a kernel goes. `rows` begin with the whole kernel; parts follow the part that they are in.

    `seconds` are those of the plain kernel, `slowdown` how many times as long the instrumented one takes; `clock` is
    the cost of timing one part once, in seconds. `peak` (operations a second) and `bandwidth` (bytes a second) are the
    machine's, as measured; `events` are hardware counters of one run of the plain kernel, on the calling thread;
    `refused` says why there are none.
    """

    name: str
    rows: tuple[Row, ...]
    seconds: float
    slowdown: float
    clock: float
    threads: int
    dtype: str | None
    peak: float | None
    bandwidth: float
    events: dict[str, float]
    refused: str | None

    def __str__(self) -> str:
        return as_text(self)


HEAD = ("part", "time", "share", "entries", "GFLOP/s", "of peak", "GB/s", "of memory", "blocks", "written")
"""The columns. `GB/s` counts what the part's accesses cover; `of memory` compares it with the bandwidth of memory."""


def cells(profile: KernelProfile) -> Iterator[tuple[str, ...]]:
    """The rows as text, under `HEAD`."""
    for k, row in enumerate(profile.rows):
        yield _cells(row)
        has_parts = k + 1 < len(profile.rows) and profile.rows[k + 1].depth > row.depth
        share = row.own / max(profile.rows[0].seconds, 1e-12)
        if has_parts and share > LEAST_REST:
            name = "(rest, waiting)" if row.parallel and profile.threads > 1 else "(rest)"
            yield ("  " * (row.depth + 1) + name, _time(row.own), _percent(share), *("",) * (len(HEAD) - 3))


def _cells(row: Row) -> tuple[str, ...]:
    # What is left of a time that was mostly the clock's gives no rate.
    rate, of_peak, traffic, of_bandwidth = (
        (None,) * 4 if row.uncertain else (row.rate, row.of_peak, row.traffic, row.of_bandwidth)
    )
    return (
        "  " * row.depth + row.name,
        ("~" if row.uncertain else "") + _time(row.seconds),
        _percent(row.share),
        str(row.entries),
        "" if not rate else f"{rate / 1e9:.3g}",
        "" if not of_peak else _percent(of_peak),
        "" if traffic is None else f"{traffic / 1e9:.3g}",
        "" if of_bandwidth is None else _percent(of_bandwidth),
        ", ".join(row.blocks[:3]) + (", …" if len(row.blocks) > 3 else ""),
        row.line or "",
    )


def notes(profile: KernelProfile) -> Iterator[str]:
    """What the table does not say: how it was measured, and against what."""
    threads = "1 thread" if profile.threads == 1 else f"{profile.threads} threads"
    slower = f"the kernel with clocks takes {profile.slowdown:.3f} times as long"
    yield f"run       {_time(profile.seconds)} on {threads}; {slower}"
    yield f"clock     {_time(profile.clock)} an entry, taken off; `~`: a fifth of the part's time or more was its own"
    peak = "" if profile.peak is None else f"{profile.peak / 1e9:.4g} GFLOP/s ({profile.dtype}), "
    yield f"machine   {peak}{profile.bandwidth / 1e9:.3g} GB/s of memory; above 100 % of it caches serve the part"
    if profile.events:
        listed = ", ".join(f"{count:.4g} {name}" for name, count in profile.events.items())
        cycles, done = profile.events.get("cycles"), profile.events.get("instructions")
        each = f", {done / cycles:.2f} instructions a cycle" if cycles and done else ""
        yield f"counted   {listed}{each} (of a run, on the calling thread)"
    if profile.refused:
        yield f"counted   {profile.refused}"


def as_text(profile: KernelProfile) -> str:
    """The table and its notes, plain."""
    rows = [HEAD, *cells(profile)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = {0, len(HEAD) - 2, len(HEAD) - 1}
    lines = [
        "  ".join(
            c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], "", *notes(profile)])


def _time(seconds: float) -> str:
    return seconds_text(seconds, digits=3)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.1 else f"{100 * share:.0f} %"
