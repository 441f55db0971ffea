"""Every sketch that TVM's MetaSchedule draws for the workloads of the library, with its postprocessors: does its trace
import, does it compute the same here, does it export again, and does TVM make of that what it made of the original?

python benchmarks/tvm_sketches.py [cpu] [gpu] [--only NAME] [--seed N]

With `apache-tvm` installed (extra `bench`).
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator

import msgspec
import tvm
from common import WORKLOADS, conditions, table
from tvm.s_tir import meta_schedule

from mslang.diagnostics import MsError
from mslang.interop.tvm.program_out import to_graph
from mslang.interop.tvm.trace_in import Imported, import_trace
from mslang.interop.tvm.trace_json import from_data, to_data
from mslang.interop.tvm.trace_out import export_trace
from mslang.ir.program import Program
from mslang.sema.modules import load
from mslang.sema.program import instantiate

TARGETS = {
    "cpu": {"kind": "llvm", "num-cores": 4, "mcpu": "skylake-avx512"},
    "gpu": {
        "kind": "cuda",
        "arch": "sm_70",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
        "max_num_threads": 1024,
    },
}
RULES = {"cpu": "llvm", "gpu": "cuda"}


class Tried(msgspec.Struct, frozen=True):
    """The result for one sketch; `why` is empty on success."""

    workload: str
    sketch: int
    outcome: str
    why: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", help="cpu, gpu; both where none is named")
    parser.add_argument("--only", default="", help="workloads whose names hold this text")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = []
    for machine in options.machines or list(TARGETS):
        counts: Counter[str] = Counter()
        for t in tries(machine, options.only, options.seed):
            counts[t.outcome] += 1
            print(f"{machine} {t.workload} {t.sketch}: {t.outcome} {t.why}", flush=True)
        told = ", ".join(f"{n} {k}" for k, n in counts.items())
        rows.append((machine, counts.total(), counts["same"], told))
    print(table(("machine", "sketches", "the same there and here", "of which"), rows))
    print(f"\n{conditions('apache-tvm')}")


def tries(machine: str, only: str, seed: int) -> Iterator[Tried]:
    """The sketches of all workloads for a machine."""
    for file in sorted(WORKLOADS.glob("*.ms")):
        module = load(str(file))
        for name in module.programs:
            if only not in name:
                continue
            program = instantiate(module, name, {})
            for k, schedule in enumerate(sketches(program, machine, seed)):
                yield tried(program, name, k, schedule)


def sketches(program: Program, machine: str, seed: int) -> Iterator[tvm.s_tir.Schedule]:
    """TVM's own sketches of a program, each with its decisions drawn and its postprocessors applied."""
    context = meta_schedule.TuneContext(
        mod=tvm.ir.load_json(to_graph(program)),
        target=tvm.target.Target(TARGETS[machine]),
        space_generator=meta_schedule.space_generator.PostOrderApply(
            sch_rules=meta_schedule.ScheduleRule.create(RULES[machine]),
            postprocs=meta_schedule.Postproc.create(RULES[machine]),
            mutator_probs={},
        ),
        rand_state=seed,
        num_threads=1,
    )
    try:
        designs = context.generate_design_space()
    except (RuntimeError, ValueError, TypeError):
        return  # its own rules fail on a scan
    for sketch in designs:
        schedule = drawn(context, sketch, seed)
        if schedule is not None:
            yield schedule


def drawn(context: meta_schedule.TuneContext, sketch: tvm.s_tir.Schedule, seed: int) -> tvm.s_tir.Schedule | None:
    """A sketch that its postprocessors take, of the first draws; None if they take none of these."""
    for k in range(30):
        schedule = tvm.s_tir.Schedule(context.mod, seed=seed + k, error_render_level="none")
        trace = tvm.s_tir.schedule.Trace(sketch.trace.insts, {} if k else sketch.trace.decisions)
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
        except (RuntimeError, ValueError, TypeError):
            continue
        schedule.enter_postproc()
        if all(p.apply(schedule) for p in context.space_generator.postprocs):
            return schedule
    return None


def tried(program: Program, name: str, k: int, schedule: tvm.s_tir.Schedule) -> Tried:
    """Import a trace of TVM's, and let TVM judge what comes back."""
    found = imported(program, schedule)
    if not isinstance(found, Imported):
        return Tried(name, k, "refused", f"{found.diagnostic.message} ({found.diagnostic.why})")
    again = tvm.s_tir.Schedule(tvm.ir.load_json(to_graph(program)))
    try:
        back = export_trace(program, found.trace)
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(to_data(back.trace), again)
    except MsError as error:
        return Tried(name, k, "not exported", error.diagnostic.message)
    except (RuntimeError, ValueError, TypeError) as error:
        return Tried(name, k, "not replayed there", str(error)[-300:])
    same = plain(again.mod) == plain(schedule.mod)
    return Tried(name, k, "same") if same else Tried(name, k, "another program there")


def imported(program: Program, schedule: tvm.s_tir.Schedule) -> Imported | MsError:
    """A trace of TVM's as ours, or what was said against it."""
    try:
        return import_trace(program, from_data(numbers(schedule.trace.as_json())))
    except MsError as error:
        return error


def plain(module: tvm.IRModule) -> str:
    """A module as text, but for remarks on the root block, which ours does not keep."""
    text = module.script()
    return re.sub(r"\n *T\.(?:s?block_attr)\(\{\"meta_schedule\.[^\n]*", "", text)


def numbers(value: object) -> object:
    """A trace as TVM gives it, with its constants as plain numbers."""
    if isinstance(value, list | tuple):
        return [numbers(x) for x in value]
    if isinstance(value, dict):
        return {k: numbers(x) for k, x in value.items()}
    return getattr(value, "value", value)


if __name__ == "__main__":
    main()
