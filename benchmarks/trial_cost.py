"""What one trial costs, stage by stage: draw, text, lower, compile, verify, time, commit.

    python benchmarks/trial_cost.py [--trials 24] [--seed 0] [FILE:SPACE …]

Runs the very jobs that the tuner's processes run, one after the other in this process, with the cut-off that a search
would have; what is cut off is counted apart. `pickle` is what sends a candidate to the worker processes and back. Times
are milliseconds of wall time; `cpu` is the processor time of a whole trial, `build cpu` that of lowering and compiling,
which other programs disturb less.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from common import WORKLOADS, conditions, percentile, table

from mslang.search.replay_trace import distinct_candidates
from mslang.search.strategy import Problem, Rejections
from mslang.sema.modules import load
from mslang.target.detect import host
from mslang.tune import job as jobs
from mslang.tune.database import Database
from mslang.tune.record import Outcome, Result
from mslang.tune.recording import record_of, texts_of
from mslang.tune.sampling import trial_limits
from mslang.tune.task import Settings
from mslang.tune.tasks import tasks_of
from mslang.tune.workers import PRELOAD

STAGES = ("draw", "text", "pickle", "lower", "compile", "verify", "time", "commit", "all", "build cpu", "cpu")
STANDARD = ("gemm:cpu", "conv2d:cpu", "softmax:cpu")


def trials(item: str, count: int, settings: Settings) -> tuple[dict[str, list[float]], int]:
    """Milliseconds by stage of each candidate that was not cut off, and how many were."""
    file, _, name = item.rpartition(":")
    path = Path(file) if file.endswith(".ms") else WORKLOADS / f"{file}.ms"
    named = next(iter(tasks_of(load(str(path)), name, {}, host())))
    task, found, cut = named.task, defaultdict[str, list[float]](list), 0
    drawn = distinct_candidates(Problem(task.space, task.target, settings.seed), Rejections())
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder) / "records.db") as database:
        jobs.prepare(jobs.encode(jobs.PrepareJob(task.program, task.target, folder, settings.seed)))
        best: float | None = None
        for number in range(count + 1):
            took: dict[str, float] = {}
            cpu, begun = time.process_time(), time.perf_counter()
            one = next(drawn, None)
            if one is None:
                break
            took["draw"] = time.perf_counter() - begun
            sent = time.perf_counter()
            order = jobs.encode(jobs.BuildJob(one.candidate.program, task.target, task.allow_native, task.backend))
            took["pickle"] = time.perf_counter() - sent
            before = time.process_time()
            built: jobs.Built = pickle.loads(jobs.build(order))
            took["build cpu"] = time.process_time() - before
            sent = time.perf_counter()
            order = jobs.encode(
                jobs.MeasureJob(one.candidate.program, built, folder, trial_limits(settings.limits, best))
            )
            took["pickle"] += time.perf_counter() - sent
            result: Result = built.result or pickle.loads(jobs.measure(order))
            took |= result.stages
            start = time.perf_counter()
            texts = texts_of(one.candidate, "best")
            took["text"] = time.perf_counter() - start
            start = time.perf_counter()
            record = database.add(record_of(task, settings, "run", texts, one.hash, result, number))
            took["commit"] = time.perf_counter() - start
            took["all"], took["cpu"] = time.perf_counter() - begun, time.process_time() - cpu
            best = min((c for c in (record.cost, best) if c is not None), default=None)
            cut += result.outcome is Outcome.CUT_OFF and number > 0
            for stage, seconds in took.items() if number else ():
                # The first one pays for what is loaded once; timing that was cut off is not a whole trial.
                if result.outcome is not Outcome.CUT_OFF or stage not in ("time", "all", "cpu"):
                    found[stage].append(seconds * 1e3)
    return found, cut


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=STANDARD, metavar="FILE:SPACE")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for module in PRELOAD:
        __import__(module)
    rows = []
    for item in args.spaces:
        found, cut = trials(item, args.trials, Settings(args.seed))
        for name, of in (("median", median), ("p95", lambda x: percentile(x, 95))):
            figures = [f"{of(found[s]):.1f}" if found[s] else "–" for s in STAGES]
            rows.append(
                (f"{item} {name}", *figures, f"{len(found['draw'])}, {cut} cut off" if name == "median" else "")
            )
    print(table(("ms", *STAGES, "trials"), rows))
    print(f"\n{conditions('llvmlite')}")


if __name__ == "__main__":
    main()
