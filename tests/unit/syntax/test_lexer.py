import random
from functools import lru_cache
from typing import Any

import pytest

from mslang.resources import grammar_text
from mslang.syntax.lexer import DANGLING_DOT, STRAY_OPENER, TRIVIA, significant, tokenize
from tests.unit.syntax.samples import SAMPLES, edit_one_token


@lru_cache
def _lark_lexer() -> Any:
    lark = pytest.importorskip("lark")
    return lark.Lark(grammar_text(), parser="lalr", lexer="basic")._build_lexer(dont_ignore=True)


def _by_lark(text: str) -> list[tuple[str, str, int]]:
    from lark.lexer import LexerThread

    return [(t.type, str(t), t.start_pos) for t in LexerThread.from_text(_lark_lexer(), text).lex(None)]


@pytest.mark.parametrize("name", SAMPLES)
def test_equal_to_larks_lexer_on_samples(name: str) -> None:
    assert [(t.kind, t.text, t.start) for t in tokenize(SAMPLES[name])] == _by_lark(SAMPLES[name])


def test_equal_to_larks_lexer_on_edited_samples() -> None:
    chance = random.Random(1)
    for _ in range(40):
        text = chance.choice(list(SAMPLES.values()))
        for _ in range(3):
            text = edit_one_token(text, chance)[0]
        at = chance.randrange(len(text))
        text = text[at : at + 600]
        assert [(t.kind, t.text, t.start) for t in tokenize(text)] == _by_lark(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        '"""',
        '"""a\nb',
        "`a",
        "é\x00\x0b",
        "1.2.3",
        "a..b",
        "0x",
        "12KiB 12Kib",
        "_",
        "__",
    ],
)
def test_nothing_is_lost(text: str) -> None:
    tokens = tokenize(text)
    assert "".join(t.text for t in tokens) == text
    assert [(t.kind, t.text, t.start) for t in tokens] == _by_lark(text)
    assert all(t.end - t.start == len(t.text) for t in tokens)


def _kinds(text: str) -> list[str]:
    return [t.kind for t in significant(tokenize(text))]


def test_a_name_after_a_dot_is_on_its_line() -> None:
    assert _kinds("a.\nb") == ["NAME", DANGLING_DOT, "NAME"]
    assert _kinds("a. # c\nb") == ["NAME", DANGLING_DOT, "NAME"]
    assert _kinds("a\n.b") == ["NAME", "DOT", "NAME"]


def test_an_opening_bracket_is_on_the_line_of_what_it_calls() -> None:
    assert _kinds("a\n(b)") == ["NAME", STRAY_OPENER, "NAME", "RPAR"]
    assert _kinds("a[0]\n[b]")[-3] == STRAY_OPENER
    assert _kinds("a +\n(b)") == ["NAME", "SUM", "LPAR", "NAME", "RPAR"]


def test_trivia_are_kept_apart() -> None:
    kinds = [t.kind for t in tokenize("## doc\n# comment\nlet")]
    assert kinds == ["DOC", "WS", "COMMENT", "WS", "LET"]
    assert {"DOC", "COMMENT", "WS"} == TRIVIA
