"""The program at the cursor, and trial runs."""

import pytest

from mslang.diagnostics import Severity
from mslang.ide.program_at import ProgramAt, program_at
from mslang.ide.snapshot import Snapshot
from mslang.ide.trial import trial, trial_key, trial_names
from tests.unit.ide.marks import PATH, PROGRAM, after, in_schedule

BODY = """    let tj ~ perfect_tile(mm.j, n = 2)
    let j0, j1 = mm.j.split(tj)
    fork order {
        case plain {}
        case swapped { reorder(mm.i, j0) }
    }
    reorder(mm.k, j1)
    j1.vectorize()
    mm.i.parallel()"""


def shown(body: str, seed: int = 0, **pins: object) -> ProgramAt:
    found = program_at(*in_schedule(body), seed, pins)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_before_and_after_the_statement() -> None:
    found = shown(BODY.replace("let j0", "let <|>j0"), tj=(4, 8))
    assert "for i in 64, j in 32" in found.before
    assert "j0 in 4, j1 in 8" in found.after
    assert "-" in found.diff and "+" in found.diff
    assert found.trace.count("\n") == 4 and "tj ~ perfect_tile(mm.j, n = 2) = [4, 8]" in found.trace


def test_the_statement_is_the_one_at_the_cursor() -> None:
    snapshot, path, offset = in_schedule(BODY.replace("j1.vec", "j1.<|>vec"))
    found = program_at(snapshot, path, offset)
    assert found is not None and found.statement is not None
    text = snapshot.texts[path]
    assert text[found.statement.start : found.statement.end] == "j1.vectorize()"
    assert "@ vectorized" in found.after and "@ vectorized" not in found.before


def test_names_and_decisions() -> None:
    found = shown(BODY.replace("let j0", "let <|>j0"), tj=(4, 8))
    assert {h.name: h.kind for h in found.handles} == {"j0": "loop", "j1": "loop"}
    assert "extent 8" in next(h.text for h in found.handles if h.name == "j1")
    assert [(d.address, d.value) for d in found.decisions] == [("tj", "[4, 8]")]


def test_a_fork_takes_the_case_of_the_cursor() -> None:
    for seed in range(4):
        assert "reorder(mm.i, j0)" in shown(BODY.replace("reorder(mm.i", "<|>reorder(mm.i"), seed).trace


def test_before_the_first_statement_nothing_has_changed() -> None:
    found = program_at(*after("schedule s<|> for mm_p on host {\n    mm.i.parallel()\n}"))
    assert found is not None and found.statement is None and found.before == found.after and found.diff == ""


def test_an_error_shows_the_program_up_to_it() -> None:
    found = shown("    mm.i.parallel()\n    let x, y = mm.<|>j.split([3, 5])\n    mm.j.vectorize()")
    assert found.error is not None and "split" in found.error
    assert "@ parallel" in found.after and "for i in 64 @ parallel" in found.before


def test_a_pinned_schedule_is_one_statement() -> None:
    found = program_at(
        *after(
            "schedule t for mm_p {\n    let tj ~ perfect_tile(mm.j, n = 2)\n"
            "    let a, b = mm.j.split(tj)\n}\nschedule u for mm_p = t with { <|>tj = [2, 16] }"
        )
    )
    assert found is not None and "a in 2, b in 16" in found.after and "j in 32" in found.before


def test_in_an_fn_a_schedule_that_calls_it_is_run() -> None:
    found = program_at(*after("fn f(b: block) {\n    b.i.<|>parallel()\n}\nschedule s for mm_p { f(mm) }"))
    assert found is not None and "@ parallel" in found.after and "@ parallel" not in found.before


def test_no_schedule_no_answer() -> None:
    assert program_at(*after("const x<|> = 3")) is None


def test_a_faulty_program_is_said() -> None:
    found = program_at(*after("program q(A: f32[N]) {}\nschedule s for q { <|>reorder() }"))
    assert found is not None and found.error is not None


def tried(body: str) -> dict[str, tuple[Severity, str]]:
    snapshot = Snapshot({PATH: f"{PROGRAM}\nschedule s for mm_p on host {{\n{body}\n}}\n"})
    text = snapshot.module(PATH).items["s"].parsed.text
    return {
        text[d.span.start : d.span.end]: (d.severity, f"{d.message} {d.why}")
        for d in trial(snapshot, PATH, "s")
        if d.span is not None
    }


