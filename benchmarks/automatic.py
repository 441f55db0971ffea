"""The automatic space beside the schedules by hand: the best of as many random draws of each, without a search.

python benchmarks/automatic.py [NAME …] [--draws N] [--rounds N]

Every kernel's result is compared with the unscheduled program's. All are timed in turn on one core, first shortly; the
three fastest of each side are timed again, and the ratio is that of the minimum times.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from common import conditions, interleaved, show, table

import mslang as ms
from mslang.diagnostics import MsError
from mslang.ir.program import Program
from mslang.resources import stdlib_folder
from mslang.schedule.rules.automatic import automatic_space
from mslang.schedule.space import Rejection, Space
from mslang.sema.modules import load
from mslang.target.detect import host
from mslang.tune.tasks import spaces_for
from mslang.tune.verification import SPARSE, Difference, compare, make_arguments, make_inputs

NAMES: Mapping[str, tuple[str, str, Mapping[str, int]]] = {
    "gemm_512": ("workloads/gemm", "gemm", {}),
    "gemm_1024": ("workloads/gemm", "gemm", {"M": 1024, "N": 1024, "K": 1024}),
    "dense_bias_relu": ("workloads/dense", "dense_bias_relu", {}),
    "bmm": ("workloads/batch_gemm", "batch_gemm", {}),
    "conv2d_nhwc": ("workloads/conv2d", "conv2d_nhwc", {}),
    "conv2d_nchw": ("workloads/conv2d_nchw", "conv2d_nchw", {}),
    "conv2d_grouped": ("workloads/conv2d_nchw", "conv2d_grouped", {}),
    "depthwise": ("workloads/depthwise", "depthwise_nhwc", {}),
    "softmax": ("workloads/softmax", "softmax", {}),
    "layer_norm": ("workloads/layer_norm", "layer_norm", {}),
    "attention": ("workloads/attention", "attention", {}),
    "matrix_norm": ("workloads/norm", "matrix_norm", {}),
    "gemm_u8s8": ("cpu/gemm_bytes", "gemm_u8s8", {}),
    "gemm_s8s8": ("cpu/gemm_bytes", "gemm_s8s8", {}),
}
"""File of the library, program, sizes that differ from its own."""

KEPT = 3
"""So many of each side are timed again."""

Kernels = dict[str, Callable[[], object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all where none is given")
    parser.add_argument("--draws", type=int, default=24, help="candidates of each side")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    unknown = [n for n in options.names if n not in NAMES]
    if unknown:
        parser.error(f"there is no program {unknown[0]}; there are {', '.join(NAMES)}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    rows = [compared(name, options.draws, options.rounds) for name in options.names or NAMES]
    print(table(("program", "by hand", "automatic", "automatic / by hand"), rows))
    print(f"\n{options.draws} draws of each side. {conditions('numpy', 'llvmlite')}")


def compared(name: str, draws: int, rounds: int) -> tuple[str, str, str, str]:
    """The fastest of both sides."""
    file, program_name, sizes = NAMES[name]
    path = str(stdlib_folder() / f"{file}.ms")
    source, target = ms.load(path), host()
    program = source.program(program_name, **sizes)
    hand = [source.space(s, sizes=dict(sizes), target=target) for s in spaces_for(load(path), program_name)]
    times: dict[str, float] = {}
    kept: Kernels = {}
    for side, spaces in (("by hand", hand), ("automatic", [automatic_space(program, target)])):
        kernels = built(program, drawn(spaces, draws), side)
        first = {k: min(t) for k, t in interleaved(kernels, 2, least=0.001).items()}
        kept |= {k: kernels[k] for k in sorted(first, key=lambda k: first[k])[:KEPT]}
    for key, samples in interleaved(kept, rounds).items():
        side = key.partition(" #")[0]
        times[side] = min(times.get(side, float("inf")), *samples)
    ratio = times["automatic"] / times["by hand"]
    print(f"{name}: {ratio:.2f}", flush=True)
    return name, show(times["by hand"]), show(times["automatic"]), f"{ratio:.2f}"


def drawn(spaces: Sequence[Space], draws: int) -> Iterator[Program]:
    """Distinct candidates of several spaces, in turn."""
    known: set[Program] = set()
    for attempt in range(8 * draws):
        found = spaces[attempt % len(spaces)].attempt(0, attempt // len(spaces))
        if isinstance(found, Rejection) or found.program in known:
            continue
        known.add(found.program)
        yield found.program
        if len(known) == draws:
            return


def built(program: Program, candidates: Iterator[Program], side: str) -> Kernels:
    """Candidates, compiled and bound; one that computes something else ends the run.

    Raises:
        SystemExit: a result is wrong, or nothing could be compiled.
    """
    inputs = make_inputs(program, SPARSE, 0)
    expected = make_arguments(program, inputs)
    ms.build(program).bind(**expected).run()
    found: Kernels = {}
    for number, candidate in enumerate(candidates):
        try:
            kernel = ms.build(candidate)
        except MsError:
            continue
        arrays = make_arguments(program, {k: np.copy(x) for k, x in inputs.items()})
        bound: Any = kernel.bind(**arrays)
        bound.run()
        different = compare(program, expected, arrays, SPARSE)
        if isinstance(different, Difference):
            raise SystemExit(f"{program.name}, {side} #{number}: {different.text}")
        found[f"{side} #{number}"] = bound.run
    if not found:
        raise SystemExit(f"{program.name}: nothing {side} could be compiled")
    return found


if __name__ == "__main__":
    main()
