"""TVM's own traces, made by its schedule rules, draws and postprocessors: does each replay here, and to TVM's program?

python benchmarks/tvm_traces.py make FOLDER [--tvm CHECKOUT] [--machines llvm …] [--draws N] [--only NAME] [--seed N]
python benchmarks/tvm_traces.py replay FOLDER [--only NAME] [--again] [--update] [-v]

With `apache-tvm` installed (extra `bench`). `make` lets MetaSchedule make the sketches of TVM's own workloads, and of
the programs in the tests of MetaSchedule if there is a checkout, and writes each trace with the program before and
after it. `replay` imports each twice, for the program read from TVM's JSON and for the one read from TVMScript, and
compares the result with TVM's: in form (names and loops of one iteration do not count), or else by exporting the trace
again and comparing what TVM makes of it with what TVM made of the original. Outcomes are kept in the folder, so that a
run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from common import ROOT, class_of, conditions, said, table

sys.path.insert(0, str(ROOT))

import tvm
import tvm_ffi
from tvm.s_tir import meta_schedule, tensor_intrin
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.te import create_prim_func
from tvm_sketches import TARGETS, drawn, numbers, plain

from benchmarks.tvm_suite.forms import same_form
from mslang.diagnostics import MsError
from mslang.interop import tvmscript
from mslang.interop.tvm import export_trace, import_trace, programs, to_graph
from mslang.interop.tvm.trace_in import Imported
from mslang.interop.tvm.trace_json import from_data, to_data
from mslang.ir.program import Program

assert tensor_intrin  # importing it registers TVM's instructions
MACHINES = {
    "llvm": ("llvm", TARGETS["cpu"]),
    "cuda": ("cuda", TARGETS["gpu"] | {"arch": "sm_80"}),
    "tensorcore": ("cuda-tensorcore", TARGETS["gpu"] | {"arch": "sm_80"}),
}
"""The rule set of TVM's and the target, by name."""
OTHERS: dict[str, Callable[[], Any]] = {
    "matmul": lambda: te_workload.matmul(64, 96, 128),
    "matmul_relu": lambda: te_workload.matmul_relu(64, 96, 128),
    "matmul_f16": lambda: te_workload.matmul(128, 128, 128, in_dtype="float16", out_dtype="float32"),
    "matmul_relu_f16": lambda: te_workload.matmul_relu(128, 128, 128, in_dtype="float16", out_dtype="float32"),
    "matmul_s8": lambda: te_workload.matmul(128, 128, 128, in_dtype="int8", out_dtype="int32"),
    "conv2d_f16": lambda: te_workload.conv2d_nhwc(1, 16, 16, 64, 64, 3, in_dtype="float16", out_dtype="float32"),
    "max_pool2d": lambda: te_workload.max_pool2d_nchw(2, 28, 28, 32, 1),
}
"""TVM's workloads that it lists without sizes."""
PAGE = ROOT / "docs" / "tvm.md"
BEGIN, END = "<!-- traces: begin -->", "<!-- traces: end -->"
TESTS = Path("tests") / "python" / "s_tir" / "meta_schedule"
FAILURES = (RuntimeError, ValueError, TypeError, tvm.error.InternalError)


