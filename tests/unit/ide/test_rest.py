"""Symbols, formatting, signature help, findings kept between edits."""

import pytest

from mslang.ide.findings import checked, findings
from mslang.ide.formatting import formatting
from mslang.ide.signature import signature_at
from mslang.ide.snapshot import Snapshot
from mslang.ide.symbols import Symbol, symbols
from tests.unit.ide.marks import PATH, PROGRAM, after, at, in_schedule

SCHEDULE = """
schedule s for mm_p on host {
    let ti ~ perfect_tile(mm.i, n = 2)
    fork f {
        case a { let u as "deep/u" ~ choose([1, 2]) }
        case b {}
    }
}
"""


def outline(found: tuple[Symbol, ...], depth: int = 0) -> list[str]:
    return [line for s in found for line in (f"{'  ' * depth}{s.kind} {s.name}", *outline(s.children, depth + 1))]


def test_symbols() -> None:
    text = PROGRAM + SCHEDULE
    found = symbols(Snapshot({PATH: text}), PATH)
    assert outline(found) == [
        "program mm_p",
        "  buffer T",
        "  block mm",
        "  block copy",
        "schedule s",
        "  decision ti",
        "  fork f",
        "    case a",
        "      decision deep/u",
        "    case b",
    ]
    for s in found:
        assert text[s.name_span.start : s.name_span.end] == s.name
        assert s.span.start <= s.name_span.start <= s.name_span.end <= s.span.end


def test_symbols_of_a_broken_file() -> None:
    found = symbols(Snapshot({PATH: "program (\n" + PROGRAM.split("\n", 1)[1]}), PATH)
    assert "program mm_p" in outline(found)


def test_formatting_is_edits_of_what_differs() -> None:
    text = PROGRAM.replace("    alloc T", "  alloc   T")
    edits = formatting(Snapshot({PATH: text}), PATH)
    assert len(edits) == 1
    (edit,) = edits
    assert text[: edit.span.start] + edit.text + text[edit.span.end :] == PROGRAM
    assert formatting(Snapshot({PATH: PROGRAM}), PATH) == ()


def test_signature_help() -> None:
    call = signature_at(*in_schedule("    let x ~ perfect_tile(mm.i, n = 2, <|>)"))
    assert call is not None and call.signature.name == "perfect_tile" and {"loop", "n"} == call.given
    call = signature_at(*in_schedule("    mm.i.split(<|>"))
    assert call is not None and call.parameter is not None and call.parameter.name == "factors"
    call = signature_at(*in_schedule("    mm.i.split([_, 8], tail = <|>"))
    assert call is not None and call.parameter is not None and call.parameter.name == "tail"
    call = signature_at(*in_schedule("    fuse(mm.i, <|>"))
    assert call is not None and call.parameter is not None and call.parameter.name == "loops"
    call = signature_at(*after("fn f(b: block, n: int = 2) {}\nschedule s for mm_p { let x = f(mm, <|>) }"))
    assert call is not None and call.parameter is not None and call.parameter.name == "n"
    call = signature_at(*at("program q[M: dyn(1..256, <|>)](x: f32[M]) {}"))
    assert call is not None and call.signature.name == "dyn" and call.parameter is not None
    assert call.parameter.name == "multiple"
    assert signature_at(*in_schedule("    <|>mm.i.parallel()")) is None
    assert signature_at(*at("fn f(<|>")) is None


def test_an_edit_checks_one_item_only() -> None:
    before = Snapshot({PATH: PROGRAM + SCHEDULE + "schedule t for mm_p { mm.i.parallel() }\n"})
    after_edit = before.with_text(PATH, before.texts[PATH].replace("choose([1, 2])", "choose([1, 2, 3])"))
    for name, kept in (("s", False), ("t", True)):
        old, new = (checked(m, m.items[name]) for m in (before.module(PATH), after_edit.module(PATH)))
        assert (old is new) is kept


def test_an_item_is_checked_again_when_what_it_names_changes() -> None:
    text = PROGRAM + "schedule t for mm_p {\n    mm.k.parallel()\n}\n"
    good = Snapshot({PATH: text})
    assert findings(good.module(PATH)) == ()
    bad = good.with_text(PATH, text.replace("| k: M", "| l: M").replace("i, k", "i, l").replace("k, j", "l, j"))
    assert [d.code for d in findings(bad.module(PATH))] == ["MS204"]


PART = """fn part(l: loop) {
    let n ~ choose([1, 2, 4])
    let a, b = l.split([_, n])
    return a
}

schedule t for mm_p {
    let inner = CALL
    inner.parallel()
}

schedule best for mm_p = t with { "inner/n" = 4 }
"""


@pytest.mark.parametrize("call", ["part(mm.i)", "mm.i.part()"])
def test_a_pin_is_checked_again_when_a_decision_of_an_fn_is_renamed(call: str) -> None:
    text = PROGRAM + PART.replace("CALL", call)
    good = Snapshot({PATH: text})
    assert findings(good.module(PATH)) == ()
    bad = good.with_text(PATH, text.replace("let n ~", "let m ~").replace("[_, n]", "[_, m]"))
    assert [d.code for d in findings(bad.module(PATH))] == ["MS251"]


def test_a_call_is_checked_again_when_an_fn_behind_it_samples() -> None:
    text = PROGRAM + "fn a(l: loop) { l.b() }\nfn b(l: loop) { l.parallel() }\nschedule t for mm_p { a(mm.i) }\n"
    good = Snapshot({PATH: text})
    assert findings(good.module(PATH)) == ()
    bad = good.with_text(PATH, text.replace("l.parallel()", "let n ~ choose([1, 2])"))
    assert {d.code for d in findings(bad.module(PATH))} == {"MS264"}


def test_findings_follow_another_files_unsaved_text() -> None:
    user = 'use "./a.ms".{mm_p}\nschedule s for mm_p {\n    mm.i.parallel()\n}\n'
    snapshot = Snapshot({"/w/a.ms": PROGRAM, "/w/b.ms": user})
    assert findings(snapshot.module("/w/b.ms")) == ()
    renamed = snapshot.with_text("/w/a.ms", PROGRAM.replace("block mm[", "block other["))
    assert [d.code for d in findings(renamed.module("/w/b.ms"))] == ["MS201"]
