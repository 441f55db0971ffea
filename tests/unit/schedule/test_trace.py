"""Traces: three printed forms that replay, dead code, repair."""

import json

import pytest

import mslang as ms
from mslang.diagnostics import MsError, Severity
from mslang.ide.findings import findings
from mslang.ir.find import blocks_of
from mslang.ir.program import Program
from mslang.schedule.instruction import Operand
from mslang.schedule.replay import replay, space_of_text
from mslang.schedule.schedule import Schedule
from mslang.schedule.space import Candidate
from mslang.schedule.trace import Trace
from mslang.syntax.format import format_text
from tests.unit.schedule.samples import body, module, space


def by_python(trace: Trace, program: Program) -> Schedule:
    names: dict[str, object] = {}
    exec(trace.as_python("again"), names)
    schedule = Schedule(program)
    again = names["again"]
    assert callable(again)
    again(schedule)
    return schedule


def check_round_trips(c: Candidate, program: Program) -> None:
    trace = c.trace
    assert Trace.from_json(trace.as_json()) == trace
    again = replay(program, Trace.from_json(trace.as_json()), strict=True)
    assert (again.program, again.trace, again.sketch.program) == (c.program, trace, c.sketch.program)
    flat = space_of_text(trace.as_ms("x"), program).sample(0)
    assert (flat.program, flat.trace.instructions) == (c.program, trace.instructions)
    assert flat.trace.as_ms("x").replace(" on wide", "") == trace.as_ms("x").replace(" on wide", "")
    schedule = by_python(trace, program)
    assert (schedule.program, schedule.trace.instructions) == (c.program, trace.instructions)
    assert schedule.trace.as_python("again") == trace.as_python("again")


@pytest.mark.parametrize("name", ["tiled", "helpers", "free", "either"])
def test_all_forms_round_trip(name: str):
    made = space(name)
    for seed in range(6):
        check_round_trips(made.sample(seed), made.program)


def test_the_pinned_call_replays_to_the_same_program():
    for name in ("tiled", "helpers", "free", "either"):
        made = space(name)
        for seed in range(6):
            c = made.sample(seed)
            text = c.trace.as_ms("best", pinned=True)
            best = space("best", text)
            assert best.sample(0).program == c.program
            assert best.sample(1).program == c.program
            assert module(text).errors == ()


def test_the_flat_form_has_no_faults_of_its_own():
    words = body(
        'let t ~ perfect_tile(mm.i, n = 2, max_inner = none)\nmm.i.split(t)\nmm.annotate("x", [inf, -inf, nan])'
    )
    for made in (space("tiled"), space("helpers"), space("free"), words):
        text = made.sample(3).trace.as_ms("flat")
        assert [d for d in findings(module(text)) if d.severity is Severity.ERROR] == []


def test_printed_traces_are_laid_out_as_the_formatter_does():
    for seed in range(4):
        trace = space("either").sample(seed).trace
        for text in (trace.as_ms("x"), trace.as_ms("x", pinned=True)):
            assert format_text(text) == text


def test_the_flat_form_is_readable():
    c = space("helpers").sample(1)
    text = c.trace.as_ms("flat")
    assert text.startswith('schedule flat for matmul on wide {\n    let t as "a/t" ~ perfect_tile(mm.i, n = 2) = [')
    assert "    let i_0, i_1 = mm.i.split(t)\n" in text
    assert '    j_1.annotate("w", w * 2 + 1)\n' in text


def test_loops_that_no_binder_named_are_found_by_position():
    made = body("let a, b = mm.i.split([_, 8])\nlet f = fuse(a, b)\nfuse(f, mm.j)\nmm.loops()[0].parallel()")
    c = made.sample(0)
    check_round_trips(c, made.program)
    shared = body("first.compute_at(second.j)\nfirst.loops()[1].unroll()\nsecond.loops()[0].parallel()", "chain")
    found = shared.sample(0)
    check_round_trips(found, shared.program)
    assert found.trace.instructions[2].argument("loop") == Operand("first", index=0)


def test_a_buffer_that_a_step_made_is_found_by_the_block_that_writes_it():
    made = body(
        "let c = mm.cache_read(A, shared)\nmm.transform_layout(c.writes()[0], fn (i, k) -> [k, i])\n"
        "mm.decompose_reduction(mm.k)\nmm.set_scope(C, global)"
    )
    c = made.sample(0)
    assert "mm.transform_layout(c.writes()[0], fn (i, k) -> [k, i])" in c.trace.as_ms("x")
    assert "mm.set_scope(C, global)" in c.trace.as_ms("x")
    check_round_trips(c, made.program)
    assert [d for d in findings(module(c.trace.as_ms("x"))) if d.severity is Severity.ERROR] == []


