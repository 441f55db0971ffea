from pathlib import Path

import pytest

from mslang.diagnostics import Span
from mslang.syntax.format import format_range, format_text
from mslang.syntax.meaning import faults, meaning
from tests.unit.syntax.samples import SAMPLES

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(p for folder in ("stdlib", "examples") for p in (ROOT / folder).rglob("*.ms"))


@pytest.mark.parametrize("name", ["matmul", "long_form"])
def test_samples_look_as_they_are_written(name: str) -> None:
    assert format_text(SAMPLES[name]) == SAMPLES[name]


def test_samples_change_only_where_the_layout_is_one() -> None:
    conv = format_text(SAMPLES["conv2d"])
    written = SAMPLES["conv2d"].replace(",\n                                x[n", ", x[n")
    written = written.replace("                 # add", "  # add")
    assert conv == written
    assert format_text(SAMPLES["wmma"]) == SAMPLES["wmma"].replace("   # bank", "  # bank")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_what_is_shipped_has_the_one_layout(path: Path) -> None:
    assert format_text(path.read_text()) == path.read_text()


@pytest.mark.parametrize("operand", ["*[x for x in a]", "*b", "-(a + 1)", "-a", "a * [1]", "a - (b)"])
def test_a_prefix_stands_at_its_operand(operand: str) -> None:
    loose = operand.replace("*[", "* [").replace("-(", "- (")
    assert f"g({operand})" in formatted(f"fn f(a: int) {{ return g({loose}) }}")


def formatted(text: str) -> str:
    found = format_text(text)
    assert format_text(found) == found
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("\n\n# a\n\n\n# b\n", "# a\n\n# b\n"),
        ("const  a=1", "const a = 1\n"),
        ("use a.b . {c,d} use e", "use a.b.{c, d}\nuse e\n"),
        ("const a=1\n\n\nconst b=- 2*-x", "const a = 1\n\nconst b = -2 * -x\n"),
        ("fn f(){}fn g(){}", "fn f() {}\n\nfn g() {}\n"),
        ("fn f(){let a,*b=f(*c,d*e)}", "fn f() { let a, *b = f(*c, d * e) }\n"),
        ("fn f(){x=1 y=2}", "fn f() {\n    x = 1\n    y = 2\n}\n"),
        ("fn f(){\n\n\nx=1\n\n\ny=2\n\n}", "fn f() {\n    x = 1\n\n    y = 2\n}\n"),
        ("fn f(){for i in 0 .. 4{x=a[i .. i+4,0 .. n]}}", "fn f() { for i in 0..4 { x = a[i .. i + 4, 0..n] } }\n"),
        ("fn f(){if a{x=1}else if b{}else{y=(1)[0]}}", None),
        (
            "program p [M=4](a:f32 [M]@local,out b:block[2]){block b[i:M|k:4@reduce=j]{}}",
            "program p[M = 4](a: f32[M] @ local, out b: block[2]) { block b[i: M | k: 4 @ reduce = j] {} }\n",
        ),
        ('schedule s for p on t=q with{a=1,"b/c"=2}', 'schedule s for p on t = q with { a = 1, "b/c" = 2 }\n'),
        ("space s=a|b>>(c|d)", "space s = a | b >> (c | d)\n"),
        ("@o(x)@p rule r(b:block){}", "@o(x)\n@p\nrule r(b: block) {}\n"),
        ("fn f(){reads[]writes A[i],B}", "fn f() {\n    reads []\n    writes A[i], B\n}\n"),
        ("fn f(){x=fn(i)->[i]}", "fn f() { x = fn (i) -> [i] }\n"),
        ("fn f(){x=not(a)and[e for y in xs if(y)]}", "fn f() { x = not (a) and [e for y in xs if (y)] }\n"),
        ("fn f(){x=a.in(1).for}", "fn f() { x = a.in(1).for }\n"),
        ('target t=a.b{x=1 y="z"}', 'target t = a.b {\n    x = 1\n    y = "z"\n}\n'),
        ('intrin i(a:f32)on c{desc{}impl cuda"x"}', 'intrin i(a: f32) on c {\n    desc {}\n    impl cuda "x"\n}\n'),
    ],
)
def test_spaces_and_lines(text: str, expected: str | None) -> None:
    found = formatted(text)
    if expected is not None:
        assert found == expected


