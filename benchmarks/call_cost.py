"""What a call from Python costs beside the work itself: a kernel of 256 additions, called in each way there is.

    python benchmarks/call_cost.py [--rounds N] [--json]

The kernel's own run takes some ten nanoseconds, so that what is printed is the cost of the call: of `kernel(a, b, c)`
with arrays in a form that was accepted before and in one that was not, with the output left out, of bound arguments,
and with torch tensors; NumPy and torch beside. Medians of rounds of 50 calls in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from common import conditions, interleaved, table

import mslang as ms
from mslang.runtime.kernel import LoadedKernel

TEXT = "program add[N = 256](A: f32[N], B: f32[N], out C: f32[N]) { block add[i: N] { C[i] = A[i] + B[i] } }"
CALLS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=401)
    parser.add_argument("--json", action="store_true", help="one line of JSON: microseconds a call")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("there must be a round")
    kernel = ms.build(ms.parse_program(TEXT))
    times = interleaved({name: many(call) for name, call in calls(kernel).items()}, options.rounds, 0)
    found = {name: statistics.median(x) / CALLS * 1e6 for name, x in times.items()}
    found["kernel(a, b, c), new form"] = statistics.median(new_form(kernel) for _ in range(options.rounds)) * 1e6
    if options.json:
        print(json.dumps(found))
        return
    print(table(("call", "µs"), [(name, f"{x:.1f}") for name, x in sorted(found.items(), key=lambda x: x[1])]))
    print(f"\n{conditions('numpy', 'torch', 'llvmlite')}")


def calls(kernel: LoadedKernel) -> dict[str, Callable[[], object]]:
    """Ways to add two arrays."""
    a, b, c = (np.ones(256, np.float32) for _ in range(3))
    found: dict[str, Callable[[], object]] = {
        "kernel(a, b, c)": lambda: kernel(a, b, c),
        "kernel(a, b)": lambda: kernel(a, b),
        "bound.run()": kernel.bind(a, b, c).run,
        "numpy.add(a, b, c)": lambda: np.add(a, b, c),
    }
    if find_spec("torch") is None:
        return found
    import torch

    x, y, z = (torch.ones(256) for _ in range(3))
    return found | {
        "kernel(x, y, z), torch tensors": lambda: kernel(x, y, z),
        "kernel(x, y), torch tensors": lambda: kernel(x, y),
        "torch.add(x, y, out=z)": lambda: torch.add(x, y, out=z),
    }


def many(call: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


def new_form(kernel: LoadedKernel) -> float:
    """Seconds of one call whose arguments are checked: by name, which is not a form that is remembered."""
    a, b, c = (np.ones(256, np.float32) for _ in range(3))
    start = time.perf_counter()
    kernel(a, b, C=c)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
