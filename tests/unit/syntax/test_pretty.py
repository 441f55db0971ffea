from mslang.syntax.pretty import (
    BLANK_LINE,
    HARDLINE,
    LINE,
    SOFTLINE,
    Suffix,
    block,
    concat,
    enclosed,
    fill,
    group,
    join,
    nest,
    render,
    text,
)


def test_a_group_stays_on_one_line_if_it_fits() -> None:
    doc = group("f(", nest(SOFTLINE, "a,", LINE, "b"), SOFTLINE, ")")
    assert render(doc, 7) == "f(a, b)"
    assert render(doc, 6) == "f(\n    a,\n    b\n)"


def test_what_follows_a_group_counts_up_to_the_next_newline() -> None:
    doc = concat(group("a", LINE, "b"), "ccc", HARDLINE, "d")
    assert render(doc, 6) == "a bccc\nd"
    assert render(doc, 5) == "a\nbccc\nd"


def test_a_hard_line_breaks_the_groups_around_it() -> None:
    assert render(group("a", LINE, group("b", HARDLINE, "c"))) == "a\nb\nc"


def test_fill_puts_as_much_on_a_line_as_fits() -> None:
    assert render(fill(["aa", "bb", "cc", "dd"]), 7) == "aa, bb,\ncc, dd"


def test_enclosed_and_block() -> None:
    assert render(enclosed("[", ["aaa", "bbb"], "]"), 10) == "[aaa, bbb]"
    assert render(enclosed("[", ["aaa", "bbb"], "]"), 9) == "[\n    aaa,\n    bbb\n]"
    assert render(enclosed("[", [], "]")) == "[]"
    assert render(block("x {", ["a", block("y {", ["b"])])) == "x {\n    a\n    y {\n        b\n    }\n}"
    assert render(block("x {", [])) == "x {}"


def test_no_line_ends_in_space() -> None:
    assert render(nest("a ", HARDLINE, BLANK_LINE, "b", Suffix("  # c "), HARDLINE)) == "a\n\n\n    b  # c\n"


def test_a_suffix_takes_no_part_in_the_width() -> None:
    assert render(concat(group("a", LINE, "b", Suffix("  # long")), HARDLINE), 4) == "a b  # long\n"


def test_text_with_newlines_is_printed_as_it_is() -> None:
    doc = nest(HARDLINE, group('f("""a\n b""",', LINE, "c)"))
    assert render(doc, 12) == '\n    f("""a\n b""", c)'


def test_join() -> None:
    assert render(join(", ", [text("a"), "b", "c"])) == "a, b, c"
