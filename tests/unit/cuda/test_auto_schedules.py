"""What `std.cuda.auto` does to programs of the library, as schedules: goldens in `tests/expect/gpu/auto`.

They are written again by `python -m tests.unit.cuda.test_auto_schedules`.
"""

from pathlib import Path

import pytest

from mslang.backend.cuda.backend import CUDA
from mslang.ir.program import Program
from mslang.schedule.decisions import Drawing
from mslang.schedule.replay import space_of_text
from mslang.schedule.rules.gpu.auto import schedule_threads
from mslang.schedule.session import Session
from mslang.schedule.trace import Trace
from mslang.schedule.trace_ms import flat
from mslang.sema.modules import load
from mslang.sema.program import instantiate
from mslang.target.description import SM_80

TESTS = Path(__file__).parents[2]
EXPECT = TESTS / "expect" / "gpu" / "auto"
FOLDER = TESTS.parent / "stdlib" / "workloads"
NAMES = (
    "attention.attention",
    "batch_norm.batch_norm_train",
    "conv2d.conv2d_nhwc",
    "dense.dense_bias_relu",
    "depthwise.depthwise_nhwc",
    "gemm.gemm",
    "layer_norm.layer_norm",
    "reduce.argmax",
    "reduce.row_sum",
    "scan.cumulative_sum",
    "softmax.softmax",
    "spmv.spmv",
    "transpose.transpose",
)
"""A program of each kind of nest: products, windows, rows, one result for many threads, scans, gathers, transposes."""


def program(name: str) -> Program:
    """The program, of the sizes that the library declares."""
    home, _, item = name.partition(".")
    return instantiate(load(FOLDER / f"{home}.ms"), item)


def schedule(name: str) -> str:
    """What the rule does, as a schedule."""
    session = Session(program(name), Drawing(0))
    schedule_threads(session)
    return flat(Trace(program=session.program.name, instructions=tuple(session.instructions)), "auto")


@pytest.mark.parametrize("name", NAMES)
def test_the_schedule_is_as_expected(name: str) -> None:
    assert schedule(name) == (EXPECT / f"{name}.ms").read_text()


@pytest.mark.parametrize("name", ["gemm.gemm", "softmax.softmax", "transpose.transpose"])
def test_the_printed_schedule_is_what_is_compiled(name: str) -> None:
    source = program(name)
    replayed = space_of_text(schedule(name), source).sample(0).program
    assert replayed == CUDA.scheduled(source, SM_80)


if __name__ == "__main__":
    EXPECT.mkdir(exist_ok=True)
    for known in NAMES:
        (EXPECT / f"{known}.ms").write_text(schedule(known))
