"""Which tasks a file stands for."""

from __future__ import annotations

import chaos
import pytest

from mslang.diagnostics import MsError
from mslang.ir.equal import structural_hash, workload_hash
from mslang.schedule.interpret import World
from mslang.schedule.replay import space_of_text
from mslang.schedule.strategies import space_of
from mslang.sema.modules import load
from mslang.target.description import AVX2, GENERIC
from mslang.tune.duplicates import grouped, schedule_for
from mslang.tune.recording import record_of, texts_of
from mslang.tune.task import Settings
from mslang.tune.tasks import default_candidate, spaces_for, tasks_of

PLAIN = "program p(A: f32[8, 8], out B: f32[8, 8]) { block b[i: 8, j: 8] { B[i, j] = A[i, j] } }\n"
OTHER = "program q(A: f32[4], out B: f32[4]) { block b[i: 4] { B[i] = A[i] } }\n"
OPEN = "schedule s for p { let t ~ choose([2, 4]) let i0, i1 = b.i.split([_, t]) }\n"
FOUND = "schedule p_best for p { let t ~ choose([2, 4]) = 2 let i0, i1 = b.i.split([_, t]) }\n"


def named(text: str, name: str | None = None) -> list[tuple[str, str, str]]:
    return [(n.program, n.task.space.name, n.best) for n in tasks_of(load("t.ms", text), name, {}, GENERIC)]


@pytest.mark.parametrize(
    ("text", "name", "tasks"),
    [
        (PLAIN, None, [("p", "automatic", "p_best")]),
        (PLAIN + OTHER, None, [("p", "automatic", "p_best"), ("q", "automatic", "q_best")]),
        (PLAIN + OTHER, "q", [("q", "automatic", "q_best")]),
        (PLAIN + FOUND, None, [("p", "automatic", "p_best")]),
        (PLAIN + OPEN, None, [("p", "s", "p_best")]),
        (PLAIN + OPEN + FOUND, "p", [("p", "s", "p_best")]),
        (PLAIN + OPEN + OTHER, None, [("p", "s", "p_best")]),
        (PLAIN + OPEN + OTHER, "q", [("q", "automatic", "q_best")]),
    ],
)
def test_tasks(text: str, name: str | None, tasks: list[tuple[str, str, str]]):
    assert named(text, name) == tasks


def test_an_open_schedule_called_best_is_searched():
    text = PLAIN + OPEN.replace("schedule s", "schedule p_best")
    assert spaces_for(load("t.ms", text), "p") == ["p_best"]


EQUAL = """
program p[M = 64](A: f32[M, M], B: f32[M, M], out C: f32[M, M]) {
    block mm[i: M, j: M | k: M] { C[i, j] += A[i, k] * B[k, j] }
}
program q[N = 64](X: f32[N, N], Y: f32[N, N], out Z: f32[N, N]) {
    block dot[a: N, b: N | c: N] { Z[a, b] += X[a, c] * Y[c, b] }
}
"""


@pytest.mark.parametrize("standing", ["", "schedule p_best for p { let i0, i1 = mm.i.split([_, 4]) i0.parallel() }"])
def test_an_equal_program_gets_what_was_found_though_it_is_no_point_of_the_space(standing: str):
    module = load("t.ms", EQUAL + standing)
    [group] = grouped([t for name in "pq" for t in tasks_of(module, name, {}, AVX2)])
    first, [other] = group.first, group.others
    won = space_of(module, "p_best").sample(0) if standing else default_candidate(first)
    assert won is not None
    hash, result = structural_hash(won.program), chaos.timed(1e-3, dense=True)
    best = record_of(first.task, Settings(), "r", texts_of(won, first.best), hash, result, -1)
    text = schedule_for(best, first, other)
    assert text.startswith("schedule q_best for q")
    made = space_of_text(text, other.task.program, World(machine=AVX2)).sample(0)
    assert workload_hash(made.program) == workload_hash(won.program)


def test_no_program():
    with pytest.raises(MsError) as found:
        named("## Nothing.\n")
    assert found.value.diagnostic.code == "MS504"
