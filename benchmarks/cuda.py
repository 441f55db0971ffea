"""The library's schedules for GPUs beside torch (cuBLAS, cuDNN), interleaved in one run.

    python benchmarks/cuda.py [--json] [--rounds 51] [NAME ...]

Times are those of single runs between two events of the GPU, each after its L2 cache was overwritten. Figures
are medians with quartiles; the ratio is that of torch's times to the schedule's, round by round. The share is that of
the peak of the operations or of the memory bandwidth that the case is bound by, as NVIDIA's data sheets give it for the
card. Results are compared with torch's first: sums of f16 products are f32 here, f16 in torch. Without a GPU the exit
status is 3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

sys.path.insert(0, str(Path(__file__).parent))
from common import conditions, ratio, show, table

Start = Callable[[], object]


class Case(NamedTuple):
    """A schedule of the library at a size, what bounds it, and how much of that a run takes.

    `bound` is a key of `Peaks`; `amount` are operations, or bytes for `bandwidth`. `tolerance` is relative, and
    absolute to the largest result.
    """

    name: str
    module: str
    schedule: str
    program: str
    sizes: Mapping[str, int]
    bound: str
    amount: float
    tolerance: float = 1e-3


_GEMM = {"M": 4096, "N": 4096, "K": 4096}
_ROWS = {"M": 8192, "N": 4096}
_CONV = {"N": 16, "H": 56, "W": 56, "CI": 64, "CO": 64}
_ATTENTION = {"B": 16, "L": 2048, "T": 2048, "D": 64}
_F16 = "std.cuda.gemm_f16"

CASES = (
    Case("gemm_f16", "std.cuda.gemm_mma", "f16_by_warps", f"{_F16}.gemm_f16", _GEMM, "f16", 2.0 * 4096**3, 1e-2),
    Case("gemm_f16_wmma", _F16, "tensor_cores", f"{_F16}.gemm_f16", _GEMM, "f16", 2.0 * 4096**3, 1e-2),
    Case("gemm_f32", "std.cuda.gemm", "simt", "std.workloads.gemm.gemm", _GEMM, "f32", 2.0 * 4096**3),
    Case("gemm_s8", "std.cuda.gemm_mma", "s8_by_warps", "std.cuda.gemm_mma.gemm_s8", _GEMM, "s8", 2.0 * 4096**3, 0.0),
    Case(
        "softmax", "std.cuda.rows", "fused_rows", "std.workloads.softmax.softmax", _ROWS, "bandwidth", 8.0 * 8192 * 4096
    ),
    Case(
        "layer_norm",
        "std.cuda.rows",
        "normalised_rows",
        "std.workloads.layer_norm.layer_norm",
        _ROWS,
        "bandwidth",
        8.0 * 8192 * 4096,
    ),
    Case(
        "conv2d",
        "std.cuda.conv",
        "shared_tiles",
        "std.workloads.conv2d.conv2d_nhwc",
        _CONV,
        "f32",
        2.0 * 16 * 56 * 56 * 64 * 64 * 9,
    ),
    Case(
        "attention",
        "std.cuda.online_attention",
        "by_tiles",
        "std.cuda.online_attention.online_attention",
        _ATTENTION,
        "f32",
        4.0 * 16 * 2048 * 2048 * 64,
    ),
)

Peaks = Mapping[str, float]
"""Operations a second of f32, of f16 and of s8 (tensor cores, dense), and bytes a second."""

PEAKS: Mapping[str, Peaks] = {
    "H200": {"f32": 67e12, "f16": 989e12, "s8": 1979e12, "bandwidth": 4.8e12},
    "H100": {"f32": 67e12, "f16": 989e12, "s8": 1979e12, "bandwidth": 3.35e12},
    "A100": {"f32": 19.5e12, "f16": 312e12, "s8": 624e12, "bandwidth": 1.555e12},
}
"""By a part of the card's name: NVIDIA's data sheets of the SXM forms."""


class Clock(Protocol):
    """What times a run on a GPU."""

    def __call__(self, start: Start) -> float:
        """Seconds of one run, the cache cold."""


class Row(NamedTuple):
    """What was measured of one contender: seconds (lower quartile, median, upper quartile), amount a second."""

    name: str
    who: str
    quartiles: tuple[float, float, float]
    rate: float
    share: float | None
    faster: tuple[float, float, float]


def interleaved(runs: Mapping[str, Start], clock: Clock, rounds: int) -> dict[str, list[float]]:
    """Times of several contenders in turn, A B A B …, after one run of each that does not count."""
    found: dict[str, list[float]] = {who: [] for who in runs}
    for start in runs.values():
        clock(start)
    for _ in range(rounds):
        for who, start in runs.items():
            found[who].append(clock(start))
    return found


def rows_of(case: Case, times: Mapping[str, Sequence[float]], peaks: Peaks | None) -> list[Row]:
    """The figures of a case; ratios say how many times faster `mslang` is."""
    rows = []
    for who, found in times.items():
        low, middle, high = statistics.quantiles(found, n=4)
        rate = case.amount / middle
        share = None if peaks is None else rate / peaks[case.bound]
        rows.append(Row(case.name, who, (low, middle, high), rate, share, ratio(times["mslang"], found)))
    return rows


def as_table(rows: Sequence[Row], bounds: Mapping[str, str]) -> str:
    """The rows as Markdown; `bounds` says what each case is bound by."""
    head = ("case", "who", "time (quartiles)", "rate", "share of peak", "mslang is faster by")
    lines = []
    for r in rows:
        low, middle, high = r.quartiles
        unit, scale = ("GB/s", 1e9) if bounds[r.name] == "bandwidth" else ("TOP/s", 1e12)
        share = "–" if r.share is None else f"{r.share:.0%}"
        f_middle, f_low, f_high = r.faster
        time = f"{show(middle)} [{show(low)}, {show(high)}]"
        lines.append(
            (r.name, r.who, time, f"{r.rate / scale:.4g} {unit}", share, f"{f_middle:.2f} [{f_low:.2f}, {f_high:.2f}]")
        )
    return table(head, lines)


def as_json(row: Row, bound: str, device: str) -> str:
    """A row as one line of JSON, times in seconds."""
    low, middle, high = row.quartiles
    fields = {
        "case": row.name,
        "who": row.who,
        "median": middle,
        "quartiles": [low, high],
        "rate": row.rate,
        "bound": bound,
        "share": row.share,
        "faster": row.faster[0],
        "faster_quartiles": row.faster[1:],
        "device": device,
    }
    return json.dumps(fields)


def peaks_of(device: str) -> Peaks | None:
    """The peaks of a card by its name; None of an unknown one."""
    return next((p for part, p in PEAKS.items() if part in device), None)


# ------------------------------------------------------------------ on a GPU
def scheduled(case: Case) -> Any:
    """The program of a case after its schedule."""
    from mslang.schedule.strategies import space_of
    from mslang.sema.modules import load

    home, _, name = case.program.rpartition(".")
    text = f"""use {case.module}.{{{case.schedule}}}
