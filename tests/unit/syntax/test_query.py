import pytest

from mslang.syntax import tree
from mslang.syntax.lexer import tokenize
from mslang.syntax.parse import parse_file
from mslang.syntax.query import (
    expected_at,
    item_at,
    keywords_at,
    line_index,
    node_path,
    token_at,
    token_before,
)

TEXT = """# lead

program p(A: f32[4]) {
    block b[i: 4] { A[i] = 1.0 }
}
schedule s for p {
    let x ~ perfect_tile(b.i, n = 2)
    b.i.
    re
    fork f {
        c
    }
}
"""
FILE = parse_file("x", TEXT)


def after(mark: str) -> int:
    return TEXT.rindex(mark) + len(mark)


def test_lines_and_columns() -> None:
    index = line_index("ab\n\ncd")
    assert [index.position(k) for k in range(7)] == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert [index.offset(*index.position(k)) for k in range(7)] == list(range(7))
    assert index.position(99) == (2, 2)
    assert [index.offset(0, 9), index.offset(9, 0), index.offset(-1, 3), index.offset(1, 1)] == [2, 6, 0, 3]


def test_the_item_at_an_offset() -> None:
    assert item_at(FILE, 0) is None
    placed = item_at(FILE, after("schedule s"))
    assert placed is not None
    assert isinstance(placed.item, tree.Schedule)
    assert item_at(FILE, len(TEXT)) is placed


@pytest.mark.parametrize(
    ("mark", "kinds"),
    [
        ("perfect_t", "Schedule Body Sample Call Ref Name"),
        ("perfect_tile(", "Schedule Body Sample Call Arg Member Ref Name"),
        ("A[", "Program Body Block Body Assign Index Ref Name"),
        ("b.i.", "Schedule Body Bad"),
        ("        c", "Schedule Body Fork Bad"),
        ("# le", ""),
    ],
)
def test_the_nodes_at_an_offset(mark: str, kinds: str) -> None:
    assert " ".join(type(node).__name__ for node in node_path(FILE, after(mark))) == kinds


def test_tokens() -> None:
    found = token_at(FILE, after("let x"))
    assert found is not None
    assert (found.kind, found.text, found.start) == ("NAME", "x", after("let "))
    assert token_at(FILE, after("perfect_tile")) == token_at(FILE, after("perfect_"))
    before = token_before(FILE, after("~ "))
    assert before is not None
    assert (before.text, before.end) == ("~", after("~"))
    assert token_before(FILE, 3) is None
    lead = token_at(FILE, 3)
    assert lead is not None
    assert lead.kind == "COMMENT"


@pytest.mark.parametrize(
    ("mark", "some", "none"),
    [
        ("let x ~ ", {"NAME"}, {"NUMBER", "LET", "RBRACE"}),
        ("p {\n    ", {"LET", "NAME", "FORK", "RBRACE"}, {"CASE", "COMMA"}),
        ("b.i.", {"NAME", "FOR"}, {"NUMBER"}),
        ("    re", {"REQUIRE", "READS", "NAME"}, {"CASE"}),
        ("        c", {"CASE"}, {"LET"}),
        ("schedule s ", {"FOR", "ON", "LPAR", "EQUAL"}, {"LET", "NAME"}),
        ("perfect_tile(", {"NAME", "STAR", "NUMBER", "RPAR"}, {"LET_"}),
        ("}\n}\n", {"PROGRAM", "AT", "TEST"}, {"LET", "NAME"}),
        ("#", {"PROGRAM", "AT", "TEST"}, {"LET", "NAME"}),
        ("prog", {"PROGRAM", "AT", "TEST"}, {"LET", "NAME"}),
    ],
)
def test_what_could_stand_at_an_offset(mark: str, some: set[str], none: set[str]) -> None:
    expected = expected_at(FILE, after(mark))
    assert some <= expected
    assert not none & expected


def test_keywords() -> None:
    assert keywords_at(FILE, after("        c")) == ("case",)
    assert "require" in keywords_at(FILE, after("    re"))


def test_what_stands_there_is_expected_there() -> None:
    placed = FILE.items[0]
    for token in tokenize(placed.parsed.text):
        typed = placed.parsed.text[token.start - 1 : token.start].isalnum()
        if token.kind not in ("WS", "COMMENT") and not typed:
            assert token.kind in expected_at(FILE, placed.start + token.start), token
