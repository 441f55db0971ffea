"""Layouts from the language and from Python: index maps checked, run, and in every form of a trace."""

from __future__ import annotations

import pytest

from mslang.diagnostics import MsError, Severity
from mslang.ide.findings import findings
from mslang.ir.find import all_buffers, blocks_of
from mslang.ir.print import print_program
from mslang.schedule.replay import replay
from mslang.schedule.schedule import Schedule
from mslang.schedule.trace import Trace
from mslang.sema.modules import load
from tests.unit.schedule.samples import PROGRAMS, body, space
from tests.unit.schedule.test_trace import by_python, check_round_trips

LAYOUT = """
    let a = mm.cache_read(A)
    let bi ~ choose([8, 16])
    a.transform_layout(A_global_1, fn (i, k) -> [i // bi, k, i % bi])
    let c = mm.cache_write(C)
    c.transform_block_layout(fn (i, j) -> [j // 8, i, j % 8])
    mm.reorder_block_iter_var([1, 0, 2])
    a.storage_align(axis = -2, factor = 32, offset = 8)
"""


def test_a_layout_by_a_decision_goes_through_every_form() -> None:
    made = body(LAYOUT)
    for seed in range(4):
        c = made.sample(seed)
        check_round_trips(c, made.program)
        width = c.trace.decisions["bi"]
        assert isinstance(width, int)
        assert [str(getattr(e, "value", "")) for e in all_buffers(c.program)["A_global_1"].shape] == [
            str(64 // width),
            "32",
            str(width),
        ]
        assert [a.name for b in blocks_of(c.program.body) if b.name == "mm" for a in b.axes] == ["j", "i", "k"]
        assert 'attr "buffer_dim_align" = [[0, 1, 32, 8]]' in print_program(c.program)


def test_the_flat_form_shows_the_map() -> None:
    text = body(LAYOUT).sample(0).trace.as_ms("x")
    assert "transform_layout(a.writes()[0], fn (i, k) -> [i // bi, k, i % bi])" in text
    assert "transform_block_layout(fn (i, j) -> [j // 8, i, j % 8])" in text


def test_from_python_too() -> None:
    made = body(LAYOUT)
    s = Schedule(made.program)
    (a,) = s.apply("cache_read", s.get("mm"), s.get("A"))
    buffer = s.get("A_global_1")
    width = s.choose([8, 16], name="w")
    s.apply("transform_layout", a, buffer, s.index_map(lambda i, k: [i // width, k, i % width]))
    again = by_python(s.trace, made.program)
    assert again.program == s.program
    assert replay(made.program, Trace.from_json(s.trace.as_json()), strict=True).program == s.program
    with pytest.raises(MsError) as found:
        s.index_map(lambda i: ["x"])  # type: ignore[list-item]
    assert found.value.diagnostic.code == "MS203"


def faults(schedule: str) -> list[str]:
    text = f"{PROGRAMS}\nschedule s for matmul on wide {{\n{schedule}\n}}\n"
    return [d.code for d in findings(load("page.ms", text)) if d.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("schedule", "codes"),
    [
        ("mm.transform_block_layout(fn (i, j, k) -> [j, i, k])", []),
        ("mm.transform_block_layout(fn (i, j, k) -> [j, i, q])", ["MS201"]),
        ("mm.transform_block_layout([0, 1, 2])", ["MS203"]),
        ("mm.transform_block_layout()", ["MS205"]),
        ("mm.reorder_block_iter_var(fn (i) -> [i])", ["MS203"]),
        ('mm.storage_align(axis = "x", factor = 4)', ["MS203"]),
    ],
)
def test_mistakes_are_found_before_anything_runs(schedule: str, codes: list[str]) -> None:
    assert faults(schedule) == codes


@pytest.mark.parametrize(
    ("schedule", "code", "word"),
    [
        ('mm.transform_block_layout(fn (i, j, k) -> [j, "x", k])', "MS203", "index map"),
        ("mm.transform_block_layout(fn (i, j, j) -> [i, j])", "MS203", "two parameters `j`"),
        ("mm.transform_block_layout(fn (i, j, k) -> [j, i])", "MS384", "one to one"),
        ("mm.storage_align(0, 4)", "MS394", "does not allocate"),
    ],
)
def test_mistakes_found_by_running(schedule: str, code: str, word: str) -> None:
    with pytest.raises(MsError) as found:
        body(schedule).sample(0)
    assert found.value.diagnostic.code == code
    assert word in found.value.diagnostic.message


def test_output_blocks_in_the_language() -> None:
    made = body('let *outs = third.output_blocks()\nfor b in outs { b.annotate("last", 1) }', "chain")
    found = made.sample(0).program
    assert [b.name for b in blocks_of(found.body) if ("last", 1) in b.annotations] == ["third"]


def test_a_mark_of_postprocessing_from_python() -> None:
    s = Schedule(space("tiled").program)
    i = s.axis("mm", "i")
    s.apply("split", i, [None, 8])
    s.enter_postproc()
    i0 = s.ask("loops", s.get("mm"))[0]
    s.apply("parallel", i0)
    cut = s.trace.without_postproc()
    assert [x.op for x in cut.instructions] == ["split"]
    assert replay(space("tiled").program, cut, strict=True).program != s.program
    assert "enter_postproc()" in s.trace.as_ms() and "s.enter_postproc()" in s.trace.as_python()
    assert "enter_postproc" not in cut.as_ms() + cut.as_json() + cut.as_python()
    assert replay(space("tiled").program, Trace.from_json(s.trace.as_json()), strict=True).program == s.program
