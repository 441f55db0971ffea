"""A database of TVM's for GPUs, imported: does every record import, compile with nvcc, and compute what TVM computes?

python benchmarks/tvm_kernels.py [WORKLOAD …] [--rules cuda tensorcore dp4a] [--draws N] [--seed N]
    [--archs sm_80 sm_90] [--state FILE] [--update]

Needs `apache-tvm` (extra `bench`) and g++; without nvcc nothing is compiled for a GPU. MetaSchedule draws schedules of
small workloads by its rules for GPUs and for tensor cores, and of products of bytes by its rule for dp4a, and commits
them, with made-up times, to a database of its own. Each record is imported and printed as CUDA C, which nvcc compiles
for each architecture. That for sm_80 is run in the emulation of the tests (`tests/cuda`), which also reports races and
divergent barriers; its results are compared with those of the unscheduled program as TVM compiles it for the CPU.
`--state` keeps the outcomes in a file, so that a run that was stopped goes on, and the workloads can be run one by one.

The exit status is 1 if something failed or there was no record, and 3 where TVM or g++ is missing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from common import ROOT, WIDTH, class_of, conditions, said, table

sys.path.insert(0, str(ROOT))

from mslang.backend.cuda.compiled import Compiled, Compiler
from mslang.backend.cuda.nvcc import Nvcc
from mslang.diagnostics import MsError
from mslang.interop.tvm import import_trace, read_database
from mslang.interop.tvm.trace_json import TvmTrace
from mslang.ir.program import Program
from mslang.target.description import SM_80, SM_90, Target
from tests.cuda.emulator import CompileError, why_not
from tests.cuda.modules import Arrays, Ran, emulate, made
from tests.property.judge import sparse_inputs

T = TypeVar("T")


class Workload(NamedTuple):
    """A function of `te_workload`, TVM's own workloads, or of `tvm_kernel_records`, and its arguments."""

    function: str
    sizes: tuple[int, ...]
    dtypes: Mapping[str, str] = {}


_F16 = {"in_dtype": "float16", "out_dtype": "float32"}
_S8 = {"in_dtype": "int8", "out_dtype": "int32"}
WORKLOADS = {
    "matmul": Workload("matmul", (32, 48, 64)),
    "matmul_odd": Workload("matmul", (33, 20, 17)),
    "matmul_relu": Workload("matmul_relu", (32, 32, 32)),
    "matmul_f16": Workload("matmul", (64, 64, 64), _F16),
    "matmul_relu_f16": Workload("matmul_relu", (64, 64, 64), _F16),
    "batch_matmul": Workload("batch_matmul_nkkm", (2, 16, 16, 16)),
    "transpose_batch_matmul": Workload("transpose_batch_matmul", (1, 16, 2, 16)),
    "conv1d": Workload("conv1d_nlc", (1, 16, 8, 16, 3, 2, 1)),
    "conv2d": Workload("conv2d_nhwc", (1, 8, 8, 8, 16, 3, 1, 1)),
    "conv2d_f16": Workload("conv2d_nhwc", (1, 16, 16, 16, 16, 3, 1, 1), _F16),
    "conv2d_nchw": Workload("conv2d_nchw", (1, 8, 8, 8, 8, 3, 3, 1, 1)),
    "conv2d_bn_relu": Workload("conv2d_nhwc_bn_relu", (1, 8, 8, 8, 8, 3, 1, 1)),
    "conv2d_transpose": Workload("conv2d_transpose_nhwc", (1, 4, 4, 8, 8, 4, 2, 1)),
    "conv2d_capsule": Workload("conv2d_capsule_nhwijc", (1, 4, 4, 4, 4, 3, 2, 1)),
    "conv3d": Workload("conv3d_ndhwc", (1, 4, 4, 4, 4, 8, 3, 1, 1)),
    "depthwise": Workload("depthwise_conv2d_nhwc", (1, 8, 8, 16, 3, 1, 1)),
    "max_pool": Workload("max_pool2d_nchw", (1, 8, 8, 8, 1)),
    "norm": Workload("norm_bmn", (2, 16, 40)),
    "softmax": Workload("softmax_mn", (8, 70)),
    "dense_s8": Workload("dense_nk", (16, 32, 64), _S8),
    "conv2d_s8": Workload("conv2d_nhwc_ohwi", (1, 10, 10, 16, 32, 3), _S8),
}
DP4A = "dp4a"
BYTES = ("dense_s8", "conv2d_s8")
"""Workloads for the rules `dp4a`, which are for no others."""
RULES = ("cuda", "tensorcore", DP4A)
ARCHS: Mapping[str, Target] = {t.name: t for t in (SM_80, SM_90)}
TOLERANCE = 1e-4
IMPORTED, EMULATED = "imported", "TVM's result in the emulation"
PAGE = ROOT / "docs" / "tvm.md"
BEGIN, END = "<!-- kernels: begin -->", "<!-- kernels: end -->"


