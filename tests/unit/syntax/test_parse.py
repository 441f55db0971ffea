from typing import Any

import pytest

from mslang.diagnostics import Span, SyntaxProblem
from mslang.syntax import tree
from mslang.syntax.parse import parse_expression, parse_file, parse_item, reparse
from tests.unit.syntax.samples import SAMPLES, covers


def item(text: str) -> Any:
    parsed = parse_item(text)
    assert parsed.diagnostics == ()
    return parsed.item


def statement(text: str) -> Any:
    (found,) = item(f"fn f() {{ {text} }}").body.statements
    return found


def show(node: object) -> str:
    """A node without its spans, shortly."""
    match node:
        case tree.Name(text=text) | tree.Ref(name=tree.Name(text=text)):
            return text
        case tree.Number(value=value):
            return repr(value)
        case tree.Node():
            fields = [getattr(node, f) for f in node.__struct_fields__]
            return f"{type(node).__name__}({', '.join(show(x) for x in fields if not isinstance(x, Span))})"
        case tuple():
            return "[" + " ".join(map(show, node)) + "]"
    return str(node)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_have_no_fault(name: str) -> None:
    file = parse_file(name, SAMPLES[name])
    assert file.diagnostics == ()
    assert covers(file)


def test_items_of_a_sample() -> None:
    file = parse_file("matmul.ms", SAMPLES["matmul"])
    kinds = [type(placed.item).__name__ for placed in file.items]
    assert kinds == ["Use", "Use", "Program", "Schedule", "Schedule", "Space", "Test", "Test"]
    assert [placed.item.doc for placed in file.items][2:4] == [
        "C[i, j] = sum over k of A[i, k] * B[k, j], all row-major.",
        "Tile S S R S R S: L2 tile, L1 tile, reduction tile, register tile.",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a + b * c - d", "Binary(-, Binary(+, a, Binary(*, b, c)), d)"),
        ("a // b % c / d", "Binary(/, Binary(%, Binary(//, a, b), c), d)"),
        ("not a and b or c", "Binary(or, Binary(and, Unary(not, a), b), c)"),
        ("a <= b + 1", "Binary(<=, a, Binary(+, b, 1))"),
        ("0 .. n - 1", "Binary(.., 0, Binary(-, n, 1))"),
        ("- - 2", "Unary(-, Unary(-, 2))"),
        ('f(a, n = 4, "s/v" = 1, *rest, in = 2)[i, 0].x', None),
        ("s[]", "Index(s, [])"),
        ("[a, b,]", "List([a b])"),
        ("[f(x) for x, _ in xs if x]", None),
        ("fn (i, j) -> [j, i]", "IndexMap([i j], [j i])"),
        ("fn () -> []", "IndexMap([], [])"),
        ("(a, b)", "Group([a b])"),
        ("164KiB", "Size(167936, 164KiB)"),
        ("true", "Bool(True)"),
        ("_", "Hole()"),
        ("`a.b`", "a.b"),
        ("1_000", "1000"),
        ("0xff", "255"),
        ("1.5", "1.5"),
        ("1e-4", "0.0001"),
        ("2e3", "2000.0"),
    ],
)
def test_expressions(text: str, shown: str | None) -> None:
    expression = parse_expression(text)
    assert expression.span == Span(0, len(text))
    if shown is not None:
        assert show(expression) == shown


def test_arguments() -> None:
    call = parse_expression('f(a, n = 4, "s/v" = 1, *rest, in = 2)')
    assert isinstance(call, tree.Call)
    assert [show(arg) for arg in call.args] == [
        "Arg(a, None, False)",
        "Arg(4, n, False)",
        "Arg(1, s/v, False)",
        "Arg(rest, None, True)",
        "Arg(2, in, False)",
    ]


