"""Fixes: the text after one of them parses, has lost nothing, and no longer has the mistake."""

import pytest

from mslang.ide.findings import findings
from mslang.sema.modules import load

COPY = "program copy(A: f32[8, 8], out B: f32[8, 8]) { block b[i: 8, j: 8] { B[i, j] = A[i, j] } }\n"
TILED = COPY + "fn cut(l: loop) { let n ~ choose([1, 2]) let l0, l1 = l.split([_, n]) return l0 }\n"
TILED += "schedule s for copy { let rows ~ choose([1, 2]) let c = cut(b.i) }\n"
QUOTED = "program copy(A: f32[8, 8], out B: f32[8, 8]) { block `init`[`for`: 8, j: 8] { B[`for`, j] = A[`for`, j] } }\n"
ROW = "program copy(A: f32[8], out B: f32[8]) { block b[i: 8 = 0] { B[0] = A[0] } }\n"


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        (TILED + "schedule t for copy = s with { rowss = 2 }", "rowss = 2", "rows = 2"),
        (TILED + 'schedule t for copy = s with { "c/nn" = 2 }', '"c/nn" = 2', '"c/n" = 2'),
        (COPY.replace("B[", "t[").replace("{ b", "{ alloc t: f32[8, 8] @ locl(align = 64) b"), "locl(", "local("),
        (ROW.replace("block", 'for q in 8 @ paralel("x" = 1) { block') + "}", 'paralel("x"', 'parallel("x"'),
        (QUOTED + "schedule s for copy { inti.j.vectorize() }", "inti.j", "`init`.j"),
        (QUOTED + "schedule s for copy { j.vectorize() }", " j.v", " `init`.j.v"),
        (QUOTED + 'schedule s for copy { `init`["for"].vectorize() }', '`init`["for"]', "`init`.`for`"),
        (QUOTED.replace("A[`for`, j]", "A[`fo`, j]"), "`fo`", "`for`"),
        (QUOTED.replace("A[`for`, j]", "A(`for`, j)"), "A(`for`, j)", "A[`for`, j]"),
        (
            QUOTED + "schedule s for copy { let `if` = `init`.j let `in`, k = `if`.split([_, 2]) `if`.unroll() }",
            "`if`.unroll",
            "`in`.unroll",
        ),
    ],
)
def test_fixes_mend_the_text(text: str, wrong: str, right: str) -> None:
    fixes = [fix for d in findings(load("t.ms", text)) for fix in d.fixes]
    assert len(fixes) == 1
    span = fixes[0].span
    assert text.count(wrong) == 1
    assert text[: span.start] + fixes[0].text + text[span.end :] == text.replace(wrong, right)


def test_a_text_that_is_no_axis_is_not_offered_as_one() -> None:
    (found,) = findings(load("t.ms", COPY + 'schedule s for copy { b["no axis!"].vectorize() }'))
    assert found.code == "MS203" and found.fixes == ()
