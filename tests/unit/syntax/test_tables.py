import pytest

from mslang.resources import grammar_text
from mslang.syntax.build import BUILDERS
from mslang.syntax.generate import encode, make_tables
from mslang.syntax.tables import TABLES_FILE, load_tables


def test_the_shipped_tables_are_those_of_the_grammar() -> None:
    assert encode(make_tables(grammar_text())) == TABLES_FILE.read_bytes(), "run `python -m mslang.syntax.generate`"


def test_the_grammar_has_no_conflict_and_its_terminals_do_not_collide() -> None:
    lark = pytest.importorskip("lark")
    pytest.importorskip("interegular")
    lark.Lark(grammar_text(), parser="lalr", lexer="basic", strict=True, start=["start", "item", "expr"])


def test_a_conflict_would_be_noticed() -> None:
    lark = pytest.importorskip("lark")
    pytest.importorskip("interegular")
    broken = grammar_text().replace("?range: disj | disj", "?range: range range | disj | disj")
    with pytest.raises(lark.exceptions.GrammarError):
        lark.Lark(broken, parser="lalr", lexer="basic", strict=True, start=["start", "item", "expr"])


def test_each_production_has_a_builder_and_each_builder_a_production() -> None:
    actions = {rule.action for rule in load_tables().rules} - {"", "pass"}
    assert actions == set(BUILDERS)
