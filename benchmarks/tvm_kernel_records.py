"""TVM's part of `tvm_kernels.py`: databases of schedules for GPUs, and the results of unscheduled programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.te import create_prim_func
from tvm_sketches import drawn
from tvm_traces import FAILURES, MACHINES, tuning_of

from mslang.ir.program import Program
from tests.property.arrays import NUMPY, concrete_shape


def commit(
    function: str, sizes: Sequence[int], dtypes: Mapping[str, str], rules: str, draws: int, seed: int, folder: str
) -> tuple[Any, int, tuple[str, ...]]:
    """Commit the schedules that TVM draws for one of its own workloads to a database in a folder.

    Returns:
        The workload as a module, how many schedules there are, and the reason for each that TVM does not draw.
    """
    made = create_prim_func(getattr(te_workload, function)(*sizes, **dtypes))
    mod = tvm.IRModule({"main": made.with_attr("global_symbol", "main")})
    target = tvm.target.Target(MACHINES[rules][1])
    database = meta_schedule.database.JSONDatabase(work_dir=folder)
    workload = database.commit_workload(mod)
    arguments = ArgInfo.from_prim_func(mod["main"])
    count, undrawn = 0, []
    for schedule in schedules(mod, rules, draws, seed):
        if isinstance(schedule, str):
            undrawn.append(schedule)
            continue
        count += 1
        times = [count * 1e-3]  # nothing was run: records need a time
        database.commit_tuning_record(
            meta_schedule.database.TuningRecord(schedule.trace, workload, times, target, arguments)
        )
    return mod, count, tuple(undrawn)


def schedules(mod: Any, rules: str, draws: int, seed: int) -> Iterator[tvm.s_tir.Schedule | str]:
    """Schedules of each sketch that the rules make, or why there is none."""
    context = tuning_of(mod, rules, seed)
    try:
        sketches = list(context.generate_design_space())
    except FAILURES as error:
        yield f"its rules fail: {_last(error)}"
        return
    if not sketches:
        yield "its rules make no sketch"
    for sketch in sketches:
        for k in range(draws):
            try:
                yield drawn(context, sketch, seed + 100 * k) or "its postprocessors take none of 30 draws"
            except FAILURES as error:
                yield f"a postprocessor fails: {_last(error)}"


def _last(error: Exception) -> str:
    """The last line of a message, which has TVM's stack before it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]


def results(mod: Any, program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a program computes as TVM compiles it for the CPU, without a schedule."""
    built = tvm.compile(mod, target="llvm")
    tensors = {
        p.buffer.name: tvm.runtime.tensor(
            np.zeros(concrete_shape(p.buffer.shape, {}), NUMPY[p.buffer.dtype])
            if p.direction == "out"
            else arrays[p.buffer.name]
        )
        for p in program.params
    }
    built["main"](*tensors.values())
    found = {p.buffer.name: tensors[p.buffer.name].numpy() for p in program.params if p.direction != "in"}
    if not found:
        raise ValueError("the program has no result")
    return found