class Case(msgspec.Struct, frozen=True):
    """A trace of TVM's: the program before as JSON and as TVMScript, the trace, and the program after as JSON."""

    name: str
    machine: str
    graph: str
    script: str
    trace: list[Any]
    after: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("make", "replay"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tvm", type=Path)
    parser.add_argument("--machines", nargs="*", default=list(MACHINES))
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true", help="replay those with an outcome, too")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    if options.stage == "make":
        make(options)
    else:
        replay(options)


# ------------------------------------------------------------------ traces of TVM's
def make(options: argparse.Namespace) -> None:
    """Write every trace that the folder has not into it, one file each."""
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, mod in modules(options.tvm):
        for machine in options.machines:
            if options.only not in f"{machine}_{name}" or (options.folder / f"{machine}_{name}_0.json").exists():
                continue
            made = list(traces(name, mod, machine, options.draws, options.seed))
            for k, case in enumerate(made):
                (options.folder / f"{machine}_{name}_{k}.json").write_bytes(msgspec.json.encode(case))
            print(f"{machine} {name}: {len(made)}", flush=True)


def modules(checkout: Path | None) -> Iterator[tuple[str, Any]]:
    """TVM's workloads, and the programs in its tests of MetaSchedule."""
    for name, (_, sizes) in te_workload.CONFIGS.items():
        for k in sorted({0, len(sizes) - 1}):
            try:
                made = te_workload.create_te_workload(name, k)
            except FAILURES:  # TVM's own constructor of a Winograd convolution raises for want of a legacy flow
                continue
            yield f"{name}_{k}", tvm.IRModule({"main": made})
    for name, workload in OTHERS.items():
        yield name, tvm.IRModule({"main": create_prim_func(workload())})
    for path in sorted((checkout / TESTS).glob("test_*.py")) if checkout else ():
        found = tvmscript.read(path.read_text(), str(path))
        for k, f in enumerate(found.functions):
            try:
                mod = tvm.ir.load_json(to_graph(f.program))
            except (MsError, *FAILURES):
                continue
            yield f"{path.stem.removeprefix('test_meta_schedule_')}_{k}_{f.program.name}", mod


def tuning_of(mod: Any, machine: str, seed: int) -> meta_schedule.TuneContext:
    """A program as MetaSchedule tunes it for a machine, by its default rules and postprocessors."""
    rules, target = MACHINES[machine]
    return meta_schedule.TuneContext(
        mod=mod,
        target=tvm.target.Target(target),
        space_generator=meta_schedule.space_generator.PostOrderApply(
            sch_rules=meta_schedule.ScheduleRule.create(rules),
            postprocs=meta_schedule.Postproc.create(rules),
            mutator_probs={},
        ),
        rand_state=seed,
        num_threads=1,
    )


def traces(name: str, mod: Any, machine: str, draws: int, seed: int) -> Iterator[Case]:
    """The traces that TVM makes of a program: of each sketch, draws that its postprocessors take."""
    context = tuning_of(mod, machine, seed)
    try:
        designs = context.generate_design_space()
    except FAILURES:
        return
    for sketch in designs:
        for k in range(draws):
            schedule = drawn(context, sketch, seed + 100 * k)
            if schedule is None or len(schedule.trace.insts) < 2:
                continue
            trace = json.loads(json.dumps(numbers(schedule.trace.as_json()), default=str))
            graph, after = (str(tvm.ir.save_json(m)) for m in (mod, schedule.mod))
            yield Case(name, machine, graph, str(mod.script()), trace, after)


# ------------------------------------------------------------------ replayed here
class Tried(msgspec.Struct, frozen=True):
    """What came of a trace with the program from one source; `why` is empty where it is TVM's program."""

    machine: str
    source: str
    outcome: str
    why: str = ""


SOURCES: dict[str, Callable[[Case], Program]] = {
    "JSON": lambda case: programs(case.graph)["main"],
    "TVMScript": lambda case: tvmscript.parse_one(case.script),
}


def replay(options: argparse.Namespace) -> None:
    """Import every trace of the folder that has no outcome there yet, and count all outcomes."""
    for path in sorted(options.folder.glob("*.json")):
        kept = path.with_suffix(".outcome")
        if options.only not in path.name or (kept.exists() and not options.again):
            continue
        case = msgspec.json.decode(path.read_bytes(), type=Case)
        found = [Tried(case.machine, source, *judged(case, read)) for source, read in SOURCES.items()]
        kept.write_bytes(msgspec.json.encode(found))
        for t in found:
            if t.why or options.verbose:
                print(f"{path.stem} {t.source}: {t.outcome}: {t.why[:1500]}", flush=True)
    paths = sorted(options.folder.glob("*.outcome"))
    text = summary([t for p in paths for t in msgspec.json.decode(p.read_bytes(), type=list[Tried])])
    print(text)
    if options.update:
        whole = PAGE.read_text()
        PAGE.write_text(f"{whole[: whole.index(BEGIN)]}{BEGIN}\n{text}\n{whole[whole.index(END) :]}")


def judged(case: Case, read: Callable[[Case], Program]) -> tuple[str, str]:
    """Import a trace, and compare: how that ended, and why."""
    try:
        program = read(case)
    except MsError as error:
        return "not read", said(error)
    try:
        found = import_trace(program, from_data(case.trace))
    except MsError as error:
        return "refused", said(error)
    try:
        same = same_form(programs(case.after)["main"], found.program)
    except MsError:
        # Tensorized programs of TVM have strides that only the call knows, which are not read.
        same = False
    return ("same form", "") if same else there(case, program, found)


def there(case: Case, program: Program, found: Imported) -> tuple[str, str]:
    """What TVM makes of the trace as ours, exported, beside what it made of its own."""
    again = tvm.s_tir.Schedule(tvm.ir.load_json(to_graph(program)))
    try:
        back = export_trace(program, found.trace)
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(to_data(back.trace), again)
    except MsError as error:
        return "not exported", said(error)
    except FAILURES as error:
        return "not replayed there", str(error)[-300:]
    mine, theirs = plain(again.mod), plain(tvm.ir.load_json(case.after))
    if tvm_ffi.structural_equal(*(tvm.script.from_source(x) for x in (mine, theirs))):
        return "same there", ""
    return "different", f"{mine}\n--- TVM:\n{theirs}"


def summary(found: Sequence[Tried]) -> str:
    """The tables for the page."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for t in found:
        counts.setdefault((t.machine, t.source), Counter())[t.outcome] += 1
    reasons = Counter(f"{t.outcome}: {class_of(t.why)}" for t in found if t.why)
    rows = []
    for (machine, source), c in sorted(counts.items()):
        same = c["same form"] + c["same there"]
        rows.append((machine, source, c.total(), same, f"{same / c.total():.1%}", c["different"]))
    total = sum((c for c in counts.values()), Counter[str]())
    same = total["same form"] + total["same there"]
    rows.append(("all", "", total.total(), same, f"{same / max(1, total.total()):.1%}", total["different"]))
    head = ("rules", "program from", "traces", "TVM's program", "share", "another program")
    text = table(head, rows)
    if reasons:
        text += "\n\n" + table(("reason for the other traces", "traces"), reasons.most_common())
    return f"{text}\n\n{conditions('apache-tvm')}"


if __name__ == "__main__":
    main()
