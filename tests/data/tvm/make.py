"""Makes the database beside this file: `python tests/data/tvm/make.py`, where TVM 0.27 is installed.

The traces are what MetaSchedule's rules and postprocessors give for CPUs, not measured: the times are made up.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from mslang.interop.tvm.program_out import to_graph
from mslang.sema.modules import load
from mslang.sema.program import instantiate

HERE = Path(__file__).parent


def main() -> None:
    """Write the two files anew."""
    target = tvm.target.Target({"kind": "llvm", "num-cores": 4, "mcpu": "cascadelake"})
    files = [HERE / "database_workload.json", HERE / "database_tuning_record.json"]
    for file in files:
        file.unlink(missing_ok=True)
    database = ms.database.JSONDatabase(path_workload=str(files[0]), path_tuning_record=str(files[1]))
    module = load(str(HERE / "programs.ms"))
    for name in module.programs:
        subject = tvm.ir.load_json(to_graph(instantiate(module, name, {})))
        workload = database.commit_workload(subject)
        context = ms.TuneContext(
            mod=subject,
            target=target,
            space_generator=ms.space_generator.PostOrderApply(),
            search_strategy=ms.search_strategy.ReplayTrace(),
            task_name=name,
            num_threads=1,
            rand_state=7,
        )
        for k, sketch in enumerate(context.generate_design_space()):
            schedule = Schedule(subject, seed=k + 1)
            trace = sketch.trace.simplified(remove_postproc=True)
            type(trace)(trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            if not all(p.apply(schedule) for p in context.space_generator.postprocs):
                continue
            times = [1e10] if k == 0 else [k * 1e-5, k * 1.1e-5]
            record = ms.database.TuningRecord(
                schedule.trace, workload, times, target, ms.arg_info.ArgInfo.from_prim_func(subject["main"])
            )
            database.commit_tuning_record(record)
    _compact(files[0])


def _compact(file: Path) -> None:
    """Write the programs without the spaces that TVM indents them by."""
    lines = []
    for hash, code in map(json.loads, file.read_text().splitlines()):
        raw = json.dumps(json.loads(base64.b64decode(code)[8:]), separators=(",", ":")).encode()
        lines.append(json.dumps([hash, base64.b64encode(len(raw).to_bytes(8, "little") + raw).decode()]))
    file.write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
