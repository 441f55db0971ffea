"""Texts of open documents: lines and units as LSP counts them."""

import random

import pytest

pytest.importorskip("pygls")

from lsprotocol.types import Position, Range, TextDocumentContentChangePartial, TextDocumentContentChangeWholeDocument
from mslang_lsp.documents import Document, with_newlines
from mslang_lsp.positions import Positions
from mslang_lsp.units import Encoding

PIECES = ["a", "é", "€", "🚀", "\n", "\r\n", "\r", "\u2028", "\u2029", "\x85", "\f", "\v", "\x1c", "\x1e", " ", "bc"]

CODECS = {Encoding.UTF8: ("utf-8", 1), Encoding.UTF16: ("utf-16-le", 2), Encoding.UTF32: ("utf-32-le", 4)}


def edited_as_bytes(raw: str, change: TextDocumentContentChangePartial, encoding: Encoding) -> str:
    """The edit done on the bytes of the encoding, lines found one character after the other."""
    codec, width = CODECS[encoding]
    starts, k = [0], 0
    while k < len(raw):
        k += 2 if raw[k : k + 2] == "\r\n" else 1
        if raw[k - 1] in "\r\n":
            starts.append(k)
    data = raw.encode(codec)
    places = [
        len(raw[: starts[p.line]].encode(codec)) + p.character * width for p in (change.range.start, change.range.end)
    ]
    return (data[: places[0]] + change.text.encode(codec) + data[places[1] :]).decode(codec)


@pytest.mark.parametrize("encoding", Encoding)
def test_random_edits_are_those_of_the_client(encoding: Encoding) -> None:
    draw = random.Random(7)
    codec, width = CODECS[encoding]
    for _ in range(150):
        raw = "".join(draw.choices(PIECES, k=draw.randrange(25)))
        document = Document(1, raw)
        for version in range(2, 8):
            lines = raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            ends = []
            for _ in range(2):
                line = draw.randrange(len(lines))
                prefix = lines[line][: draw.randrange(len(lines[line]) + 1)]
                ends.append((line, len(prefix.encode(codec)) // width))
            start, end = (Position(*place) for place in sorted(ends))
            change = TextDocumentContentChangePartial(Range(start, end), "".join(draw.choices(PIECES, k=2)))
            raw = edited_as_bytes(raw, change, encoding)
            document = document.changed(version, [change], encoding)
            assert document.raw == raw


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\f", "\v", "\x1c", "\x1d", "\x1e"])
def test_a_separator_that_lsp_does_not_count_ends_no_line(separator: str) -> None:
    document = Document(1, f"# pasted{separator}comment\nconst A = 1\n")
    change = TextDocumentContentChangePartial(Range(Position(1, 6), Position(1, 7)), "B")
    assert document.changed(2, [change], Encoding.UTF16).text == f"# pasted{separator}comment\nconst B = 1\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end: str) -> None:
    document = Document(1, end.join(("a", "b", "", "c")))
    assert document.line_end == end
    assert document.text == "a\nb\n\nc"
    change = TextDocumentContentChangePartial(Range(Position(1, 0), Position(1, 9)), f"x{end}y")
    assert document.changed(2, [change], Encoding.UTF8).raw == end.join(("a", "x", "y", "", "c"))


def test_changes_of_one_notification_count_on_each_other() -> None:
    first = TextDocumentContentChangeWholeDocument("one\ntwo")
    second = TextDocumentContentChangePartial(Range(Position(1, 0), Position(1, 3)), "2")
    assert Document(1, "").changed(2, [first, second], Encoding.UTF16) == Document(2, "one\n2")


def test_a_range_outside_of_the_text_or_reversed_means_the_nearest_one() -> None:
    change = TextDocumentContentChangePartial(Range(Position(50, 0), Position(0, 99)), "!")
    assert Document(1, "ab\nc").changed(2, [change], Encoding.UTF16).raw == "ab!"


def test_a_byte_order_mark_counts_as_a_space() -> None:
    assert with_newlines("\ufeffconst A = 1\r\n") == " const A = 1\n"


@pytest.mark.parametrize("encoding", Encoding)
def test_positions_there_and_back(encoding: Encoding) -> None:
    text = "a\n🚀é x\n\nl\u2028a\x85s\ft"
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        assert positions.offset(positions.position(offset)) == offset


def test_a_position_inside_a_character_is_before_it() -> None:
    assert Positions("🚀x", Encoding.UTF16).offset(Position(0, 1)) == 0
    assert Positions("🚀x", Encoding.UTF16).offset(Position(0, 2)) == 1
    assert Positions("🚀x", Encoding.UTF8).offset(Position(0, 3)) == 0
