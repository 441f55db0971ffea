"""One diagnostic a mistake, at the right place, and all that is not broken still in the tree."""

import pytest

from mslang.diagnostics import Diagnostic
from mslang.syntax import tree
from mslang.syntax.parse import parse_expression, parse_file
from mslang.syntax.query import children, line_index
from tests.unit.syntax.samples import SAMPLES, covers

MATMUL = SAMPLES["matmul"]

# (what, text of sample 1, what takes its place, the diagnostics: code, line, text pointed at)
EDITS = [
    ("unclosed (", "fuse(i0, j0).parallel()", "fuse(i0, j0.parallel()", [("MS002", 39, "(")]),
    ("stray )", "j3.vectorize()", "j3.vectorize())", [("MS003", 40, ")")]),
    ("bad character", "let unroll ~", "let $ unroll ~", [("MS006", 38, "$")]),
    (
        "missing inner }",
        "acc.reverse_compute_at(j1)\n        }\n",
        "acc.reverse_compute_at(j1)\n",
        [("MS002", 32, "{")],
    ),
    ("missing final }", "mm.decompose_reduction(k0)\n}\n", "mm.decompose_reduction(k0)\n", [("MS002", 17, "{")]),
    ("empty let", "let unroll ~ choose([0, 16, 64, 512])", "let", [("MS001", 38, "let")]),
    ("stray operator", "* B[k, j]\n", "* * B[k, j]\n", [("MS005", 12, "*")]),
    ("broken header", "matmul[M = 1024", "matmul[M = = 1024", [("MS001", 6, "=")]),
    ("bare case", "case none {}", "case", [("MS001", 31, "case")]),
    ("j3. and a newline", "j3.vectorize()", "j3.", [("MS007", 40, ".")]),
    ("extra }", "    j3.vectorize()", "    }\n    j3.vectorize()", [("MS003", 40, "}")]),
    ("extra } in a line", "j3.vectorize()", "j3.vectorize() }", [("MS003", 40, "}")]),
    ("keyword as a name", "let ti ~", "let in ~", [("MS008", 19, "in")]),
    ("missing comma", "mm.i, n = 4", "mm.i n = 4", [("MS004", 19, "n")]),
    ("missing value", "mm.decompose_reduction(k0)", "let z =", [("MS005", 42, "=")]),
    ("unclosed string", '"accumulators spill"', '"accumulators spill', [("MS006", 27, '"')]),
    ("= for ==", "require ti[3] * tj[3] <=", "require ti[3] * tj[3] =", [("MS001", 27, "=")]),
    ("missing {", "case at_l1 {", "case at_l1", [("MS004", 33, "let")]),
    ("missing in", "for seed in 0..8", "for seed 0..8", [("MS004", 54, "0")]),
    ("wrong bracket", "mm.i.split(ti)", "mm.i.split(ti]", [("MS003", 23, "]")]),
    ("missing keyword", "\nprogram matmul", "\n matmul", [("MS009", 6, "matmul")]),
    ("no statement", "j3.vectorize()", "-> 3", [("MS001", 40, "->")]),
]


def _faults(text: str) -> list[tuple[str, int, str]]:
    found = []
    for diagnostic in parse_file("x", text).diagnostics:
        assert diagnostic.span is not None
        line = line_index(text).position(diagnostic.span.start)[0] + 1
        found.append((diagnostic.code, line, text[diagnostic.span.start : diagnostic.span.end]))
    return found


@pytest.mark.parametrize(("before", "after", "faults"), [e[1:] for e in EDITS], ids=[e[0] for e in EDITS])
def test_an_edit(before: str, after: str, faults: list[tuple[str, int, str]]) -> None:
    assert before in MATMUL
    text = MATMUL.replace(before, after, 1)
    assert _faults(text) == faults
    file = parse_file("x", text)
    assert covers(file)
    assert len(file.items) == 8


def test_two_mistakes_get_two_diagnostics() -> None:
    text = MATMUL.replace("let tj ~", "let tj ~ ~").replace("let k0, k1 = mm.k", "let k0 k1 = mm.k")
    assert [line for _, line, _ in _faults(text)] == [20, 25]


def _bad(node: tree.Node) -> list[str]:
    own = [node.text] if isinstance(node, tree.Bad) else []
    return own + [text for child in children(node) for text in _bad(child)]


@pytest.mark.parametrize(
    ("body", "bad", "kinds"),
    [
        ("let x =\n    y = 1", [""], ["Let", "Assign"]),
        ("let\n    f(y).g()\n    y = 1", ["let"], ["Bad", "CallStmt", "Assign"]),
        ("let x\n    y = 1", [""], ["Let", "Assign"]),
        ("f(a, [b, c\n    y = 1", [], ["CallStmt", "Assign"]),
        ("a.b.\n    y = 1", ["a.b."], ["Bad", "Assign"]),
        ("let x = a.\n    y = 1", [], ["Let", "Assign"]),
        ("for i in 4\n    y = 1", [], ["For", "Assign"]),
        ("x = 12abc\n    y = 1", ["12abc"], ["Assign", "Assign"]),
        ("let a = , b ] c\n    y = 1", None, ["Bad", "Assign"]),
        ("block b[i: ] { z = 1 }\n    y = 1", [""], ["Block", "Assign"]),
        ("fork f { case a { x = }\n    ??\n    case b {} }\n    y = 1", None, ["Fork", "Assign"]),
        ("f\n    (a)\n    y = 1", [], ["CallStmt", "Assign"]),
        ("return x\n    y = 1", ["return x"], ["Bad", "Assign"]),
    ],
)
def test_what_is_left_of_a_body(body: str, bad: list[str] | None, kinds: list[str]) -> None:
    file = parse_file("x", f"fn f() {{\n    {body}\n}}\n")
    (placed,) = file.items
    assert isinstance(placed.item, tree.Fn)
    assert [type(s).__name__ for s in placed.item.body.statements] == kinds
    assert len(file.diagnostics) >= 1
    if bad is not None:
        assert _bad(placed.item) == bad
        assert len(file.diagnostics) == 1


