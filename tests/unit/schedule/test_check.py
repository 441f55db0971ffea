"""The static checker: each mistake is found where it is, and correct schedules give nothing."""

import pytest

from mslang.diagnostics import Severity
from mslang.ops.signature import Kind
from mslang.schedule.check import check_item
from mslang.sema.modules import load

HEAD = """program p[N = 64](A: f32[N, N], B: f32[N, N], out C: f32[N, N]) {
    block mm[i: N, j: N | k: N] { C[i, j] += A[i, k] * B[k, j] }
}
schedule other for p { mm.i.parallel() }
rule mark(b: block, n: int = 1) { b.annotate("n", n) }
fn halve(b: loop, n: int = 2) { return b.split([_, n]) }
"""


def check(body: str, head: str = "schedule s for p"):
    module = load("t.ms", f"{HEAD}{head} {{\n{body}\n}}\n")
    assert not module.file.diagnostics
    placed = module.file.items[-1]
    return module, placed, check_item(module, placed.item)


WRONG = [
    ("mn.i.parallel()", "MS201", "mn"),
    ("A_pad.compute_inline()", "MS201", "A_pad"),
    ("mm.i.parallel()\npad_A.compute_inline()", "MS201", "pad_A"),
    ("mm.i.parallell()", "MS202", "parallell"),
    ("let t ~ perfekt_tile(mm.i, n = 2)", "MS202", "perfekt_tile"),
    ("mm.vectorize()", "MS203", "mm"),
    ("let t ~ perfect_tile(mm.i, n = 1e400)", "MS203", "1e400"),
    ("let t ~ perfect_tile(mm.i, 1e400)", "MS203", "1e400"),
    ("let t ~ perfect_tile(mm.i, n = 2.5)", "MS203", "2.5"),
    ("mm.i.split(mm)", "MS203", "mm"),
    ("let x = mm * 2", "MS203", "mm"),
    ("let t ~ perfect_tile(mm.i, n = 2)\nrequire t[2] > 1", "MS203", "2"),
    ("mm.l.parallel()", "MS204", "l"),
    ("mm.i.split()", "MS205", "split"),
    ("mm.i.split([_, 2], tale = guard)", "MS205", "tale"),
    ("mm.i.parallel(3)", "MS205", "3"),
    ("halve(mm.i, 2, 3)", "MS205", "halve"),
    ("let a, b, c = mm.i.split([_, 4])", "MS206", "a, b, c"),
    ("let a, b = mm.i.parallel()", "MS206", "let a, b = mm.i.parallel()"),
    ("mm.i.parallel", "MS207", "parallel"),
    ("alloc t: f32[4]", "MS207", "alloc t: f32[4]"),
    ("check true", "MS207", "check true"),
    ("let t ~ choose([1, 2])\nlet t ~ choose([3, 4])", "MS209", "t"),
    ("fork f = c { case a {} case b {} }", "MS210", "c"),
    ("let i = mm.i\nlet i0, i1 = i.split([_, 4])\ni.parallel()", "MS211", "i"),
    ("let i = mm.i\nfuse(i, mm.j)\ni.parallel()", "MS211", "i"),
    ("mm.compute_inline()\nmm.i.parallel()", "MS211", "mm"),
    ("mm.i.split(none)", "MS203", "none"),
    ("other()", "MS207", "other()"),
    ("mark(n = 2)", "MS207", "mark(n = 2)"),
    ("std.cpu.auto()", "MS207", "std.cpu.auto()"),
    ("let t ~ perfect_tile(mm.i, n = 1e999)", "MS203", "1e999"),
]


@pytest.mark.parametrize(("body", "code", "text"), WRONG)
def test_a_mistake_is_found_where_it_is(body: str, code: str, text: str) -> None:
    module, placed, checked = check(body)
    assert [d.code for d in checked.diagnostics] == [code]
    span = checked.diagnostics[0].span
    assert span is not None
    source = module.file.text[placed.start + span.start : placed.start + span.end]
    assert source == text