class Settings(msgspec.Struct, frozen=True):
    """What outcomes depend on; `steps` are those that records go through, in order."""

    draws: int
    seed: int
    steps: tuple[str, ...]


class Tried(msgspec.Struct, frozen=True):
    """The outcome of a workload with one set of rules.

    Each of `records`, those that were read, has the steps that were taken, with what is wrong, or nothing. `undrawn`
    has the reason for each schedule that TVM did not draw, `diagnostics` are those of reading the database.
    """

    workload: str
    rules: str
    settings: Settings
    committed: int
    undrawn: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()
    records: tuple[Mapping[str, str], ...] = ()

    @property
    def unread(self) -> int:
        """Records that were committed and not read."""
        return self.committed - len(self.records)

    def passed(self, step: str) -> int:
        """Records that passed a step; one that was not taken is not passed."""
        return sum(r.get(step) == "" for r in self.records)

    @property
    def failures(self) -> tuple[str, ...]:
        """Everything that is wrong here; what TVM does not draw is not."""
        steps = (f"{step}: {why}" for r in self.records for step, why in r.items() if why)
        return (*self.diagnostics, *("a record is not read",) * self.unread, *steps)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the databases, import them, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"{', '.join(WORKLOADS)}; all by default")
    parser.add_argument("--rules", nargs="+", choices=RULES, default=RULES)
    parser.add_argument("--draws", type=int, default=1, help="schedules of each sketch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--archs", nargs="+", choices=tuple(ARCHS), default=tuple(ARCHS))
    parser.add_argument("--state", type=Path, help="the file that outcomes are kept in")
    parser.add_argument("--update", action="store_true", help="write the tables into docs/tvm.md")
    options = parser.parse_args(arguments)
    if unknown := [w for w in options.workloads if w not in WORKLOADS]:
        parser.error(f"unknown workload {unknown[0]}; known are {', '.join(WORKLOADS)}")
    if options.draws < 1:
        parser.error("--draws: at least 1")
    try:
        before = kept(options.state)
    except (OSError, msgspec.MsgspecError) as error:
        parser.error(f"--state: {options.state} does not hold outcomes of this script: {error}")
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 3
    nvcc = Nvcc(path) if (path := shutil.which("nvcc")) else None
    archs = [f"nvcc {a}" for a in ARCHS if nvcc and a in options.archs]
    settings = Settings(options.draws, options.seed, (IMPORTED, *archs, EMULATED))
    known = {(t.workload, t.rules): t for t in before if t.settings == settings}
    wanted = dict.fromkeys(
        (w, r) for r in options.rules for w in options.workloads or WORKLOADS if (w in BYTES) == (r == DP4A)
    )
    if todo := [key for key in wanted if key not in known]:
        try:
            import tvm_kernel_records as tvm_side
        except (ImportError, OSError, RuntimeError) as error:
            print(f"needs apache-tvm (the extra `bench`): {error}", file=sys.stderr)
            return 3
        for key in todo:
            known[key] = tried(*key, settings, nvcc, tvm_side)
            keep(options.state, known[key])
            print(*described(known[key]), sep="\n", flush=True)
    found = [known[key] for key in wanted]
    drawn = f"Schedules of each sketch: {options.draws}, from seed {options.seed}."
    compiler = f"{nvcc.version()}." if nvcc else "No nvcc."
    text = f"{summary(found)}\n\n{fill(' '.join((drawn, compiler, conditions('apache-tvm', 'numpy'))), WIDTH)}"
    print(text)
    if options.update:
        page = PAGE.read_text()
        PAGE.write_text(f"{page[: page.index(BEGIN)]}{BEGIN}\n{text}\n{page[page.index(END) :]}")
    return status(found)


# ------------------------------------------------------------------ one workload
def tried(workload: str, rules: str, settings: Settings, nvcc: Compiler | None, tvm_side: Any) -> Tried:
    """Have TVM commit the schedules of a workload; import, compile and run each."""
    with tempfile.TemporaryDirectory() as folder:
        commit = partial(tvm_side.commit, *WORKLOADS[workload], rules, settings.draws, settings.seed, folder)
        given, why = attempt(commit)
        if given is None:
            return Tried(workload, rules, settings, 0, (why,))
        mod, committed, undrawn = given
        if not committed:
            return Tried(workload, rules, settings, 0, undrawn)
        read = read_database(folder)
    records: list[Mapping[str, str]] = []
    for tuned in read.tuned():
        program = tuned.workload.program
        arrays = sparse_inputs(program, settings.seed)
        expected, why = attempt(partial(tvm_side.results, mod, program, arrays))
        for record in tuned.records:
            records.append(steps(program, record.trace, arrays, expected or f"TVM's own: {why}", settings, nvcc))
    return Tried(
        workload,
        rules,
        settings,
        committed,
        undrawn,
        tuple(said(MsError(d)) for d in read.diagnostics),
        tuple(records),
    )