def test_strings() -> None:
    assert parse_expression(r'"a\"b\n\\"') == tree.String(Span(0, 10), 'a"b\n\\', r'"a\"b\n\\"')
    long = parse_expression('"""a "b"\n  c"""')
    assert isinstance(long, tree.String)
    assert long.value == 'a "b"\n  c'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("let a, _, *b = c", "Let([Binder(a, False) Binder(None, False) Binder(b, True)], c)"),
        ("let x ~ d", "Sample(x, d, None, None)"),
        ('let v as "sa/vec" ~ d = 4', 'Sample(v, d, String(sa/vec, "sa/vec"), 4)'),
        (
            "alloc t: f32[N, 4] @ local(align = 64)",
            "Alloc(t, Type(f32, [N 4], Place([local], [Arg(64, align, False)])), None)",
        ),
        ("alloc s: f32[]", "Alloc(s, Type(f32, [], None), None)"),
        ("alloc s: f32 = 0", "Alloc(s, Type(f32, None, None), 0)"),
        ("view v: f32[4] = A[i .. i + 4]", None),
        ("attr k = 1", "AttrSet(k, 1)"),
        ('attr "a.b" = 1', "AttrSet(a.b, 1)"),
        ("while a { }", "While(a, Body([], True))"),
        (
            "for i in 4 @ vthread.x, j in n where i < j { }",
            "For([AxisLoop(i, 4, Place([vthread x], [])) AxisLoop(j, n, None)], Body([], True), Binary(<, i, j))",
        ),
        ("block b { }", "Block(b, None, Body([], True))"),
        ("block b[] { }", "Block(b, [], Body([], True))"),
        (
            "block b[i: M = x | k: K @ scan] { }",
            "Block(b, [Axis(i, M, False, None, x) Axis(k, K, True, Place([scan], []), None)], Body([], True))",
        ),
        ("block b[| k: K] { }", "Block(b, [Axis(k, K, True, None, None)], Body([], True))"),
        ("init { }", "Init(Body([], True))"),
        ("reads A[i], B", "Reads([Index(A, [i]) B])"),
        ("reads []", "Reads([])"),
        ("writes C[i]", "Writes([Index(C, [i])])"),
        ("where i < 4", "Where(Binary(<, i, 4))"),
        (
            "if a { } else if b { } else { return }",
            "If(a, Body([], True), Body([If(b, Body([], True), Body([Return([])], True))], True))",
        ),
        ("fork { case a { } }", "Fork(None, [Case(a, Body([], True))], None)"),
        ("fork f = a { case a { } case b { } }", "Fork(f, [Case(a, Body([], True)) Case(b, Body([], True))], a)"),
        ('require a, "why"', 'Require(a, String(why, "why"))'),
        ("check a", "Check(a, None)"),
        ('snapshot s "x"', 'Snapshot(s, String(x, "x"))'),
        ("return a, b", "Return([a b])"),
        ("A[i] += 1", "Assign(Index(A, [i]), +=, 1)"),
        ("x = 1", "Assign(x, =, 1)"),
        ("f(a)", "CallStmt(Call(f, [Arg(a, None, False)]), None)"),
        ('s with { a = 1, "b/c" = 2 d = 3 }', "CallStmt(s, [Pin(a, 1) Pin(b/c, 2) Pin(d, 3)])"),
    ],
)
def test_statements(text: str, shown: str | None) -> None:
    found = statement(text)
    assert found.span == Span(len("fn f() { "), len("fn f() { ") + len(text))
    if shown is not None:
        assert show(found) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use a.b.{c, d}", "Use([], , [a b], None, [c d], None)"),
        ('use "./o.ms".{x,}', 'Use([], , [], String(./o.ms, "./o.ms"), [x], None)'),
        ("use a.b as c", "Use([], , [a b], None, None, c)"),
        ("const n = 4", "Const([], , n, 4)"),
        ("target t = a.b { x = 1 }", "Target([], , t, [a b], [Field(x, 1)])"),
        (
            "program p[M: dyn(8) = 4, N](const a: f32[M], inout b: f32 @ g = 1) {}",
            "Program([], , p, [SizeParam(M, Call(dyn, [Arg(8, None, False)]), 4) SizeParam(N, None, None)], "
            "[Param(a, Type(f32, [M], None), in, None, None, True) "
            "Param(b, Type(f32, None, Place([g], [])), inout, 1, None, False)], "
            "Body([], True))",
        ),
        (
            "schedule s(n: int = 1) for a.p on t(x) { }",
            "Schedule([], , s, [Param(n, Type(int, None, None), in, 1, None, False)], [a p], "
            "Call(t, [Arg(x, None, False)]), "
            "Body([], True), None, None)",
        ),
        ("schedule s = r with { }", "Schedule([], , s, [], None, None, None, r, [])"),
        (
            "@o(a) @p rule r(b: block) when c { }",
            "Rule([Attribute(o, [Arg(a, None, False)]) Attribute(p, [])], , r, "
            "[Param(b, Type(block, None, None), in, None, None, False)], c, Body([], True))",
        ),
        (
            "fn f(l: intrin) { }",
            "Fn([], , f, [Param(l, Type(intrin, None, None), in, None, None, False)], Body([], True))",
        ),
        (
            "space s for p on t = a | b >> c | (d with { x = 1 })",
            "Space([], , s, [p], t, Union([a Sequence([b c]) Pinned(d, [Pin(x, 1)])]))",
        ),
        ("space s = a", "Space([], , s, None, None, a)"),
        (
            'intrin i(a: f32) on c { desc { } impl cuda "x" impl { } }',
            "Intrin([], , i, [Param(a, Type(f32, None, None), in, None, None, False)], c, Body([], True), "
            '[Impl(None, cuda, String(x, "x")) Impl(Body([], True), None, None)])',
        ),
        ('test "t" { }', 'Test([], , String(t, "t"), Body([], True))'),
    ],
)
def test_items(text: str, shown: str) -> None:
    found = item(text)
    assert found.span == Span(0, len(text))
    assert show(found) == shown