RIGHT = [
    'let t ~ perfect_tile(mm.i, n = 3)\nlet a, b, c = mm.i.split(t)\nrequire t[0] * t[2] <= 8, "why"',
    "let *all = mm.i.split([_, 2, 2])\nfuse(*all).parallel()",
    "let a, *rest = mm.i.split([_, 2, 2])\nfor l in rest { l.unroll() }",
    "let t ~ perfect_tile(mm.i, n = 1)\nlet *rest = mm.i.split(t)\nfor l in rest { l.unroll() }",
    "let sizes = [x * 2 for x in [1, 2, 3] if x > 1]\nlet a, b = mm.i.split([_, sizes[0]])",
    "let a, b = halve(mm.i)\na.parallel()",
    "let c = mm.cache_write(C, scope = local)\nc.reverse_compute_at(mm.j)",
    "fork f { case a { let t ~ choose([1]) } case b { let t ~ choose([2]) } }",
    "let v ~ choose([4, 8])\nif v > 4 { mm.j.unroll() } else { mm.j.vectorize() }",
    "let at ~ compute_location(mm)\nmm.compute_at(at)",
    "let k0, k1 = mm.k.split([_, 4])\nlet rf = k0.rfactor()\nlet z = mm.decompose_reduction(mm.k0)",
    "mm.transform_block_layout(fn (i, j, k) -> [i // 4, i % 4, j, k])\nmm.i_0.parallel()",
    "let a, b = halve(mm.i)\nmm.whatever_halve_made.parallel()",
    "mm.pad_einsum([3, 1, 1])\nA_pad.compute_inline()",
    "let c = mm.cache_read(A, shared)\nmm.transform_layout(A_shared_1, fn (i, j) -> [j, i])",
    "let l = mm.i\nlet l, m = l.split([_, 4])\nl.parallel()",
    'let vec as "a/b" ~ choose([1, 2])\nmm.annotate("key", vec)',
    "require machine.vector_lanes >= 4",
    "let t ~ perfect_tile(mm.i, n = 2, max_inner = none)\nlet u ~ choose([1, 2], none)",
    'mm.annotate("key", [inf, -inf, nan])',
    "mark(mm)\nmm.mark(n = 2)\napply(mark)\napply(std.cpu.auto)\nstd.cpu.auto_parallel(mm)",
]


@pytest.mark.parametrize("body", RIGHT)
def test_correct_schedules_give_nothing(body: str) -> None:
    assert check(body)[2].diagnostics == ()


def test_what_is_consumed_on_one_path_only_is_a_warning() -> None:
    found = check("let i = mm.i\nif machine.cores > 1 { let a, b = i.split([_, 2]) }\ni.parallel()")[2].diagnostics
    assert [(d.code, d.severity) for d in found] == [("MS211", Severity.WARNING)]


FORKED = "let i = mm.i\nfork f { case a {} case b {} case c { let x, y = i.split([_, 2]) } }\n"


@pytest.mark.parametrize(
    ("then", "severities"),
    [
        ("if f == a { i.parallel() }", []),
        ("if a == f { i.parallel() }", []),
        ("if f != c { i.parallel() }", []),
        ("if not (f == c) { i.parallel() }", []),
        ("if f == c {} else { i.parallel() }", []),
        ("if f == c {} else if f == a { i.parallel() }", []),
        ("if f == c { i.parallel() }", [Severity.ERROR]),
        ("if f == a {} else { i.parallel() }", [Severity.WARNING]),
        ("if f != a { i.parallel() }", [Severity.WARNING]),
        ("if f == a {}\ni.parallel()", [Severity.WARNING]),
        ("if f == a { let u, v = i.split([_, 2]) }\nif f == a { i.parallel() }", [Severity.WARNING]),
        ("if f == a { let u, v = i.split([_, 2])\ni.parallel() }", [Severity.ERROR]),
        ("fork g { case a {} case c {} }\nif g == a { i.parallel() }", [Severity.WARNING]),
    ],
)
def test_what_a_fork_consumes_lives_where_it_went_another_way(then: str, severities: list[Severity]) -> None:
    found = check(FORKED + then)[2].diagnostics
    assert [(d.code, d.severity) for d in found] == [("MS211", s) for s in severities]


def test_a_consumed_handle_names_consumer_and_replacement() -> None:
    module, placed, checked = check("let i = mm.i\nlet a, b = i.split([_, 4])\ni.parallel()")
    found = checked.diagnostics[0]
    assert found.help == "use its replacement: `a`, `b`"
    assert found.fixes[0].text == "a"
    span = found.notes[0].span
    assert span is not None
    assert module.file.text[placed.start + span.start : placed.start + span.end] == "split"


def test_environment_at_an_offset() -> None:
    module, placed, checked = check("let a, b = mm.i.split([_, 4])\na.parallel()")
    at = module.file.text.index("a.parallel") - placed.start
    names = checked.at(at)
    assert names["a"].value.kind is Kind.LOOP
    assert names["mm"].value.axes == ("i", "j", "k")
    assert "a" not in checked.at(module.file.text.index("let a") - placed.start)


def test_rules_and_tests_are_checked_too() -> None:
    head = "rule r(b: block) when b.is_injective()"
    assert check("b.compute_inline()", head)[2].diagnostics == ()
    assert [d.code for d in check("b.parallel()", head)[2].diagnostics] == ["MS203"]
    assert [d.code for d in check("require true", 'test "t"')[2].diagnostics] == ["MS207"]


@pytest.mark.parametrize("parts", ["9223372036854775807", "17", "0"])
def test_a_tile_of_more_parts_than_it_may_have_is_of_unknown_length(parts: str) -> None:
    _, _, checked = check(f"let t ~ perfect_tile(mm.i, n = {parts})\nlet a, b = mm.i.split(t)\nrequire t[3] < 4")
    assert checked.diagnostics == ()