def steps(
    program: Program, trace: TvmTrace, arrays: Arrays, expected: Arrays | str, settings: Settings, nvcc: Compiler | None
) -> Mapping[str, str]:
    """Take the steps of one record, each whatever came of the others; only the import is needed by all."""
    imported, why = attempt(lambda: import_trace(program, trace).program)
    if imported is None:
        return {IMPORTED: why}
    found = {IMPORTED: ""}
    for name, target in ARCHS.items():
        if nvcc is not None and (step := f"nvcc {name}") in settings.steps:
            _, found[step] = attempt(partial(compiled, imported, target, nvcc))
    ran, why = attempt(partial(emulate, imported, arrays, SM_80))
    found[EMULATED] = why if ran is None else against(ran, expected)
    return found


def attempt(step: Callable[[], T]) -> tuple[T | None, str]:
    """What a step gives; or None, and why it fails."""
    try:
        return step(), ""
    except MsError as error:
        return None, said(error)
    except CompileError as error:
        return None, f"g++ refuses the source: {str(error)[:1000]}"
    except Exception as error:  # noqa: BLE001 (TVM raises anything, and a crash of ours is one failure, not the end)
        return None, f"{type(error).__name__} {str(error).strip()[-300:]}"


def compiled(program: Program, target: Target, nvcc: Compiler) -> Compiled:
    """A scheduled program as nvcc compiles it.

    Raises:
        MsError: it cannot be printed, or nvcc refuses it.
    """
    return nvcc(made(program, target).source.text, str(dict(target.extra)["arch"]), "cubin")


def against(ran: Ran, expected: Arrays | str) -> str:
    """What is wrong with a run, by the results that TVM's code gives, or why there are none."""
    if isinstance(expected, str):
        return expected
    found = [f"wrong {n}" for n, a in expected.items() if not _close(a, ran.results.get(n))]
    return "; ".join([*found, *(f.text for f in ran.faults)])


def _close(a: np.ndarray, b: np.ndarray | None) -> bool:
    return b is not None and a.shape == b.shape and np.allclose(a, b, TOLERANCE, TOLERANCE)


# ------------------------------------------------------------------ outcomes
def kept(state: Path | None) -> list[Tried]:
    """The outcomes in a file, if there is one."""
    if state is None:
        return []
    state.parent.mkdir(parents=True, exist_ok=True)
    lines = state.read_bytes().splitlines() if state.exists() else []
    return [msgspec.json.decode(line, type=Tried) for line in lines]


def keep(state: Path | None, t: Tried) -> None:
    """Append an outcome to a file."""
    if state is not None:
        with state.open("ab") as file:
            file.write(msgspec.json.encode(t) + b"\n")


def described(t: Tried) -> Iterator[str]:
    """An outcome as lines."""
    passed = (f"{t.passed(step)} {step}" for step in t.settings.steps)
    yield f"{t.rules} {t.workload}: {len(t.records)} records, {', '.join(passed)}"
    yield from (f"  not drawn by TVM: {why}" for why in t.undrawn)
    yield from (f"  {why}" for why in t.failures)


def summary(found: Sequence[Tried]) -> str:
    """The tables for the page."""
    columns = list(dict.fromkeys(step for t in found for step in t.settings.steps))
    rows = []
    for rules in (*dict.fromkeys(t.rules for t in found), "all"):
        of = [t for t in found if rules in (t.rules, "all")]
        counts = [(len(t.undrawn), t.committed, len(t.records), *map(t.passed, columns)) for t in of]
        rows.append((rules, len({t.workload for t in of if t.records}), *map(sum, zip(*counts, strict=True))))
    text = table(("rules", "workloads with records", "not drawn by TVM", "records", "read", *columns), rows)
    undrawn = Counter(f"not drawn by TVM: {class_of(why)}" for t in found for why in t.undrawn)
    reasons = undrawn + Counter(class_of(why) for t in found for why in t.failures)
    return f"{text}\n\n{table(('what fails', 'times'), reasons.most_common())}" if reasons else text


def status(found: Sequence[Tried]) -> int:
    """The exit status: 0 if there are records, and all of them passed all steps."""
    whole = all(t.passed(step) == t.committed for t in found for step in t.settings.steps)
    return 0 if whole and any(t.records for t in found) and not any(t.failures for t in found) else 1


if __name__ == "__main__":
    sys.exit(main())
