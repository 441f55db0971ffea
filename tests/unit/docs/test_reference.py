"""The reference of primitives is generated from the code, whole and current."""

import re

from mslang.ide.reference import REFERENCE, codes_of, reference
from mslang.transform.registry import OPERATIONS


def test_the_reference_is_current():
    assert REFERENCE.read_text() == reference(), "run `python -m mslang.ide.reference --update`"


def test_every_operation_has_a_section_and_a_link():
    text = reference()
    sections = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    assert sorted(sections) == sorted(OPERATIONS)
    headings = [h.lower().replace(" ", "-") for h in re.findall(r"^##+ (.+)$", text, re.MULTILINE)]
    anchors = {h if h not in headings[:k] else f"{h}-{headings[:k].count(h)}" for k, h in enumerate(headings)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= anchors


def test_signatures_examples_rejections_and_codes_are_there():
    split = reference().partition("### split\n")[2].partition("\n### ")[0]
    assert "loop.split(factors, tail = guard" in split
    assert "    factors: Sequence[SizeLike | None],\n" in split
    assert "Before:\n\n```mslang\nfor i in 0..100 {" in split
    assert "Rejects:\n\n- a loop that is not serial" in split
    assert "- `MS306`: " in split


def test_codes_are_those_of_the_refusals():
    assert "MS306" in codes_of("split") and "MS306" not in codes_of("set_scope")


def test_refusals_of_methods_count_and_samplers_are_functions():
    assert "MS356" in codes_of("split")
    assert (
        "\nuniform(lo, hi) -> size\n" in reference()
        and "\nperfect_tile(loop, n, max_inner = 64) -> tile\n" in reference()
    )