def test_what_fails_for_all_draws_is_an_error() -> None:
    found = tried("    let c ~ choose([2, 4])\n    mm.k.parallel()\n    let x = mm.cache_write(C)")
    assert [s for s, _ in found.values()] == [Severity.ERROR]


def test_what_fails_for_some_draws_is_an_information() -> None:
    found = tried("    fork f {\n        case good { mm.i.parallel() }\n        case bad { mm.k.parallel() }\n    }")
    severity, text = found.pop("mm.k.parallel()")
    assert severity is Severity.INFORMATION and "of 64 draws" in text
    # The other draws are legal, but no draw of this case is.
    ((case, (severity, text)),) = found.items()
    assert case == "bad" and severity is Severity.WARNING and "never legal" in text


def test_a_good_schedule_has_no_findings() -> None:
    assert tried("    let tj ~ perfect_tile(mm.j, n = 2)\n    let a, b = mm.j.split(tj)\n    mm.i.parallel()") == {}


def test_a_requirement_that_no_draw_meets() -> None:
    found = tried('    let t ~ choose([1, 2])\n    let u ~ choose([1, 2])\n    require t * u == 3, "three"')
    assert any("three" in text or "draw" in text for _, text in found.values())


def test_faulty_schedules_are_not_run() -> None:
    snapshot = Snapshot({PATH: PROGRAM + "schedule a for mm_p {\n    nobody.parallel()\n}\nschedule b for mm_p {}\n"})
    assert trial_names(snapshot.module(PATH)) == ("b",)


def test_a_statement_in_a_loop_is_shown_after_its_last_pass() -> None:
    body = '    for l in [mm.i, mm.j, mm.k] {\n        l.anno<|>tate("mark", 1)\n    }\n'
    found = program_at(*in_schedule(body))
    assert found is not None and found.passes == 3
    assert found.after.count("mark") == 3 and found.before.count("mark") == 2


SIZED = """fn half(l: loop, n: int) {
    let a, b = l.split([_, n])
    return a
}

schedule s for mm_p {
    let a, b = mm.i.split([_, M // 8])
    if M > 16 { a.parallel() }
    let h = half(mm.j, M // 16)
}

space all for mm_p = s
"""


@pytest.mark.parametrize("word", ["a, b = mm", "a.parallel", "h = half", "a, b = l", "all for"])
def test_sizes_of_the_program_are_known(word: str) -> None:
    found = program_at(*after(SIZED.replace(word, f"<|>{word}")))
    assert found is not None and found.error is None
    assert "a in 8, b in 8" in found.after or "a in 8 @ parallel, b in 8" in found.after


NAMED = """use std.rules.{named}

rule r(b: block) {
    let l = b.loops()
    l[0].parallel()
}

schedule s for mm_p {
    let x ~ choose([1, 2])
    apply(named("r"))
}
"""


def test_a_rule_that_is_named_in_a_string_is_run() -> None:
    found = program_at(*after(NAMED.replace("apply", "<|>apply")))
    assert found is not None and found.error is None and "for i in 64 @ parallel" in found.after


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (NAMED, "l[0]", "l[9]"),
        ("fn f(l: loop) { l.parallel() }\nschedule s for mm_p {\n    mm.i.f()\n}\n", "parallel()", "split([3, 5])"),
    ],
)
def test_a_schedule_is_tried_again_when_what_it_reaches_changes(text: str, old: str, new: str) -> None:
    first, second = (Snapshot({PATH: PROGRAM + t}) for t in (text, text.replace(old, new)))
    assert trial(first, PATH, "s") == ()
    assert trial_key(first.module(PATH), "s") != trial_key(second.module(PATH), "s")
    assert [d.severity for d in trial(second, PATH, "s")] == [Severity.ERROR]


def test_a_rule_that_an_imported_fn_names_is_one_of_the_file_that_runs() -> None:
    texts = {"/w/a.ms": 'use std.rules.{named}\nfn go(b: block) {\n    named(b, "r")\n}\n'}
    user = PROGRAM + NAMED.replace("use std.rules.{named}", 'use "./a.ms".{go}').replace('apply(named("r"))', "go(mm)")
    first, second = (Snapshot({**texts, "/w/b.ms": t}) for t in (user, user.replace("l[0]", "l[2]")))
    assert trial(first, "/w/b.ms", "s") == ()
    assert trial_key(first.module("/w/b.ms"), "s") != trial_key(second.module("/w/b.ms"), "s")
