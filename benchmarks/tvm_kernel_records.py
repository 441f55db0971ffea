"""TVM's part of `tvm_kernels.py`: databases of schedules for GPUs, and the results of unscheduled programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.s_tir.tensor_intrin.dot_product_common import DP4A_S8S8S32_INTRIN
from tvm.te import create_prim_func
from tvm_sketches import drawn
from tvm_traces import FAILURES, MACHINES, tuning_of

from mslang.ir.program import Program
from tests.property.arrays import NUMPY, concrete_shape

DP4A = "dp4a"
"""The rules for products of bytes, which TVM has under no name of its own."""


def commit(
    function: str, sizes: Sequence[int], dtypes: Mapping[str, str], rules: str, draws: int, seed: int, folder: str
) -> tuple[Any, int, tuple[str, ...]]:
    """Commit the schedules that TVM draws for one of its own workloads to a database in a folder.

    Returns:
        The workload as a module, how many schedules there are, and the reason for each that TVM does not draw.
    """
    made = create_prim_func((OWN.get(function) or getattr(te_workload, function))(*sizes, **dtypes))
    mod = tvm.IRModule({"main": made.with_attr("global_symbol", "main")})
    target = tvm.target.Target(MACHINES["cuda" if rules == DP4A else rules][1])
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
    context = for_bytes(mod, seed) if rules == DP4A else tuning_of(mod, rules, seed)
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


def for_bytes(mod: Any, seed: int) -> meta_schedule.TuneContext:
    """A program as MetaSchedule tunes it for GPUs, with its products of bytes on `dp4a`."""
    rule = meta_schedule.schedule_rule
    tiling = rule.MultiLevelTilingWithIntrin(
        DP4A_S8S8S32_INTRIN,
        structure="SSSRRSRS",
        tile_binds=["blockIdx.x", "vthread.x", "threadIdx.x"],
        max_innermost_factor=64,
        vector_load_lens=[1, 2, 3, 4],
        reuse_read=rule.ReuseType(req="must", levels=[4], scope="shared"),
        reuse_write=rule.ReuseType(req="must", levels=[3], scope="local"),
    )
    kind, target = MACHINES["cuda"]
    return meta_schedule.TuneContext(
        mod=mod,
        target=tvm.target.Target(target),
        space_generator=meta_schedule.space_generator.PostOrderApply(
            sch_rules=[tiling, *meta_schedule.ScheduleRule.create(kind)],
            postprocs=[*meta_schedule.Postproc.create(kind), meta_schedule.postproc.RewriteTensorize()],
            mutator_probs={},
        ),
        rand_state=seed,
        num_threads=1,
    )


def dense_nk(m: int, n: int, k: int, in_dtype: str, out_dtype: str) -> tuple[te.Tensor, ...]:
    """A product of which both operands have the summands side by side, as `dp4a` reads them."""
    a, b = te.placeholder((m, k), in_dtype, "A"), te.placeholder((n, k), in_dtype, "B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(out_dtype) * b[j, r].astype(out_dtype), r), "C")
    return a, b, c


def conv2d_nhwc_ohwi(
    n: int, h: int, w: int, ci: int, co: int, size: int, in_dtype: str, out_dtype: str
) -> tuple[te.Tensor, ...]:
    """A convolution without a border, with the input channels of the filter side by side."""
    x, f = te.placeholder((n, h, w, ci), in_dtype, "X"), te.placeholder((co, size, size, ci), in_dtype, "F")
    r, s, c = te.reduce_axis((0, size), "r"), te.reduce_axis((0, size), "s"), te.reduce_axis((0, ci), "c")

    def term(b: Any, i: Any, j: Any, o: Any) -> Any:
        return te.sum(x[b, i + r, j + s, c].astype(out_dtype) * f[o, r, s, c].astype(out_dtype), (r, s, c))

    return x, f, te.compute((n, h - size + 1, w - size + 1, co), term, "Y")


OWN = {f.__name__: f for f in (dense_nk, conv2d_nhwc_ohwi)}
"""Workloads that TVM lacks."""


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
