"""Conditions of `specialize` about the loops around, given by handles, in text, in Python and in traces."""

from __future__ import annotations

import pytest

import mslang as ms
from mslang.diagnostics import MsError, ScheduleError
from mslang.ir.expr import Var
from mslang.ir.print import print_program
from mslang.schedule.instruction import Condition
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.schedule import Schedule
from mslang.schedule.trace import Trace
from mslang.schedule.values import Size
from mslang.sema.program import parse_program
from tests.unit.schedule.test_trace import check_round_trips

COPY = """program copy(A: f32[6, 8], out B: f32[6, 8]) {
    for i in 6, j in 8 { block b[x: 6 = i, y: 8 = j] { B[x, y] = A[x, y] } }
}"""

BODIES = {
    "an axis": ("let p, q = b.y.specialize(b.x < 3)", "if i < 3 {"),
    "a number first": ("let p, q = b.y.specialize(3 >= b.x)", "if i <= 3 {"),
    "a loop by its place": ("let p, q = b.y.specialize(b.loops()[0] == 2)", "if i == 2 {"),
    "a difference": ("let p, q = b.y.specialize(b.x != 2)", "if i != 2 {"),
    "names": (
        "let s, t = b.x.split([_, 4]) let p, q = b.y.specialize(t % 2 == 0 and s > 0)",
        "if t % 2 == 0 and s > 0 {",
    ),
    "a decision": ("let k ~ choose([2, 3]) let p, q = b.y.specialize(b.x + 1 >= k)", "if i + 1 >= "),
    "two loops": ("let s, t = b.x.split([_, 4]) let p, q = b.y.specialize(s < t)", "if s < t {"),
    "two loops alike": ("let s, t = b.x.split([_, 4]) let p, q = b.y.specialize(s + 0 == t)", "if s - t == 0 {"),
    "not": ("let p, q = b.y.specialize(not b.x < 3)", "if "),
    "twice": ("let p, q = b.y.specialize(b.x < 3) let u, v = p.specialize(b.loops()[0] < 1)", "if i < 1 {"),
}


def scheduled(body: str) -> ms.Space:
    return ms.parse(f"{COPY}\nschedule s for copy {{ {body} }}").space("s")


@pytest.mark.parametrize("body, words", BODIES.values(), ids=BODIES)
def test_all_forms_of_a_trace_keep_the_loops(body: str, words: str):
    space = scheduled(body)
    for seed in range(2):
        c = space.sample(seed)
        assert words in print_program(c.program)
        check_round_trips(c, space.program)


def test_a_trace_says_which_loop_is_meant_whatever_it_is_called():
    trace = scheduled(BODIES["an axis"][0]).sample(0).trace
    condition = trace.instructions[0].argument("condition")
    assert isinstance(condition, Condition)
    assert [(o.base, o.axis) for _, o in condition.loops] == [("b", "x")]
    assert "b.y.specialize(b.x < 3)" in trace.as_ms()
    other = parse_program(COPY.replace("for i in", "for row in").replace("= i,", "= row,"))
    done = replay(other, Trace.from_json(trace.as_json())).program
    assert done == space_of_text(trace.as_ms("s"), other).sample(0).program


def test_unused_draws_are_dropped_but_not_those_of_a_condition():
    trace = (
        scheduled("let z ~ choose([1, 2]) let k ~ choose([2, 3]) let p, q = b.y.specialize(b.x < k)").sample(0).trace
    )
    assert [i.op for i in trace.simplified().instructions] == ["choose", "specialize"]
    named = scheduled("let s, t = b.x.split([_, 4]) let p, q = b.y.specialize(s < 1)").sample(0).trace
    assert named.simplified() == named


def schedule() -> Schedule:
    return Schedule(parse_program(COPY))


@pytest.mark.parametrize(
    "body, condition",
    [
        ("b.x < 3", lambda i: i < 3),
        ("b.x == 2", lambda i: i == 2),
        ("b.x != 2", lambda i: i != 2),
        ("3 >= b.x", lambda i: i <= 3),
        ("b.x % 2 == 0 and b.x > 1", lambda i: (i % 2 == 0) & (i > 1)),
        ("2 * b.x + 1 - b.x // 2 > 3", lambda i: 2 * i + 1 - i // 2 > 3),
    ],
)
def test_python_and_text_agree(body: str, condition: object):
    s = schedule()
    i, j = s.loops(s.get("b"))
    assert callable(condition)
    s.specialize(j, condition(i), names=["p", "q"])
    given = scheduled(f"let p, q = b.y.specialize({body})").sample(0)
    assert s.program == given.program
    flat = space_of_text(s.trace.as_ms("s"), s.session.origin).sample(0)
    assert flat.program == s.program


def test_handles_are_still_compared_with_handles():
    s = schedule()
    i, j = s.loops(s.get("b"))
    assert i == i and i != j and i in {i: 1} and i not in (j, s.get("b"))
    with pytest.raises(ScheduleError, match="neither true nor false"):
        bool(i == 3)
    assert s.get("b") != 3


def refused(action: object, *words: str) -> None:
    assert callable(action)
    with pytest.raises(MsError) as error:
        action()
    found = error.value.diagnostic
    assert found.code == "MS203"
    for word in words:
        assert word in " ".join(x for x in (found.message, found.why, found.help) if x)


def test_what_is_no_condition_on_loops_around():
    s = schedule()
    i, j = s.loops(s.get("b"))
    refused(lambda: s.specialize(j, Size(Var("i")) < 3), "names `i`, which no handle gives", "schedule.axis")
    refused(lambda: schedule().specialize(j, i < 3), "another schedule's")
    refused(lambda: s.branch(i < 3), "not on loops")
    refused(lambda: s.require(i < 3), "on decisions")
    refused(lambda: s.split(j, [None, i + 1]), "not an expression about loop `i`", "loop.extent()")
    refused(lambda: s.unroll(j, max_steps=i), "not the loop `i`")
    refused(lambda: s.get("b") < 3, "does not apply to the block `b`")
    with pytest.raises(ScheduleError, match="MS358"):
        s.specialize(i, j < 3)
    assert s.trace.instructions == ()
    for body, word in (
        ("if b.x < 3 { b.y.unroll() }", "has no answer while a schedule runs"),
        ("require b.x < 3", "on decisions"),
        ("b.y.split([_, b.x + 1])", "not an expression about loop `i`"),
        ('b.y.annotate("k", b.x + 1)', "not an expression about loop `i`"),
    ):
        refused(lambda body=body: scheduled(body).sample(0), word)


def test_a_dead_handle_in_a_condition():
    with pytest.raises(MsError) as error:
        scheduled("let i = b.x let s, t = i.split([_, 4]) let p, q = b.y.specialize(i < 3)").sample(0)
    assert error.value.diagnostic.code == "MS211"