def test_a_target_keeps_its_sound_fields() -> None:
    (placed,) = parse_file("x", "target t = cuda {\n    a = 1\n    b\n    c = 3\n}\n").items
    assert isinstance(placed.item, tree.Target)
    assert [f.name.text for f in placed.item.fields if isinstance(f, tree.Field)][-1] == "c"


def test_a_header_that_cannot_be_read_keeps_keyword_and_name() -> None:
    text = "## doc\nprogram p ? (( {\n    x = 1\n}\nconst a = 1\n"
    first, second = parse_file("x", text).items
    assert isinstance(first.item, tree.BadItem)
    assert (first.item.keyword, first.item.name and first.item.name.text, first.item.doc) == ("program", "p", "doc")
    assert isinstance(second.item, tree.Const)
    assert len(first.parsed.diagnostics) == 1


def test_an_open_body_says_so() -> None:
    (placed,) = parse_file("x", "fn f() {\n    x = 1\n").items
    assert isinstance(placed.item, tree.Fn)
    assert not placed.item.body.closed
    assert len(placed.item.body.statements) == 1


def test_text_after_an_item_is_a_piece_of_its_own() -> None:
    file = parse_file("x", "const a = 1\n}\nconst b = 2\n")
    assert [type(p.item).__name__ for p in file.items] == ["Const", "BadItem", "Const"]
    assert [d.code for d in file.diagnostics] == ["MS003"]


def _one(text: str) -> Diagnostic:
    (diagnostic,) = parse_file("x", text).diagnostics
    return diagnostic


def test_messages() -> None:
    assert _one("fn f() {\n    f(a b)\n}").message == "expected `,` before `b`"
    assert _one("fn f() {\n    x = 1 +\n}").message == "expected an expression after `+`"
    assert _one("fn f() {\n    x = \n}").message == "expected an expression after `=`"
    assert _one("program p[M = 4](a: f32) {\n    x = 1").message == "`{` is never closed"
    assert _one("const = 4").message == "expected a name, found `=`"
    assert _one("fn f() {\n    let 5 = 4\n}").message == "expected `*`, `_` or a name, found `5`"
    assert _one("fn f() {\n    f(a, b\n    x = 1\n}").notes[0].message == "noticed at `x`"
    assert _one("use").message == "unexpected end of the item; expected a name or a string"


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("fn f() {\n    f(a b)\n}", "fn f() {\n    f(a, b)\n}"),
        ("fn f() {\n    f(a\n}", "fn f() {\n    f(a)\n}"),
        ("fn f() {\n    f(a))\n}", "fn f() {\n    f(a)\n}"),
        ("fn f() {\n    f[a)\n}", "fn f() {\n    f[a]\n}"),
        ("fn f() {\n    let in = 1\n}", "fn f() {\n    let `in` = 1\n}"),
        ("fn f() {\n    if a = 1 {}\n}", "fn f() {\n    if a == 1 {}\n}"),
        ("fn f() {\n    for i 4 {}\n}", "fn f() {\n    for i in 4 {}\n}"),
        ("fn f() {\n    let k = b.i;let r = k\n}", "fn f() {\n    let k = b.i let r = k\n}"),
        ("fn f() {\n    let k = b.i; let r = k\n}", "fn f() {\n    let k = b.i let r = k\n}"),
        ("fn f() {\n    let k = b.i;\n}", "fn f() {\n    let k = b.i\n}"),
        ("fn f() {\n    x = 1 == 2&&3 == 3\n}", "fn f() {\n    x = 1 == 2 and 3 == 3\n}"),
        ("fn f() {\n    x = m == 4||n2\n}", "fn f() {\n    x = m == 4 or n2\n}"),
        ("fn f() {\n    x = (a)&&(b)\n}", "fn f() {\n    x = (a)and(b)\n}"),
        ("fn f() {\n    x = a)y = b\n}", "fn f() {\n    x = a y = b\n}"),
    ],
)
def test_fixes_mend_the_text(text: str, fixed: str) -> None:
    (fix,) = _one(text).fixes
    assert text[: fix.span.start] + fix.text + text[fix.span.end :] == fixed
    assert parse_file("x", fixed).diagnostics == ()


def test_a_broken_expression_is_no_expression() -> None:
    from mslang.diagnostics import SyntaxProblem

    with pytest.raises(SyntaxProblem, match="never closed"):
        parse_expression("f(a")


def test_sizes_behind_the_program_of_a_schedule() -> None:
    (found,) = parse_file("x.ms", "schedule s for gemm[60, 64] {\n}\n").diagnostics
    assert found.code == "MS001" and "`--set M=64`" in (found.help or "")
