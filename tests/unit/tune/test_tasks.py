"""Which tasks a file stands for."""

from __future__ import annotations

import pytest

from mslang.diagnostics import MsError
from mslang.sema.modules import load
from mslang.target.description import GENERIC
from mslang.tune.tasks import spaces_for, tasks_of

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


def test_no_program():
    with pytest.raises(MsError) as found:
        named("## Nothing.\n")
    assert found.value.diagnostic.code == "MS504"