def test_spans_count_from_the_items_start_and_its_comments_belong_to_it() -> None:
    text = "const a = 1\n\n# far\n\n## one\n##  two\n# near\nconst b = 2\n"
    first, second = parse_file("x", text).items
    assert second.start == text.index("## one")
    assert second.parsed.text[second.item.span.start :].startswith("const b")
    assert (first.item.doc, second.item.doc) == ("", "one\n two")


def test_an_attribute_begins_its_item_and_need_not_stand_on_its_line() -> None:
    text = "fn f() {}\n@a(in = 1)\n@b\n## no doc\nrule r(b: block) {}\n@c rule s(b: block) {}\n"
    file = parse_file("x", text)
    assert [len(placed.item.attributes) for placed in file.items] == [0, 2, 1]
    assert file.diagnostics == ()


def test_keywords_in_strings_and_comments_begin_no_item() -> None:
    text = 'test "a" {\n    snapshot p """\nprogram q() {}\n"""\n}\n# \nuse a\n'
    file = parse_file("x", text)
    assert [type(placed.item).__name__ for placed in file.items] == ["Test", "Use"]
    assert file.diagnostics == ()


def test_an_unclosed_long_string_leaves_the_items_after_it_whole() -> None:
    text = 'test "a" {\n    snapshot p """\n}\n\n## doc\nconst b = 2\n\ntest "c" { snapshot p """x""" }\n'
    file = parse_file("x", text)
    assert [type(placed.item).__name__ for placed in file.items][1:] == ["Const", "Test"]
    assert file.items[1].item.doc == "doc"
    assert covers(file)


def test_items_need_not_begin_in_column_one() -> None:
    file = parse_file("x", "const a = 1 const b = 2\n  const c = 3")
    assert [placed.item.name.text for placed in file.items if isinstance(placed.item, tree.Const)] == ["a", "b", "c"]
    assert file.diagnostics == ()


def test_unchanged_items_are_not_parsed_again() -> None:
    old = parse_file("x", SAMPLES["matmul"])
    new = reparse(old, SAMPLES["matmul"].replace("k1.unroll", "  k1.unroll"))
    same = [a.parsed is b.parsed for a, b in zip(old.items, new.items, strict=True)]
    assert same == [True, True, True, False, True, True, True, True]
    assert reparse(old, old.text) is old


def test_an_empty_file_is_a_file() -> None:
    for text in ("", "\n\n", "# only a comment\n"):
        assert parse_file("x", text) == tree.File("x", text, text, ())


@pytest.mark.parametrize("text", ["", "a +", "a b", "$", "let x = 1", "(a"])
def test_what_is_no_expression_is_told(text: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse_expression(text)
    assert caught.value.diagnostic.code.startswith("MS00")


@pytest.mark.parametrize("text", ["", "const a = 1\nconst b = 2"])
def test_one_item_is_one_item(text: str) -> None:
    with pytest.raises(SyntaxProblem):
        parse_item(text)


def test_the_parser_does_without_lark() -> None:
    import subprocess
    import sys

    code = """if True:
        import sys
        from mslang.syntax.parse import parse_file
        parse_file('x', 'const a = 1')
        print('lark' in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