def test_comments_stay_where_they_are() -> None:
    text = "#a\n##b\nfn f(){#c\n#d\n\n#e\nx=1#f\n#g\nlet y=[1,#h\n2\n#i\n]\n#j\n}#k\n\n#l\n"
    assert formatted(text) == (
        "#a\n##b\nfn f() {  #c\n    #d\n\n    #e\n    x = 1  #f\n    #g\n    let y = [\n        1,  #h\n        2\n"
        "        #i\n    ]\n    #j\n}  #k\n\n#l\n"
    )


def test_long_lines_break() -> None:
    args = ", ".join(f"argument_{k}" for k in range(12))
    assert formatted(f"fn f() {{ g({args}) }}") == (
        "fn f() {\n    g(\n"
        "        argument_0, argument_1, argument_2, argument_3, argument_4, argument_5, argument_6,\n"
        "        argument_7, argument_8, argument_9, argument_10, argument_11\n    )\n}\n"
    )
    terms = " and ".join(f"condition_{k}" for k in range(8))
    assert formatted(f"fn f() {{\n    require {terms}\n}}") == (
        "fn f() {\n    require condition_0 and condition_1 and condition_2 and condition_3 and condition_4\n"
        "        and condition_5 and condition_6 and condition_7\n}\n"
    )


def test_a_list_broken_after_its_bracket_stays_broken() -> None:
    text = "fn f() {\n    g(\n        a, b,\n        c\n    )\n}\n"
    assert formatted(text) == text


def test_long_strings_are_left_alone() -> None:
    text = 'test "a" {\n        snapshot s """\n  b   \n\n\tc"""\n}\n'
    assert formatted(text) == text.replace("        snapshot", "    snapshot")


def test_windows_line_ends_go() -> None:
    assert formatted("fn f() {\r\n  x = 1\r\n\r\n  y = 2\r\n}\r\n") == "fn f() {\n    x = 1\n\n    y = 2\n}\n"


def test_the_sound_parts_of_a_broken_item_are_laid_out() -> None:
    text = "fn f( ) {\n  a=1 # x\n  let let b  =  2\n\n  for i in 4{c  = 3}\n# y\n}\nconst  d=4"
    assert formatted(text) == (
        "fn f() {\n    a = 1  # x\n    let let b  =  2\n\n    for i in 4 { c = 3 }\n    # y\n}\n\nconst d = 4\n"
    )


def test_a_broken_header_is_left_as_it_is() -> None:
    text = "program p ? ( {\n  x=1\n}\nconst  d=4\n"
    assert formatted(text) == "program p ? ( {\n  x=1\n}\n\nconst d = 4\n"


def test_formatting_a_range_touches_its_items_only() -> None:
    text = "const a=1\n\nconst b=2\n\nconst c=3\n"
    (edit,) = format_range(text, Span(text.index("b"), text.index("b")))
    assert (text[edit.span.start : edit.span.end], edit.text) == ("const b=2", "const b = 2")
    assert format_range(format_text(text), Span(0, len(text))) == ()


@pytest.mark.parametrize(
    "text",
    [
        'schedule s for p {\n    let a, b c do not fit the loop"\n}\n',
        'schedule s for p {\n    b.i.unroll()\n    let a, b c do not fit the loop"\n    b.j.unroll()\n}\n',
        "fn f() {\n    b.storage_align(axis = -2, factor = 32))   # conflicts\n    return b\n}\n",
        "fn f() {\n    b.storage_alignaxis = -2, factor = 32, offset = 8)   # conflicts\n    return b\n}\n",
        "program p() {\n    for k in 4 {\n        block b[i: 4 =  * 4] {\n            reads A\n        }\n    }\n}\n",
    ],
)
def test_a_line_with_an_error_stays_one_line(text: str) -> None:
    assert formatted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "program intrin(A: f32[4",
        "program intrin(A: f32[4\n",
        "const a=1 schedule s1 \n test \x1c fork 1 } ?",
        "m use \n impl \n test const in if ) é init case ? schedule \t schedule init @ use , in ~",
        'fn f() {\n  x = 1\n  seed in 0..4 { check equiv(p, q) }\n  let p = conv[1, pad 3]\n  "a" b[i: N] {\n y=2 }\n}',
    ],
)
def test_formatting_broken_text_adds_no_error(text: str) -> None:
    found = formatted(text)
    assert faults(found) <= faults(text) and meaning(found) == meaning(text)