def test_a_list_of_one_loop_stays_a_list():
    made = body(
        "let a = mm.i.split([_])\na[0].parallel()\nlet t ~ tile(mm.j, n = 1, max_inner = none)\n"
        "let b = mm.j.split(t)\nreorder(b[0], a[0])"
    )
    c = made.sample(0)
    assert "a[0].parallel()" in c.trace.as_ms("x")
    check_round_trips(c, made.program)
    assert [d for d in module(c.trace.as_ms("x")).diagnostics if d.severity is Severity.ERROR] == []


def test_a_hole_and_the_last_factor_of_a_tile_are_not_the_tile():
    made = body("let t ~ perfect_tile(mm.i, n = 2)\nlet a, b = mm.j.split([_, t[1]])\nlet c, d = mm.i.split(t)")
    c = made.sample(0)
    assert "mm.j.split([_, t[1]])" in c.trace.as_ms("x") and "mm.i.split(t)" in c.trace.as_ms("x")
    check_round_trips(c, made.program)


def test_an_order_is_one_of_whole_numbers():
    made = body('let x ~ permute([1, 2])\nmm.annotate("x", x)')
    assert made.sample(0, {"x": (1, 0)}).decisions["x"] == (1, 0)
    for wrong in ((1.0, 0.0), (True, False), ([1], 0), (1, 1)):
        with pytest.raises(MsError, match="MS254"):
            made.sample(0, {"x": wrong}, strict=True)


def test_numbers_that_are_not_finite_round_trip():
    c = body('mm.annotate("low", -inf)\nlet x ~ choose([inf, -inf, 1.5]) = -inf\nmm.annotate("x", [x, 1e999])').sample(
        0
    )
    assert 'mm.annotate("low", -inf)' in c.trace.as_ms("x")
    check_round_trips(c, body("").program)
    check_round_trips(body('let float ~ choose([inf, 1.5]) = inf\nmm.annotate("x", float)').sample(0), body("").program)
    nan = body('let x ~ choose([nan, 1.5]) = nan\nmm.annotate("x", x)')
    assert len(list(nan.structures())) == 1
    trace = nan.sample(0).trace
    assert 'mm.annotate("x", nan)' in trace.as_ms("x") == Trace.from_json(trace.as_json()).as_ms("x")