use {home}.{{{name}}}
use std.cuda.{{sm_80}}
space s for {name} on sm_80 = {case.schedule}
"""
    return space_of(load("benchmark.ms", text), "s", sizes=case.sizes).sample(0).program


def arrays_of(program: Any, seed: int = 0) -> dict[str, Any]:
    """Random inputs: small integers for bytes, values of spread 1 for floats."""
    import numpy as np

    random = np.random.default_rng(seed)
    found = {}
    for p in program.params:
        shape = tuple(int(n.value) for n in p.given.shape)
        if p.direction != "out":
            whole = p.given.dtype == "i8"
            values = random.integers(-8, 8, shape) if whole else random.standard_normal(shape, np.float32)
            found[p.given.name] = values.astype({"i8": np.int8, "f16": np.float16, "f32": np.float32}[p.given.dtype])
    return found


def torch_of(case: Case, arrays: Mapping[str, Any]) -> tuple[Start, Callable[[Any], Any]]:
    """What torch does for a case, on the GPU; and its result as an array as the schedule has it."""
    import torch
    from torch.nn import functional

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    t = {name: torch.from_numpy(a).cuda() for name, a in arrays.items()}

    def plain(y: Any) -> Any:
        return y.float().cpu().numpy() if y.dtype == torch.float16 else y.cpu().numpy()

    match case.name:
        case "gemm_f16" | "gemm_f16_wmma" | "gemm_f32":
            return lambda: torch.mm(t["A"], t["B"]), plain
        case "gemm_s8":
            return lambda: torch._int_mm(t["A"], t["B"].t()), plain
        case "softmax":
            return lambda: torch.softmax(t["X"], -1), plain
        case "layer_norm":
            return lambda: functional.layer_norm(t["X"], t["X"].shape[-1:], t["gamma"], t["beta"]), plain
        case "conv2d":
            x = t["x"].permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
            f = t["f"].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
            return lambda: functional.conv2d(x, f, padding=1), lambda y: plain(y.permute(0, 2, 3, 1))
        case "attention":
            q, k, v = (t[n].unsqueeze(0) for n in "QKV")
            return lambda: functional.scaled_dot_product_attention(q, k, v), lambda y: plain(y.squeeze(0))
    raise ValueError(f"nothing of torch is known for {case.name}")


def device_clock(device: Any) -> tuple[Clock, Callable[[], None]]:
    """A clock on a GPU (`mslang.backend.cuda.device.Device`), and what frees what it holds."""
    size = max(2 * device.l2, 32 << 20)
    scratch = device.allocate(size)

    def clock(start: Start) -> float:
        device.fill(scratch, size)
        before = device.mark()
        start()
        return float(device.seconds(before, device.mark()))

    return clock, lambda: device.free(scratch)


def measured(case: Case, device: Any, rounds: int) -> list[Row]:
    """Compile, compare with torch, and time one case.

    Raises:
        AssertionError: the schedule and torch differ.
    """
    import numpy as np

    from mslang.backend.cuda.executable import compiled
    from mslang.backend.cuda.loaded import LoadedModule
    from mslang.lower.gpu import lower
    from mslang.target.description import SM_80, SM_90

    program = scheduled(case)
    target = SM_90 if device.sm >= 90 else SM_80
    arrays = arrays_of(program)
    bound = LoadedModule(compiled(lower(program, target), target), device).bind(**arrays)
    theirs, result = torch_of(case, arrays)
    (out,) = (p.given.name for p in program.params if p.direction == "out")
    clock, free = device_clock(device)
    try:
        bound.run()
        wanted = result(theirs())
        np.testing.assert_allclose(
            bound.arrays[out], wanted, rtol=case.tolerance, atol=case.tolerance * np.abs(wanted).max()
        )
        with bound.prepared():
            times = interleaved({"mslang": bound.start, "torch": theirs}, clock, rounds)
    finally:
        free()
    return rows_of(case, times, peaks_of(device.name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 done, 1 wrong results, 2 an unknown name, 3 no GPU or no torch."""
    from mslang.diagnostics import MsError

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(c.name for c in CASES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=51)
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {c.name for c in CASES}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in CASES)}", file=sys.stderr)
        return 2
    chosen = [c for c in CASES if not options.names or c.name in options.names]
    try:
        from mslang.backend.cuda.device import device

        gpu = device()
        import torch

        torch.cuda.init()
    except (MsError, ImportError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        print(f"benchmarks/cuda.py needs a GPU of NVIDIA, pycuda and torch with CUDA: {first}", file=sys.stderr)
        return 3
    rows: list[Row] = []
    for case in chosen:
        try:
            found = measured(case, gpu, options.rounds)
        except AssertionError as error:
            print(f"{case.name}: the schedule and torch differ{error}", file=sys.stderr)
            return 1
        rows += found
        if options.json:
            print("\n".join(as_json(r, case.bound, gpu.name) for r in found), flush=True)
    if not options.json:
        print(as_table(rows, {c.name: c.bound for c in CASES}))
        print(f"\n{gpu.name}. {conditions('torch', 'pycuda')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
