"""Broken samples: no exception, a tree that covers the text, few diagnostics, all other items whole.

The quick runs draw some prefixes and edits; `--campaign` takes every prefix and many thousand edits.
"""

import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from mslang.diagnostics import Span
from mslang.resources import grammar_text
from mslang.syntax import tree
from mslang.syntax.format import format_text
from mslang.syntax.lexer import BLANKS, COMMENTS, ERROR, TRIVIA, WHITESPACE, Token, significant, tokenize
from mslang.syntax.meaning import faults, meaning
from mslang.syntax.parse import parse_file, parse_piece, reparse
from mslang.syntax.query import expected_at, node_path
from tests.unit.syntax.samples import SAMPLES, covers, edit_one_token

_QUICK_EDITS = 250
_CAMPAIGN_EDITS = 20_000


def _check_edit(old: str, new: str, at: int) -> None:
    """What holds of every text that differs from a faultless one at one place."""
    before, file = parse_file("x", old), parse_file("x", new)
    assert covers(file)
    assert len(file.diagnostics) <= 2, file.diagnostics
    for diagnostic in file.diagnostics:
        assert diagnostic.span is not None
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(new)
    kept = [placed.parsed.item for placed in file.items]
    for placed in before.items:
        touched = placed.start <= at <= placed.start + len(placed.parsed.text)
        assert touched or placed.parsed.item in kept, f"lost {placed.item}"
    _check_spans(file)


def _check_spans(file: tree.File) -> None:
    """Children lie within their parents."""
    for placed in file.items:
        pending: list[tuple[tree.Node, Span]] = [(placed.item, Span(0, len(placed.parsed.text)))]
        while pending:
            node, outer = pending.pop()
            assert outer.start <= node.span.start <= node.span.end <= outer.end, node
            for name in node.__struct_fields__:
                value = getattr(node, name)
                parts = value if isinstance(value, tuple) else (value,)
                pending += [(part, node.span) for part in parts if isinstance(part, tree.Node)]


def _prefix(text: str, end: int) -> None:
    file = parse_file("x", text[:end])
    assert covers(file)
    assert len(file.diagnostics) <= 2
    whole = parse_file("x", text)
    for placed in whole.items:
        if placed.start + len(placed.parsed.text) <= end:
            assert placed.parsed.item in [p.parsed.item for p in file.items]
    node_path(file, end)
    expected_at(file, end)


@pytest.mark.parametrize("name", SAMPLES)
def test_some_prefixes(name: str) -> None:
    for end in range(len(name), len(SAMPLES[name]), 23):
        _prefix(SAMPLES[name], end)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SAMPLES)
def test_every_prefix(name: str) -> None:
    for end in range(len(SAMPLES[name]) + 1):
        _prefix(SAMPLES[name], end)
        parse_piece.cache_clear()


def _edits(count: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        old = chance.choice(list(SAMPLES.values()))
        new, at, what = edit_one_token(old, chance)
        try:
            _check_edit(old, new, at)
        except AssertionError as error:
            raise AssertionError(f"{what} in line {old.count(chr(10), 0, at) + 1}") from error


def test_some_edits() -> None:
    _edits(_QUICK_EDITS, seed=1)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(8))