def test_a_parameter_of_a_map_is_not_taken_for_a_decision_of_its_name():
    s = Schedule(body("").program)
    t = s.choose([2, 4], name="u")
    s.transform_layout(s.get("mm"), s.get("A"), s.index_map(lambda i, u: [u // t, i, u % t]))
    assert "fn (i, u_1) -> [u_1 // u, i, u_1 % u]" in s.trace.as_ms("x")
    assert space_of_text(s.trace.as_ms("x"), body("").program).sample(0).program == s.program
    assert by_python(s.trace, body("").program).program == s.program


def test_parameters_of_a_map_are_names_of_python():
    c = body("mm.transform_layout(A, fn (s, `in`) -> [min(s, 63), `in`], assume_injective = true)").sample(0)
    assert by_python(c.trace, body("").program).program == c.program


def test_results_called_like_words_hide_none_of_them():
    program = body("").program
    s = Schedule(program)
    none, _ = s.split(s.axis("mm", "i"), [None, 8], names=["none", "inf"])
    s.parallel(none)
    t = s.tile(s.axis("mm", "j"), 2, None, name="min")
    _, inner = s.split(s.axis("mm", "j"), [None, s.minimum(t[1], 3)], names=["local", "guard"])
    s.split(inner, [None, 2], tail="guard")
    s.annotate(s.cache_read(s.get("mm"), s.get("A"), "local"), "low", float("-inf"))
    text = s.trace.as_ms("x")
    assert [d for d in findings(module(text)) if d.severity is Severity.ERROR] == []
    assert space_of_text(text, program).sample(0).program == by_python(s.trace, program).program == s.program


def test_python_needs_the_values_of_decisions():
    (sketch,) = body("let t ~ perfect_tile(mm.i, n = 2)\nmm.i.split(t)").sketches()
    with pytest.raises(MsError) as error:
        sketch.trace.as_python()
    assert error.value.diagnostic.code == "MS262"


def test_a_number_in_json_is_not_made_to_fit():
    trace = body("let t ~ perfect_tile(mm.i, n = 2)\nmm.i.split(t)").sample(0).trace
    for tile in ('["8", 8]', "[8.5, 8]", "[true, 64]"):
        text = trace.as_json().replace(json.dumps(list(trace.decisions["t"]), separators=(",", ":")), tile)
        with pytest.raises(MsError) as error:
            Trace.from_json(text)
        assert error.value.diagnostic.code == "MS263"


def test_forks_and_branches_are_resolved():
    text = space("tiled").sample(0).trace.as_ms("flat")
    assert "fork" not in text and " if " not in text


def test_simplified_drops_samplers_that_nothing_uses():
    made = body(
        "let dead ~ choose([1, 2])\nlet t ~ perfect_tile(mm.i, n = 2)\nlet u ~ choose([1, 2])\n"
        'let a, b = mm.i.split(t)\nb.annotate("x", [u * 2, 3])\nlet gone ~ permute([a, b])'
    )
    c = made.sample(0)
    short = c.trace.simplified()
    assert [i.address for i in short.instructions if i.samples] == ["t", "u"]
    assert set(short.decisions) == {"t", "u"}
    assert replay(made.program, short).program == c.program
    assert short.simplified() == short


def test_postprocessing_is_marked_and_cut():
    made = body('let a, b = mm.i.split([_, 8])\nenter_postproc()\nlet u ~ choose([1, 2])\nb.annotate("x", u)')
    c = made.sample(0)
    check_round_trips(c, made.program)
    cut = c.trace.without_postproc()
    assert [i.op for i in cut.instructions] == ["split"] and cut.decisions == {}
    assert body("let a, b = mm.i.split([_, 8])").sample(0).trace.without_postproc().instructions == cut.instructions


def test_one_decision_changed():
    made = space("helpers")
    trace = made.sample(0).trace
    changed = trace.with_decision("a/t", (4, 16))
    assert replay(made.program, changed).decisions["a/t"] == (4, 16)
    with pytest.raises(KeyError):
        trace.with_decision("nothing", 1)


def test_a_stale_decision_is_repaired_with_a_warning_or_refused():
    c = space("helpers").replay({"a/t": (1, 64), "b/t": (1, 48, 1), "w[j_1]": 1, "w[j_2]": 1})
    smaller = space("helpers", M=40, N=48)
    again = replay(smaller.program, c.trace)
    assert again.decisions["a/t"] == (1, 40)
    assert [w.code for w in again.warnings] == ["MS254"] and again.warnings[0].severity is Severity.WARNING
    assert "[1, 64]" in again.warnings[0].message and "[1, 40]" in again.warnings[0].message
    with pytest.raises(MsError, match="a/t"):
        replay(smaller.program, c.trace, strict=True)


def test_a_trace_for_another_program_says_where_it_fails():
    trace = body("let a, b = mm.i.split([_, 8])\nmm.decompose_reduction(mm.k)").sample(0).trace
    other = space("s", "schedule s for chain on wide {}\n").program
    with pytest.raises(MsError) as caught:
        replay(other, trace)
    assert "instruction 1 of the trace" in str(caught.value.diagnostic.why)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"format": 99}',
        '{"format": 1, "program": "p"}',
        '{"format": 1, "program": "p", "target": null, "source": null, "decisions": {}, "instructions": [{"op": 3}]}',
        '{"format": 1, "program": "p", "target": null, "source": null, "decisions": {"a": null}, "instructions": []}',
    ],
)
def test_text_that_is_no_trace(text: str):
    with pytest.raises(MsError) as caught:
        Trace.from_json(text)
    assert caught.value.diagnostic.code == "MS263"


def test_json_is_one_line_of_plain_data():
    text = space("tiled").sample(0).trace.as_json()
    assert "\n" not in text
    data = json.loads(text)
    assert data["decisions"]["order"] in ("straight", "swapped")
    assert data["instructions"][0]["op"] == "perfect_tile"


def test_a_block_that_nobody_named_never_takes_a_name_that_the_trace_gave():
    text = "program p(A: f32[64], out B: f32[64]) { block a[i: 64] { B[i] = A[i] + 1.0 } }"
    program = ms.parse_program(text)
    s = Schedule(program)
    a_1, i1 = s.split(s.axis("a", "i"), [None, 8], names=["a_1", "i1"])
    s.loop_partition(s.fuse(a_1, i1), [40, None])
    s.cache_read(s.get(blocks_of(s.program.body)[1].name), s.get("A"))
    assert space_of_text(s.trace.as_ms("x"), program).sample(0).program == s.program
