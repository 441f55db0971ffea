"""Cases of a fork that are never legal are said, others are not."""

from __future__ import annotations

import pytest

import mslang as ms
from mslang.diagnostics import Severity
from mslang.ide.snapshot import Snapshot
from mslang.ide.trial import trial

PROGRAM = """program p[N = 64](X: f32[N], out Z: f32[N]) {
    alloc a: f32[N]
    alloc b: f32[N]
    block one[i: N] { a[i] = X[i] + 1.0 }
    block two[i: N] { b[i] = a[i] * 2.0 }
    block three[i: N] { Z[i] = b[i] - 1.0 }
}
"""


def found(body: str) -> list[tuple[str, str]]:
    text = PROGRAM + f"schedule s for p {{\n let t ~ choose([4, 8])\n let i0, i1 = three.i.split([_, t])\n {body} }}"
    snapshot = Snapshot({"main.ms": text})
    start = snapshot.module("main.ms").items["s"].start
    diagnostics = [d.placed("main.ms", start) for d in trial(snapshot, "main.ms", "s")]
    return [
        (text[d.span.start : d.span.end], d.why or "") for d in diagnostics if d.code == "MS131" and d.span is not None
    ]


def test_a_dead_case_is_said_at_its_name() -> None:
    ((name, why),) = found("fork place { case apart { one.compute_at(i0) } case inlined { one.compute_inline() } }")
    assert name == "apart" and "compute_at: not all consumers of block `one` are under loop `i0`" in why


@pytest.mark.parametrize(
    "body",
    [
        "fork place { case both { two.compute_at(i0) one.compute_at(i0) } case inlined { one.compute_inline() } }",
        # Legal or not by what another fork chose.
        "fork first { case yes { two.compute_at(i0) } case no {} } "
        "fork second { case at { one.compute_at(i0) } case none {} }",
    ],
)
def test_a_case_that_is_legal_somewhere_is_not(body: str) -> None:
    assert found(body) == []


def test_two_forks_are_told_apart() -> None:
    body = (
        "fork a { case x { one.compute_at(i0) } case y {} } "
        "fork b { case x { i1.vectorize() } case y { one.compute_at(i0) } }"
    )
    assert [name for name, _ in found(body)] == ["x", "y"]


def test_a_space_says_which_outcomes_are_never_legal() -> None:
    text = (
        PROGRAM
        + "schedule s for p { let i0, i1 = three.i.split([_, 8]) fork f { case x { one.compute_at(i0) } case y {} } }"
    )
    space = ms.parse(text).space("s")
    ((outcome, diagnostic),) = space.never_legal().items()
    assert outcome == ("f", "x") and diagnostic.code == "MS341" and diagnostic.severity is Severity.ERROR
    assert space.never_legal(most=1) == {}
