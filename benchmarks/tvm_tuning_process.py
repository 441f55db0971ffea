"""The process in which `tvm_tuning.py` lets MetaSchedule tune: a builder and a runner that keep each best candidate.

It reads a JSON object from standard input. Each candidate that ran has a line in `kept/trials.jsonl`, and one that is
the best so far is a library in the folder `kept` before that, so whatever ends the process loses neither.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BEGUN = time.time()

import ml_dtypes  # noqa: E402, F401 - names `bfloat16` to NumPy
import numpy as np  # noqa: E402
import tvm  # noqa: E402
from tvm.ir.utils import derived_object  # noqa: E402
from tvm.s_tir import meta_schedule as m  # noqa: E402
from tvm.s_tir.meta_schedule.builder.local_builder import default_build  # noqa: E402
from tvm.s_tir.meta_schedule.runner import PyRunnerFuture  # noqa: E402

Pending = dict[str, Any]
"""Candidates that are to be built, by the path of their library."""


@derived_object
class Builder(m.builder.PyBuilder):  # type: ignore[misc]
    """Leaves the building to the runner; each library has a folder of its own, which TVM deletes."""

    def __init__(self, folder: Path, pending: Pending) -> None:
        super().__init__()
        self.folder = folder
        self.pending = pending

    def build(self, inputs: list[Any]) -> list[Any]:
        return [self.one(x) for x in inputs]

    def one(self, given: Any) -> Any:
        path = str(Path(tempfile.mkdtemp(dir=self.folder)) / "candidate.so")
        self.pending[path] = given
        return m.builder.BuilderResult(path, None)


@derived_object
class Done(PyRunnerFuture):  # type: ignore[misc]
    """A result that is there."""

    def __init__(self, seconds: list[float] | None, error: str | None) -> None:
        super().__init__()
        self.seconds = seconds
        self.error = error

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return m.runner.RunnerResult(self.seconds, self.error)


@derived_object
class Runner(m.runner.PyRunner):  # type: ignore[misc]
    """Builds and times candidates one after the other, in this process."""

    def __init__(self, kept: Path, pending: Pending) -> None:
        super().__init__()
        self.kept = kept
        self.pending = pending
        self.count = 0
        self.best = float("inf")

    def run(self, inputs: list[Any]) -> list[Any]:
        return [self.one(x) for x in inputs]

    def one(self, given: Any) -> Any:
        self.count += 1
        path = str(given.artifact_path)
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal([int(n) for n in a.shape]).astype(str(a.dtype)) for a in given.args_info]
        try:
            candidate = self.pending.pop(path)
            default_build(candidate.mod, candidate.target, None).export_library(path)
            evaluate = tvm.runtime.load_module(path).time_evaluator(
                "main", tvm.cpu(), number=1, repeat=3, min_repeat_ms=20
            )
            seconds = [float(t) for t in evaluate(*(tvm.runtime.tensor(a) for a in arrays)).results]
        except Exception as error:  # noqa: BLE001
            return Done(None, str(error)[-300:])
        mean = sum(seconds) / len(seconds)
        best = mean < self.best
        self.best = min(self.best, mean)
        self.note(mean, path if best else None)
        return Done(seconds, None)

    def note(self, seconds: float, library: str | None) -> None:
        """Keep the library of a best candidate, then a line for any."""
        line = {"after": time.time() - BEGUN, "trial": self.count, "seconds": seconds, "best": library is not None}
        if library is not None:
            part = self.kept / "part"
            shutil.copyfile(library, part)
            part.replace(self.kept / f"{self.count}.so")
        with (self.kept / "trials.jsonl").open("a") as lines:
            lines.write(json.dumps(line) + "\n")


def main() -> None:
    given = json.loads(sys.stdin.read())
    pending: Pending = {}
    m.tune_tir(
        tvm.ir.load_json(given["graph"]),
        tvm.target.Target(given["target"]),
        work_dir=given["work"],
        max_trials_global=given["trials"],
        builder=Builder(Path(given["candidates"]), pending),
        runner=Runner(Path(given["kept"]), pending),
        seed=given["seed"],
    )


if __name__ == "__main__":
    main()