def test_many_edits(seed: int) -> None:
    _edits(_CAMPAIGN_EDITS // 8, seed + 100)


_INSERTED = ["", "\n", "\n\n", "x", "@", '"""', "\nuse a.b\n", "#", "## d\n", "}", "test", "\\", "\r", "\t", "é"]


@pytest.mark.parametrize("seed", range(3))
def test_parsing_again_is_parsing(seed: int) -> None:
    """Edit upon edit: the tree is that of a fresh parse, and it never fails."""
    chance = random.Random(seed)
    for _ in range(4):
        file = parse_file("x", "\n".join(chance.sample(list(SAMPLES.values()), 2)))
        for _ in range(8):
            at = chance.randrange(len(file.text) + 1)
            end = min(len(file.text), at + chance.choice([0, 0, 1, 2, 30, 300]))
            text = file.text[:at] + chance.choice(_INSERTED) + file.text[end:]
            again = reparse(file, text)
            parse_piece.cache_clear()
            file = parse_file("x", text)
            assert again == file
            assert covers(file)
            _check_spans(file)


@lru_cache
def _lark() -> Any:
    lark = pytest.importorskip("lark")
    return lark.Lark(grammar_text(), parser="lalr", lexer="basic", start="start")


def test_a_text_without_diagnostics_is_one_of_the_grammar_and_the_other_way_round() -> None:
    import lark

    chance = random.Random(5)
    agreed = [0, 0]
    for _ in range(120):
        text, _, _ = edit_one_token(SAMPLES["long_form"], chance)
        visible = significant(tokenize(text))
        if any(token.kind == ERROR for token in visible):
            continue
        try:
            _lark().parse(text)
            legal = True
        except lark.exceptions.UnexpectedInput:
            legal = False
        assert legal == (not parse_file("x", text).diagnostics), text
        agreed[legal] += 1
    assert min(agreed) > 5


# ------------------------------------------------------------------ formatting
def _meaning(value: object) -> object:
    """A tree without its spans."""
    if isinstance(value, tree.Node):
        fields = (getattr(value, f) for f in value.__struct_fields__)
        return (type(value), *(_meaning(x) for x in fields if not isinstance(x, Span)))
    return tuple(map(_meaning, value)) if isinstance(value, tuple) else value


def _comments(text: str) -> list[str]:
    return [token.text.rstrip(BLANKS) for token in tokenize(text) if token.kind in COMMENTS]


def _space(tokens: tuple[Token, ...], k: int, chance: random.Random) -> str:
    """White space that may stand in the place of token k without changing the meaning."""
    written = tokens[k].text
    before = tokens[k - 1] if k else None
    after = tokens[k + 1] if k + 1 < len(tokens) else None
    if before is None or after is None or TRIVIA & {before.kind, after.kind} or written.endswith("\n"):
        return written
    if before.kind == "DOT" or after.kind in ("LPAR", "LSQB"):
        return " "
    return chance.choice([written, " ", "   ", "\n  ", "\n\n\n "])


def _respace(text: str, chance: random.Random) -> str:
    """The text laid out badly, with longer names and more comments."""
    tokens = tokenize(text)
    parts: list[str] = []
    for k, token in enumerate(tokens):
        if token.kind == WHITESPACE:
            parts.append(_space(tokens, k, chance))
        elif token.kind == "NAME" and chance.random() < 0.05:
            parts.append(token.text + "_with_a_long_tail" * chance.randrange(1, 4))
        elif token.kind in ("COMMA", "EQUAL", "LBRACE", "RBRACE", "AND") and chance.random() < 0.03:
            parts.append(token.text + f" # {k}\n")
        else:
            parts.append(token.text)
    return "".join(parts)


@pytest.mark.parametrize("name", SAMPLES)
def test_formatting_keeps_meaning_and_comments_and_is_settled(name: str) -> None:
    chance = random.Random(name)
    for _ in range(6):
        text = _respace(SAMPLES[name], chance)
        file = parse_file("x", text)
        assert file.diagnostics == ()
        found = format_text(text)
        again = parse_file("x", found)
        assert _meaning(tuple(p.item for p in file.items)) == _meaning(tuple(p.item for p in again.items))
        assert _comments(text) == _comments(found)
        assert format_text(found) == found
        assert all(line == line.rstrip() for line in found.splitlines())


def test_formatting_broken_text_keeps_its_tokens_and_is_settled() -> None:
    chance = random.Random(3)
    for _ in range(60):
        text, _, what = edit_one_token(chance.choice(list(SAMPLES.values())), chance)
        found = format_text(text)
        assert format_text(found) == found, what
        kept = [[(t.kind, t.text.rstrip()) for t in tokenize(x) if t.kind != WHITESPACE] for x in (text, found)]
        assert kept[0] == kept[1], what


_WORDS = (
    *("schedule", "program", "fork", "case", "test", "fn", "let", "block", "for", "in", "with", "use", "space", "if"),
    *("{", "}", "(", ")", "[", "]", "=", "~", ".", ",", ":", "|", ">>", "@", "..", "m", "s1", "1", "0.5", '"x"', '"""'),
    *('"', ";", "?", "# c\n", "## d\n", "\n", "\n\n", " ", "\t", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\xa0"),
    *("\u2028", "\ufeff", "é", "\\", "`", "else", "init", "where", "const", "intrin", "desc", "impl"),
)


def _soup(chance: random.Random) -> str:
    """Words in no order, or a sample with several edits."""
    if chance.random() < 0.7:
        return chance.choice(("", " ")).join(chance.choices(_WORDS, k=chance.randrange(1, 24)))
    text = chance.choice(list(SAMPLES.values()))
    for _ in range(chance.randrange(1, 4)):
        text, _, _ = edit_one_token(text, chance)
    return text


def _settles(text: str) -> None:
    found = format_text(text)
    assert format_text(found) == found, repr(text)
    assert faults(found) <= faults(text) and meaning(found) == meaning(text), repr(text)
    assert _comments(found) == _comments(text), repr(text)
    assert [t.text for t in significant(tokenize(found))] == [t.text for t in significant(tokenize(text))], repr(text)


BROKEN = sorted((Path(__file__).parents[1] / "fixtures" / "formatter").glob("*.ms"))


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.stem)
def test_formatting_broken_text_that_once_did_not_settle(path: Path) -> None:
    _settles(path.read_bytes().decode())


@pytest.mark.parametrize("seed", range(4))
def test_formatting_broken_text_is_settled(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        _settles(_soup(chance))


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(8))
def test_formatting_much_broken_text_is_settled(seed: int) -> None:
    chance = random.Random(seed + 1000)
    for _ in range(5_000):
        _settles(_soup(chance))
