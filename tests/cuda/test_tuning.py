"""Tuning for a GPU, in the emulation: the back end's default schedule is timed along with the best candidates."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslang.backend.cuda.backend import CUDA
from mslang.backend.cuda.default import default_schedule
from mslang.ir.equal import structural_hash
from mslang.schedule.rules.automatic import automatic_space
from mslang.target.description import SM_80
from mslang.tune.budget import Budget
from mslang.tune.database import Database
from mslang.tune.record import INCUMBENT, Outcome, Record
from mslang.tune.recording import candidate_of
from mslang.tune.task import Settings, Task
from mslang.tune.tasks import default_of
from mslang.tune.tune import tune
from tests.cuda.emulated_back_end import EMULATED, SECONDS
from tests.cuda.emulator import why_not
from tests.cuda.test_defaults import workload
from tests.cuda.test_rules import PLAIN


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_default_of_the_back_end_is_timed_with_the_best(tmp_path: Path) -> None:
    program = workload("attention.attention")
    task = Task(program, automatic_space(program, PLAIN), PLAIN, "python", backend=EMULATED)
    default = default_of(task)
    assert default is not None and default.program == CUDA.scheduled(program, PLAIN)
    done = tune(
        task,
        Settings(1, Budget(4), strategy="replay_trace"),
        database=tmp_path / "r.db",
        workers=1,
        incumbent=default,
    )
    with Database(tmp_path / "r.db") as store:
        records = [r for r in store.records() if isinstance(r, Record)]
    (standing, *_) = (r for r in records if r.trial == INCUMBENT)
    assert standing.candidate == structural_hash(default.program) and standing.result.outcome is Outcome.MEASURED
    assert candidate_of(standing, task.space).program == default.program
    assert standing.cost is not None and standing.cost > SECONDS
    assert done.best is not None and done.best.cost == SECONDS and '"one_pass"' in done.best.decisions


def test_a_program_that_binds_loops_itself_has_no_default() -> None:
    scheduled = CUDA.scheduled(workload("softmax.softmax"), SM_80)
    space = automatic_space(scheduled, SM_80)
    assert default_of(Task(scheduled, space, SM_80, "python")) is None
    assert default_schedule(scheduled, SM_80).trace.instructions == ()
