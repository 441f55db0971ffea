"""TVM's side of `tuning_curve.py`: MetaSchedule in a process of its own, and its kernels on our arrays.

The space, the search strategy, the cost model, the trials of an iteration (64) and the database are MetaSchedule's
defaults; the target has all cores of this machine and LLVM's name of its processor. What differs:

- Each candidate is built in the tuning process, by TVM's `default_build`, right before it runs. Its LocalBuilder builds
  an iteration's candidates first, by a worker process for each logical core, and gives up a build after 30 s.
- It runs in the tuning process, on numbers of a normal distribution. Its LocalRunner has a worker process, and gives up
  a run after 30 s.
- A time is the mean of 3 samples of 20 ms or more; its default is one sample of 100 ms or more.
- TVM has as many threads as ours (`TVM_NUM_THREADS`); by itself it takes half of x86's logical cores.

So no process is started for a candidate, and the first times are there sooner, but two candidates are never built at
once, and one that takes long holds up the rest. With a limit of seconds the process is ended after them, whatever it
does; what was the best until then is its best.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from tuning_runs import Curve, Point

from mslang.interop.tvm.program_out import to_graph
from mslang.ir.program import Program
from mslang.target.detect import host


class Tuned(NamedTuple):
    """The curve of MetaSchedule, and the library of each point (None: it was not kept)."""

    curve: Curve
    libraries: tuple[Path | None, ...]

    def kernels(self, slow: float) -> dict[int, Path]:
        """The libraries of points that take at most so many times as long as the last, by the point's number."""
        limit = slow * min((p.seconds for p in self.curve.points), default=0.0)
        points = enumerate(zip(self.curve.points, self.libraries, strict=True))
        return {k: path for k, (p, path) in points if path is not None and p.seconds <= limit}


def tuned(folder: Path, name: str, program: Program, seed: int, trials: int, seconds: float | None) -> Tuned:
    """What MetaSchedule finds within so many trials, and so many seconds where they are given; kept in the folder.

    Where it has found nothing yet, nothing is kept.
    """
    kept = folder / f"{name}-tvm-{seed}.json"
    own = folder / f"{name}-{seed}"
    if kept.exists():
        found = msgspec.json.decode(kept.read_bytes(), type=Curve)
    else:
        found = _tuned_now(own, program, seed, trials, seconds)
        if found.points:
            shutil.copyfile(own / "kept" / f"{found.points[-1].trial}.so", own.with_suffix(".so"))
            kept.write_bytes(msgspec.json.encode(found))
    libraries = [own / "kept" / f"{p.trial}.so" for p in found.points]
    if libraries:
        libraries[-1] = own.with_suffix(".so")
    return Tuned(found, tuple(path if path.exists() else None for path in libraries))


def _tuned_now(own: Path, program: Program, seed: int, trials: int, seconds: float | None) -> Curve:
    """Run the process and read what it kept; of one that fails, what it had by then, and the error."""
    shutil.rmtree(own, ignore_errors=True)
    kept = own / "kept"
    kept.mkdir(parents=True)
    machine = host()
    given = {
        "graph": to_graph(program),
        "target": {"kind": "llvm", "num-cores": machine.cores or 1, "mcpu": machine.cpu},
        "trials": trials,
        "seed": seed,
        "work": str(own),
        "kept": str(kept),
    }
    script = str(Path(__file__).with_name("tvm_tuning_process.py"))
    stopped, failed = False, ""
    begun = time.time()
    with tempfile.TemporaryDirectory() as candidates:
        text = json.dumps({**given, "candidates": candidates})
        try:
            done = subprocess.run([sys.executable, script], input=text, capture_output=True, text=True, timeout=seconds)
            if done.returncode:
                failed = _error(done.stderr) or f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            stopped = True
    took = time.time() - begun
    lines = kept / "trials.jsonl"
    ran = [json.loads(x) for x in lines.read_text().splitlines()] if lines.exists() else []
    points = tuple(Point(x["after"], x["trial"], x["seconds"]) for x in ran if x["best"])
    return Curve(points, len(ran), took, stopped=stopped, failed=failed)


def _error(stderr: str) -> str:
    """What went wrong, in a line: the message of a primitive that refused its argument stands below the program."""
    lines = [x.strip() for x in stderr.splitlines() if x.strip()]
    said = [x for x in lines if x.startswith("Error message:")]
    return (said or lines or [""])[-1].removeprefix("Error message:").strip()


def bound(library: Path, arrays: Sequence[np.ndarray[Any, Any]]) -> Callable[[], object]:
    """A kernel of TVM's, given the same memory: where its pages lie decides how much of it a cache holds."""
    import ml_dtypes
    import tvm

    function = tvm.runtime.load_module(str(library))["main"]
    # What is exchanged with NumPy in place has no bf16.
    short = np.dtype(np.uint16)
    given = [
        tvm.runtime.tensor(a.view(ml_dtypes.bfloat16)) if a.dtype == short else tvm.runtime.from_dlpack(a)
        for a in arrays
    ]
    return lambda: function(*given)
