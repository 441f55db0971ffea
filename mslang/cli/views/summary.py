"""The summary at the end of a search: how candidates ended, and what the best is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from textwrap import shorten, wrap

from mslang.brevity import seconds_text
from mslang.cli.common import counted, table
from mslang.cli.views.board import Standing
from mslang.runtime.timing import SLOW_CORE
from mslang.tune.comparison import Gap
from mslang.tune.progress import Finished
from mslang.tune.record import Outcome
from mslang.tune.scale import Scale


def overview(found: Sequence[tuple[str, Finished, Scale]]) -> str:
    """The table of a session of several tasks: name, summary and scale of each."""
    rows = []
    for name, done, scale in found:
        task = Standing(name, scale, best=done.best)
        failed = sum(n for o, n in done.tally.outcomes.items() if o in FAILED)
        rejected = sum(done.tally.outcomes[o] for o in (Outcome.CONSTRAINT, Outcome.ILLEGAL))
        record = "" if done.best is None else done.best.id
        time = task.time if done.best is not None else "nothing valid"
        rows.append((name, time, task.gflops, task.share, done.tally.trials, rejected, failed, record))
    return table(("task", "best", "GFLOP/s", "of peak", "trials", "rejected", "failed", "record"), rows)


FAILED = (Outcome.WRONG_RESULT, Outcome.CRASH, Outcome.TIME_OUT, Outcome.IMPLAUSIBLE, Outcome.COMPILE_ERROR)
"""Outcomes of candidates that were tried and gave no time."""


def summary(done: Finished, scale: Scale, database: str, places: Sequence[str] = ()) -> str:
    """The summary at the end of a search; `places` say where its schedule is (none: it is printed)."""
    lines = [f"{done.reason}; {counted(done.tally.trials, 'trial')} in {done.seconds:.1f} s"]
    if done.known:
        lines.append(f"{done.known} of these had records of this machine and were not measured again")
    if not done.tally.trials and not done.tally.outcomes:
        help = "" if done.interrupted else "; a larger `--budget` leaves time for some"
        return "\n".join([*lines, f"no candidate was tried{help}"])
    lines += ["", table(("count", "outcome", "why"), _counts(done)), ""]
    timing = None if done.best is None else done.best.result.timing
    if done.best is None or timing is None:
        return "\n".join([*lines, "nothing valid was found"])
    deviation = f" ± {seconds_text(timing.mad)}" if len(timing.samples) > 1 else ""
    lines.append(f"best      {seconds_text(timing.median)}{deviation}  {scale.rate(timing)}".rstrip())
    lines += [_tied(done)] if done.ties else []
    if scale.operations and scale.peak:
        lines.append(f"peak      {scale.peak / 1e9:.4g} GFLOP/s ({scale.dtype}), {scale.basis}")
    if scale.speed(timing) < SLOW_CORE:
        lines.append(f"note      the processor ran at {100 * scale.speed(timing):.0f} % of its known speed meanwhile")
    if timing.shared_core and timing.alone is not None:
        lines.append(f"note      another program had {100 * (1 - timing.alone):.0f} % of the core meanwhile")
    checked = [f"{v.inputs} (largest error {v.max_error:.2g})" for v in done.best.result.verified]
    lines.append("verified  " + ", ".join([*checked] if done.confirmed else [*checked, "not measured again"]))
    lines.append(f"record    {done.best.id} in {database}")
    lines += [f"schedule  {place}" for place in places] or [f"schedule\n\n{done.best.schedule.rstrip()}"]
    return "\n".join(lines)


def _tied(done: Finished) -> str:
    """The candidates whose times are indistinguishable from the best one's, and by how much they differ from it."""
    listed = ", ".join(f"record {r.id} ({_apart(g)})" for r, g in list(zip(done.ties, done.gaps, strict=True))[:4])
    more = f" and {len(done.ties) - 4} more" if len(done.ties) > 4 else ""
    known = all(g.is_known for g in done.gaps)
    how = "within the noise of it, timed in turn" if known else "perhaps: the noise of a single sample is not known"
    return f"tied      {how}: {listed}{more}"


def _apart(gap: Gap) -> str:
    interval = f" ± {100 * gap.noise:.1f}" if gap.is_known else ""
    return f"{100 * (gap.ratio - 1):+.1f}{interval} %"


def _counts(done: Finished) -> Iterator[tuple[object, str, str]]:
    """The rows of the table of outcomes; long reasons are wrapped for narrow terminals."""
    width = min(max(get_terminal_size().columns, 60), 120) - len("count  rejected by constraint  ")
    for outcome, count in done.tally.outcomes.most_common():
        reasons = _main_reasons(done, outcome)
        whys = [line for why in reasons for line in wrap(shorten(why, 3 * width), width, subsequent_indent="  ")]
        yield count, outcome.value, whys[0] if whys else ""
        yield from (("", "", line) for line in whys[1:])


def _main_reasons(done: Finished, outcome: Outcome) -> list[str]:
    reasons = sorted(((n, why) for (o, why), n in done.tally.reasons.items() if o is outcome), reverse=True)
    rest = sum(n for n, _ in reasons[3:])
    others = [f"{rest} × for {len(reasons) - 3} other reasons"] if rest else []
    return [f"{n} × {why}" for n, why in reasons[:3]] + others
